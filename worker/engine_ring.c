/* The engine of --mode ring: comm/operations/ring.c sums a bucket over all workers, and this runs the optimizer on it as
 * a shard would. Every worker computes every update, from the same sums, and so ends with the same bits.
 * Without an optimizer the sums are all that it makes, as an all-reduce library does. */
#include "worker/engine.h"

#include "base/finite.h"
#include "comm/comm.h"
#include "model/optimizers/whole_tensors.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

struct psr_engine {
    psr_engine_env env;
    psr_ring *ring;
    psr_whole_tensors *whole; /* NULL: elements are updated one by one */
    uint64_t step;            /* of the bucket that was reduced last */
};

/* 16 Ki floats of weights, gradients and momentum stay in a second-level cache between the check and the
 * update. */
enum { BLOCK = 16384 };

/* ---- updates ---- */

static psr_err not_finite(void *context, uint64_t step, uint32_t bucket)
{
    (void)context;
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the gradient of bucket %" PRIu32
                    " is not finite; a lower --lr may help",
                    step + 1, bucket); /* people count steps from 1 */
}

static psr_err check_finite(psr_engine *engine, size_t offset, size_t count, uint64_t step, uint32_t bucket)
{
    return psr_finite(engine->env.gradients + offset, count) ? PSR_OK : not_finite(engine, step, bucket);
}

static psr_err update_bucket(psr_engine *engine, uint64_t step, uint32_t b)
{
    const psr_engine_env *env = &engine->env;
    const psr_bucket *bucket = &env->buckets->items[b];
    float lr = psr_schedule_lr(env->config, step, env->total_steps);
    for (size_t at = 0; at < bucket->length; at += BLOCK) {
        size_t count = bucket->length - at < BLOCK ? bucket->length - at : BLOCK;
        PSR_TRY(check_finite(engine, bucket->offset + at, count, step, b));
        psr_optimizer_update(env->optimizer, env->weights, env->gradients, bucket->offset + at, count, lr,
                             step + 1);
    }
    return env->landed(env->context, step, b);
}

/* Parts of psr_whole_tensors ascend, buckets descend. */
static uint32_t bucket_of_part(const psr_engine *engine, uint32_t part)
{
    return engine->env.buckets->count - 1 - part;
}

static void update_tensor(void *context, size_t tensor)
{
    psr_engine *engine = context;
    const psr_engine_env *env = &engine->env;
    float lr = psr_schedule_lr(env->config, engine->step, env->total_steps);
    psr_optimizer_update_tensor(env->optimizer, env->weights, env->gradients, tensor, lr, engine->step + 1);
}

static psr_err part_updated(void *context, uint32_t part)
{
    psr_engine *engine = context;
    return engine->env.landed(engine->env.context, engine->step, bucket_of_part(engine, part));
}

static psr_err bucket_reduced(void *context, uint64_t step, uint32_t bucket)
{
    psr_engine *engine = context;
    if (!engine->env.optimizer)
        return engine->env.landed(engine->env.context, step, bucket);
    if (!engine->whole)
        return update_bucket(engine, step, bucket);
    const psr_bucket *range = &engine->env.buckets->items[bucket];
    PSR_TRY(check_finite(engine, range->offset, range->length, step, bucket));
    engine->step = step;
    return psr_whole_tensors_summed(engine->whole, bucket_of_part(engine, bucket));
}

/* ---- life ---- */

static void engine_close(psr_engine *engine)
{
    if (!engine)
        return;
    psr_ring_free(engine->ring);
    psr_whole_tensors_free(engine->whole);
    free(engine);
}

static psr_err follow_whole_tensors(psr_engine *engine)
{
    uint32_t count = engine->env.buckets->count;
    psr_span *parts = calloc((size_t)count + 1, sizeof *parts);
    if (!parts)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " buckets", count);
    for (uint32_t p = 0; p < count; p++) {
        const psr_bucket *bucket = &engine->env.buckets->items[bucket_of_part(engine, p)];
        parts[p] = (psr_span){bucket->offset, bucket->length};
    }
    psr_whole_tensors_events events = {engine, update_tensor, part_updated};
    psr_err err = psr_whole_tensors_new(engine->env.layout, parts, count, &events, &engine->whole);
    free(parts);
    return err;
}

static psr_err engine_init(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    if (env->optimizer && psr_optimizer_whole_tensors(env->optimizer))
        PSR_TRY(follow_whole_tensors(engine));
    psr_ring_options options = {
        .plan = env->plan,
        .rank = env->rank,
        .residual = env->residuals != NULL ? env->residuals[0] : NULL,
        .outbox = env->outbox,
        .context = engine,
        .reduced = bucket_reduced,
        .not_finite = not_finite,
    };
    return psr_ring_new(&options, &engine->ring);
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

/* ---- events ---- */

static psr_err engine_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    const psr_buffer gradient = psr_engine_gradient(&engine->env, bucket);
    return psr_operation_start(psr_ring_operation(engine->ring, bucket), step, &gradient);
}

static psr_err engine_message(psr_engine *engine, psr_message **message)
{
    if ((*message)->head.type == PSR_MSG_RING)
        return psr_ring_message(engine->ring, message);
    psr_err err = psr_violation(*message, "that is not for a worker of a ring");
    psr_message_free(message);
    return err;
}

static bool engine_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    return psr_ring_waits(engine->ring, ret_waiting, ret_bucket);
}

static uint32_t engine_lent(const psr_engine *engine, uint32_t bucket)
{
    return psr_operation_lent(psr_ring_operation(engine->ring, bucket));
}

const psr_engine_ops psr_engine_ring = {
    .name = "ring",
    .in_ring = true,
    .waits_in = PSR_PHASE_RING,
    .open = engine_open,
    .close = engine_close,
    .ready = engine_ready,
    .message = engine_message,
    .waits = engine_waits,
    .lent = engine_lent,
};
