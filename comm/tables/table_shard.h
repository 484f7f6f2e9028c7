/* A shard's end of a table: holds its parts of the values, folds what workers push, updates,
 * answers. Free of I/O: a message in, messages out. The parameter server of Li et al., "Scaling
 * distributed machine learning with the parameter server", OSDI 2014, with bulk pushes and pulls of
 * parts in place of single keys.
 *
 * Vocabulary: a table is an array of floats, a part is a bucket of the plan (comm/view/plan.h) that
 * goes by SHARD, a slice is what one PUSH, PULL or WEIGHTS carries of it. In a step each of n
 * workers pushes each part once. For a table of M bytes on s shards that hold equal parts, a shard
 * receives nM/s and sends nM/s a step: at B bytes/s a direction, max(M/B, nM/(sB)).
 *
 * BSP, folded by rank: the pushes of a slice are held as the transport gave them until all n are
 * there; then, block by block in cache, they are folded in the order of base/arrays/fold.h (chunk
 * boundaries are the part's, so a slice may hold several) and the update (comm/tables/update.h)
 * changes the values, and WEIGHTS goes to every worker, sent from the values without a copy: the
 * next update of that range needs all workers' next pushes, which they make after receiving this.
 *
 * BSP, folded by arrival: the same, summed as they come.
 *
 * SSP, async (comm/tables/consistency.h): each push is one update, at once; PULL for step c is
 * answered when every worker has pushed c - K steps of that slice (async: at once), from a copy.
 *
 * Values may come rounded (the plan's pulled): here they stay float32, and every worker gets the
 * same bits. With an encoding that leaves much out, workers get what they lack of the values
 * (comm/tables/differences.h): BSP only, and a part is answered when all its slices are updated,
 * since it is encoded as one.
 *
 * Credit: each message to a worker carries the number of its pushes received; an ACK goes out alone
 * when half a window has been received and nothing else told it. The other way, a PULL carries the
 * number of answers that were taken: a worker has one pull of a slice open at a time, so what waits
 * for one that reads nothing is bounded (psr_table_shard_waiting_max).
 *
 * A program's table also answers ASK, at once, by an INIT with what the slice holds. In BSP this is
 * sent without a copy, since the next update needs the asker's next push; otherwise it is a copy.
 * INIT from worker 0 writes a slice, and is acknowledged. A table that is only readable answers ASK
 * in the same way.
 *
 * A push that was already folded (same worker, slice and step) changes nothing. One thread. */
#ifndef PSR_COMM_TABLE_SHARD_H
#define PSR_COMM_TABLE_SHARD_H

#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/consistency.h"
#include "comm/tables/update.h"

typedef struct psr_table_shard_options {
    const psr_plan *plan; /* borrowed for life */
    uint32_t shard;       /* this shard's rank */
    /* shard is the number of this worker among the holders of its host; its parts go by HOST, not
     * by SHARD */
    bool by_host;
    psr_consistency consistency;
    /* a value is float64, and each two floats of the plan are the bits of one. Every slice has
     * whole values; they are folded by rank, and sent as they are */
    bool float64;
    bool fold_by_arrival; /* BSP: the bits differ between runs, and no push is kept */
    /* an update's name and arguments; borrowed for the call, as the list of registered updates */
    const char *update;
    const psr_table_update *registered;
    uint32_t registered_count;
    /* no INIT comes: the caller sets the values, zero at first, before the first message */
    bool given;
    /* A program's table: workers may ask for its values and its update's state at any time, and
     * worker 0 may write them. While a part is written nobody pushes it, and no worker has an
     * answer about it unread */
    bool open;
    /* Workers may ask for its values and its update's state when nothing is under way, but nobody
     * may write them */
    bool readable;
    /* if above 0, the update's state is given at the beginning too, like the values; and, as a
     * section after those of the state, what all workers have, if they get differences */
    uint64_t first_step;
    uint64_t end; /* the number of steps after which the table is finished */
    /* memory for the values, as long as the table and zeroed, borrowed for life; NULL: its own */
    float *values;
    psr_outbox outbox;
    void *context;
    /* see psr_differences_new */
    void (*blank)(void *context, psr_span span, float *differences);
    /* All values of a part that is held here now contain `version` steps. In BSP all workers have
     * been sent them (but differences, which follow); otherwise nobody yet. May be NULL. */
    psr_err (*advanced)(void *context, uint32_t part, uint64_t version);
    /* BSP by rank: all of the plan's workers have pushed the slice, but the sum has further terms
     * (comm/tables/host_ring.h). It is given by psr_table_shard_take_sum, now or later. NULL: there
     * are no further terms, and the slice is folded here. */
    psr_err (*gathered)(void *context, uint32_t slice);
} psr_table_shard_options;

typedef struct psr_table_shard psr_table_shard;

/* USAGE: there is no update of that name, or it holds slices back without BSP; differences are
 * pulled without BSP, or with `given`. NOMEM. The caller owns *ret_table, and frees it after the
 * transport, to which slices of its values are lent. */
PSR_MUST_CHECK psr_err psr_table_shard_new(const psr_table_shard_options *options,
                                           psr_table_shard **ret_table);
/* NULL allowed. */
void psr_table_shard_free(psr_table_shard *table);

/* INIT, PUSH, PULL or ASK from a worker. Takes *message. PROTOCOL: the slice is not this shard's,
 * its size is wrong, or its step cannot come now. Otherwise the failure of the update, of
 * `advanced`, or of psr_differences_prepare. */
PSR_MUST_CHECK psr_err psr_table_shard_message(psr_table_shard *table, psr_message **message);

/* An update that holds slices back has now changed this slice: it is answered. Fails as `advanced`
 * and the outbox do. */
PSR_MUST_CHECK psr_err psr_table_shard_updated(psr_table_shard *table, uint32_t slice);

/* Between gathered and take_sum: what each of the plan's workers, in ascending order, has pushed of
 * the slice. ret_values: [plan's ranks]. */
PSR_MUST_CHECK psr_err psr_table_shard_pushed(const psr_table_shard *table, uint32_t slice,
                                              const float **ret_values);
/* The complete sum of a slice that was gathered: the update is made, and the plan's workers are
 * answered. sum is borrowed for the call. Fails as the update, `advanced` and the outbox do. */
PSR_MUST_CHECK psr_err psr_table_shard_take_sum(psr_table_shard *table, uint32_t slice,
                                                const float *sum);

/* The table is finished after `end` steps, which may be fewer than it has already; no later step is
 * taken. */
void psr_table_shard_end_at(psr_table_shard *table, uint64_t end);

/* BSP, when initialised: shows workers that read values in this shard's memory (the outbox's
 * lends_to) where the initial values are. They have the same values, which then need not be in
 * memory twice in the first step. Slices that already have new values are left out. Does nothing if
 * values are sent encoded. Fails as the outbox does. */
PSR_MUST_CHECK psr_err psr_table_shard_show(psr_table_shard *table);

/* The most messages that an honest worker leaves unread, however slow it is: for
 * psr_transport_bound. */
size_t psr_table_shard_waiting_max(const psr_table_shard *table);

/* Whether any part is held here. */
bool psr_table_shard_holds(const psr_table_shard *table);
/* Whether every part held here has its initial values (and states, if first_step is above 0). */
bool psr_table_shard_initialised(const psr_table_shard *table);
/* What the shard waits for: step, part and lowest rank of a missing push of the oldest step, if
 * possible of a slice that other workers have pushed already. false: every step has been taken, or
 * it is not initialised. */
bool psr_table_shard_waits(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                           uint32_t *ret_rank);
/* Which worker keeps others waiting: of what was pushed (BSP) or pulled and is not answered, the
 * oldest round, its part, and the lowest rank that has not pushed it. false: nobody waits for
 * another worker. */
bool psr_table_shard_holds_up(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                              uint32_t *ret_rank);
/* The steps that are complete on all parts held here; the end if there are no parts. */
uint64_t psr_table_shard_clock(const psr_table_shard *table);
/* Whether every step up to the end is complete here. */
bool psr_table_shard_finished(const psr_table_shard *table);
/* The steps that are in all values of a part; 0: it is held elsewhere. */
uint64_t psr_table_shard_version(const psr_table_shard *table, uint32_t part);
/* How many messages were taken so far. */
uint64_t psr_table_shard_progress(const psr_table_shard *table);

/* The values, borrowed for life: an array as long as the table; only the parts held here are
 * valid. */
float *psr_table_shard_values(psr_table_shard *table);
/* The slices held here, by their number on this shard, as ascending runs of the table. NOMEM. The
 * caller owns *ret_slices: free. */
PSR_MUST_CHECK psr_err psr_table_shard_slices(const psr_table_shard *table, psr_span **ret_slices,
                                              uint32_t *ret_count);

#endif
