/* Messages apart from plain sending and receiving: descriptions of what came, probes, sends that
 * are copied. */
#include "comm/psring/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what came ---- */

psr_err psr_comm_tell_message(const psr_node_request *request, psring_message *ret_message)
{
    uint32_t from = 0, tag = 0;
    uint64_t count = 0;
    psr_type type = PSR_TYPE_FLOAT32;
    if (!psr_node_request_came(request, &from, &tag, &count, &type))
        return psr_fail(PSR_ERR_NOT_FOUND, "there is no such message");
    const psring_message found = {
        .from = (int)from, .tag = tag, .count = (size_t)count, .type = psr_comm_type(type)};
    return psr_options_write("psring_message", &found, sizeof found, ret_message, sizeof found);
}

/* ---- probes ---- */

static psr_err check_probe(const psring_group *group, int from, uint32_t tag)
{
    uint32_t size = psr_node_group_size(group->group);
    if (from != PSRING_ANY_RANK && (from < 0 || (uint32_t)from >= size))
        return psr_fail(PSR_ERR_USAGE, "probe: rank %d is none of %" PRIu32 " ranks", from, size);
    if (tag != PSRING_ANY_TAG && tag > PSRING_TAG_MAX)
        return psr_fail(PSR_ERR_USAGE, "probe: tag %" PRIu32 " is above %u", tag, PSRING_TAG_MAX);
    return PSR_OK;
}

static psr_err probe(psring_group *group, int from, uint32_t tag, bool at_once,
                     const psring_call *given, psring_message *ret_message)
{
    psring_comm *comm = group->comm;
    psring_call call;
    psr_node_request *request = NULL;
    PSR_TRY(psr_options_read("psring_call", given, PSR_CALL_FIRST_BYTES, &call, sizeof call));
    if (call.algorithm != NULL || call.counts != NULL || call.persistent || call.message != NULL ||
        call.buffered || call.encoding != NULL || call.priority != 0)
        return psr_fail(PSR_ERR_USAGE, "a probe has a deadline and a name alone");
    PSR_TRY(check_probe(group, from, tag));
    PSR_TRY(psr_comm_check(comm, group->group));
    const psr_request_options options = {.kind = PSR_KIND_PROBE,
                                         .type = PSR_TYPE_UINT8,
                                         .peer = from == PSRING_ANY_RANK ? PSR_RANK_ANY
                                                                         : (uint32_t)from,
                                         .tag = tag,
                                         .at_once = at_once};
    PSR_TRY(psr_comm_start(comm, group->group, &options, &call, &request));
    psr_comm_await(comm, request);
    psr_err err = psr_comm_status(comm, request);
    if (err == PSR_OK)
        err = psr_comm_tell_message(request, ret_message);
    psr_err ended = psr_comm_finish(comm, request);
    return err != PSR_OK ? err : ended;
}

static psring_err probe_within(psring_group *group, int from, uint32_t tag, bool at_once,
                               const psring_call *call, psring_message *ret_message)
{
    psr_err err = psr_comm_need(group, "probe: group");
    if (err == PSR_OK)
        err = psr_comm_need(ret_message, "probe: ret_message");
    if (err == PSR_OK)
        err = psr_comm_enter(group->comm);
    return err == PSR_OK
               ? psr_comm_leave(group->comm, probe(group, from, tag, at_once, call, ret_message))
               : (psring_err)err;
}

psring_err psring_probe(psring_group *group, int from, uint32_t tag, const psring_call *call,
                        psring_message *ret_message)
{
    return probe_within(group, from, tag, false, call, ret_message);
}

psring_err psring_probe_now(psring_group *group, int from, uint32_t tag,
                            psring_message *ret_message)
{
    return probe_within(group, from, tag, true, NULL, ret_message);
}

/* ---- sends that are copied ---- */

static void free_buffered(psring_comm *comm, psr_buffered **at)
{
    psr_buffered *gone = *at;
    *at = gone->next;
    psr_err err = psr_driver_order_later(comm->driver, PSR_NODE_FREE, gone->request);
    (void)err; /* without memory for the order it ends with its group */
    free(gone);
}

/* The bytes that wait for that rank, in copies that have not ended. */
static size_t bytes_to(psring_comm *comm, uint32_t to)
{
    size_t bytes = 0;
    for (psr_buffered **at = &comm->buffered; *at != NULL;) {
        if (psr_node_request_ended((*at)->request) && !(*at)->awaited) {
            free_buffered(comm, at);
            continue;
        }
        bytes += (*at)->to == to ? (*at)->bytes : 0;
        at = &(*at)->next;
    }
    return bytes;
}

psr_err psr_comm_send_buffered(psring_group *group, const psr_request_options *options,
                               const psring_call *call, bool *ret_sent)
{
    psring_comm *comm = group->comm;
    const uint32_t to = psr_node_group_ranks(group->group)[options->peer];
    const size_t value_bytes = psr_type_bytes(options->type);
    if (options->count > PSRING_BUFFERED_MAX / value_bytes)
        return psr_fail(PSR_ERR_USAGE,
                        "send: %zu values are more than the %u bytes of a send that is buffered",
                        options->count, PSRING_BUFFERED_MAX);
    const size_t bytes = options->count * value_bytes;
    if (bytes_to(comm, to) + bytes > PSRING_BUFFERED_TO_RANK_MAX)
        return PSR_OK;
    psr_buffered *copy = malloc(sizeof *copy + bytes);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to buffer %zu bytes", bytes);
    *copy = (psr_buffered){.next = comm->buffered, .to = to, .bytes = bytes + sizeof *copy};
    if (bytes > 0)
        memcpy(copy->values, options->send, bytes);
    psr_request_options of_copy = *options;
    of_copy.send = copy->values;
    psr_err err = psr_comm_start(comm, group->group, &of_copy, call, &copy->request);
    if (err != PSR_OK) {
        free(copy);
        return err;
    }
    comm->buffered = copy;
    *ret_sent = true;
    return PSR_OK;
}

/* A copy for the group that has not ended. NULL: there is none. */
static psr_buffered *under_way(const psring_comm *comm, const psr_node_group *group)
{
    psr_buffered *b = comm->buffered;
    while (b != NULL && ((group != NULL && psr_node_request_group(b->request) != group) ||
                         psr_node_request_ended(b->request)))
        b = b->next;
    return b;
}

/* Only one thread waits for the copies of a group, and none makes others meanwhile: the group is
 * freed, or comm is. But another thread may free a copy that has ended. */
void psr_comm_await_buffered(psring_comm *comm, const psr_node_group *group)
{
    for (psr_buffered *b; (b = under_way(comm, group)) != NULL;) {
        b->awaited = true;
        psr_comm_await(comm, b->request);
        b->awaited = false;
    }
    for (psr_buffered **at = &comm->buffered; *at != NULL;)
        if (group == NULL || psr_node_request_group((*at)->request) == group)
            free_buffered(comm, at);
        else
            at = &(*at)->next;
}
