/* A shard: holds its part of the arena and its optimizer state, folds what workers push, updates, answers.
 * Free of I/O: a message in, messages out.
 *
 * Slices are the plan's (comm/plan.h); PUSH, PULL and WEIGHTS each carry one.
 *
 * BSP, fold rank: the pushes of a slice are held as libzmq gave them until all n are there; then, block by
 * block in cache, they are folded in the order of base/fold.h (chunk boundaries are the bucket's, so a slice
 * may hold several), the optimizer updates the block, and WEIGHTS goes to every worker, sent from the arena
 * without a copy: the next update of that range needs all workers' next pushes, which they make after
 * receiving this. With LARS the update waits for whole tensors (model/optimizers/whole_tensors.h).
 *
 * BSP, fold arrival: the same, summed as they come.
 *
 * SSP, async: each push is one update, at once; PULL for step c is answered when every worker has pushed c -
 * K steps of that slice (async: at once), from a copy. The learning rate is that of step pushes / n.
 *
 * Credit: each message to a worker carries the number of its pushes received (aux); an ACK goes out alone
 * when half a window has been received and nothing else told it.
 *
 * A push that was already folded (same worker, slice and step) changes nothing. One thread. */
#ifndef PSR_PS_SHARD_H
#define PSR_PS_SHARD_H

#include "base/config.h"
#include "model/layout.h"
#include "comm/comm.h"

typedef struct psr_shard_options {
    const psr_config *config; /* borrowed for life, as all here */
    const psr_layout *layout;
    const psr_plan *plan;
    uint32_t shard; /* this one's rank */
    uint64_t total_steps, first_step;
    psr_outbox outbox;
    void *context;
    /* Optimizer slot `slot` of one bucket, for a checkpoint after `step` steps; may be NULL. data is borrowed
     * for the call. The weights of a checkpoint are worker 0's. */
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t slot, const float *data, size_t offset,
                          size_t count);
} psr_shard_options;

typedef struct psr_shard psr_shard;

/* USAGE: an optimizer that needs whole tensors without BSP, where each push is an update of its own. NOMEM.
 * ret owns; free it after the transport, to which slices of its weights are lent. */
PSR_MUST_CHECK psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard);
void psr_shard_free(psr_shard *shard);

/* INIT, PUSH or PULL from a worker. Takes *message. PROTOCOL: not a slice of mine, wrong size, a step that
 * cannot come now. NUMERIC: a gradient, folded or (SSP, async) pushed, is not finite (detail names step and
 * bucket). */
PSR_MUST_CHECK psr_err psr_shard_message(psr_shard *shard, psr_message **message);

/* True when every owned bucket has its initial weights (and optimizer slots on resume). */
bool psr_shard_initialised(const psr_shard *shard);

/* The run stops in order after this step: a checkpoint of it is due, at once for buckets that are there
 * already. */
PSR_MUST_CHECK psr_err psr_shard_stop_at(psr_shard *shard, uint64_t step);

/* What the shard waits for: step, bucket and lowest rank of a push that is missing; of the oldest step, and
 * there of a slice that other workers have pushed already, if there is one. false: every step has been taken,
 * or it is not initialised. */
bool psr_shard_waits(const psr_shard *shard, uint64_t *ret_step, uint32_t *ret_bucket, uint32_t *ret_rank);

/* Steps that are complete on all owned buckets, for DONE and PROGRESS; the end when it owns none. */
uint64_t psr_shard_clock(const psr_shard *shard);
/* True when every step of the run, up to that of psr_shard_stop_at, is complete here. */
bool psr_shard_finished(const psr_shard *shard);
/* Messages taken so far: the progress counter. */
uint64_t psr_shard_progress(const psr_shard *shard);

#endif
