/* What engines share whose sums are a library's (engine_mpi.c, engine_nccl.c): the library sums a
 * bucket over all workers, and worker/exchange/engines/own_update.h runs the optimizer on it as a
 * shard would. The sums are the library's own: rounded in its order, so losses come near those of
 * the other modes and bits do not.
 *
 * All processes must begin a library's sums in one order, but buckets become ready in that of the
 * backward pass, and at a rank without samples in another. So bucket b is begun when all before it
 * have been. */
#ifndef PSR_WORKER_EXCHANGE_ENGINE_SUMS_H
#define PSR_WORKER_EXCHANGE_ENGINE_SUMS_H

#include "worker/exchange/engines/engine.h"

/* The library's sums, as worker/exchange/engines/mpi_sums.h has them. */
typedef struct psr_sums_calls {
    /* changed(engine): a sum has ended, or all have failed; any thread */
    psr_err (*open)(const psr_engine_env *env, psr_engine *engine, void (*changed)(void *engine),
                    void **ret_sums);
    psr_err (*start)(void *sums, uint32_t bucket, psr_span span, float *values);
    psr_err (*take)(void *sums, bool *ret_any, uint32_t *ret_bucket);
    void (*free)(void *sums, int linger_ms);
} psr_sums_calls;

/* As psr_engine_ops has them. calls: borrowed for life. */
PSR_MUST_CHECK psr_err psr_engine_sums_open(const psr_engine_env *env, const psr_sums_calls *calls,
                                            psr_engine **ret_engine);
void psr_engine_sums_stop(psr_engine *engine);
void psr_engine_sums_close(psr_engine *engine);
psr_err psr_engine_sums_ready(psr_engine *engine, uint64_t step, uint32_t bucket);
psr_err psr_engine_sums_woken(psr_engine *engine);
psr_err psr_engine_sums_norm_known(psr_engine *engine, uint64_t step, double norm);
bool psr_engine_sums_waits(const psr_engine *engine, psr_waiting *ret_waiting,
                           uint32_t *ret_bucket);

#endif
