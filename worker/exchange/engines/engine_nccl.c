/* The engine of --mode nccl: worker/exchange/engines/gpu_sums.h sums. */
#include "worker/exchange/engines/engine_sums.h"

#include "worker/exchange/engines/gpu_sums.h"

static psr_err open_sums(const psr_engine_env *env, psr_engine *engine,
                         void (*changed)(void *engine), void **ret_sums)
{
    const psr_cuda_api *api = psr_cuda_offered();
    if (api == NULL || env->gpu == NULL)
        return psr_fail(
            PSR_ERR_UNSUPPORTED,
            "--mode nccl sums on GPUs, and this program knows none: give --device cuda");
    const psr_gpu_sums_options options = {
        .api = api,
        .device = env->gpu->device,
        .shares_devices = env->gpu->shares_devices,
        .id = env->gpu->group,
        .processes = env->plan->ranks,
        .process = env->rank,
        .most = env->buckets->count,
        .arena = env->gradients,
        .length = env->layout->length,
        .on_device = psr_engine_keeps_gradients(env->config) ? &env->gpu->gradients : NULL,
        .patience_ms = (int)(env->config->deadline_s * 1000),
        .context = engine,
        .changed = changed};
    psr_gpu_sums *sums = NULL;
    PSR_TRY(psr_gpu_sums_new(&options, &sums));
    *ret_sums = sums;
    return PSR_OK;
}

static psr_err start_sum(void *sums, uint32_t bucket, psr_span span, float *values)
{
    (void)values;
    return psr_gpu_sums_start(sums, bucket, span.offset, span.count);
}

static psr_err take_sum(void *sums, bool *ret_any, uint32_t *ret_bucket)
{
    return psr_gpu_sums_take(sums, ret_any, ret_bucket);
}

static void free_sums(void *sums, int linger_ms)
{
    psr_gpu_sums_free(sums, linger_ms);
}

static psr_err open_engine(const psr_engine_env *env, psr_engine **ret_engine)
{
    static const psr_sums_calls calls = {
        .open = open_sums, .start = start_sum, .take = take_sum, .free = free_sums};
    return psr_engine_sums_open(env, &calls, ret_engine);
}

const psr_engine_ops psr_engine_nccl = {
    .name = "nccl",
    .waits_in = PSR_PHASE_PULL,
    .open = open_engine,
    .stop = psr_engine_sums_stop,
    .close = psr_engine_sums_close,
    .ready = psr_engine_sums_ready,
    .woken = psr_engine_sums_woken,
    .norm_known = psr_engine_sums_norm_known,
    .waits = psr_engine_sums_waits,
};
