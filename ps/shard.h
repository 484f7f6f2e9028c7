/* A shard: holds its part of the arena and its optimizer state, folds what workers push, updates, answers. Free of I/O:
 * a message in, messages out.
 *
 * Slices: bucket b is cut at multiples of config.slice_bytes from its start; PUSH, PULL, WEIGHTS each carry one slice.
 * BSP, fold rank: the pushes of a slice are held as libzmq gave them until all n are there; then, block by block in cache, they are
 * folded in the order of base/fold.h (chunk boundaries are the bucket's, so a slice may hold several), the optimizer
 * updates the block, and WEIGHTS goes to every worker that asked (sent from the arena without a copy: the next update of
 * that range needs all workers' next pushes, which they make after receiving this). fold arrival: summed as they come.
 * With LARS the update waits for whole tensors (model/optimizer.h).
 * SSP, async: each push is one update, at once; PULL for step c is answered when every worker has pushed c - K steps
 * of that slice (async: at once), from a copy.
 * Credit: each message to a worker carries the number of its pushes received (aux); an ACK goes out alone when half a
 * window has been received and nothing else told it.
 * A push that was already folded (same worker, slice and step) changes nothing. One thread. */
#ifndef PSR_PS_SHARD_H
#define PSR_PS_SHARD_H

#include "base/config.h"
#include "model/layout.h"
#include "net/ring.h"

typedef struct psr_shard_options {
    const psr_config *config;   /* borrowed for life, as all here */
    const psr_layout *layout;
    const psr_buckets *buckets;
    const uint32_t *owner;      /* [buckets->count]: shard of each bucket */
    uint32_t shard;
    uint64_t total_steps, first_step;
    psr_outbox outbox;
    void *context;
    /* All of section (0 weights, 1 + i slot i) of bucket for a checkpoint after `step` steps; may be NULL. data is borrowed for the call. */
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data, size_t offset, size_t count);
} psr_shard_options;

typedef struct psr_shard psr_shard;

PSR_MUST_CHECK psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard);
void psr_shard_free(psr_shard *shard);

/* INIT, PUSH or PULL from a worker. Takes *message. PROTOCOL: not a slice of mine, wrong size, a step that cannot come
 * now, not finite sizes. NUMERIC: a folded gradient is not finite (detail names step and bucket). */
PSR_MUST_CHECK psr_err psr_shard_message(psr_shard *shard, psr_message **message);

/* True when every owned bucket has its initial weights (and optimizer slots on resume). */
bool psr_shard_initialised(const psr_shard *shard);

/* The run stops in order after this step: a checkpoint of it is due. */
PSR_MUST_CHECK psr_err psr_shard_stop_at(psr_shard *shard, uint64_t step);

/* The oldest slice that lacks a push: its step, bucket and the lowest rank that it lacks. false: none waits. */
bool psr_shard_waits(const psr_shard *shard, uint64_t *ret_step, uint32_t *ret_bucket, uint32_t *ret_rank);

/* Steps that are complete on all owned buckets, for DONE and PROGRESS. */
uint64_t psr_shard_clock(const psr_shard *shard);
/* Messages taken so far: the progress counter. */
uint64_t psr_shard_progress(const psr_shard *shard);

#endif
