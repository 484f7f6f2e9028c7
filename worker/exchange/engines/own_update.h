/* The update if no shard makes it: a worker runs the optimizer, as a shard would, on each bucket
 * whose gradient has been summed over all workers. Every worker makes every update, from the same
 * sums. Used by engines whose sums come to all workers (engine_ring.c, engine_mpi.c). Exchange
 * thread. */
#ifndef PSR_WORKER_EXCHANGE_OWN_UPDATE_H
#define PSR_WORKER_EXCHANGE_OWN_UPDATE_H

#include "comm/view/plan.h"
#include "worker/exchange/engines/engine.h"

typedef struct psr_own_update psr_own_update;

/* For the buckets with that route. env: the engine's, borrowed for life; without an optimizer
 * nothing is updated. The caller owns *ret_update: psr_own_update_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_own_update_new(const psr_engine_env *env, psr_route route,
                                          psr_own_update **ret_update);
/* NULL allowed. */
void psr_own_update_free(psr_own_update *update);

/* env's gradients hold the sum of a bucket: updates what can be updated now, and calls env->landed
 * for each bucket whose weights are complete (with LARS a tensor waits for all its pieces).
 * NUMERIC: the sum is not finite. */
PSR_MUST_CHECK psr_err psr_own_update_summed(psr_own_update *update, uint64_t step,
                                             uint32_t bucket);
/* --clip-norm, fp16: the norm of the step's gradient is known. Updates all, or with a norm that is
 * not finite nothing, and calls env->landed for each bucket. */
PSR_MUST_CHECK psr_err psr_own_update_norm_known(psr_own_update *update, uint64_t step,
                                                 double norm);

#endif
