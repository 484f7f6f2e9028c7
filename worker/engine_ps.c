/* The engine of --mode ps: cuts ready buckets into slices, pushes them to the shards that own them, and lands
 * the weights that come back.
 *
 * A lane for each shard (comm/operations/lane.h): of the slices that are ready for it, the one with the lowest arena offset
 * goes first, since the next forward pass needs it first; at most `window` pushes are on their way to it. BSP:
 * the shard answers a push with the new weights. SSP, async: a pull follows each push on the same channel, so the answer
 * holds this worker's own update too. */
#include "worker/engine.h"

#include "base/fault.h"
#include "comm/comm.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is known of the plan's slice of the same number. */
typedef struct slice {
    uint64_t landed; /* steps whose weights are here */
    uint64_t pushed; /* steps whose gradient is ready or gone; landed or landed + 1 */
} slice;

struct psr_engine {
    psr_engine_env env;
    slice *slices;     /* [plan->slice_count] */
    uint32_t *missing; /* [bucket]: slices of the present step that have not landed */
    psr_lane *lanes;   /* [shard]: slices, by their number in the plan */
    uint32_t *room;    /* the lanes' */
    psr_loan *loans;   /* [bucket]: its gradient, from ready on */
    uint64_t staleness;
};

/* ---- life ---- */

static void engine_close(psr_engine *engine)
{
    if (!engine)
        return;
    free(engine->slices);
    free(engine->missing);
    free(engine->lanes);
    free(engine->room);
    free(engine->loans);
    free(engine);
}

static psr_err engine_init(psr_engine *engine)
{
    const psr_plan *plan = engine->env.plan;
    engine->slices = calloc((size_t)plan->slice_count + 1, sizeof *engine->slices);
    engine->missing = calloc((size_t)plan->bucket_count + 1, sizeof *engine->missing);
    engine->lanes = calloc(plan->shards, sizeof *engine->lanes);
    engine->room = calloc((size_t)plan->slice_count + 1, sizeof *engine->room);
    engine->loans = calloc((size_t)plan->bucket_count + 1, sizeof *engine->loans);
    if (!engine->slices || !engine->missing || !engine->lanes || !engine->room || !engine->loans)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices", plan->slice_count);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        psr_loan_init(&engine->loans[b], &engine->env.outbox);

    /* Each lane has room for all slices of its shard. */
    uint32_t *room = engine->room;
    for (uint32_t s = 0; s < plan->shards; s++) {
        psr_lane_init(&engine->lanes[s], room, plan->window);
        for (uint32_t b = 0; b < plan->bucket_count; b++)
            room += plan->buckets[b].home == s ? plan->buckets[b].slice_count : 0;
    }
    return PSR_OK;
}

static psr_err engine_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    psr_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an engine");
    engine->env = *env;
    psr_err err = engine_init(engine);
    if (err != PSR_OK) {
        engine_close(engine);
        return err;
    }
    *ret_engine = engine;
    return PSR_OK;
}

/* ---- out ---- */

static psr_err send_slice(psr_engine *engine, uint32_t index)
{
    const psr_slice *cut = &engine->env.plan->slices[index];
    const slice *sl = &engine->slices[index];
    bool bsp = engine->env.config->sync == PSR_SYNC_BSP;
    psr_peer shard = {PSR_ROLE_SHARD, engine->env.plan->buckets[cut->bucket].home};
    psr_outbox *outbox = &engine->env.outbox;
    psr_head head = psr_msg_push_head(
        &(psr_msg_push){.bucket = cut->bucket, .step = sl->pushed - 1, .span = cut->span, .answer = bsp});
    const float *gradient = engine->env.gradients + cut->span.offset;
    psr_payload payload = psr_loan_payload(
        &engine->loans[cut->bucket],
        psr_encode(&head, engine->env.plan->buckets[cut->bucket].encoding, gradient, cut->span.count));
    PSR_TRY(outbox->send(outbox->context, shard, &head, &payload));
    psr_fault_point("push", sl->pushed - 1);
    if (bsp)
        return PSR_OK;
    head = psr_msg_pull_head(&(psr_msg_pull){.bucket = cut->bucket, .step = sl->pushed, .span = cut->span});
    return outbox->send(outbox->context, shard, &head, NULL);
}

static psr_err send_ready(psr_engine *engine, psr_lane *lane)
{
    for (uint32_t index; psr_lane_next(lane, &index);)
        PSR_TRY(send_slice(engine, index));
    return PSR_OK;
}

static psr_err engine_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    const psr_plan_bucket *b = &engine->env.plan->buckets[bucket];
    psr_lane *lane = &engine->lanes[b->home];
    psr_loan_begin(&engine->loans[bucket], b->slice_count);
    engine->missing[bucket] = b->slice_count;
    for (uint32_t i = b->first_slice; i < b->first_slice + b->slice_count; i++) {
        engine->slices[i].landed = step;
        engine->slices[i].pushed = step + 1;
        psr_lane_add(lane, i);
    }
    return send_ready(engine, lane);
}

/* ---- in ---- */

static psr_err find_slice(const psr_engine *engine, const psr_message *message, const psr_msg_weights *says,
                          uint32_t *ret_index)
{
    const psr_plan *plan = engine->env.plan;
    if (says->bucket < plan->bucket_count && plan->buckets[says->bucket].home != message->from.rank)
        return psr_violation(message, "the bucket is shard %" PRIu32 "'s", plan->buckets[says->bucket].home);
    return psr_plan_find(plan, message, (psr_slice){.bucket = says->bucket, .span = says->span}, ret_index);
}

/* SSP's bound is the shard's to keep; a worker sees that it was. */
static psr_err check_staleness(const psr_engine *engine, const psr_message *message, uint64_t staleness)
{
    const psr_config *config = engine->env.config;
    if (config->sync == PSR_SYNC_SSP && staleness > config->ssp_bound)
        return psr_violation(message, "its weights are %" PRIu64 " steps old, and the bound is %" PRIu32,
                             staleness, config->ssp_bound);
    return PSR_OK;
}

/* Every message of a shard says how many pushes it has received. */
static psr_err take_credit(psr_engine *engine, const psr_message *message, uint64_t received)
{
    psr_lane *lane = &engine->lanes[message->from.rank];
    if (received > lane->sent)
        return psr_violation(message, "it has received %" PRIu64 " pushes of %" PRIu64, received, lane->sent);
    if (received > lane->returned)
        psr_lane_credit(lane, received - lane->returned);
    return send_ready(engine, lane);
}

static psr_err take_ack(psr_engine *engine, const psr_message *message)
{
    uint64_t received;
    PSR_TRY(psr_msg_ack_read(message, &received));
    return take_credit(engine, message, received);
}

static psr_err take_weights(psr_engine *engine, const psr_message *message)
{
    psr_msg_weights says;
    uint32_t index = 0;
    const float *weights;
    PSR_TRY(psr_msg_weights_read(message, &says));
    PSR_TRY(take_credit(engine, message, says.received));
    PSR_TRY(find_slice(engine, message, &says, &index));
    slice *sl = &engine->slices[index];
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &weights));
    /* In BSP they are those after a step, otherwise those for the one that follows it. */
    uint64_t after = says.step + (engine->env.config->sync == PSR_SYNC_BSP ? 1 : 0);
    if (after <= sl->landed)
        return PSR_OK; /* a duplicate */
    if (after != sl->pushed)
        return psr_violation(message, "%" PRIu64 " steps of it were pushed", sl->pushed);
    PSR_TRY(check_staleness(engine, message, says.staleness));
    memcpy(engine->env.weights + says.span.offset, weights, says.span.count * sizeof *weights);
    sl->landed = after;
    if (says.staleness > engine->staleness)
        engine->staleness = says.staleness;
    if (--engine->missing[says.bucket] > 0)
        return PSR_OK;
    return engine->env.landed(engine->env.context, after - 1, says.bucket);
}

static psr_err take(psr_engine *engine, const psr_message *message)
{
    if (message->from.role != PSR_ROLE_SHARD || message->from.rank >= engine->env.plan->shards)
        return psr_violation(message, "that is a shard's to send");
    switch (message->head.type) {
    case PSR_MSG_WEIGHTS:
        return take_weights(engine, message);
    case PSR_MSG_ACK:
        return take_ack(engine, message);
    default:
        return psr_violation(message, "that is not for a worker");
    }
}

static psr_err engine_message(psr_engine *engine, psr_message **message)
{
    psr_err err = take(engine, *message);
    psr_message_free(message);
    return err;
}

/* ---- what it tells ---- */

static bool engine_waits(const psr_engine *engine, psr_peer *ret_peer, uint64_t *ret_step,
                         uint32_t *ret_bucket)
{
    const psr_plan *plan = engine->env.plan;
    uint32_t oldest = plan->slice_count;
    for (uint32_t i = 0; i < plan->slice_count; i++) {
        const slice *sl = &engine->slices[i];
        if (sl->pushed > sl->landed &&
            (oldest == plan->slice_count || sl->landed < engine->slices[oldest].landed))
            oldest = i;
    }
    if (oldest == plan->slice_count)
        return false;
    uint32_t bucket = plan->slices[oldest].bucket;
    *ret_peer = (psr_peer){PSR_ROLE_SHARD, plan->buckets[bucket].home};
    *ret_step = engine->slices[oldest].landed;
    *ret_bucket = bucket;
    return true;
}

static uint32_t engine_lent(const psr_engine *engine, uint32_t bucket)
{
    return psr_loan_lent(&engine->loans[bucket]);
}

static uint64_t engine_staleness(psr_engine *engine)
{
    uint64_t staleness = engine->staleness;
    engine->staleness = 0;
    return staleness;
}

const psr_engine_ops psr_engine_ps = {
    .name = "ps",
    .shards_update = true,
    .waits_in = PSR_PHASE_PULL,
    .open = engine_open,
    .close = engine_close,
    .ready = engine_ready,
    .message = engine_message,
    .waits = engine_waits,
    .lent = engine_lent,
    .staleness = engine_staleness,
};
