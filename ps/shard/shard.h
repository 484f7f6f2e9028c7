/* A shard of training: the shard's end of a table (comm/tables/table_shard.h) whose values are the
 * weights and whose update is the optimizer. It adds the schedule of the learning rate, checkpoints
 * of the optimizer's state, and the line for a gradient that is not finite. It does no I/O. With
 * LARS an update waits for whole tensors (model/optimizers/whole_tensors.h). In SSP and async the
 * learning rate is that of step pushes / n. One thread. */
#ifndef PSR_PS_SHARD_H
#define PSR_PS_SHARD_H

#include "base/config/config.h"
#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/table_shard.h"
#include "comm/trace/tracer.h"
#include "model/layout.h"

typedef struct psr_shard_options {
    const psr_config *config; /* borrowed for life, as all pointers here */
    const psr_layout *layout;
    const psr_plan *plan;
    uint32_t shard; /* this shard's rank */
    uint64_t total_steps, first_step;
    uint64_t skipped_steps; /* before first_step: those that were left out (--precision fp16) */
    float *weights;         /* memory for the weights (comm/tables/table_shard.h); NULL: its own */
    bool readable;          /* workers may read them; with an average (--ema) they may anyway */
    psr_outbox outbox;
    /* If views may follow one another: opens a channel to another shard, to which state is sent.
     * Called once for each. */
    void *peers;
    psr_err (*reach)(void *peers, psr_peer shard);
    psr_tracer *tracer; /* --trace; NULL: nothing is recorded. The run's (ps/shard/shard_run.h) */
    void *context;
    /* A bucket of a section (net/message.h) for a checkpoint after `step` steps; may be NULL. data
     * is borrowed for the call. Sections are the optimizer's state arrays; and the weights, if the
     * plan's `pulled` gives workers others (otherwise worker 0 sends the weights). */
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data,
                          size_t offset, size_t count);
} psr_shard_options;

typedef struct psr_shard psr_shard;

/* USAGE: an optimizer that needs whole tensors without BSP, where each push is an update by itself.
 * NOMEM. The caller owns *ret_shard, and frees it after the transport, to which slices of its
 * weights are lent. */
PSR_MUST_CHECK psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard);
void psr_shard_free(psr_shard *shard);

/* Another view follows: from first_step on the shard holds what this plan gives it, and no longer
 * updates what it held before. Its arrays stay as they are: whoever changes the view hands state
 * over (comm/view/handover.h). BSP. plan: borrowed for life. Fails as psr_shard_new. It has a new
 * table then. */
PSR_MUST_CHECK psr_err psr_shard_rebind(psr_shard *shard, const psr_plan *plan,
                                        uint64_t first_step);
/* Arrays as long as the arena: 0 is the weights, 1 + i is state array i of the optimizer. Borrowed
 * for life. */
float *psr_shard_array(psr_shard *shard, uint32_t array);
uint32_t psr_shard_slot_count(const psr_shard *shard);
/* Another member has the bucket's state now: frees its memory here. */
void psr_shard_drop_state(psr_shard *shard, uint32_t bucket);

/* Its end of the table, borrowed until the next psr_shard_rebind. Messages are given to it, and it
 * says what the shard does and waits for. Its messages also fail with NUMERIC: a gradient, folded
 * or (SSP, async) pushed, is not finite; the detail names step and bucket. */
psr_table_shard *psr_shard_table(psr_shard *shard);

/* --clip-norm, fp16: NORM of another member. Takes *message. Fails as psr_global_norm_message;
 * PROTOCOL: this run has no norm. */
PSR_MUST_CHECK psr_err psr_shard_norm(psr_shard *shard, psr_message **message);
/* After messages to the table and NORM: makes the updates that waited for a norm which is known
 * now. */
PSR_MUST_CHECK psr_err psr_shard_settle(psr_shard *shard);
/* Whether it waits for the norm, and for whom and in which step. */
bool psr_shard_waits_for_norm(const psr_shard *shard, psr_waiting *ret_waiting,
                              uint32_t *ret_bucket);

/* The run stops in order after this step: a checkpoint of it is due, at once for buckets that have
 * reached it already. */
PSR_MUST_CHECK psr_err psr_shard_stop_at(psr_shard *shard, uint64_t step);

#endif
