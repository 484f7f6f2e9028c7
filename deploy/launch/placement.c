#include "deploy/launch/placement.h"

#include <stdlib.h>
#include <string.h>

/* Index of host among placement's hosts, which it joins when new. */
static psr_err host_index(psr_placement *placement, const psr_host *host, uint32_t *ret_index)
{
    for (size_t i = 0; i < placement->hosts.count; i++) {
        if (strcmp(placement->hosts.items[i].name, host->name) == 0) {
            *ret_index = (uint32_t)i;
            return PSR_OK;
        }
    }
    PSR_TRY(psr_hosts_add(&placement->hosts, host->name, host->slots));
    *ret_index = (uint32_t)(placement->hosts.count - 1);
    return PSR_OK;
}

static psr_err place_shards(psr_placement *placement, const psr_hosts *on, uint32_t shards)
{
    for (uint32_t s = 0; s < shards; s++) {
        psr_placed *item = &placement->items[placement->count++];
        item->peer = (psr_peer){PSR_ROLE_SHARD, s};
        PSR_TRY(host_index(placement, &on->items[s % on->count], &item->host));
    }
    return PSR_OK;
}

static psr_err place_workers(psr_placement *placement, const psr_hosts *on, uint32_t workers,
                             bool one_process)
{
    uint32_t rank = 0;
    for (size_t h = 0; h < on->count && rank < workers; h++) {
        uint32_t here = 0;
        for (; here < on->items[h].slots && rank < workers; here++, rank++) {
            if (one_process && rank > 0)
                continue;
            psr_placed *item = &placement->items[placement->count++];
            item->peer = (psr_peer){PSR_ROLE_WORKER, rank};
            PSR_TRY(host_index(placement, &on->items[h], &item->host));
        }
        if (here > placement->workers_most)
            placement->workers_most = here;
    }
    return PSR_OK;
}

psr_err psr_placement_make(const psr_config *config, const psr_hosts *hosts, const psr_hosts *ps_hosts,
                           psr_placement *ret_placement)
{
    uint32_t slots = psr_hosts_slots(hosts);
    if (config->workers > slots)
        return psr_fail(PSR_ERR_USAGE, "--workers %u: the hosts have %u slots in all; add slots=N or hosts",
                        config->workers, slots);
    uint32_t shards = config->mode == PSR_MODE_PS ? config->shards : 0;
    psr_placement placement = {0};
    psr_err err = PSR_OK;
    placement.items = calloc((size_t)shards + config->workers, sizeof *placement.items);
    if (!placement.items)
        return psr_fail(PSR_ERR_NOMEM, "no memory to place %u processes", shards + config->workers);
    /* Workers' hosts come first in the placement, so that host 0 is rank 0's. */
    for (size_t h = 0; h < hosts->count && !err; h++) {
        uint32_t ignored;
        err = host_index(&placement, &hosts->items[h], &ignored);
    }
    if (!err)
        err = place_shards(&placement, ps_hosts ? ps_hosts : hosts, shards);
    if (!err)
        err = place_workers(&placement, hosts, config->workers, config->mode == PSR_MODE_LOCAL);
    if (err)
        psr_placement_done(&placement);
    else
        *ret_placement = placement;
    return err;
}

void psr_placement_done(psr_placement *placement)
{
    psr_hosts_done(&placement->hosts);
    free(placement->items);
    *placement = (psr_placement){0};
}
