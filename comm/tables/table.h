/* The worker's end of a table; the shards' end is comm/tables/table_shard.h. It does no I/O: events
 * come in, messages go out through the outbox.
 *
 * Vocabulary: a part is a bucket of the plan that goes by SHARD (or by HOST: then a worker is its
 * shard), a round is a step of it, a slice is what one message carries. A round's start pushes the
 * buffer, and it is done when the values that answer have landed in this worker's copy of the
 * table. A round of a table of M bytes moves M out and M in, overlapped: M/B at B bytes/s a
 * direction; a push, an answer and at most an acknowledgement for each slice.
 *
 * All parts share one lane for each shard (comm/operations/lane.h). Of the slices that are ready
 * for a shard, the one with the lowest offset in the table is sent first, since the next forward
 * pass needs it first. At most the plan's window of pushes is under way to a shard, or
 * PSR_TABLE_WINDOW_LENT times as many when they are read where they lie; every message of a shard
 * says how many pushes it has received. BSP: the shard answers a push with the new values. SSP and
 * async: a pull follows each push on the same channel, so the answer includes this worker's own
 * update; there a push or a pull can also be made alone. If the plan's `pulled` has a residual, an
 * answer is added to this worker's copy (comm/tables/differences.h). One thread, except
 * psr_table_lent. */
#ifndef PSR_COMM_TABLE_H
#define PSR_COMM_TABLE_H

#include "comm/buffer.h"
#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/consistency.h"

/* The factor by which the plan's window is larger towards a shard that reads pushes where they
 * lie. */
#define PSR_TABLE_WINDOW_LENT 8u

typedef struct psr_table_options {
    const psr_plan *plan; /* borrowed for life, as values */
    bool by_host; /* its parts are the buckets that go by HOST; otherwise those that go by SHARD */
    uint64_t first_step;         /* the same as the shards' */
    psr_consistency consistency; /* the same as the shards' */
    float *values; /* this worker's copy of the table, into which pulled values are written */
    /* values is an arena (base/arrays/arena.h) that nobody has written yet. If a shard is on this
     * host, parts of it may be the shard's own memory (net/sharing/landing.h); only in BSP and
     * without compression. Then only the table writes values from the first round on, and whoever
     * starts a round of a part has read the values of the round before. */
    bool in_place;
    /* Copies into values bypass the caches (base/arrays/stream.h), because they are large and not
     * read soon. */
    bool past_caches;
    /* As long as the table: the residual of this worker's pushes
     * (comm/wire/compression/compression.h), zeros at first, changed when a part is started.
     * Borrowed for life. NULL if the plan has no residual. */
    float *residual;
    psr_outbox outbox;
    /* Its `returned` is called when loans have ended, which may be after the table was freed.
     * Borrowed for the call. NULL: outbox */
    const psr_outbox *lender;
    void *context;
    /* A round of a part is done: its part of `values` holds the values after that round (SSP,
     * async: those for the next round). A push without a pull is done when all of it has been
     * sent. */
    psr_err (*landed)(void *context, uint64_t round, uint32_t part);
    /* What psr_table_get reads of a part is there. NULL: `landed` is called */
    psr_err (*got)(void *context, uint32_t part);
    /* Values have come that are by so many steps (> 0) older than those of a synchronous run. NULL:
     * nobody asks. */
    void (*stale)(void *context, uint64_t steps);
} psr_table_options;

typedef struct psr_table psr_table;

/* Makes the worker's end, with an encoder for each part whose pushes are compressed. USAGE:
 * differences are pulled without BSP. NOMEM. The caller owns *ret_table. */
PSR_MUST_CHECK psr_err psr_table_new(const psr_table_options *options, psr_table **ret_table);
/* NULL allowed. Nothing may be lent: free the transport first. */
void psr_table_free(psr_table *table);

/* Sends the initial values of a table, as worker 0 does: to each shard its part of the values
 * (state 0), or of the update's state number state - 1. values is as long as the table, and the
 * outbox copies it. The outbox may belong to any thread. first_step: the table's. */
PSR_MUST_CHECK psr_err psr_table_write(const psr_plan *plan, const psr_outbox *outbox,
                                       uint64_t first_step, uint32_t state, const float *values);

/* Pushes and pulls a part, which must be done. Its rounds count up by one from any first round. The
 * buffer holds the values to push, as float32. It is only read, and borrowed until the part is done
 * and nothing of it is lent. Compressed pushes are encoded as one when the part is started; a
 * slice's payload is written when it is sent, in memory of its own, at most a window of slices for
 * each shard. NUMERIC: a value is not finite and the compression has a residual; the part is not
 * started then. */
PSR_MUST_CHECK psr_err psr_table_start(psr_table *table, uint32_t part, uint64_t round,
                                       const psr_buffer *buffer);
/* Nothing of the part is under way. */
bool psr_table_done(const psr_table *table, uint32_t part);
/* The number of payloads lent from the part's buffer. When it is 0 and the part is done, the buffer
 * may be written again. Any thread. */
uint32_t psr_table_lent(const psr_table *table, uint32_t part);

/* SSP, async: the two halves of a start. Each begins when the part is done, and is done in the same
 * way. A push counts as a round; a pull does not: next is the round that follows. They fail as
 * psr_table_start does. */
PSR_MUST_CHECK psr_err psr_table_push(psr_table *table, uint32_t part, uint64_t round,
                                      const psr_buffer *buffer);
PSR_MUST_CHECK psr_err psr_table_pull(psr_table *table, uint32_t part, uint64_t next);
/* Whether everything that the part pushes has been sent. */
bool psr_table_pushed(const psr_table *table, uint32_t part);

/* The next three are for a program's table (psr_table_shard_options.open); the first one also for
 * one that may be read (psr_table_shard_options.readable). Each is begun when the part is done; the
 * part is done again when it has ended. next: the number of rounds that were pushed. section: 0 for
 * the values, 1 + i for array i of the update's state. values and ret_values have as many values as
 * the part, and are borrowed until the end. They fail as the outbox does.
 *
 * get reads what the shard holds after these rounds of this worker. */
PSR_MUST_CHECK psr_err psr_table_get(psr_table *table, uint32_t part, uint64_t next,
                                     uint32_t section, float *ret_values);
/* Worker 0 writes what the shard holds; it ends when the shard has received all of it. */
PSR_MUST_CHECK psr_err psr_table_put(psr_table *table, uint32_t part, uint64_t next,
                                     uint32_t section, const float *values);
/* Ends when the shard has taken these rounds of the part. */
PSR_MUST_CHECK psr_err psr_table_settle(psr_table *table, uint32_t part, uint64_t next);

/* Stops sending: pushes that wait are no longer lent. What is under way never ends. */
void psr_table_abandon(psr_table *table);

/* A message of a shard about one of its parts: WEIGHTS or ACK; or INIT, which shows where the
 * initial values are in shared memory, or answers psr_table_get. Takes *message. PROTOCOL: it
 * cannot come now (shard, range, step, size, credit, staleness beyond the bound). */
PSR_MUST_CHECK psr_err psr_table_message(psr_table *table, psr_message **message);

/* What the oldest round under way waits for, and among equals the lowest part; if there is none, a
 * part whose pushes the shard has not read. false: neither. */
bool psr_table_waits(const psr_table *table, psr_waiting *ret_waiting, uint32_t *ret_part);

#endif
