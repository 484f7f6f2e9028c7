#include "base/system/environment.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

psr_err psr_environment_begin(size_t more, psr_environment *ret_environment)
{
    psr_environment e = {.count = 0};
    size_t own = 0;
    while (environ[own] != NULL)
        own++;
    e.items = calloc(own + more + 1, sizeof *e.items);
    if (e.items == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a program's environment");
    while (e.count < own) {
        e.items[e.count] = environ[e.count];
        e.count++;
    }
    *ret_environment = e;
    return PSR_OK;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return length == strcspn(b, "=") && memcmp(a, b, length) == 0;
}

bool psr_environment_has(const psr_environment *e, const char *name)
{
    for (size_t i = 0; i < e->count; i++)
        if (same_name(e->items[i], name))
            return true;
    return false;
}

void psr_environment_unset(psr_environment *e, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++)
        if (!same_name(e->items[i], name))
            e->items[kept++] = e->items[i];
    e->count = kept;
    e->items[kept] = NULL;
}

void psr_environment_set(psr_environment *e, const char *text)
{
    psr_environment_unset(e, text);
    e->items[e->count++] = (char *)(uintptr_t)text;
    e->items[e->count] = NULL;
}

void psr_environment_done(psr_environment *e)
{
    free(e->items);
    *e = (psr_environment){0};
}
