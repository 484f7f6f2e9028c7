/* --mode local: one process that computes all n ranks in turn. It is the reference for the other
 * modes, so it shares neither fold nor messages with them: it keeps every rank's gradient arena,
 * sums the gradients with a few lines of its own and runs the optimizer. With compression it
 * follows a definition of docs/algorithms.md with comm's codecs only. One thread: the compute
 * thread. */
#ifndef PSR_WORKER_EXCHANGE_EXCHANGE_LOCAL_H
#define PSR_WORKER_EXCHANGE_EXCHANGE_LOCAL_H

#include "base/config/config.h"
#include "comm/view/plan.h"
#include "model/layout.h"
#include "model/optimizers/optimizer.h"

typedef struct psr_local psr_local;

/* All borrowed for life. */
typedef struct psr_local_options {
    const psr_config *config;
    const psr_layout *layout;
    const psr_buckets *buckets;
    /* a plan of the same buckets: it gives the number of ranks, and how each bucket is
     * compressed */
    const psr_plan *plan;
    float *weights;           /* an arena: the weights whose gradients these are */
    float *const *residuals;  /* [ranks] arenas: the residuals; NULL if the plan has none */
    psr_optimizer *optimizer; /* NULL: the sums are all that is made */
    uint64_t skipped_steps;   /* of those before: left out, in fp16 */
} psr_local_options;

/* The caller owns *ret_local. NOMEM. */
PSR_MUST_CHECK psr_err psr_local_new(const psr_local_options *options, psr_local **ret_local);
void psr_local_free(psr_local *local);

/* Where rank (below ranks) writes its gradient. Borrowed for life. */
float *psr_local_gradients(psr_local *local, uint32_t rank);

/* The weights are the run's first ones; goes_on: they are those after a step. If the plan's
 * `pulled` is a compression, weights are rounded from now on, and the ones that are updated have an
 * arena of their own, as on a shard. If it has a residual, the options' weights are those that
 * workers have: after a step, the caller sets them when this has returned. NOMEM. */
PSR_MUST_CHECK psr_err psr_local_installed(psr_local *local, bool goes_on);
/* What the last update summed: an arena. Borrowed for life. */
const float *psr_local_sums(const psr_local *local);
/* The weights that are updated. Borrowed for life. */
const float *psr_local_saved(const psr_local *local);

/* All ranks have written their gradients: rounds what each would send, as --compress-as says, sums
 * bucket by bucket, and updates the weights. step: from 0, of total_steps. NUMERIC: a gradient, a
 * sum, or a weight that workers get a difference from is not finite. With --precision fp16 such a
 * sum is no failure: the step is left out. */
PSR_MUST_CHECK psr_err psr_local_update(psr_local *local, uint64_t step, uint64_t total_steps);

/* --tensorboard-norms: [layout's tensors] sums of squares of the gradient of the last update that
 * was due, before it was clipped. Borrowed until the next. NULL: not asked for. */
const double *psr_local_tensor_squares(const psr_local *local);
/* --clip-norm: the norm of the last update's gradient before it was clipped. fp16: INFINITY if the
 * last step was left out, and without --clip-norm 0 otherwise. */
double psr_local_norm(const psr_local *local);

#endif
