#include "worker/stored/stored_backend.h"

psr_err psr_stored_backend(const psr_stored_model *model, uint32_t max_batch, uint32_t threads,
                           psr_buckets *buckets, psr_backend **ret_backend)
{
    const psr_layout *params = &model->net->params;
    PSR_TRY(
        psr_buckets_plan(params, psr_bucket_bytes(params, model->config.bucket_bytes), buckets));
    /* fp16 is a GPU's; the weights are float32 */
    const psr_precision precision = model->config.precision == PSR_PRECISION_FP16
                                        ? PSR_PRECISION_FP32
                                        : model->config.precision;
    const psr_backend_options options = {.kind = PSR_BACKEND_ONEDNN,
                                         .precision = precision,
                                         .max_batch = max_batch,
                                         .label_smoothing = model->config.label_smoothing,
                                         .threads = threads,
                                         .buckets = buckets};
    return psr_backend_new(model->net, &options, ret_backend);
}
