/* The engine of --mode mpi: worker/exchange/engines/mpi_sums.h sums a bucket over all workers, and
 * worker/exchange/engines/own_update.h runs the optimizer on it as a shard would. The sums are
 * MPI's own: rounded in its order, so losses come near those of the other modes and bits do not.
 *
 * All processes must begin MPI's sums in one order, but buckets become ready in that of the
 * backward pass, and at a rank without samples in another. So bucket b is begun when all before it
 * have been. */
#include "worker/exchange/engines/engine.h"

#include "comm/buffer.h"
#include "comm/view/plan.h"
#include "worker/exchange/engines/mpi_sums.h"
#include "worker/exchange/engines/own_update.h"

#include <stdlib.h>

/* For MPI_Finalize, which waits for the others. */
#define LINGER_MS 2000

struct psr_engine {
    psr_engine_env env;
    psr_own_update *update;
    psr_mpi_sums *sums;
    uint32_t next;     /* the bucket to begin */
    bool *ready;       /* [buckets]: before its turn */
    bool *under_way;   /* [buckets]: begun and not ended */
    uint64_t *step_of; /* [buckets]: of what is under way */
};

/* ---- life ---- */

static void engine_stop(psr_engine *engine)
{
    psr_mpi_sums_free(engine->sums, LINGER_MS);
    engine->sums = NULL;
}

static void engine_close(psr_engine *engine)
{
    if (engine == NULL)
        return;
    engine_stop(engine);
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
    const psr_mpi_sums_options options = {
        .processes = env->plan->ranks, .most = count, .context = engine, .changed = sums_changed};
    return psr_mpi_sums_new(&options, &engine->sums);
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
    const psr_engine_env *env = &engine->env;
    engine->ready[bucket] = true;
    for (; engine->next < env->buckets->count; engine->next++) {
        const uint32_t b = engine->next;
        if (env->buckets->items[b].frozen)
            continue; /* nobody reports it */
        if (!engine->ready[b])
            break;
        const psr_buffer gradient = psr_engine_gradient(env, b);
        engine->ready[b] = false;
        engine->under_way[b] = true;
        engine->step_of[b] = step;
        PSR_TRY(psr_mpi_sums_start(engine->sums, b, gradient.data, gradient.count));
    }
    if (engine->next == env->buckets->count) /* the next step begins when
                                                all of these have landed */
        engine->next = 0;
    return PSR_OK;
}

static psr_err engine_woken(psr_engine *engine)
{
    bool any = true;
    uint32_t b = 0;
    PSR_TRY(psr_mpi_sums_take(engine->sums, &any, &b));
    while (any) {
        engine->under_way[b] = false;
        PSR_TRY(psr_own_update_summed(engine->update, engine->step_of[b], b));
        PSR_TRY(psr_mpi_sums_take(engine->sums, &any, &b));
    }
    return PSR_OK;
}

/* A sum ends when all have taken part, and MPI does not say who has not. As in a ring, each rank
 * names the one before it: so the ranks that wait for others are distinguished from the one that
 * does not. */
static bool engine_waits(const psr_engine *engine, psr_waiting *ret_waiting, uint32_t *ret_bucket)
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

static psr_err engine_norm_known(psr_engine *engine, uint64_t step, double norm)
{
    return psr_own_update_norm_known(engine->update, step, norm);
}

const psr_engine_ops psr_engine_mpi = {
    .name = "mpi",
    .waits_in = PSR_PHASE_PULL,
    .open = engine_open,
    .stop = engine_stop,
    .close = engine_close,
    .ready = engine_ready,
    .woken = engine_woken,
    .norm_known = engine_norm_known,
    .waits = engine_waits,
};
