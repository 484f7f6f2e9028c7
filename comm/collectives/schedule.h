/* The schedule of an operation: what one rank does in it, as a list of actions on memory. An
 * algorithm is a function that writes the list; comm/collectives/request.c carries any list out, so
 * that no algorithm knows messages, credits or arrivals. (Hoefler, Lumsdaine, Rehm, "Implementation
 * and performance analysis of non-blocking collective operations for MPI", SC07.)
 *
 * Every action works through its values slice by slice from the beginning, and begins as soon as
 * what it comes after lets it: so slices flow through several ranks at once. What one rank sends
 * another arrives in the order of the sender's list, and the receiver's list must have the same
 * transfers in the same order: the k-th slice that a rank sends another is the k-th that the other
 * expects of it. Where transfers overtake one another, k still counts in that order, and says which
 * transfer it is of.
 *
 * Between two ranks only a window of slices is under way. So that none waits for ever: an action
 * comes only after such as stand before it in the list, and what is received in a step of the
 * algorithm never comes after all of what is sent in the same step (slice by slice it may: both on
 * the same area).
 * One thread. */
#ifndef PSR_COMM_COLLECTIVES_SCHEDULE_H
#define PSR_COMM_COLLECTIVES_SCHEDULE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that actions work on. SEND is only read. Blocks beyond: PSR_AREA_BLOCKS + i. */
enum { PSR_AREA_SEND, PSR_AREA_RECEIVE, PSR_AREA_SCRATCH, PSR_AREA_BLOCKS };

typedef struct psr_area_place {
    uint32_t area;
    size_t offset; /* values */
} psr_area_place;

typedef enum psr_action_kind {
    PSR_ACTION_SEND,         /* a, to a peer */
    PSR_ACTION_RECEIVE,      /* to, from a peer */
    PSR_ACTION_RECEIVE_FOLD, /* to = what comes from a peer, op a */
    PSR_ACTION_COPY,         /* to = a */
    PSR_ACTION_FOLD,         /* to = a op b */
    PSR_ACTION_FINISH,       /* to = what psr_reduce_finish makes of it */
    PSR_ACTION_ROUND,        /* to = what others would decode of it:
                                where the operation is encoded */
} psr_action_kind;

/* What an action comes after: another one, by what adding that returned, or one of these two. A
 * slice may begin when the other is complete, or when both work on the same area (SEND: a, else:
 * to) and the other is beyond the slice's end there. A COPY or FOLD whose `to` is in another area
 * than the other's may read what the other has made: then its a counts. */
typedef uint32_t psr_after;
#define PSR_AT_ONCE 0u
#define PSR_AFTER_ALL UINT32_MAX /* that stand before it in the list */

typedef struct psr_action {
    psr_action_kind kind;
    uint32_t peer; /* rank in the group */
    psr_area_place a, b, to;
    size_t count; /* values; of a transfer of none goes one empty message */
    psr_after after;
    bool lent; /* SEND: the bytes stand as they are until the
                  receiver has them, so they need no copy */
    /* Of schedules whose transfers overtake one another: */
    uint32_t hops; /* that went before this one */
    bool injects;  /* SEND: it waits for its turn in the group's lane */
    bool returns;  /* RECEIVE: of what this rank has injected, which makes room in the lane */
    bool onward;   /* SEND: of what the RECEIVE before it in the list has brought, as it came */
    bool result;   /* SEND: of a result that this rank has by itself:
                      encoded, it takes what the others decode */
} psr_action;

typedef struct psr_schedule {
    psr_action *actions;
    uint32_t count, capacity;
    size_t scratch; /* values that the scratch area has */
    /* Transfers between two ranks overtake one another. Each is a stream of its own, whose slices
     * come in order. Else what one rank sends another comes in the order of the sender's list. */
    bool overtaking;
    bool no_memory; /* an action is missing: said by psr_schedule_check, once, at the end */
} psr_schedule;

void psr_schedule_done(psr_schedule *schedule);
/* NOMEM when adding an action failed. */
PSR_MUST_CHECK psr_err psr_schedule_check(const psr_schedule *schedule);

/* Each adds an action and returns it, to come after. Of no values: none, and what it would have
 * come after. */
psr_after psr_schedule_send(psr_schedule *schedule, uint32_t peer, psr_area_place from,
                            size_t count, psr_after after);
/* The same of values that change before the peer must have had them: they are copied. */
psr_after psr_schedule_send_copy(psr_schedule *schedule, uint32_t peer, psr_area_place from,
                                 size_t count, psr_after after);
psr_after psr_schedule_receive(psr_schedule *schedule, uint32_t peer, psr_area_place to,
                               size_t count, psr_after after);
psr_after psr_schedule_receive_fold(psr_schedule *schedule, uint32_t peer, psr_area_place own,
                                    psr_area_place to, size_t count, psr_after after);
psr_after psr_schedule_copy(psr_schedule *schedule, psr_area_place from, psr_area_place to,
                            size_t count, psr_after after);
psr_after psr_schedule_fold(psr_schedule *schedule, psr_area_place a, psr_area_place b,
                            psr_area_place to, size_t count, psr_after after);
psr_after psr_schedule_finish(psr_schedule *schedule, psr_area_place values, size_t count,
                              psr_after after);
psr_after psr_schedule_round(psr_schedule *schedule, psr_area_place values, size_t count,
                             psr_after after);

/* A message of no values, and its arrival. */
psr_after psr_schedule_signal(psr_schedule *schedule, uint32_t peer, psr_after after);
psr_after psr_schedule_await(psr_schedule *schedule, uint32_t peer, psr_after after);

#endif
