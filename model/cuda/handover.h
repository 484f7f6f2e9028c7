/* The buckets' ways between the host's arenas and the device's: weights, or the sums that update
 * them there, come when the pass asks for them, and gradients go, each with a fence, as soon as the
 * device has them; or only the fence, where they stay.
 *
 * The host's arenas are never read or written by the device itself, for their pages may change
 * hands (net/sharing/landing.h): values go through pinned memory of our own. Weights are copied
 * into it by who computes. Gradients are copied out of it by the device's thread, which then passes
 * the fence, so that nobody waits for the end of the pass.
 *
 * One thread, that of the back end; fences as base/arrays/fence.h has them. */
#ifndef PSR_MODEL_CUDA_HANDOVER_H
#define PSR_MODEL_CUDA_HANDOVER_H

#include "base/arrays/fence.h"
#include "model/cuda/api.h"
#include "model/cuda/update.h"
#include "model/layout.h"
#include "model/networks/network.h"

typedef struct psr_cuda_handover psr_cuda_handover;

/* Where it finds the arenas on the device. All is borrowed for life. */
typedef struct psr_cuda_handover_options {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *computing;
    const psr_network *net;
    const psr_buckets *buckets;
    float *weights, *gradients; /* device memory: params.length floats */
    psr_cuda_update *update;    /* of the weights; NULL: they come from the host */
    bool keeps_gradients;       /* they stay where they are, and sums come there */
} psr_cuda_handover_options;

/* The caller owns *ret_handover: psr_cuda_handover_free. NOMEM, COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_handover_new(const psr_cuda_handover_options *options,
                                             psr_cuda_handover **ret_handover);
/* Waits for the device; fences that have not passed are told. NULL allowed. */
void psr_cuda_handover_free(psr_cuda_handover *handover);

/* Of its buckets node is the first reader: psr_cuda_handover_weights and _gradients have something
 * to do there. */
bool psr_cuda_handover_has_buckets(const psr_cuda_handover *handover, uint32_t node);

/* Orders the copies of the buckets that node is the first to read, which are in weights now.
 * COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_handover_weights(psr_cuda_handover *handover, uint32_t node,
                                                 const float *weights);

/* Instead, if an update is due: orders, for those of these buckets that have not had it yet, the
 * copies of their sums, unless these are there, and their updates. The device's gradients of such a
 * bucket have left before, since the sum was made of them. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_handover_update(psr_cuda_handover *handover, uint32_t node,
                                                const psr_due_update *due);
/* The same of all buckets. */
PSR_MUST_CHECK psr_err psr_cuda_handover_update_all(psr_cuda_handover *handover,
                                                    const psr_due_update *due);

/* Between passes, of whole arenas: copies values into the device's memory, and waits for that. */
PSR_MUST_CHECK psr_err psr_cuda_handover_put(psr_cuda_handover *handover, float *to,
                                             const float *values);
/* Orders a copy of the device's memory behind all that computes; and, when the caller has waited
 * for that, gives its values. */
PSR_MUST_CHECK psr_err psr_cuda_handover_get(psr_cuda_handover *handover, const float *from);
void psr_cuda_handover_got(const psr_cuda_handover *handover, float *ret_values);

/* Before the first gradient of a pass is written: waits until those of the pass before have left.
 * factor: what those of this pass are multiplied by on their way. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_handover_begin_gradients(psr_cuda_handover *handover, float factor);

/* Once a pass for each of these buckets somebody may ask the fence to tell.
 *
 * What the device was told up to now gives the gradients of all buckets that no node before this
 * one reads. Orders their copies into gradients, unless they stay, and gives the fence that passes
 * when they are there; NULL: there are none. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_handover_gradients(psr_cuda_handover *handover, uint32_t node,
                                                   float *gradients, psr_fence **ret_fence);

/* Waits until all gradients are where they belong. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_handover_finish(psr_cuda_handover *handover);

size_t psr_cuda_handover_bytes(const psr_cuda_handover *handover); /* of the host */

#endif
