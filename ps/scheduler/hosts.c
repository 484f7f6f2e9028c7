#include "ps/scheduler/hosts.h"

#include "comm/members/memory/memory_place.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

psr_err psr_hosts_of_ranks(const psr_config *config, const psr_view *members,
                           psr_host_ranks *ret_hosts)
{
    psr_host_ranks hosts = {0, calloc((size_t)members->member_count + 1, sizeof *hosts.first)};
    if (hosts.first == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the hosts of %" PRIu32 " members",
                        members->member_count);
    const psr_view_member *before = NULL, *worker;
    uint32_t rank = 0;
    for (; (worker = psr_view_find(members, (psr_peer){PSR_ROLE_WORKER, rank})) != NULL; rank++) {
        if (!psr_config_shares_memory(config) || before == NULL ||
            !psr_memory_place_is_shared(&before->memory, &worker->memory))
            hosts.first[hosts.count++] = rank;
        before = worker;
    }
    hosts.first[hosts.count] = rank;
    *ret_hosts = hosts;
    return PSR_OK;
}

/* Whether one of the first `count` members is on the same host as this member. */
static bool is_known(const psr_view *members, uint32_t count, const psr_view_member *member)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(members->members[i].host, member->host) == 0)
            return true;
    return false;
}

/* Whether two processes on that host send each other values that can be lent: a shard and a worker,
 * or in a run without shards two workers. */
static bool lends(const psr_view *members, const psr_view_member *member)
{
    uint32_t workers = 0, shards = 0;
    for (uint32_t i = 0; i < members->member_count; i++) {
        const psr_view_member *other = &members->members[i];
        if (other != member && !psr_memory_place_is_shared(&member->memory, &other->memory))
            continue;
        workers += other->peer.role == PSR_ROLE_WORKER;
        shards += other->peer.role == PSR_ROLE_SHARD;
    }
    return psr_view_shards(members) > 0 ? workers > 0 && shards > 0 : workers > 1;
}

psr_show_place psr_hosts_shown(const psr_config *config, const psr_view *members,
                               const char *sockets)
{
    psr_show_place place = {.sockets = sockets};
    for (uint32_t i = 0; i < members->member_count; i++) {
        const psr_view_member *member = &members->members[i];
        if (is_known(members, i, member))
            continue;
        if (place.host_count < PSR_SHOW_HOSTS)
            place.hosts[place.host_count] = member->host;
        place.host_count++;
        place.sharing += psr_config_shares_memory(config) && lends(members, member);
    }
    return place;
}
