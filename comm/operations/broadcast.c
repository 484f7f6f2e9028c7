/* The broadcast "root": worker 0 sends slices to all (SPREAD); who has them all answers with an empty GATHER. That answer is
 * what ends it at worker 0: by then the lent bytes have been read. */
#include "comm/operations/collective_private.h"

#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct broadcast {
    psr_operation base;
    const psr_collective_env *env;
    psr_sliced bytes;
    uint64_t round;
    bool active;
    /* Worker 0: */
    uint32_t answers;
    bool answered[]; /* [rank] */
} broadcast;

static psr_err take_answer(broadcast *b, const psr_message *message)
{
    psr_msg_gather says;
    PSR_TRY(psr_msg_gather_read(message, &says));
    bool *answered = &b->answered[message->from.rank];
    if (message->payload_bytes != 0 || says.span.count != 0 || *answered)
        return psr_violation(message,
                             "collective %" PRIu64 " is a broadcast, which is answered once and by nothing",
                             b->round);
    *answered = true;
    b->active = ++b->answers < b->env->ranks - 1;
    return PSR_OK;
}

static psr_err take_bytes(broadcast *b, psr_message **message)
{
    bool whole = false;
    PSR_TRY(psr_sliced_land(&b->bytes, b->round, message, &whole));
    if (!whole)
        return PSR_OK;
    b->active = false;
    psr_head answer = psr_msg_gather_head(&(psr_msg_gather){.number = b->round});
    return b->env->outbox.send(b->env->outbox.context, (psr_peer){PSR_ROLE_WORKER, 0}, &answer, NULL);
}

static psr_err broadcast_start(psr_operation *operation, uint64_t round, const psr_buffer *buffer)
{
    broadcast *b = (broadcast *)operation;
    b->bytes = psr_sliced_of(b->env, buffer, PSR_TYPE_UINT8);
    b->round = round;
    b->active = true;
    b->answers = 0;
    memset(b->answered, 0, b->env->ranks * sizeof b->answered[0]);
    for (size_t k = 0; b->env->rank == 0 && k < psr_sliced_count(&b->bytes); k++)
        PSR_TRY(psr_sliced_spread(b->env, &b->bytes, round, k, true));
    return PSR_OK;
}

static psr_err broadcast_message(psr_operation *operation, psr_message **message)
{
    broadcast *b = (broadcast *)operation;
    psr_err err = b->env->rank == 0 ? take_answer(b, *message) : take_bytes(b, message);
    psr_message_free(message);
    return err;
}

static bool broadcast_done(const psr_operation *operation)
{
    return !((const broadcast *)operation)->active;
}

static bool broadcast_waits(const psr_operation *operation, psr_waiting *ret_waiting)
{
    const broadcast *b = (const broadcast *)operation;
    uint32_t rank = b->env->rank == 0 ? 1 : 0;
    while (rank > 0 && rank < b->env->ranks - 1 && b->answered[rank])
        rank++;
    *ret_waiting = (psr_waiting){{PSR_ROLE_WORKER, rank}, b->round};
    return b->active;
}

static const psr_operation_ops broadcast_ops = {
    .name = "broadcast, root",
    .start = broadcast_start,
    .message = broadcast_message,
    .done = broadcast_done,
    .waits = broadcast_waits,
};

psr_err psr_broadcast_new(const psr_collective_env *env, psr_operation **ret_operation)
{
    broadcast *b = calloc(1, sizeof *b + env->ranks * sizeof b->answered[0]);
    if (b == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a broadcast to %" PRIu32 " workers", env->ranks);
    b->base.ops = &broadcast_ops;
    b->env = env;
    *ret_operation = &b->base;
    return PSR_OK;
}

void psr_broadcast_free(psr_operation *operation)
{
    free(operation);
}
