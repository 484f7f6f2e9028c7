/* The update where no shard makes it: a worker runs the optimizer on each bucket whose gradient has
 * been summed over all workers, as a shard would. Every worker makes every update, from the same
 * sums. Engines whose sums come to all workers stand on it (engine_ring.c, engine_mpi.c). The
 * exchange thread's. */
#ifndef PSR_WORKER_EXCHANGE_OWN_UPDATE_H
#define PSR_WORKER_EXCHANGE_OWN_UPDATE_H

#include "worker/exchange/engine.h"

typedef struct psr_own_update psr_own_update;

/* Of the buckets that go by that route. env: of the engine, borrowed for life; without an optimizer
 * nothing is updated. ret owns: psr_own_update_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_own_update_new(const psr_engine_env *env, psr_route route,
                                          psr_own_update **ret_update);
/* NULL allowed. */
void psr_own_update_free(psr_own_update *update);

/* env's gradients hold the sum of a bucket: what can be updated now is, and env->landed hears of
 * each bucket whose weights are complete (with LARS a tensor waits for all its pieces). NUMERIC:
 * the sum is not finite. */
PSR_MUST_CHECK psr_err psr_own_update_summed(psr_own_update *update, uint64_t step,
                                             uint32_t bucket);

#endif
