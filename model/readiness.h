/* Which buckets a node's weights lie in, and the countdown that says when a bucket's gradient may
 * leave.
 *
 * A bucket is read by every node that has a parameter tensor overlapping it. In the forward pass
 * the first of them asks for the bucket's weights; in the backward pass the last of them to finish
 * (all gradient tensors written, all weights read) makes the bucket ready. Where one node makes
 * several ready they are reported in ascending order, where one node needs several they are asked
 * for in descending order, which is the arena's: the order of all calls is a function of the
 * network and its buckets alone.
 *
 * The plan is made once; a pass allocates nothing. One thread. */
#ifndef PSR_MODEL_READINESS_H
#define PSR_MODEL_READINESS_H

#include "base/arrays/fence.h"
#include "model/layout.h"
#include "model/networks/network.h"

/* psr_exec_hooks of backend.h, which includes this. */
struct psr_exec_hooks;

typedef struct psr_readiness psr_readiness;

/* net and buckets are borrowed for life. The caller owns *ret_readiness: psr_readiness_free.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_readiness_new(const psr_network *net, const psr_buckets *buckets,
                                         psr_readiness **ret_readiness);
void psr_readiness_free(psr_readiness *readiness);

/* Starts a pass: every countdown at its full value. hooks borrowed until the pass ends; NULL: no
 * calls. */
void psr_readiness_begin(psr_readiness *readiness, const struct psr_exec_hooks *hooks);

/* Before node reads its weights: weights_wanted for each of its buckets not yet asked for in this
 * pass. Then progress. Errors: the hook's. */
PSR_MUST_CHECK psr_err psr_readiness_forward(psr_readiness *readiness, uint32_t node);

/* After node's backward: gradient_ready for each bucket of which it was the last reader. Then
 * progress. fence: passes when all that was ordered until now is done, so that one serves all of
 * these buckets; NULL: it is done. A node reports once a pass (assertion). Errors: the hook's. */
PSR_MUST_CHECK psr_err psr_readiness_backward(psr_readiness *readiness, uint32_t node,
                                              psr_fence *fence);

/* True when every bucket has been asked for (and, after a training pass, reported ready). */
bool psr_readiness_complete(const psr_readiness *readiness, bool training);

/* Bytes it holds. */
size_t psr_readiness_bytes(const psr_readiness *readiness);

#endif
