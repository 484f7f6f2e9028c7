#include "deploy/launch/hosts/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- mapping ---- */

/* Which process goes to which host. */
typedef struct mapping {
    const psr_hosts *hosts;
    uint32_t *taken; /* of each host, so far */
    uint32_t *host;  /* of each process */
    uint32_t count, placed;
} mapping;

static void give(mapping *m, size_t host)
{
    m->host[m->placed++] = (uint32_t)host;
    m->taken[host]++;
}

/* Fills all slots of a host, then those of the next one. */
static void map_slots(mapping *m)
{
    for (size_t h = 0; h < m->hosts->count; h++)
        while (m->placed < m->count && m->taken[h] < m->hosts->items[h].slots)
            give(m, h);
}

/* Takes one slot of each host in turn, until no host has a slot left, or room by its max_slots. */
static void map_in_turn(mapping *m, bool to_the_most)
{
    uint32_t before;
    do {
        before = m->placed;
        for (size_t h = 0; h < m->hosts->count && m->placed < m->count; h++) {
            const psr_host *host = &m->hosts->items[h];
            if (m->taken[h] < (to_the_most ? psr_host_room(host) : host->slots))
                give(m, h);
        }
    } while (m->placed > before);
}

/* The hosts have room for all. */
static psr_err map(const psr_hosts *hosts, uint32_t count, psr_map_by by, mapping *ret_mapping)
{
    mapping m = {.hosts = hosts, .count = count};
    m.taken = calloc(hosts->count, sizeof *m.taken);
    m.host = calloc(count, sizeof *m.host);
    if (m.taken == NULL || m.host == NULL) {
        free(m.taken);
        free(m.host);
        return psr_fail(PSR_ERR_NOMEM, "no memory to place %u processes", count);
    }
    if (by == PSR_MAP_BY_SLOT)
        map_slots(&m);
    else
        map_in_turn(&m, false);
    map_in_turn(&m, true);
    *ret_mapping = m;
    return PSR_OK;
}

static void mapping_done(mapping *m)
{
    free(m->taken);
    free(m->host);
}

/* what: the processes and hosts, for the message. */
static psr_err check_room(const char *what, uint32_t processes, const psr_hosts *hosts)
{
    uint32_t slots = psr_hosts_slots(hosts), room = psr_hosts_room(hosts);
    if (processes <= room)
        return PSR_OK;
    if (room > slots)
        return psr_fail(PSR_ERR_USAGE,
                        "%s have %u slots in all, and room for %u by their max_slots; add slots=N, "
                        "max_slots=N or hosts",
                        what, slots, room);
    return psr_fail(
        PSR_ERR_USAGE,
        "%s have %u slots in all; add slots=N or hosts, or let a host take more by max_slots=N",
        what, slots);
}

psr_err psr_placement_check_room(const char *option, uint32_t processes, const psr_hosts *hosts)
{
    char what[128];
    snprintf(what, sizeof what, "%s %u: the hosts", option, processes);
    return check_room(what, processes, hosts);
}

static psr_err check_shards_room(uint32_t shards, const psr_hosts *ps_hosts)
{
    char what[128];
    snprintf(what, sizeof what, "--shards %u on the hosts of --ps-hostfile: they", shards);
    return check_room(what, shards, ps_hosts);
}

/* ---- the placement ---- */

/* The index of host among placement's hosts; a new host is added. */
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

/* processes: how many of the mapped ranks are processes; these compute the other ranks too. */
static psr_err place_mapped(psr_placement *placement, const mapping *m, psr_role role,
                            uint32_t processes)
{
    for (uint32_t i = 0; i < processes; i++) {
        psr_placed *item = &placement->items[placement->count++];
        item->peer = (psr_peer){role, i};
        PSR_TRY(host_index(placement, &m->hosts->items[m->host[i]], &item->host));
    }
    return PSR_OK;
}

/* Workers' hosts come first in the placement, so that host 0 is rank 0's. */
static psr_err place_worker_hosts(psr_placement *placement, const mapping *m)
{
    for (size_t h = 0; h < m->hosts->count; h++) {
        uint32_t ignored;
        if (m->taken[h] == 0)
            continue;
        PSR_TRY(host_index(placement, &m->hosts->items[h], &ignored));
        if (m->taken[h] > placement->workers_most)
            placement->workers_most = m->taken[h];
    }
    placement->worker_hosts = placement->hosts.count;
    return PSR_OK;
}

static psr_err place_shards_in_turn(psr_placement *placement, const psr_hosts *hosts,
                                    uint32_t shards)
{
    mapping m = {.count = 0};
    PSR_TRY(map(hosts, shards, PSR_MAP_BY_NODE, &m));
    psr_err err = place_mapped(placement, &m, PSR_ROLE_SHARD, shards);
    mapping_done(&m);
    return err;
}

/* On the workers' hosts shards take no slots. */
static psr_err place_shards_beside(psr_placement *placement, uint32_t shards)
{
    for (uint32_t s = 0; s < shards; s++)
        placement->items[placement->count++] =
            (psr_placed){{PSR_ROLE_SHARD, s}, (uint32_t)(s % placement->worker_hosts)};
    return PSR_OK;
}

static psr_err place_all(const psr_config *config, const psr_hosts *ps_hosts, const mapping *m,
                         psr_placement *placement)
{
    uint32_t shards = psr_config_shards(config);
    placement->items = calloc((size_t)shards + config->workers, sizeof *placement->items);
    if (placement->items == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to place %u processes", shards + config->workers);
    PSR_TRY(place_worker_hosts(placement, m));
    if (shards > 0)
        PSR_TRY(ps_hosts != NULL ? place_shards_in_turn(placement, ps_hosts, shards)
                                 : place_shards_beside(placement, shards));
    return place_mapped(placement, m, PSR_ROLE_WORKER,
                        config->mode == PSR_MODE_LOCAL ? 1 : config->workers);
}

psr_err psr_placement_make(const psr_config *config, const psr_hosts *hosts,
                           const psr_hosts *ps_hosts, psr_map_by map_by,
                           psr_placement *ret_placement)
{
    mapping m = {.count = 0};
    psr_placement placement = {0};
    PSR_TRY(psr_placement_check_room("--workers", config->workers, hosts));
    if (ps_hosts != NULL && psr_config_shards(config) > 0)
        PSR_TRY(check_shards_room(psr_config_shards(config), ps_hosts));
    PSR_TRY(map(hosts, config->workers, map_by, &m));
    psr_err err = place_all(config, ps_hosts, &m, &placement);
    mapping_done(&m);
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
