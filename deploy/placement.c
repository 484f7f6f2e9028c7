#include "deploy/placement.h"

#include <stdlib.h>
#include <string.h>

/* Index of name in plan's hosts, which it joins when new. */
static psr_err host_index(psr_plan *plan, const psr_host *host, uint32_t *ret_index)
{
    for (size_t i = 0; i < plan->hosts.count; i++) {
        if (strcmp(plan->hosts.items[i].name, host->name) == 0) {
            *ret_index = (uint32_t)i;
            return PSR_OK;
        }
    }
    PSR_TRY(psr_hosts_add(&plan->hosts, host->name, host->slots));
    *ret_index = (uint32_t)(plan->hosts.count - 1);
    return PSR_OK;
}

static psr_err place_shards(psr_plan *plan, const psr_hosts *on, uint32_t shards)
{
    for (uint32_t s = 0; s < shards; s++) {
        psr_placement *item = &plan->items[plan->count++];
        item->peer = (psr_peer){PSR_ROLE_SHARD, s};
        PSR_TRY(host_index(plan, &on->items[s % on->count], &item->host));
    }
    return PSR_OK;
}

static psr_err place_workers(psr_plan *plan, const psr_hosts *on, uint32_t workers, bool one_process)
{
    uint32_t rank = 0;
    for (size_t h = 0; h < on->count && rank < workers; h++) {
        uint32_t here = 0;
        for (; here < on->items[h].slots && rank < workers; here++, rank++) {
            if (one_process && rank > 0)
                continue;
            psr_placement *item = &plan->items[plan->count++];
            item->peer = (psr_peer){PSR_ROLE_WORKER, rank};
            PSR_TRY(host_index(plan, &on->items[h], &item->host));
        }
        if (here > plan->workers_most)
            plan->workers_most = here;
    }
    return PSR_OK;
}

psr_err psr_plan_make(const psr_config *config, const psr_hosts *hosts, const psr_hosts *ps_hosts,
                      psr_plan *ret_plan)
{
    uint32_t slots = psr_hosts_slots(hosts);
    if (config->workers > slots)
        return psr_fail(PSR_ERR_USAGE, "--workers %u: the hosts have %u slots in all; add slots=N or hosts",
                        config->workers, slots);
    uint32_t shards = config->mode == PSR_MODE_PS ? config->shards : 0;
    psr_plan plan = {0};
    psr_err err = PSR_OK;
    plan.items = calloc((size_t)shards + config->workers, sizeof *plan.items);
    if (!plan.items)
        return psr_fail(PSR_ERR_NOMEM, "no memory to place %u processes", shards + config->workers);
    /* Workers' hosts come first in the plan, so that host 0 is rank 0's. */
    for (size_t h = 0; h < hosts->count && !err; h++) {
        uint32_t ignored;
        err = host_index(&plan, &hosts->items[h], &ignored);
    }
    if (!err)
        err = place_shards(&plan, ps_hosts ? ps_hosts : hosts, shards);
    if (!err)
        err = place_workers(&plan, hosts, config->workers, config->mode == PSR_MODE_LOCAL);
    if (err)
        psr_plan_done(&plan);
    else
        *ret_plan = plan;
    return err;
}

void psr_plan_done(psr_plan *plan)
{
    psr_hosts_done(&plan->hosts);
    free(plan->items);
    *plan = (psr_plan){0};
}
