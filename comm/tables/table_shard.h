/* A shard's end of a table: holds its parts of the values, folds what workers push, updates,
 * answers. Free of I/O: a message in, messages out. The parameter server of Li et al., "Scaling
 * distributed machine learning with the parameter server", OSDI 2014, with bulk pushes and pulls of
 * parts in place of single keys.
 *
 * Vocabulary: a table is an array of floats, a part is a bucket of the plan (comm/plan.h) that goes
 * by SHARD, a slice is what one PUSH, PULL or WEIGHTS carries of it. In a step each of n workers
 * pushes each part once. For a table of M bytes on s shards that hold equal parts, a shard receives
 * nM/s and sends nM/s a step: at B bytes/s a direction, max(M/B, nM/(sB)).
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
 * same bits.
 *
 * Credit: each message to a worker carries the number of its pushes received; an ACK goes out alone
 * when half a window has been received and nothing else told it. The other way, a PULL carries the
 * number of answers that were taken: a worker has one pull of a slice open at a time, so what waits
 * for one that reads nothing is bounded (psr_table_shard_waiting_max).
 *
 * A push that was already folded (same worker, slice and step) changes nothing. One thread. */
#ifndef PSR_COMM_TABLE_SHARD_H
#define PSR_COMM_TABLE_SHARD_H

#include "comm/outbox.h"
#include "comm/plan.h"
#include "comm/tables/consistency.h"
#include "comm/tables/update.h"

typedef struct psr_table_shard_options {
    const psr_plan *plan; /* borrowed for life */
    uint32_t shard;       /* this one's rank, or */
    bool by_host;         /* which home of its host this worker is:
                             its parts go by HOST, else by SHARD */
    psr_consistency consistency;
    bool fold_by_arrival; /* BSP: other bits each time, and no push is held */
    const char *update;   /* by name; borrowed for the call, as the list of those registered */
    const psr_table_update *registered;
    uint32_t registered_count;
    bool given;          /* no INIT comes: whoever holds it sets the values
                            (zero at first) before the first message */
    uint64_t first_step; /* above 0 the update's state is given at
                            the beginning too, as the values are */
    uint64_t end;        /* steps after which it is finished */
    float *values;       /* memory for them, as long as the table and
                            zeroed, borrowed for life; NULL: of its own */
    psr_outbox outbox;
    void *context;
    /* A part that is held here has now so many steps in all of its values, and nobody was answered
     * yet. May be NULL. */
    psr_err (*advanced)(void *context, uint32_t part, uint64_t version);
    /* BSP by rank: the plan's workers have all pushed the slice, but the sum is of more than they
     * (comm/tables/host_ring.h). It is given by psr_table_shard_take_sum, now or later. NULL: they
     * are all, and it is folded here. */
    psr_err (*gathered)(void *context, uint32_t slice);
} psr_table_shard_options;

typedef struct psr_table_shard psr_table_shard;

/* USAGE: no update of that name; one that holds slices back, without BSP. NOMEM. ret owns; free it
 * after the transport, to which slices of its values are lent. */
PSR_MUST_CHECK psr_err psr_table_shard_new(const psr_table_shard_options *options,
                                           psr_table_shard **ret_table);
/* NULL allowed. */
void psr_table_shard_free(psr_table_shard *table);

/* INIT, PUSH or PULL from a worker. Takes *message. PROTOCOL: not a slice of this shard's, wrong
 * size, a step that cannot come now. Else what the update or `advanced` failed with. */
PSR_MUST_CHECK psr_err psr_table_shard_message(psr_table_shard *table, psr_message **message);

/* An update that holds slices back says that this one is now new: it is answered. Fails as
 * `advanced` and the outbox do. */
PSR_MUST_CHECK psr_err psr_table_shard_updated(psr_table_shard *table, uint32_t slice);

/* From gathered to take_sum: what each of the plan's workers, ascending, has pushed of the slice.
 * ret_values: [plan's ranks]. */
PSR_MUST_CHECK psr_err psr_table_shard_pushed(const psr_table_shard *table, uint32_t slice,
                                              const float **ret_values);
/* The whole sum of a slice that was gathered: the update is made, and the plan's workers are
 * answered. sum: borrowed for the call. Fails as the update, `advanced` and the outbox do. */
PSR_MUST_CHECK psr_err psr_table_shard_take_sum(psr_table_shard *table, uint32_t slice,
                                                const float *sum);

/* It is finished after so many steps, which may be behind what is there already; no later one is
 * taken. */
void psr_table_shard_end_at(psr_table_shard *table, uint64_t end);

/* BSP: where values are sent as they lie, every worker that takes them from memory (the outbox's
 * lends_to) is shown where the first ones lie, which it has as well, so that they need not be in
 * memory twice in the first step. When it is initialised; what has new values by then is left out.
 * Fails as the outbox does. */
PSR_MUST_CHECK psr_err psr_table_shard_show(psr_table_shard *table);

/* Messages that an honest worker leaves unread at most, however slow it is: for
 * psr_transport_bound. */
size_t psr_table_shard_waiting_max(const psr_table_shard *table);

/* Some part is held here. */
bool psr_table_shard_holds(const psr_table_shard *table);
/* True when every part held here has its first values (and states, when it goes on). */
bool psr_table_shard_initialised(const psr_table_shard *table);
/* What it waits for: step, part and lowest rank of a push that is missing; of the oldest step, and
 * there of a slice that other workers have pushed already, if there is one. false: every step has
 * been taken, or it is not initialised. */
bool psr_table_shard_waits(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                           uint32_t *ret_rank);
/* Whom those wait for who wait: of what is pushed (BSP) or pulled, and not answered, the oldest
 * round; the part, and the lowest rank that has not pushed. false: nobody waits for another
 * worker. */
bool psr_table_shard_holds_up(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                              uint32_t *ret_rank);
/* Steps that are complete on all parts held here; the end when there are none. */
uint64_t psr_table_shard_clock(const psr_table_shard *table);
/* True when every step up to the end is complete here. */
bool psr_table_shard_finished(const psr_table_shard *table);
/* Steps that are in all values of a part; 0: it is held elsewhere. */
uint64_t psr_table_shard_version(const psr_table_shard *table, uint32_t part);
/* Messages taken so far. */
uint64_t psr_table_shard_progress(const psr_table_shard *table);

/* The values, borrowed for life: an array as long as the table, of which the parts that are held
 * here count. */
float *psr_table_shard_values(psr_table_shard *table);
/* The slices held here, by their number on this shard: ascending runs of the table. NOMEM. ret
 * owns: free. */
PSR_MUST_CHECK psr_err psr_table_shard_slices(const psr_table_shard *table, psr_span **ret_slices,
                                              uint32_t *ret_count);

#endif
