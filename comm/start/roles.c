#include "comm/start/roles.h"

#include "comm/start/variables.h"

#include <stdio.h>
#include <string.h>

static psr_err read_role(const psr_start_roles *r, const char *word, psr_start *s)
{
    for (psr_role role = PSR_ROLE_SCHEDULER; role <= PSR_ROLE_WORKER; role++)
        if (strcmp(word, r->words[role]) == 0) {
            s->role = role;
            return PSR_OK;
        }
    return psr_fail(PSR_ERR_USAGE, "%s is \"%.40s\": it should be %s, %s or %s", r->role, word,
                    r->words[0], r->words[1], r->words[2]);
}

static psr_err need_all(const psr_start_roles *r, const char *word)
{
    const char *const names[] = {r->workers, r->address, r->port};
    char because[96];
    snprintf(because, sizeof because, "%s is %.40s", r->role, word);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        PSR_TRY(psr_variable_need(names[i], because));
    return PSR_OK;
}

psr_err psr_start_by_roles(const psr_start_roles *r, psr_start *s)
{
    const char *word = psr_variable(r->role);
    int64_t port = 0;
    if (word == NULL)
        return PSR_ERR_NOT_FOUND;
    s->way = r->way;
    s->level = PSR_START_RANKS;
    s->rank_variable = r->role;
    s->ranks_variable = r->workers;
    s->shards_variable = r->shards;
    s->address_variable = r->address;
    s->shards = 0;
    PSR_TRY(read_role(r, word, s));
    PSR_TRY(need_all(r, word));
    PSR_TRY(psr_variable_u32(r->workers, 1, PSR_START_RANKS_MAX, &s->ranks));
    PSR_TRY(psr_variable_u32(r->shards, 0, PSR_START_RANKS_MAX, &s->shards));
    PSR_TRY(psr_variable_copy(r->address, s->address, sizeof s->address));
    PSR_TRY(psr_variable_number(r->port, 1, UINT16_MAX, &port));
    if (s->role == PSR_ROLE_SHARD && s->shards == 0)
        return psr_fail(PSR_ERR_USAGE, "%s is %.40s, and %s says that there are none", r->role,
                        word, r->shards);
    s->port = (uint16_t)port;
    if (s->role == PSR_ROLE_SCHEDULER)
        s->rank = 0;
    s->starts_scheduler = s->role == PSR_ROLE_SCHEDULER;
    snprintf(s->job, sizeof s->job, "%s %s %u", r->role, s->address, (unsigned)port);
    return PSR_OK;
}
