/* --tensorboard-norms: the sums of squares of each tensor's gradient, which worker 0 gathers in the
 * steps that are due. Who makes a bucket's updates knows the folded gradient: the bucket's home
 * (psr_plan_home) tells worker 0 the sum of each tensor's run in it (NORM, phase 2;
 * model/optimizers/tensor_runs.h). Nobody waits for them but worker 0, at the end of such a step.
 * Free of I/O. BSP. One thread. */
#ifndef PSR_WORKER_EXCHANGE_TENSOR_NORMS_H
#define PSR_WORKER_EXCHANGE_TENSOR_NORMS_H

#include "base/config/config.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "model/layout.h"

typedef struct psr_tensor_norms psr_tensor_norms;

typedef struct psr_tensor_norms_options {
    const psr_config *config; /* borrowed for life, as layout and plan */
    const psr_layout *layout;
    const psr_plan *plan;
    uint32_t rank;
    psr_outbox outbox;
    void *context;
    /* Worker 0: all are known. squares: [layout's tensors], borrowed for the call. NULL: nobody
     * asks. */
    void (*known)(void *context, uint64_t step, const double *squares);
} psr_tensor_norms_options;

/* For the steps of one view. NOMEM. The caller owns *ret_norms: psr_tensor_norms_free. */
PSR_MUST_CHECK psr_err psr_tensor_norms_new(const psr_tensor_norms_options *options,
                                            psr_tensor_norms **ret_norms);
/* NULL allowed. */
void psr_tensor_norms_free(psr_tensor_norms *norms);

/* The sum of squares of a run of a bucket that this worker updates. Fails as the outbox does. */
PSR_MUST_CHECK psr_err psr_tensor_norms_part(psr_tensor_norms *norms, uint32_t run, uint64_t step,
                                             double squares);
/* NORM of another member, of phase PSR_NORM_TENSOR. Takes *message. PROTOCOL: it is not due, or not
 * the sender's to say. */
PSR_MUST_CHECK psr_err psr_tensor_norms_message(psr_tensor_norms *norms, psr_message **message);

#endif
