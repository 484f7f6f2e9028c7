#include "comm/psring/service.h"

#include "comm/node/node_table.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- words ---- */

static const char *within(psr_service_tag tag)
{
    static const char *const names[] = {
        [PSR_SERVICE_NOTICE] = "telling a shard of a table, which it hears in psring_serve",
        [PSR_SERVICE_OPENING] = "telling a shard of a table",
        [PSR_SERVICE_REPLY] = "asking a shard for a table",
        [PSR_SERVICE_GO] = "telling a shard to begin a table",
        [PSR_SERVICE_SETTING] = "telling a shard new arguments of a table"};
    return names[tag];
}

psr_node_group *psr_service_group(const psring_comm *comm, uint32_t rank)
{
    return comm->services[comm->rank < comm->workers ? comm->rank : rank];
}

/* rank is numbered among all ranks. In its group the worker comes first. */
static psr_err talk(psring_comm *comm, uint32_t rank, psr_service_tag tag,
                    psr_request_options options, const psring_call *call)
{
    psr_node_request *request = NULL;
    options.peer = rank >= comm->workers ? 1 + rank - comm->workers : 0;
    options.type = PSR_TYPE_INT64;
    options.tag = (uint32_t)tag;
    options.within = within(tag);
    PSR_TRY(psr_comm_start(comm, psr_service_group(comm, rank), &options, call, &request));
    return psr_comm_finish(comm, request);
}

psr_err psr_service_send(psring_comm *comm, uint32_t rank, psr_service_tag tag, const void *words,
                         size_t count, const psring_call *call)
{
    return talk(comm, rank, tag,
                (psr_request_options){.kind = PSR_KIND_SEND, .send = words, .count = count}, call);
}

psr_err psr_service_receive(psring_comm *comm, uint32_t rank, psr_service_tag tag, void *ret_words,
                            size_t count, const psring_call *call)
{
    return talk(
        comm, rank, tag,
        (psr_request_options){.kind = PSR_KIND_RECEIVE, .receive = ret_words, .count = count},
        call);
}

psr_err psr_service_notify(psring_comm *comm, psr_notice what, int64_t number,
                           const psring_call *call)
{
    const int64_t notice[PSR_NOTICE_WORDS] = {
        [PSR_NOTICE_WHAT] = what, [PSR_NOTICE_NUMBER] = number};
    for (uint32_t s = 0; s < comm->shards; s++)
        PSR_TRY(psr_service_send(comm, comm->workers + s, PSR_SERVICE_NOTICE, notice,
                                 PSR_NOTICE_WORDS, call));
    return PSR_OK;
}

psr_err psr_comm_leave_shards(psring_comm *comm)
{
    if (comm->rank >= comm->workers)
        return PSR_OK;
    return psr_service_notify(comm, PSR_NOTICE_LEAVE, 0, &(psring_call){0});
}

/* ---- the group of a table ---- */

psr_err psr_service_make_group(psring_comm *comm, const psr_opening *opening,
                               const psr_node_table_options *of_shard, psr_node_group **ret_group)
{
    psr_node_group *group = NULL;
    uint32_t count = opening->worker_count + comm->shards;
    uint32_t *ranks = calloc(count, sizeof *ranks);
    if (ranks == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", count);
    for (uint32_t r = 0; r < count; r++)
        ranks[r] = r < opening->worker_count ? opening->workers[r]
                                             : comm->workers + (r - opening->worker_count);
    psr_err err = psr_node_group_new(comm->node, 0, opening->id, ranks, count, &group);
    free(ranks);
    if (err != PSR_OK)
        return err;
    psr_node_table_options options = of_shard != NULL ? *of_shard : (psr_node_table_options){0};
    options.name = opening->name;
    options.parts = opening->parts;
    options.part_count = opening->part_count;
    options.workers = opening->worker_count;
    options.consistency = opening->consistency;
    options.type = opening->type;
    options.compression = &opening->compression;
    err = psr_node_table_new(group, &options);
    if (err != PSR_OK)
        psr_node_group_free(group);
    else
        *ret_group = group;
    return err;
}

static psr_err operate(psring_comm *comm, psr_node_group *group, const psr_request_options *options,
                       const psring_call *call)
{
    psr_node_request *request = NULL;
    PSR_TRY(psr_comm_start(comm, group, options, call, &request));
    return psr_comm_finish(comm, request);
}

psr_err psr_service_open_group(psring_comm *comm, psr_node_group *group)
{
    psr_err err = psr_driver_order(comm->driver, PSR_NODE_OPEN_GROUP, group);
    if (err != PSR_OK)
        psr_node_group_free(group);
    return err;
}

psr_err psr_service_begin_table(psring_comm *comm, psr_node_group *group, bool initial,
                                const psring_call *call)
{
    psr_node_table *table = psr_node_group_table(group);
    const psr_request_options barrier = {.kind = PSR_KIND_BARRIER, .type = PSR_TYPE_UINT8};
    const psr_request_options broadcast = {.kind = PSR_KIND_BROADCAST,
                                           .type = PSR_TYPE_FLOAT32,
                                           .receive = psr_node_table_values(table),
                                           .count = psr_node_table_length(table)};
    PSR_TRY(operate(comm, group, &barrier, call));
    if (!initial)
        return PSR_OK;
    PSR_TRY(operate(comm, group, &broadcast, call));
    /* nobody pushes to a shard that lacks the values */
    return operate(comm, group, &barrier, call);
}
