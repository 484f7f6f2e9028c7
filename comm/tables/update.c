#include "comm/tables/update.h"

#include "base/arrays/fold.h"

#include <stdio.h>
#include <string.h>

static psr_err add(void *context, const psr_table_run *run)
{
    (void)context;
    psr_fold_add(run->values, run->pushed, run->span.count);
    return PSR_OK;
}

static psr_err assign(void *context, const psr_table_run *run)
{
    (void)context;
    memcpy(run->values, run->pushed, run->span.count * sizeof *run->values);
    return PSR_OK;
}

static const psr_table_update own[] = {{.name = "sum", .apply = add},
                                       {.name = "assign", .apply = assign}};

enum { OWN = sizeof own / sizeof own[0] };

static const psr_table_update *at(const psr_table_update *registered, uint32_t count, uint32_t i)
{
    return i < count ? &registered[i] : &own[i - count];
}

psr_err psr_table_update_find(const char *name, const psr_table_update *registered, uint32_t count,
                              const psr_table_update **ret_update)
{
    char names[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < count + OWN; i++) {
        const psr_table_update *update = at(registered, count, i);
        if (strcmp(update->name, name) == 0) {
            *ret_update = update;
            return PSR_OK;
        }
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     used > 0 ? ", " : "", update->name);
    }
    return psr_fail(PSR_ERR_USAGE, "there is no update \"%s\", but %s", name, names);
}
