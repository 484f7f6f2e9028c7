/* The engine of --mode local: one process that plays all ranks. Each writes into a gradient arena
 * of its own; when the last one's step has ended, exchange_local.c sums them and updates the
 * weights, unless a device does. */
#include "comm/observer.h"
#include "worker/exchange/engines/engine.h"

#include "worker/exchange/exchange_local.h"

#include <stdlib.h>

struct psr_engine {
    psr_engine_env env;
    psr_local *local;
};

static void local_close(psr_engine *engine)
{
    if (engine == NULL)
        return;
    psr_local_free(engine->local);
    free(engine);
}

static psr_err local_open(const psr_engine_env *env, psr_engine **ret_engine)
{
    psr_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an engine");
    engine->env = *env;
    const psr_local_options options = {.config = env->config,
                                       .layout = env->layout,
                                       .buckets = env->buckets,
                                       .plan = env->plan,
                                       .weights = env->weights,
                                       .residuals = env->residuals,
                                       .skipped_steps = env->skipped_steps,
                                       .optimizer = env->optimizer};
    psr_err err = psr_local_new(&options, &engine->local);
    if (err != PSR_OK) {
        local_close(engine);
        return err;
    }
    *ret_engine = engine;
    return PSR_OK;
}

static float *local_gradients(psr_engine *engine, uint32_t rank)
{
    return psr_local_gradients(engine->local, rank);
}

static psr_err local_end_step(psr_engine *engine, uint64_t step, uint32_t rank)
{
    const psr_engine_env *env = &engine->env;
    if (rank + 1 < env->plan->ranks)
        return PSR_OK;
    const psr_span all = {0, env->layout->length};
    psr_outbox_tell(&env->outbox, PSR_OBSERVED_FOLDS, step, PSR_OBSERVED_NO_BUCKET, all);
    psr_err err = psr_local_update(engine->local, step, env->total_steps);
    psr_outbox_tell(&env->outbox, PSR_OBSERVED_FOLDED, step, PSR_OBSERVED_NO_BUCKET, all);
    PSR_TRY(err);
    if (psr_config_updates_together(env->config) && env->clipped != NULL)
        env->clipped(env->context, step, psr_local_norm(engine->local));
    if (psr_config_norms_due(env->config, step + 1) && env->normed != NULL)
        env->normed(env->context, step, psr_local_tensor_squares(engine->local));
    for (uint32_t b = 0; b < env->buckets->count; b++)
        if (!env->buckets->items[b].frozen)
            PSR_TRY(env->landed(env->context, step, b));
    return PSR_OK;
}

static psr_err local_installed(psr_engine *engine, bool goes_on)
{
    return psr_local_installed(engine->local, goes_on);
}

static const float *local_sums(const psr_engine *engine)
{
    return psr_local_sums(engine->local);
}

static const float *local_saved(const psr_engine *engine)
{
    return psr_local_saved(engine->local);
}

const psr_engine_ops psr_engine_local = {
    .name = "local",
    .computes_all_ranks = true,
    .waits_in = PSR_PHASE_RING,
    .open = local_open,
    .close = local_close,
    .gradients = local_gradients,
    .end_step = local_end_step,
    .installed = local_installed,
    .sums = local_sums,
    .saved = local_saved,
};
