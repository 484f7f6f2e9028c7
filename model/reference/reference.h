/* The reference back end: it executes a description node by node with the plain loops of ops.h.
 *
 * It keeps every node's value and gradient for max_batch samples, all psr_real, and computes
 * everything in the plainest way. The other back ends are compared with it. It is float32 in the
 * product (backend.c puts it behind model/backend.h); the finite-difference test compiles it in
 * double. One thread. */
#ifndef PSR_MODEL_REFERENCE_H
#define PSR_MODEL_REFERENCE_H

#include "model/backend.h"
#include "model/readiness.h"
#include "model/real.h"

typedef struct psr_reference psr_reference;

/* psr_exec_state in psr_real; borrowed for the call. */
typedef struct psr_reference_state {
    const psr_real *weights;
    psr_real *gradients;
    psr_real *buffers;
} psr_reference_state;

/* net is borrowed for life. The caller owns *ret_reference: psr_reference_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_reference_new(const psr_network *net, uint32_t max_batch,
                                         double label_smoothing, psr_reference **ret_reference);
void psr_reference_free(psr_reference *reference);

/* Like psr_backend_train and psr_backend_infer. Errors: those of the hooks of readiness. */
PSR_MUST_CHECK psr_err psr_reference_train(psr_reference *reference, const psr_batch *batch,
                                           const psr_reference_state *state, float loss_scale,
                                           psr_readiness *readiness, psr_pass_result *ret_result);
/* Like psr_backend_begin and psr_backend_advance; of at least one sample. batch, readiness and what
 * state points to are borrowed until the pass has ended. */
PSR_MUST_CHECK psr_err psr_reference_begin(psr_reference *reference, const psr_batch *batch,
                                           const psr_reference_state *state, float loss_scale,
                                           psr_readiness *readiness);
PSR_MUST_CHECK psr_err psr_reference_advance(psr_reference *reference, psr_norm_sums *ret_sums,
                                             psr_pass_result *ret_result);
PSR_MUST_CHECK psr_err psr_reference_infer(psr_reference *reference, const psr_batch *batch,
                                           const psr_reference_state *state,
                                           psr_readiness *readiness, psr_pass_result *ret_result);

/* The value of a node after a pass: [N,C,H,W]. Borrowed until the next pass. */
const psr_real *psr_reference_value(const psr_reference *reference, uint32_t node);

size_t psr_reference_bytes(const psr_reference *reference);

#endif
