/* The optimizer on the device (--update-on device): sgd, adam and adamw with the bits of
 * model/optimizers. It has the state arrays in the device's memory, beside the back end's weights
 * and gradients.
 *
 * An update of a bucket is three orders: whether the sum is finite, and for each run of elements
 * that have one learning rate and one weight decay (model/optimizers/decay.h) the optimizer's
 * kernel. They go to the stream on which the passes compute, so that nothing else need wait.
 *
 * One thread, that of the back end. */
#ifndef PSR_MODEL_CUDA_UPDATE_H
#define PSR_MODEL_CUDA_UPDATE_H

#include "model/backend.h"
#include "model/cuda/api.h"

typedef struct psr_cuda_update psr_cuda_update;

/* All is borrowed for life. */
typedef struct psr_cuda_update_options {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *computing;
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    float *weights, *gradients; /* device memory: layout->length floats */
} psr_cuda_update_options;

/* The caller owns *ret_update: psr_cuda_update_free. The state arrays are zeros. NOMEM, COMPUTE;
 * UNSUPPORTED: there is no kernel for config's optimizer. */
PSR_MUST_CHECK psr_err psr_cuda_update_new(const psr_cuda_update_options *options,
                                           psr_cuda_update **ret_update);
/* The caller has waited for the stream. NULL allowed. */
void psr_cuda_update_free(psr_cuda_update *update);

/* The state arrays, in the order of psr_optimizer_slot; device memory. */
uint32_t psr_cuda_update_slot_count(const psr_cuda_update *update);
float *psr_cuda_update_slot(const psr_cuda_update *update, uint32_t slot);

/* The weights have had so many updates. */
void psr_cuda_update_begin(psr_cuda_update *update, uint64_t number);

/* Whether the bucket has not had the update of that number yet, which is its next one. A frozen one
 * has none. */
bool psr_cuda_update_is_due(const psr_cuda_update *update, uint32_t bucket, uint64_t number);
/* Orders it: the sum is in the device's gradients when the stream has come to it. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_update_bucket(psr_cuda_update *update, uint32_t bucket,
                                              const psr_due_update *due);

/* Orders that it be told which sums were not finite; and, when the caller has waited for the
 * stream, tells it. NUMERIC: psr_updater_not_finite. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_update_ask(psr_cuda_update *update);
PSR_MUST_CHECK psr_err psr_cuda_update_check(const psr_cuda_update *update);

size_t psr_cuda_update_bytes(const psr_cuda_update *update); /* of device and host */

#endif
