/* What changes hands when one plan follows another between two steps. Every worker has the weights
 * of every bucket, since they have all landed before a step ends; a shard has the weights of the
 * buckets that it holds. The optimizer's state of a bucket is with those that hold it
 * (psr_plan_holds). A member that holds a bucket by the new plan and not by the old one gets what
 * it lacks from a member that has it.
 *
 * psr_handover_make is a pure function of both plans and of the living members, so all members make
 * the same list without a message: each sends its runs, and knows which ones to wait for. One
 * thread. */
#ifndef PSR_COMM_HANDOVER_H
#define PSR_COMM_HANDOVER_H

#include "comm/outbox.h"
#include "comm/view/plan.h"

#define PSR_HANDOVER_WEIGHTS 0u /* the array of a run; 1 + i: array i of the optimizer's state */

typedef struct psr_handover_run {
    uint32_t array;
    psr_span span; /* in the arena; within one bucket */
    psr_peer from, to;
    size_t arrived; /* floats of it that have arrived at `to` */
} psr_handover_run;

typedef struct psr_handover {
    /* owned. The runs between two members are in the order in which they are sent */
    psr_handover_run *runs;
    uint32_t count;
} psr_handover;

/* The members that take part in both plans. */
typedef struct psr_handover_members {
    uint32_t workers, shards;
    /* [rank] borrowed for the call; NULL: all of them live */
    const bool *dead_workers, *dead_shards;
} psr_handover_members;

/* From `old` to `new_plan`, which have the same buckets. states: number of arrays of the
 * optimizer's state. If several members have a run, one on the receiver's host gives it; if none is
 * there, they take turns by bucket. NOT_FOUND: no living member has it; the detail names the
 * bucket. NOMEM. The caller owns *ret_handover: psr_handover_done. */
PSR_MUST_CHECK psr_err psr_handover_make(const psr_plan *old, const psr_plan *new_plan,
                                         const psr_handover_members *members, uint32_t states,
                                         psr_handover *ret_handover);
void psr_handover_done(psr_handover *handover);

/* The arrays of a member, each as long as the arena, from which it sends and into which it
 * receives. */
typedef struct psr_handover_arrays {
    void *context;
    float *(*array)(void *context, uint32_t array);
} psr_handover_arrays;

/* Sends the runs that self has to send, in messages of at most so many floats, which the outbox
 * copies. */
PSR_MUST_CHECK psr_err psr_handover_send(const psr_handover *handover, psr_peer self,
                                         const psr_handover_arrays *arrays, uint64_t step,
                                         size_t slice_floats, const psr_outbox *outbox);
/* Takes a STATE message to self: its values are in their array when this returns. A repeated
 * message changes nothing. PROTOCOL: it is no run of the sender's, or not the next part of it. The
 * caller keeps the message. */
PSR_MUST_CHECK psr_err psr_handover_take(psr_handover *handover, psr_peer self,
                                         const psr_handover_arrays *arrays,
                                         const psr_message *message);
/* The member that self still waits for, and the bucket of the plan. false: none. */
bool psr_handover_waits(const psr_handover *handover, psr_peer self, const psr_plan *plan,
                        psr_peer *ret_from, uint32_t *ret_bucket);

#endif
