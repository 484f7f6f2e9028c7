/* A binding: what carries the exchange's verbs out under one view. Made from that view's plan,
 * dropped at a step's end when all has landed and nothing is lent, and made again from the next
 * view. It is the set of ways that the plan needs: an engine (worker/exchange/engine.h) for each
 * route that some bucket goes, which looks at those buckets alone; or one engine of all buckets
 * (local, mpi).
 *
 * Weights, the optimizer's state and residuals belong to neither: who makes the binding lends them.
 * One thread, that of the engines, but for psr_binding_lent, _gradients and _waits_in. */
#ifndef PSR_WORKER_BINDING_H
#define PSR_WORKER_BINDING_H

#include "worker/exchange/engine.h"

typedef struct psr_binding psr_binding;

/* Opens the ways. env: its plan is borrowed for life, as are the arenas. NOMEM, and as the engines
 * fail. ret owns. */
PSR_MUST_CHECK psr_err psr_binding_new(const psr_ways *ways, const psr_engine_env *env,
                                       psr_binding **ret_binding);
/* Nothing wakes the exchange thread for it any more. NULL allowed. */
void psr_binding_stop(psr_binding *binding);
/* NULL allowed. Only when nothing is lent any more. */
void psr_binding_free(psr_binding *binding);

/* ---- events, to the way of the bucket ---- */

PSR_MUST_CHECK psr_err psr_binding_ready(psr_binding *binding, uint64_t step, uint32_t bucket);
PSR_MUST_CHECK psr_err psr_binding_end_step(psr_binding *binding, uint64_t step, uint32_t rank);
PSR_MUST_CHECK psr_err psr_binding_installed(psr_binding *binding, bool goes_on);
PSR_MUST_CHECK psr_err psr_binding_woken(psr_binding *binding);
/* Takes it. PROTOCOL: no way takes that, and what the way says. */
PSR_MUST_CHECK psr_err psr_binding_message(psr_binding *binding, psr_message **message);

/* ---- what it tells ---- */

/* It hears of whole steps alone (psr_binding_end_step), never of a bucket that is ready. */
bool psr_binding_takes_steps(const psr_binding *binding);
/* Whom its ways wait for: of the oldest step, of several the first way's. false: nobody. */
bool psr_binding_waits(const psr_binding *binding, psr_waiting *ret_waiting, uint32_t *ret_bucket);
/* What a report calls it when somebody waits for the bucket's weights. */
psr_phase psr_binding_waits_in(psr_binding *binding, uint32_t bucket);
/* Lent slices of a bucket's gradient; its range may be written again when 0. Any thread. */
uint32_t psr_binding_lent(psr_binding *binding, uint32_t bucket);
uint64_t psr_binding_staleness(psr_binding *binding); /* largest since the last call */
/* Where a rank writes its gradient; NULL: every rank in env's arena. */
float *psr_binding_gradients(const psr_binding *binding, uint32_t rank);
/* The weights as a checkpoint has them, borrowed; NULL: shards have them. */
const float *psr_binding_saved(const psr_binding *binding);

#endif
