/* The interface that a back end implements behind model/backend.h. For the files of back ends only.
 *
 * backend.c does what all back ends share: argument checks, the readiness of buckets (readiness.h)
 * and the check that every bucket was reported. A back end gets a readiness whose pass has begun,
 * and calls
 *   psr_readiness_forward(readiness, node)  before it first reads that node's weights (forward
 *                                           order),
 *   psr_readiness_backward(readiness, node) after that node's gradients are in the gradient arena
 *                                           and its weights (packed copies included) are not read
 *                                           again,
 * for every node, also for nodes without parameters, since these calls report progress. A back end
 * that fuses several nodes makes these calls for each of them around the fused kernel, in the
 * network's order (backward pass: in reverse order). */
#ifndef PSR_MODEL_BACKEND_PRIVATE_H
#define PSR_MODEL_BACKEND_PRIVATE_H

#include "model/backend.h"
#include "model/readiness.h"

/* One back end. self is its own object. The functions are those of the same names in backend.h, and
 * are called from one thread. */
typedef struct psr_backend_class {
    /* The caller owns *ret_self: destroy. options->kind is this class's own. */
    psr_err (*create)(const psr_network *net, const psr_backend_options *options, void **ret_self);
    void (*destroy)(void *self); /* NULL allowed */
    psr_err (*train)(void *self, const psr_batch *batch, const psr_exec_state *state,
                     float loss_scale, psr_readiness *readiness, psr_pass_result *ret_result);
    /* With options->sync_norms instead of train. NULL: this class cannot. What is passed to begin
     * stays until the pass has ended. stops: net->node_count entries at most, in the order of the
     * forward pass; the backward pass makes them in reverse. Returns their number. */
    psr_err (*begin)(void *self, const psr_batch *batch, const psr_exec_state *state,
                     float loss_scale, psr_readiness *readiness);
    psr_err (*advance)(void *self, psr_norm_sums *ret_sums, psr_pass_result *ret_result);
    uint32_t (*stops)(const void *self, psr_norm_stop *ret_stops);
    psr_err (*infer)(void *self, const psr_batch *batch, const psr_exec_state *state,
                     psr_readiness *readiness, float *logits, psr_pass_result *ret_result);
    /* With options->updates. NULL, all of them: this class is given its weights. */
    psr_err (*hold)(void *self, const float *weights, float *const *slots, uint64_t number);
    void (*due)(void *self, const psr_due_update *update);
    psr_err (*held)(void *self, float *ret_weights, float *const *ret_slots);
    float *(*gradients)(void *self);
    psr_err (*zero_gradients)(void *self);
    bool takes_bytes;
    const char *(*algorithms)(const void *self); /* never NULL */
    const char *(*engines)(const void *self);    /* NULL: none are told */
    const char *(*loops)(const void *self);      /* never NULL */
    const char *(*identity)(uint32_t device);
    size_t (*bytes)(const void *self);
} psr_backend_class;

extern const psr_backend_class psr_backend_class_reference; /* reference/backend.c */
extern const psr_backend_class psr_backend_class_onednn;    /* onednn.c */
extern const psr_backend_class psr_backend_class_played;    /* played/played.c */
extern const psr_backend_class psr_backend_class_cuda;      /* cuda/backend.c */

#endif
