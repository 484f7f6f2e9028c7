#include "worker/stored/stored_backend.h"

psr_err psr_stored_backend(const psr_stored_model *model, uint32_t max_batch, uint32_t threads,
                           psr_buckets *buckets, psr_backend **ret_backend)
{
    const psr_layout *params = &model->net->params;
    PSR_TRY(
        psr_buckets_plan(params, psr_bucket_bytes(params, model->config.bucket_bytes), buckets));
    const psr_backend_options options = {.kind = PSR_BACKEND_ONEDNN,
                                         .precision = model->config.precision,
                                         .max_batch = max_batch,
                                         .label_smoothing = model->config.label_smoothing,
                                         .threads = threads,
                                         .buckets = buckets};
    return psr_backend_new(model->net, &options, ret_backend);
}
