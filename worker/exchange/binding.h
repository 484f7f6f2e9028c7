/* A binding: what carries out the exchange's calls under one view. It is made from that view's
 * plan, dropped at the end of a step when all has landed and nothing is lent, and made again from
 * the next view. It is the set of engines that the plan needs: an engine
 * (worker/exchange/engines/engine.h) for each route that some bucket has, which handles only those
 * buckets; or one engine for all buckets (local, mpi). Weights, the optimizer's state and residuals
 * belong neither to it nor to the engines: whoever makes the binding lends them. One thread, that
 * of the engines, except psr_binding_lent, _gradients and _waits_in. */
#ifndef PSR_WORKER_BINDING_H
#define PSR_WORKER_BINDING_H

#include "comm/operations/waiting.h"
#include "worker/exchange/engines/engine.h"

typedef struct psr_binding psr_binding;

/* Opens the engines. env: its plan and its arenas are borrowed for life. NOMEM, or the failure of
 * an engine. The caller owns *ret_binding. */
PSR_MUST_CHECK psr_err psr_binding_new(const psr_ways *ways, const psr_engine_env *env,
                                       psr_binding **ret_binding);
/* From now on nothing wakes the exchange thread for it. NULL allowed. */
void psr_binding_stop(psr_binding *binding);
/* NULL allowed. Nothing may be lent any more. */
void psr_binding_free(psr_binding *binding);

/* ---- events, to the way of the bucket ---- */

PSR_MUST_CHECK psr_err psr_binding_ready(psr_binding *binding, uint64_t step, uint32_t bucket);
/* Of a bucket that another member holds (psr_plan_holds); see fetch of psr_engine_ops. */
PSR_MUST_CHECK psr_err psr_binding_fetch(psr_binding *binding, uint32_t bucket, uint64_t steps,
                                         uint32_t array, float *ret_values);
PSR_MUST_CHECK psr_err psr_binding_end_step(psr_binding *binding, uint64_t step, uint32_t rank);
PSR_MUST_CHECK psr_err psr_binding_installed(psr_binding *binding, bool goes_on);
PSR_MUST_CHECK psr_err psr_binding_woken(psr_binding *binding);
/* Takes *message. PROTOCOL: no engine takes such a message. Otherwise the failure of the engine. */
PSR_MUST_CHECK psr_err psr_binding_message(psr_binding *binding, psr_message **message);

/* ---- what it tells ---- */

/* It is told of whole steps only (psr_binding_end_step), never of a bucket that is ready. */
bool psr_binding_takes_steps(const psr_binding *binding);
/* What its engines wait for: the one with the oldest step, and among several the first. false: none
 * waits. */
bool psr_binding_waits(const psr_binding *binding, psr_waiting *ret_waiting, uint32_t *ret_bucket);
/* The phase to report while the compute thread waits for the bucket's weights. */
psr_phase psr_binding_waits_in(psr_binding *binding, uint32_t bucket);
/* How many slices of a bucket's gradient are lent; when it is 0 the gradient may be written again.
 * Any thread. */
uint32_t psr_binding_lent(psr_binding *binding, uint32_t bucket);
/* Where a rank writes its gradient; NULL: every rank writes into env's arena. */
float *psr_binding_gradients(const psr_binding *binding, uint32_t rank);
/* Without an optimizer: the arena in which sums lie, borrowed; NULL: env's gradients. */
const float *psr_binding_sums(const psr_binding *binding);
/* The weights as a checkpoint needs them, borrowed; NULL: the shards have them. */
const float *psr_binding_saved(const psr_binding *binding);

#endif
