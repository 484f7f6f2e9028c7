/* The engine of --mode ps: cuts ready buckets into slices, pushes them to the shards that own them, and lands
 * the weights that come back.
 *
 * A lane for each shard (comm/lane.h): of the slices that are ready for it, the one with the lowest arena offset
 * goes first, since the next forward pass needs it first; at most `window` pushes are on their way to it. BSP: the shard answers a push with the new weights. SSP, async: a pull follows each
 * push on the same channel, so the answer holds this worker's own update too. */
#include "worker/engine.h"

#include "base/fault.h"
#include "comm/encoding.h"
#include "comm/lane.h"
#include "comm/loan.h"
#include "comm/messages.h"
#include "comm/slices.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct slice {
    uint32_t bucket, shard;
    size_t offset, length;
    uint64_t landed; /* steps whose weights are here */
    uint64_t pushed; /* steps whose gradient is ready or gone; landed or landed + 1 */
} slice;

typedef struct bucket_state {
    uint32_t first, count, missing; /* slices; missing: those of the present step that have not landed */
} bucket_state;

struct psr_engine {
    psr_engine_env env;
    size_t slice_floats;
    slice *slices; /* in ascending arena order */
    uint32_t slice_count;
    bucket_state *buckets;
    psr_lane *lanes; /* [shard]: slices, by their index */
    uint32_t *room;  /* the lanes' */
    psr_loan *loans; /* [bucket]: its gradient, from ready on */
    uint64_t staleness;
};

/* ---- life ---- */

static void engine_close(psr_engine *engine)
{
    if (!engine)
        return;
    free(engine->slices);
    free(engine->buckets);
    free(engine->lanes);
    free(engine->room);
    free(engine->loans);
    free(engine);
}

static void cut_buckets(psr_engine *engine, const uint32_t *owner)
{
    const psr_buckets *buckets = engine->env.buckets;
    for (uint32_t b = buckets->count; b-- > 0;) {
        const psr_bucket *bucket = &buckets->items[b];
        uint32_t count = psr_slice_count(bucket->length, engine->slice_floats);
        engine->buckets[b] = (bucket_state){engine->slice_count, count, count};
        for (uint32_t k = 0; k < count; k++)
            engine->slices[engine->slice_count++] =
                (slice){.bucket = b,
                        .shard = owner[b],
                        .offset = bucket->offset + (size_t)k * engine->slice_floats,
                        .length = psr_slice_length(bucket->length, engine->slice_floats, k)};
    }
}

static psr_err engine_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    psr_err err = PSR_OK;
    uint32_t shards = env->config->shards;
    size_t floats = psr_slice_floats(env->config);
    size_t total = 0;
    for (uint32_t b = 0; b < env->buckets->count; b++)
        total += psr_slice_count(env->buckets->items[b].length, floats);

    psr_engine *engine = calloc(1, sizeof *engine);
    uint32_t *owner = calloc((size_t)env->buckets->count + 1, sizeof *owner);
    if (engine) {
        engine->env = *env;
        engine->slice_floats = floats;
        engine->slices = calloc(total + 1, sizeof *engine->slices);
        engine->buckets = calloc((size_t)env->buckets->count + 1, sizeof *engine->buckets);
        engine->lanes = calloc(shards, sizeof *engine->lanes);
        engine->room = calloc(total + 1, sizeof *engine->room);
        engine->loans = calloc((size_t)env->buckets->count + 1, sizeof *engine->loans);
    }
    if (!engine || !owner || !engine->slices || !engine->buckets || !engine->lanes || !engine->room ||
        !engine->loans) {
        err = psr_fail(PSR_ERR_NOMEM, "no memory for %zu slices", total);
        goto out;
    }
    err = psr_buckets_assign(env->layout, env->buckets, shards, env->config->optimizer == PSR_OPTIMIZER_LARS,
                             owner);
    if (err != PSR_OK)
        goto out;
    cut_buckets(engine, owner);
    for (uint32_t b = 0; b < env->buckets->count; b++)
        psr_loan_init(&engine->loans[b], &env->outbox);

    /* Each lane has room for all slices of its shard. */
    uint32_t *room = engine->room;
    for (uint32_t s = 0; s < shards; s++) {
        psr_lane_init(&engine->lanes[s], room, env->config->window);
        for (uint32_t i = 0; i < engine->slice_count; i++)
            room += engine->slices[i].shard == s;
    }
    *ret_engine = engine;
    engine = NULL;
out:
    engine_close(engine);
    free(owner);
    return err;
}

/* ---- out ---- */

static psr_err send_slice(psr_engine *engine, uint32_t index)
{
    const slice *sl = &engine->slices[index];
    bool bsp = engine->env.config->sync == PSR_SYNC_BSP;
    psr_peer shard = {PSR_ROLE_SHARD, sl->shard};
    psr_outbox *outbox = &engine->env.outbox;
    psr_span span = {sl->offset, sl->length};
    psr_head head = psr_msg_push_head(
        &(psr_msg_push){.bucket = sl->bucket, .step = sl->pushed - 1, .span = span, .answer = bsp});
    const float *gradient = engine->env.gradients + sl->offset;
    psr_payload payload =
        psr_loan_payload(&engine->loans[sl->bucket], psr_encode(PSR_ENCODING_FLOAT32, gradient, sl->length));
    PSR_TRY(outbox->send(outbox->context, shard, &head, &payload));
    psr_fault_point("push", sl->pushed - 1);
    if (bsp)
        return PSR_OK;
    head = psr_msg_pull_head(&(psr_msg_pull){.bucket = sl->bucket, .step = sl->pushed, .span = span});
    return outbox->send(outbox->context, shard, &head, NULL);
}

static psr_err send_ready(psr_engine *engine, psr_lane *lane)
{
    for (uint32_t index; psr_lane_next(lane, &index);)
        PSR_TRY(send_slice(engine, index));
    return PSR_OK;
}

static psr_err engine_begin_step(psr_engine *engine, uint64_t step)
{
    (void)engine;
    (void)step;
    return PSR_OK;
}

static psr_err engine_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    bucket_state *state = &engine->buckets[bucket];
    psr_loan_begin(&engine->loans[bucket], state->count);
    state->missing = state->count;
    for (uint32_t i = state->first; i < state->first + state->count; i++) {
        engine->slices[i].landed = step;
        engine->slices[i].pushed = step + 1;
        psr_lane_add(&engine->lanes[engine->slices[i].shard], i);
    }
    /* A bucket's slices have one owner. */
    return state->count ? send_ready(engine, &engine->lanes[engine->slices[state->first].shard]) : PSR_OK;
}

/* ---- in ---- */

static psr_err find_slice(const psr_engine *engine, const psr_message *message, const psr_msg_weights *says,
                          uint32_t *ret_index)
{
    if (says->bucket >= engine->env.buckets->count)
        return psr_violation(message, "there are %" PRIu32 " buckets", engine->env.buckets->count);
    const psr_bucket *bucket = &engine->env.buckets->items[says->bucket];
    size_t in_bucket = says->span.offset - bucket->offset;
    if (says->span.offset < bucket->offset || in_bucket >= bucket->length ||
        in_bucket % engine->slice_floats != 0)
        return psr_violation(message, "no slice of the bucket begins there");
    uint32_t index = engine->buckets[says->bucket].first + (uint32_t)(in_bucket / engine->slice_floats);
    const slice *sl = &engine->slices[index];
    if (sl->shard != message->from.rank)
        return psr_violation(message, "the bucket is shard %" PRIu32 "'s", sl->shard);
    if (says->span.count != sl->length)
        return psr_violation(message, "the slice has %zu floats", sl->length);
    *ret_index = index;
    return PSR_OK;
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
    PSR_TRY(psr_decode_floats(message, sl->length, &weights));
    /* In BSP they are those after a step, otherwise those for the one that follows it. */
    uint64_t after = says.step + (engine->env.config->sync == PSR_SYNC_BSP ? 1 : 0);
    if (after <= sl->landed)
        return PSR_OK; /* a duplicate */
    if (after != sl->pushed)
        return psr_violation(message, "%" PRIu64 " steps of it were pushed", sl->pushed);
    PSR_TRY(check_staleness(engine, message, says.staleness));
    memcpy(engine->env.weights + sl->offset, weights, sl->length * sizeof *weights);
    sl->landed = after;
    if (says.staleness > engine->staleness)
        engine->staleness = says.staleness;
    if (--engine->buckets[sl->bucket].missing > 0)
        return PSR_OK;
    return engine->env.landed(engine->env.context, after - 1, sl->bucket);
}

static psr_err take(psr_engine *engine, const psr_message *message)
{
    if (message->from.role != PSR_ROLE_SHARD || message->from.rank >= engine->env.config->shards)
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
    const slice *oldest = NULL;
    for (uint32_t i = 0; i < engine->slice_count; i++) {
        const slice *sl = &engine->slices[i];
        if (sl->pushed > sl->landed && (!oldest || sl->landed < oldest->landed))
            oldest = sl;
    }
    if (!oldest)
        return false;
    *ret_peer = (psr_peer){PSR_ROLE_SHARD, oldest->shard};
    *ret_step = oldest->landed;
    *ret_bucket = oldest->bucket;
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
    .begin_step = engine_begin_step,
    .ready = engine_ready,
    .message = engine_message,
    .waits = engine_waits,
    .lent = engine_lent,
    .staleness = engine_staleness,
};
