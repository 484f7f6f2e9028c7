/* Knows in which buckets each node's weights lie, and counts down until a bucket's gradient may be
 * sent.
 *
 * A bucket is read by every node that has a parameter tensor in it. In the forward pass the first
 * of these nodes asks for the bucket's weights. In the backward pass the last of them to finish
 * (all gradients written, all weights read) makes the bucket ready. If one node needs several
 * buckets, it asks for them in descending order, which is the arena's order. If one node makes
 * several buckets ready, they are reported in ascending order. Of a frozen bucket (--freeze) nobody
 * asks: its weights stay, and it has no gradient. So the order of all calls depends on
 * the network and its buckets alone.
 *
 * All this is planned once, so a pass allocates nothing. One thread. */
#ifndef PSR_MODEL_READINESS_H
#define PSR_MODEL_READINESS_H

#include "base/arrays/fence.h"
#include "model/layout.h"
#include "model/networks/network.h"

/* psr_exec_hooks and psr_exec_layer of backend.h, which includes this. */
struct psr_exec_hooks;
struct psr_exec_layer;

typedef struct psr_readiness psr_readiness;

/* net and buckets are borrowed for life. The caller owns *ret_readiness: psr_readiness_free.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_readiness_new(const psr_network *net, const psr_buckets *buckets,
                                         psr_readiness **ret_readiness);
void psr_readiness_free(psr_readiness *readiness);

/* Starts a pass: every countdown gets its full value. hooks are borrowed until the pass ends; NULL:
 * no calls. */
void psr_readiness_begin(psr_readiness *readiness, const struct psr_exec_hooks *hooks);

/* Must be called before node reads its weights. Calls weights_wanted for each of its buckets that
 * was not yet asked for in this pass, and then progress. Errors: the hook's. */
PSR_MUST_CHECK psr_err psr_readiness_forward(psr_readiness *readiness, uint32_t node);

/* Must be called after node's backward computation, once in a pass (assertion). Calls
 * gradient_ready for each bucket of which the node was the last reader, and then progress. fence:
 * passes when the device has done all that it was told until now, so one fence serves all of these
 * buckets; NULL: it has done all of it. Errors: the hook's. */
PSR_MUST_CHECK psr_err psr_readiness_backward(psr_readiness *readiness, uint32_t node,
                                              psr_fence *fence);

/* To be called where the computing of a layer begins, and where it ends: calls the hook `layer`. */
void psr_readiness_layer_begins(psr_readiness *readiness);
void psr_readiness_layer_ends(const psr_readiness *readiness, const struct psr_exec_layer *layer);
/* Instead, of a layer whose times are known later: whether anybody wants them, and what they were,
 * by psr_clock_ns. */
bool psr_readiness_wants_layers(const psr_readiness *readiness);
void psr_readiness_layer(const psr_readiness *readiness, const struct psr_exec_layer *layer,
                         int64_t begin_ns, int64_t end_ns);

/* Whether somebody wants to know when gradients are ready. Otherwise they have to be there when the
 * pass has ended. */
bool psr_readiness_reports(const psr_readiness *readiness);

/* True when every bucket has been asked for (and, after a training pass, reported ready). */
bool psr_readiness_complete(const psr_readiness *readiness, bool training);

/* Bytes it holds. */
size_t psr_readiness_bytes(const psr_readiness *readiness);

#endif
