/* Nobody is ever more than one operation ahead of another: a fold ends by the sum of all, a broadcast at worker 0 by
 * everybody's answer, elsewhere by worker 0's bytes. Messages of the next operation are held until it begins here. */
#include "comm/operations/collective_private.h"

#include "comm/operations/early.h"
#include "comm/wire/encoding.h"
#include "comm/operations/loan.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct psr_collective {
    psr_collective_env env;
    size_t bytes_max;
    psr_operation *fold, *broadcast;
    uint64_t number;      /* of the operation begun last; 0: none yet */
    psr_operation *begun; /* last; NULL: none yet */
    psr_early *early;     /* of the next operation */
};

/* ---- slices ---- */

psr_sliced psr_sliced_of(const psr_collective_env *env, const psr_buffer *buffer, psr_type type)
{
    size_t unit = psr_type_bytes(type);
    return (psr_sliced){.bytes = psr_buffer_data(buffer, type),
                        .size = buffer->count * unit,
                        .slice = env->slice_bytes / unit * unit};
}

size_t psr_sliced_count(const psr_sliced *sliced)
{
    return (sliced->size + sliced->slice - 1) / sliced->slice;
}

psr_span psr_sliced_bytes(const psr_sliced *sliced, size_t k)
{
    size_t begin = k * sliced->slice, left = sliced->size - begin;
    return (psr_span){begin, left < sliced->slice ? left : sliced->slice};
}

psr_err psr_sliced_spread(const psr_collective_env *env, const psr_sliced *sliced, uint64_t round, size_t k,
                          bool lend)
{
    psr_span bytes = psr_sliced_bytes(sliced, k);
    psr_head head = psr_msg_spread_head(&(psr_msg_spread){round, bytes});
    psr_payload payload = psr_encode(&head, PSR_ENCODING_BYTES, sliced->bytes + bytes.offset, bytes.count);
    if (lend)
        payload = psr_loan_payload(NULL, payload);
    for (uint32_t r = 1; r < env->ranks; r++)
        PSR_TRY(env->outbox.send(env->outbox.context, (psr_peer){PSR_ROLE_WORKER, r}, &head, &payload));
    return PSR_OK;
}

static psr_err land(psr_sliced *sliced, uint64_t round, const psr_message *message)
{
    psr_msg_spread says;
    PSR_TRY(psr_msg_spread_read(message, &says));
    psr_span next = psr_sliced_bytes(sliced, sliced->arrived / sliced->slice);
    if (says.span.offset != next.offset || says.span.count != next.count)
        return psr_violation(message, "%zu of %zu bytes of collective %" PRIu64 " came before",
                             sliced->arrived, sliced->size, round);
    const void *bytes;
    PSR_TRY(psr_decode_bytes(message, next.count, &bytes));
    memcpy(sliced->bytes + next.offset, bytes, next.count);
    sliced->arrived += next.count;
    return PSR_OK;
}

psr_err psr_sliced_land(psr_sliced *sliced, uint64_t round, psr_message **message, bool *ret_whole)
{
    PSR_TRY(land(sliced, round, *message));
    psr_message_free(message);
    *ret_whole = sliced->arrived == sliced->size;
    return PSR_OK;
}

/* ---- messages ---- */

static psr_err number_of(const psr_message *message, uint64_t *ret_number)
{
    if (message->head.type == PSR_MSG_GATHER) {
        psr_msg_gather says;
        PSR_TRY(psr_msg_gather_read(message, &says));
        *ret_number = says.number;
    } else {
        psr_msg_spread says;
        PSR_TRY(psr_msg_spread_read(message, &says));
        *ret_number = says.number;
    }
    return PSR_OK;
}

static psr_err hold(psr_collective *c, psr_message **message)
{
    if (psr_early_full(c->early))
        return psr_violation(*message, "no collective is as large as what came of it already");
    psr_early_put(c->early, 0, message);
    return PSR_OK;
}

static psr_err take(psr_collective *c, psr_message **message)
{
    psr_message_type type = (*message)->head.type;
    psr_peer from = (*message)->from;
    bool root = c->env.rank == 0;
    bool right_way = from.role == PSR_ROLE_WORKER && from.rank != c->env.rank && from.rank < c->env.ranks &&
                     (root ? type == PSR_MSG_GATHER : type == PSR_MSG_SPREAD && from.rank == 0);
    if (!right_way)
        return psr_violation(*message, "worker %" PRIu32 " of %" PRIu32 " does not hear that from there",
                             c->env.rank, c->env.ranks);
    uint64_t number = 0;
    PSR_TRY(number_of(*message, &number));
    if (number == c->number + 1) /* of a rank that is ahead */
        return hold(c, message);
    if (number != c->number || psr_collective_finished(c))
        return psr_violation(*message, "collective %" PRIu64 " while %" PRIu64 " is in work or was the last",
                             number, c->number);
    return psr_operation_message(c->begun, message);
}

psr_err psr_collective_message(psr_collective *collective, psr_message **message)
{
    psr_err err = take(collective, message);
    psr_message_free(message);
    return err;
}

/* What came before the operation began. */
static psr_err take_early(psr_collective *c)
{
    psr_err err = PSR_OK;
    for (psr_message *message; err == PSR_OK && (message = psr_early_take(c->early, 0)) != NULL;)
        err = psr_collective_message(c, &message);
    return err;
}

/* ---- operations ---- */

psr_operation *psr_collective_fold(psr_collective *collective)
{
    return collective->fold;
}

psr_operation *psr_collective_broadcast(psr_collective *collective)
{
    return collective->broadcast;
}

psr_err psr_collective_start(psr_collective *collective, psr_operation *operation, const psr_buffer *buffer)
{
    assert(operation == collective->fold || operation == collective->broadcast);
    assert(psr_collective_finished(collective));
    assert(buffer->count * psr_type_bytes(buffer->type) <= collective->bytes_max);
    if (buffer->count == 0 || collective->env.ranks == 1) /* everywhere alike: it takes no number */
        return PSR_OK;
    collective->begun = operation;
    PSR_TRY(psr_operation_start(operation, ++collective->number, buffer));
    return take_early(collective);
}

bool psr_collective_finished(const psr_collective *collective)
{
    return collective->begun == NULL || psr_operation_done(collective->begun);
}

bool psr_collective_waits(const psr_collective *collective, psr_waiting *ret_waiting)
{
    return collective->begun != NULL && psr_operation_waits(collective->begun, ret_waiting);
}

/* ---- beginning and end ---- */

static psr_err open_parts(psr_collective *c)
{
    size_t slice = c->env.slice_bytes / sizeof(double) * sizeof(double);
    size_t slices_max = c->bytes_max / slice + 1;
    PSR_TRY(psr_early_new(1, slices_max * (c->env.ranks - 1), &c->early));
    PSR_TRY(psr_fold_root_new(&c->env, &c->fold));
    return psr_broadcast_new(&c->env, &c->broadcast);
}

psr_err psr_collective_new(uint32_t rank, uint32_t ranks, size_t slice_bytes, size_t bytes_max,
                           psr_outbox outbox, psr_collective **ret_collective)
{
    assert(rank < ranks && slice_bytes >= sizeof(double));
    psr_collective *c = calloc(1, sizeof *c);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for collectives of %" PRIu32 " workers", ranks);
    c->env = (psr_collective_env){rank, ranks, slice_bytes, outbox};
    c->bytes_max = bytes_max;
    psr_err err = open_parts(c);
    if (err != PSR_OK) {
        psr_collective_free(c);
        return err;
    }
    *ret_collective = c;
    return PSR_OK;
}

void psr_collective_free(psr_collective *collective)
{
    if (collective == NULL)
        return;
    psr_early_free(collective->early);
    psr_fold_root_free(collective->fold);
    psr_broadcast_free(collective->broadcast);
    free(collective);
}
