/* What changes hands when one plan follows another between two steps. Of a bucket the weights are
 * with every worker, since all of them have landed before a step's end; a shard has those that it
 * holds. The optimizer's state of it is with those who hold it (psr_plan_holds). Who holds a bucket
 * by the new plan and did not by the old one gets what it lacks, from one who has it.
 *
 * psr_handover_make is a pure function of both plans and of who lives, so that all members come to
 * the same list without a word: each sends its runs, and knows which to await. One thread. */
#ifndef PSR_COMM_HANDOVER_H
#define PSR_COMM_HANDOVER_H

#include "comm/outbox.h"
#include "comm/plan.h"

#define PSR_HANDOVER_WEIGHTS 0u /* the array of a run; 1 + i: slot i of the optimizer */

typedef struct psr_handover_run {
    uint32_t array;
    psr_span span; /* of the arena: of one bucket */
    psr_peer from, to;
    size_t arrived; /* floats of it, at `to` */
} psr_handover_run;

typedef struct psr_handover {
    psr_handover_run *runs; /* owned. Those between two members in
                               the order in which they are sent */
    uint32_t count;
} psr_handover;

/* Who takes part in both plans. */
typedef struct psr_handover_members {
    uint32_t workers, shards;
    const bool *dead_workers, *dead_shards; /* [rank] borrowed for the call; NULL: all live */
} psr_handover_members;

/* From `old` to `new`, which have the same buckets; states: arrays of the optimizer's state. Of
 * several who have a thing the one on the receiver's host gives it, else they take turns by the
 * bucket. NOT_FOUND: nobody who lives has it (the detail names the bucket). NOMEM. ret owns:
 * psr_handover_done. */
PSR_MUST_CHECK psr_err psr_handover_make(const psr_plan *old, const psr_plan *new_plan,
                                         const psr_handover_members *members, uint32_t states,
                                         psr_handover *ret_handover);
void psr_handover_done(psr_handover *handover);

/* What a member hands over or gets: its arrays, each as long as the arena. */
typedef struct psr_handover_arrays {
    void *context;
    float *(*array)(void *context, uint32_t array);
} psr_handover_arrays;

/* Sends what is `self`'s to send, in messages of at most so many floats, which the outbox
 * copies. */
PSR_MUST_CHECK psr_err psr_handover_send(const psr_handover *handover, psr_peer self,
                                         const psr_handover_arrays *arrays, uint64_t step,
                                         size_t slice_floats, const psr_outbox *outbox);
/* A STATE message to `self`: its values are in their array when this returns. What has come before
 * changes nothing. PROTOCOL: it is no run of the sender's, or not the next of it. The message stays
 * the caller's. */
PSR_MUST_CHECK psr_err psr_handover_take(psr_handover *handover, psr_peer self,
                                         const psr_handover_arrays *arrays,
                                         const psr_message *message);
/* Whom self still waits for, and in which bucket of the plan. false: nobody. */
bool psr_handover_waits(const psr_handover *handover, psr_peer self, const psr_plan *plan,
                        psr_peer *ret_from, uint32_t *ret_bucket);

#endif
