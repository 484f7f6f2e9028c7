/* The worker's end of a table; the shards' end is comm/tables/table_shard.h. It does no I/O: events
 * come in, messages go out through the outbox.
 *
 * Vocabulary: a part is a bucket of the plan that goes by SHARD (or by HOST: then a worker is its
 * shard), a round is a step of it, a slice is what one message carries. Each part is an operation
 * (comm/operations/operation.h): its start pushes the buffer, and it is done when the values that
 * answer have landed in this worker's copy of the table. A round of a table of M bytes moves M out
 * and M in, overlapped: M/B at B bytes/s a direction; a push, an answer and at most an
 * acknowledgement for each slice.
 *
 * All parts share one lane for each shard (comm/operations/lane.h). Of the slices that are ready
 * for a shard, the one with the lowest offset in the table is sent first, since the next forward
 * pass needs it first. At most the plan's window of pushes is under way to a shard, or
 * PSR_TABLE_WINDOW_LENT times as many when they are read where they lie; every message of a shard
 * says how many pushes it has received. BSP: the shard answers a push with the new values. SSP and
 * async: a pull follows each push on the same channel, so the answer includes this worker's own
 * update; there a push or a pull can also be made alone. One thread, except psr_operation_lent. */
#ifndef PSR_COMM_TABLE_H
#define PSR_COMM_TABLE_H

#include "comm/operations/operation.h"
#include "comm/outbox.h"
#include "comm/plan.h"
#include "comm/tables/consistency.h"

/* The factor by which the plan's window is larger towards a shard that reads pushes where they
 * lie. */
#define PSR_TABLE_WINDOW_LENT 8u

typedef struct psr_table_options {
    const psr_plan *plan;        /* borrowed for life, as values */
    bool by_host;                /* its parts are the buckets that go
                                    by HOST; else those by SHARD */
    uint64_t first_step;         /* the shards' */
    psr_consistency consistency; /* the shards' */
    float *values;               /* this worker's copy of the table, into
                                    which pulled values are written */
    /* Values are an arena (base/arrays/arena.h) that nobody has written yet, which may be a shard's
     * own memory where that is on this host (net/sharing/landing.h), in BSP and where they come as
     * they are: then nobody but the table writes them from the first round on, and who starts a
     * part's round has read its values of the last one. */
    bool in_place;
    /* What is copied into values goes past the caches (base/arrays/stream.h): they are large, and
     * not read soon. */
    bool past_caches;
    /* As long as the table: the residual of this worker's pushes
     * (comm/wire/compression/compression.h), zeros at first, changed when a part is started.
     * Borrowed for life, as values. NULL when the plan has no residual. */
    float *residual;
    psr_outbox outbox;
    /* The outbox whose `returned` is called when loans have ended, for when the table may be gone
     * by then. Borrowed for the call. NULL: outbox */
    const psr_outbox *lender;
    void *context;
    /* A round of a part is done: its range of `values` holds the values after that round (SSP,
     * async: those to use in the next round). A push without a pull is done when all of it has been
     * sent. */
    psr_err (*landed)(void *context, uint64_t round, uint32_t part);
} psr_table_options;

typedef struct psr_table psr_table;

/* Makes the worker's end, with an encoder for each part whose pushes are compressed. NOMEM. ret
 * owns. */
PSR_MUST_CHECK psr_err psr_table_new(const psr_table_options *options, psr_table **ret_table);
/* NULL allowed. Only when nothing is lent any more: end the transport first. */
void psr_table_free(psr_table *table);

/* Sends the initial values of a table, as worker 0 does: to each shard its part of the values
 * (state 0), or of the update's state number state - 1. values: an array as long as the table,
 * which the outbox copies; the outbox may be any thread's. first_step: the table's. */
PSR_MUST_CHECK psr_err psr_table_write(const psr_plan *plan, const psr_outbox *outbox,
                                       uint64_t first_step, uint32_t state, const float *values);

/* Push and pull of a part, borrowed from the table. Rounds count up by one from any first. The
 * buffer holds what is pushed, as float32, and is only read. Compressed pushes are encoded as one
 * when the part is started, whatever its slices are, and a slice's payload when it is sent, in
 * memory of its own: at most a window's worth to each shard. NUMERIC: a compression with a residual
 * was given what is not finite; the part is not started then. */
psr_operation *psr_table_operation(psr_table *table, uint32_t part);

/* SSP, async: the halves of that operation, begun when it is done, and done as it is. A push is a
 * round as any; a pull is none: next is the round that follows. Fail as psr_operation_start
 * does. */
PSR_MUST_CHECK psr_err psr_table_push(psr_table *table, uint32_t part, uint64_t round,
                                      const psr_buffer *buffer);
PSR_MUST_CHECK psr_err psr_table_pull(psr_table *table, uint32_t part, uint64_t next);
/* Whether all that the part's operation pushes has been sent. */
bool psr_table_pushed(const psr_table *table, uint32_t part);
/* Gives up sending: pushes that wait are not lent any more. The operations never end. */
void psr_table_abandon(psr_table *table);

/* WEIGHTS or ACK from a shard, for the part that it speaks of, or INIT, which shows where the first
 * values lie that this worker has too. Takes *message. PROTOCOL when it is not one that can come
 * now (shard, range, step, size, credit, staleness beyond the bound). */
PSR_MUST_CHECK psr_err psr_table_message(psr_table *table, psr_message **message);

/* The oldest round that is under way, and whom it waits for: of several parts the lowest of the
 * table; else one whose pushes the shard has not read. false: none. */
bool psr_table_waits(const psr_table *table, psr_waiting *ret_waiting, uint32_t *ret_part);

/* Steps by which values were older than those of a synchronous run: the most since the last
 * call. */
uint64_t psr_table_take_staleness(psr_table *table);

#endif
