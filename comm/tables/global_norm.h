/* One norm over all buckets that whoever updates a part of the table agrees on, before anybody
 * updates anything (--clip-norm, --precision fp16). Free of I/O. BSP.
 *
 * Each member that makes a bucket's updates knows the sum of squares of the bucket's folded
 * gradient, a double that is a function of the gradient alone. The norm is the root of these sums,
 * added in ascending order of buckets: so it is the same whoever holds which bucket. Worker 0 adds
 * them: the home of a bucket (psr_plan_home) tells it the bucket's sum (NORM), and it tells the
 * norm's square to every member that updates something and does not have all buckets itself. Who
 * has all of them (a ring, a single shard) waits for nobody. With b buckets and u such members a
 * step costs b + u messages without a payload, and two latencies.
 *
 * Where steps may be left out (fp16), a bucket's sum may be infinite, and so is the norm then.
 * Every worker has to know, so worker 0 tells those too that update nothing. One thread. */
#ifndef PSR_COMM_GLOBAL_NORM_H
#define PSR_COMM_GLOBAL_NORM_H

#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"

typedef struct psr_global_norm psr_global_norm;

/* For the steps of one view, from first_step on. skips: steps may be left out. plan: borrowed for
 * life. NOMEM. The caller owns *ret_norm: psr_global_norm_free. */
PSR_MUST_CHECK psr_err psr_global_norm_new(const psr_plan *plan, psr_peer self, uint64_t first_step,
                                           bool skips, const psr_outbox *outbox,
                                           psr_global_norm **ret_norm);
/* NULL allowed. */
void psr_global_norm_free(psr_global_norm *norm);

/* The sum of squares of a bucket that this member updates, once a step; INFINITY only where steps
 * may be left out. NUMERIC: all sums together are not finite where they may not. Else fails as the
 * outbox does. */
PSR_MUST_CHECK psr_err psr_global_norm_part(psr_global_norm *norm, uint32_t bucket, double squares);
/* NORM of another member. Takes *message. PROTOCOL: it is not due, or not the sender's to say.
 * NUMERIC: as above. */
PSR_MUST_CHECK psr_err psr_global_norm_message(psr_global_norm *norm, psr_message **message);
/* Whether the step's norm is known, and all that this member updates is summed. Then the next step
 * begins. Worker 0 gets every step's, and so does each worker where steps may be left out; another
 * member the steps in which it updates. */
bool psr_global_norm_take(psr_global_norm *norm, uint64_t *ret_step, double *ret_norm);
/* Whom it waits for, when all that this member updates is summed: worker 0 for the home of a bucket
 * that it lacks, others for worker 0. false: nobody. */
bool psr_global_norm_waits(const psr_global_norm *norm, psr_waiting *ret_waiting,
                           uint32_t *ret_bucket);

#endif
