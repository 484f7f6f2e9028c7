/* The engine of --mode mpi: worker/exchange/engines/mpi_sums.h sums. */
#include "worker/exchange/engines/engine_sums.h"

#include "worker/exchange/engines/mpi_sums.h"

static psr_err open_sums(const psr_engine_env *env, psr_engine *engine,
                         void (*changed)(void *engine), void **ret_sums)
{
    const psr_mpi_sums_options options = {.processes = env->plan->ranks,
                                          .most = env->buckets->count,
                                          .context = engine,
                                          .changed = changed};
    psr_mpi_sums *sums = NULL;
    PSR_TRY(psr_mpi_sums_new(&options, &sums));
    *ret_sums = sums;
    return PSR_OK;
}

static psr_err start_sum(void *sums, uint32_t bucket, psr_span span, float *values)
{
    return psr_mpi_sums_start(sums, bucket, values, span.count);
}

static psr_err take_sum(void *sums, bool *ret_any, uint32_t *ret_bucket)
{
    return psr_mpi_sums_take(sums, ret_any, ret_bucket);
}

static void free_sums(void *sums, int linger_ms)
{
    psr_mpi_sums_free(sums, linger_ms);
}

static psr_err open_engine(const psr_engine_env *env, psr_engine **ret_engine)
{
    static const psr_sums_calls calls = {
        .open = open_sums, .start = start_sum, .take = take_sum, .free = free_sums};
    return psr_engine_sums_open(env, &calls, ret_engine);
}

const psr_engine_ops psr_engine_mpi = {
    .name = "mpi",
    .waits_in = PSR_PHASE_PULL,
    .open = open_engine,
    .stop = psr_engine_sums_stop,
    .close = psr_engine_sums_close,
    .ready = psr_engine_sums_ready,
    .woken = psr_engine_sums_woken,
    .norm_known = psr_engine_sums_norm_known,
    .waits = psr_engine_sums_waits,
};
