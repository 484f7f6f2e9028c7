#include "worker/exchange/engines/engine_sums.h"

#include "comm/view/plan.h"
#include "worker/exchange/engines/own_update.h"

#include <stdlib.h>

/* For the library to end, which may wait for the others. */
#define LINGER_MS 2000

struct psr_engine {
    psr_engine_env env;
    const psr_sums_calls *calls;
    psr_own_update *update;
    void *sums;
    uint32_t next;     /* the bucket to begin */
    bool *ready;       /* [buckets]: before its turn */
    bool *under_way;   /* [buckets]: begun and not ended */
    uint64_t *step_of; /* [buckets]: of what is under way */
};

/* ---- life ---- */

void psr_engine_sums_stop(psr_engine *engine)
{
    if (engine->sums != NULL)
        engine->calls->free(engine->sums, LINGER_MS);
    engine->sums = NULL;
}

void psr_engine_sums_close(psr_engine *engine)
{
    if (engine == NULL)
        return;
    psr_engine_sums_stop(engine);
    psr_own_update_free(engine->update);
    free(engine->ready);
    free(engine->under_way);
    free(engine->step_of);
    free(engine);
}

static void sums_changed(void *context)
{
    const psr_engine *engine = context;
    engine->env.wake(engine->env.context);
}

static psr_err engine_init(psr_engine *engine)
{
    const psr_engine_env *env = &engine->env;
    uint32_t count = env->buckets->count;
    engine->ready = calloc(count, sizeof *engine->ready);
    engine->under_way = calloc(count, sizeof *engine->under_way);
    engine->step_of = calloc(count, sizeof *engine->step_of);
    if (engine->ready == NULL || engine->under_way == NULL || engine->step_of == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u buckets", count);
    PSR_TRY(psr_own_update_new(env, PSR_ROUTE_NONE, &engine->update));
    return engine->calls->open(env, engine, sums_changed, &engine->sums);
}

psr_err psr_engine_sums_open(const psr_engine_env *env, const psr_sums_calls *calls,
                             psr_engine **ret_engine)
{
    psr_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an engine");
    engine->env = *env;
    engine->calls = calls;
    psr_err err = engine_init(engine);
    if (err != PSR_OK) {
        psr_engine_sums_close(engine);
        return err;
    }
    *ret_engine = engine;
    return PSR_OK;
}

/* ---- events ---- */

psr_err psr_engine_sums_ready(psr_engine *engine, uint64_t step, uint32_t bucket)
{
    const psr_engine_env *env = &engine->env;
    engine->ready[bucket] = true;
    for (; engine->next < env->buckets->count; engine->next++) {
        const uint32_t b = engine->next;
        if (env->buckets->items[b].frozen)
            continue; /* nobody reports it */
        if (!engine->ready[b])
            break;
        engine->ready[b] = false;
        engine->under_way[b] = true;
        engine->step_of[b] = step;
        PSR_TRY(engine->calls->start(engine->sums, b, env->plan->buckets[b].span,
                                     psr_engine_gradient(env, b).data));
    }
    if (engine->next == env->buckets->count) /* the next step begins when
                                                all of these have landed */
        engine->next = 0;
    return PSR_OK;
}

psr_err psr_engine_sums_woken(psr_engine *engine)
{
    bool any = true;
    uint32_t b = 0;
    PSR_TRY(engine->calls->take(engine->sums, &any, &b));
    while (any) {
        engine->under_way[b] = false;
        PSR_TRY(psr_own_update_summed(engine->update, engine->step_of[b], b));
        PSR_TRY(engine->calls->take(engine->sums, &any, &b));
    }
    return PSR_OK;
}

/* A sum ends when all have taken part, and the library does not say who has not. As in a ring, each
 * rank names the one before it: so the ranks that wait for others are distinguished from the one
 * that does not. */
bool psr_engine_sums_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
{
    const psr_engine_env *env = &engine->env;
    for (uint32_t b = 0; b < env->buckets->count && env->plan->ranks > 1; b++) {
        if (!engine->under_way[b])
            continue;
        const uint32_t before = (env->rank + env->plan->ranks - 1) % env->plan->ranks;
        *ret_waiting =
            (psr_waiting){.peer = {PSR_ROLE_WORKER, before}, .round = engine->step_of[b]};
        *ret_bucket = b;
        return true;
    }
    return false;
}

psr_err psr_engine_sums_norm_known(psr_engine *engine, uint64_t step, double norm)
{
    return psr_own_update_norm_known(engine->update, step, norm);
}
