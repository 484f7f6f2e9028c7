/* The engine of --mode ring: comm/operations/ring.c sums a bucket over all workers, and
 * worker/exchange/engines/own_update.h runs the optimizer on it as a shard would. Every worker
 * computes every update, from the same sums, and so ends with the same bits. Without an optimizer
 * the sums are all that it makes, as an all-reduce library does. */
#include "worker/exchange/engines/engine.h"

#include "comm/buffer.h"
#include "comm/operations/ring.h"
#include "comm/view/plan.h"
#include "model/optimizers/updater.h"
#include "worker/exchange/engines/own_update.h"

#include <stdlib.h>

struct psr_engine {
    psr_engine_env env;
    psr_ring *ring;
    psr_own_update *update;
};

/* ---- updates ---- */

static psr_err not_finite(void *context, uint64_t step, uint32_t bucket)
{
    (void)context;
    return psr_updater_not_finite(step, bucket);
}

static psr_err bucket_reduced(void *context, uint64_t step, uint32_t bucket)
{
    return psr_own_update_summed(((psr_engine *)context)->update, step, bucket);
}

/* ---- life ---- */

static void engine_close(psr_engine *engine)
{
    if (engine == NULL)
        return;
    psr_ring_free(engine->ring);
    psr_own_update_free(engine->update);
    free(engine);
}

static psr_err engine_init(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    PSR_TRY(psr_own_update_new(env, PSR_ROUTE_RING, &engine->update));
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
    if (engine == NULL)
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
    return psr_ring_start(engine->ring, bucket, step, &gradient);
}

static psr_err engine_message(psr_engine *engine, psr_message **message)
{
    return psr_ring_message(engine->ring, message);
}

static bool engine_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    return psr_ring_waits(engine->ring, ret_waiting, ret_bucket);
}

static uint32_t engine_lent(const psr_engine *engine, uint32_t bucket)
{
    return psr_ring_lent(engine->ring, bucket);
}

static psr_err engine_norm_known(psr_engine *engine, uint64_t step, double norm)
{
    return psr_own_update_norm_known(engine->update, step, norm);
}

const psr_engine_ops psr_engine_ring = {
    .name = "ring",
    .route = PSR_ROUTE_RING,
    .waits_in = PSR_PHASE_RING,
    .open = engine_open,
    .close = engine_close,
    .ready = engine_ready,
    .message = engine_message,
    .norm_known = engine_norm_known,
    .waits = engine_waits,
    .lent = engine_lent,
};
