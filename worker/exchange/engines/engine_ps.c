/* The engine of --mode ps: a ready bucket's gradient is pushed to the shard that holds it, and the
 * weights that come back land (comm/tables/table.h). Shards make the updates. */
#include "worker/exchange/engines/engine.h"

#include "comm/buffer.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/consistency.h"
#include "comm/tables/table.h"
#include "comm/wire/compression/compression.h"
#include "model/optimizers/updater.h"

#include <stdlib.h>

struct psr_engine {
    psr_engine_env env;
    psr_table *table; /* its values are the weights */
};

/* ---- life ---- */

static void engine_close(psr_engine *engine)
{
    if (engine == NULL)
        return;
    psr_table_free(engine->table);
    free(engine);
}

static psr_consistency consistency_of(const psr_config *config)
{
    static const psr_consistency_kind kinds[] = {[PSR_SYNC_BSP] = PSR_CONSISTENCY_BSP,
                                                 [PSR_SYNC_SSP] = PSR_CONSISTENCY_SSP,
                                                 [PSR_SYNC_ASYNC] = PSR_CONSISTENCY_ASYNC};
    return (psr_consistency){kinds[config->sync], config->ssp_bound};
}

/* What is decoded of padding's zeros need not be zero. */
static psr_err engine_landed(void *context, uint64_t step, uint32_t bucket)
{
    const psr_engine_env *env = &((psr_engine *)context)->env;
    const psr_span span = env->plan->buckets[bucket].span;
    if (psr_plan_pulls_differences(env->plan))
        psr_layout_clear_padding(env->layout, span.offset, span.count, env->weights + span.offset);
    return env->landed(env->context, step, bucket);
}

static void engine_stale(void *context, uint64_t steps)
{
    const psr_engine_env *env = &((psr_engine *)context)->env;
    if (env->stale != NULL)
        env->stale(env->context, steps);
}

static psr_err engine_got(void *context, uint32_t bucket)
{
    const psr_engine_env *env = &((psr_engine *)context)->env;
    return env->fetched(env->context, bucket);
}

static psr_err engine_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    psr_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an engine");
    engine->env = *env;
    const psr_table_options options = {
        .plan = env->plan,
        .first_step = env->first_step,
        .consistency = consistency_of(env->config),
        .values = env->weights,
        .in_place = env->in_place,
        .residual = env->residuals != NULL ? env->residuals[0] : NULL,
        .outbox = env->outbox,
        .context = engine,
        .landed = engine_landed,
        .got = engine_got,
        .stale = engine_stale,
    };
    psr_err err = psr_table_new(&options, &engine->table);
    if (err != PSR_OK) {
        engine_close(engine);
        return err;
    }
    *ret_engine = engine;
    return PSR_OK;
}

/* ---- weights that come back rounded (--compress-weights) ---- */

static bool pulls_rounded(const psr_engine *engine)
{
    return !psr_compression_is_none(engine->env.plan->pulled);
}

/* The shards have them as they are. What this worker had pulled by then was rounded; or, as the sum
 * of many differences, it is in the checkpoint (psr_exchange_install_pulled). */
static psr_err engine_installed(psr_engine *engine, bool goes_on)
{
    const psr_plan *plan = engine->env.plan;
    if (!goes_on || !pulls_rounded(engine) || psr_plan_pulls_differences(plan))
        return PSR_OK;
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (plan->buckets[b].route == PSR_ROUTE_SHARD)
            PSR_TRY(psr_compression_round(plan->pulled,
                                          engine->env.weights + plan->buckets[b].span.offset,
                                          plan->buckets[b].span.count));
    return PSR_OK;
}

static const float *engine_saved(const psr_engine *engine)
{
    return pulls_rounded(engine) ? NULL : engine->env.weights;
}

/* ---- events ---- */

static psr_err engine_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    const psr_buffer gradient = psr_engine_gradient(&engine->env, bucket);
    psr_err err = psr_table_start(engine->table, bucket, step, &gradient);
    /* In the wording of a shard that finds it in a sum. */
    return err == PSR_ERR_NUMERIC ? psr_updater_not_finite(step, bucket) : err;
}

static psr_err engine_fetch(psr_engine *engine, uint32_t bucket, uint64_t steps, uint32_t array,
                            float *ret_values)
{
    return psr_table_get(engine->table, bucket, steps, array, ret_values);
}

static psr_err engine_message(psr_engine *engine, psr_message **message)
{
    return psr_table_message(engine->table, message);
}

static bool engine_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    return psr_table_waits(engine->table, ret_waiting, ret_bucket);
}

static uint32_t engine_lent(const psr_engine *engine, uint32_t bucket)
{
    return psr_table_lent(engine->table, bucket);
}

const psr_engine_ops psr_engine_ps = {
    .name = "ps",
    .route = PSR_ROUTE_SHARD,
    .waits_in = PSR_PHASE_PULL,
    .open = engine_open,
    .close = engine_close,
    .ready = engine_ready,
    .fetch = engine_fetch,
    .installed = engine_installed,
    .saved = engine_saved,
    .message = engine_message,
    .waits = engine_waits,
    .lent = engine_lent,
};
