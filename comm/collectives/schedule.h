/* The schedule of an operation: what one rank does in it, as a list of actions on memory. An
 * algorithm is a function that writes the list. comm/collectives/request.c carries out any list, so
 * no algorithm knows messages, credits or arrivals. (Hoefler, Lumsdaine, Rehm, "Implementation and
 * performance analysis of non-blocking collective operations for MPI", SC07.)
 *
 * Every action works through its values slice by slice from the beginning. It starts as soon as the
 * action that it comes after allows, so slices flow through several ranks at once. What one rank
 * sends to another arrives in the order of the sender's list, and the receiver's list must have the
 * same transfers in the same order: the k-th slice that a rank sends to another is the k-th that
 * the other expects from it. If transfers overtake one another, k still counts in that order, and
 * says to which transfer a slice belongs. Between two ranks only a window of slices is under way.
 *
 * Two rules make sure that no action waits for ever. An action comes only after actions before it
 * in the list. And what is received in a step of the algorithm never comes after all of what is
 * sent in the same step; slice by slice it may, if both work on the same area. One thread. */
#ifndef PSR_COMM_COLLECTIVES_SCHEDULE_H
#define PSR_COMM_COLLECTIVES_SCHEDULE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that actions work on. SEND is only read. Blocks have the areas PSR_AREA_BLOCKS + i. */
enum { PSR_AREA_SEND, PSR_AREA_RECEIVE, PSR_AREA_SCRATCH, PSR_AREA_BLOCKS };

typedef struct psr_area_place {
    uint32_t area;
    size_t offset; /* in values */
} psr_area_place;

typedef enum psr_action_kind {
    PSR_ACTION_SEND,         /* sends a to a peer */
    PSR_ACTION_RECEIVE,      /* to = what comes from a peer */
    PSR_ACTION_RECEIVE_FOLD, /* to = (what comes from a peer) op a */
    PSR_ACTION_COPY,         /* to = a */
    PSR_ACTION_FOLD,         /* to = a op b */
    PSR_ACTION_FINISH,       /* to = its result by psr_reduce_finish */
    PSR_ACTION_ROUND,        /* to = what other ranks decode from it, if the operation is encoded */
    PSR_ACTION_HOLD,         /* receives from a peer, and keeps the message until it is folded */
    /* to = the fold of a slice of each HOLD and of a, from the rank after this one round to this
     * one, and its result by psr_reduce_finish */
    PSR_ACTION_FOLD_HELD,
} psr_action_kind;

/* What an action comes after: another action (the value that adding it returned), or one of the two
 * below. A slice may begin when the other action is complete. It may begin earlier if both work on
 * the same area (SEND: a, else: to) and the other has done more there than the slice's end. A COPY
 * or FOLD whose `to` is in another area than the other's may read what the other has made: then its
 * a counts. */
typedef uint32_t psr_after;
#define PSR_AT_ONCE 0u
#define PSR_AFTER_ALL UINT32_MAX /* all actions before it in the list */

typedef struct psr_action {
    psr_action_kind kind;
    uint32_t peer; /* rank in the group */
    psr_area_place a, b, to;
    size_t count; /* in values; a transfer of 0 values is one empty message */
    psr_after after;
    bool lent; /* SEND: the bytes do not change until the receiver has them, so they need no copy */
    /* For schedules whose transfers overtake one another: */
    uint32_t hops; /* the number of hops before this one */
    bool injects;  /* SEND: it waits for its turn in the group's lane */
    /* RECEIVE: values that this rank has injected come back, which makes room in the lane */
    bool returns;
    bool onward; /* SEND: sends on what the RECEIVE before it in the list has brought, unchanged */
    /* SEND: a result that this rank has alone; if encoded, this rank takes what the others
     * decode */
    bool result;
} psr_action;

typedef struct psr_schedule {
    psr_action *actions;
    uint32_t count, capacity;
    size_t scratch; /* number of values in the scratch area */
    /* Transfers between two ranks overtake one another: each is a stream of its own, whose slices
     * come in order. Otherwise all that one rank sends another comes in the order of the sender's
     * list. */
    bool overtaking;
    /* It has HOLDs and one FOLD_HELD (comm/collectives/algorithms/gathered.c). It is overtaking
     * too. */
    bool gathers;
    /* an action could not be added; psr_schedule_check reports it once, at the end */
    bool no_memory;
} psr_schedule;

void psr_schedule_done(psr_schedule *schedule);
/* NOMEM: adding an action failed. */
PSR_MUST_CHECK psr_err psr_schedule_check(const psr_schedule *schedule);

/* These functions add an action and return it, for others to come after. With 0 values they add
 * none and return `after`. */
psr_after psr_schedule_send(psr_schedule *schedule, uint32_t peer, psr_area_place from,
                            size_t count, psr_after after);
/* The same for values that change before the peer has received them: they are copied. */
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
psr_after psr_schedule_hold(psr_schedule *schedule, uint32_t peer, size_t count);
psr_after psr_schedule_fold_held(psr_schedule *schedule, psr_area_place own, psr_area_place to,
                                 size_t count);

/* A message without values, and its arrival. */
psr_after psr_schedule_signal(psr_schedule *schedule, uint32_t peer, psr_after after);
psr_after psr_schedule_await(psr_schedule *schedule, uint32_t peer, psr_after after);

#endif
