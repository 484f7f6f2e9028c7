/* A shard of training: comm's end of a table (comm/tables/table_shard.h) whose values are the
 * weights, with the optimizer registered as its update; the learning rate's schedule, checkpoints
 * of the optimizer's state, and the words for a person when a gradient is not finite. Free of I/O.
 *
 * With LARS an update waits for whole tensors (model/optimizers/whole_tensors.h). In SSP and async
 * the learning rate is that of step pushes / n. One thread. */
#ifndef PSR_PS_SHARD_H
#define PSR_PS_SHARD_H

#include "base/config/config.h"
#include "comm/comm.h"
#include "model/layout.h"

typedef struct psr_shard_options {
    const psr_config *config; /* borrowed for life, as all here */
    const psr_layout *layout;
    const psr_plan *plan;
    uint32_t shard; /* this one's rank */
    uint64_t total_steps, first_step;
    float *weights; /* memory for them (comm/tables/table_shard.h); NULL: of its own */
    psr_outbox outbox;
    /* Where views may follow each other: opens a channel to another shard, to which state goes.
     * Called once for each. */
    void *peers;
    psr_err (*reach)(void *peers, psr_peer shard);
    void *context;
    /* A bucket of a section (net/message.h) for a checkpoint after `step` steps; may be NULL. data
     * is borrowed for the call. Sections are the optimizer's slots; and the weights, where the
     * plan's pulled leaves workers rounded ones: else they are worker 0's to send. */
    psr_err (*checkpoint)(void *context, uint64_t step, uint32_t section, const float *data,
                          size_t offset, size_t count);
} psr_shard_options;

typedef struct psr_shard psr_shard;

/* USAGE: an optimizer that needs whole tensors without BSP, where each push is an update of its
 * own. NOMEM. ret owns; free it after the transport, to which slices of its weights are lent. */
PSR_MUST_CHECK psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard);
void psr_shard_free(psr_shard *shard);

/* Another view follows: the shard holds what this plan gives it, from that step on; what it held
 * otherwise is not updated here any more. Its arrays stay as they are: who changes the view hands
 * over (comm/handover.h). BSP. plan: borrowed for life. Fails as psr_shard_new; the table is
 * another one then. */
PSR_MUST_CHECK psr_err psr_shard_rebind(psr_shard *shard, const psr_plan *plan,
                                        uint64_t first_step);
/* Arrays as long as the arena: 0: the weights; 1 + i: slot i of the optimizer, of so many. Borrowed
 * for life. */
float *psr_shard_array(psr_shard *shard, uint32_t array);
uint32_t psr_shard_slot_count(const psr_shard *shard);
/* The bucket's state is another's now, and costs no memory here any more. */
void psr_shard_drop_state(psr_shard *shard, uint32_t bucket);

/* Its end of the table, borrowed until the next psr_shard_rebind: messages go in there, and what
 * the shard does and waits for is asked there. Its messages also fail with NUMERIC: a gradient,
 * folded or (SSP, async) pushed, is not finite (detail names step and bucket). */
psr_table_shard *psr_shard_table(psr_shard *shard);

/* The run stops in order after this step: a checkpoint of it is due, at once for buckets that are
 * there already. */
PSR_MUST_CHECK psr_err psr_shard_stop_at(psr_shard *shard, uint64_t step);

#endif
