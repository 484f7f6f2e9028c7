/* The judge: what programs add to the coordinator (comm/members/coordinator.h). All members are
 * then ranks of a program (comm/node/node.h). Ranks fail one by one, or a group of them fails, and
 * the others go on. It does no I/O and reads no clock: messages and the time go to its coordinator;
 * messages come out.
 *
 *     FACTS    are bytes that must be the same on all ranks
 *              ->  VERDICT  to all: no failure, all may begin; or which rank has other bytes
 *     FINDING  ->  VERDICT  to all: the failure, and what it breaks
 *              ->  VERDICT  for a TIMEOUT perhaps, to the rank that asked: wait on for so long
 *              ->  nothing, if its status is OK: the operation that the rank asked about has ended,
 *                  and no line names it any more
 *     SHRINK   ->  SHRUNK   when all living ranks of the group have sent it: who they are, or why
 *                           there is no group
 *     DONE     ->  BYE      the rank has left in order; with the set of ranks that had left before
 *     PROGRESS ->  LEFT     to a rank that waits for one that has left: how many messages there
 *                           are of it
 *
 * A rank that is silent is lost so early that all have the verdict within three quarters of the
 * deadline (psr_liveness_silence_ms). A lost rank is out for good: its later messages change
 * nothing. A finding about a group is believed from any rank of the group; that a rank is lost is
 * believed only from that rank itself. One thread. */
#ifndef PSR_COMM_NODE_JUDGE_H
#define PSR_COMM_NODE_JUDGE_H

#include "comm/members/coordinator.h"

typedef struct psr_judge psr_judge;

/* Most bytes of facts: those that a program lets its ranks agree on, and the library's. */
#define PSR_JUDGE_FACTS_MAX ((64u << 10) + 64)
/* Most messages that may wait for a rank. A rank whose message would add one to that is out. No
 * message is longer than 1 KiB. */
#define PSR_JUDGE_WAITING_MAX 4096

typedef struct psr_judge_options {
    uint32_t ranks;           /* at least 1 */
    int64_t deadline_ms;      /* the communicator's, for all ranks */
    int64_t join_deadline_ms; /* from the beginning until all have joined */
    const char *host;         /* this host's name in lines; copied */
    psr_coordinator_ways ways;
    /* Called with each verdict that all ranks that are here are told. NULL: not wanted. */
    void (*judged)(void *context, const psr_msg_failure *verdict, const char *line);
    /* Called with what a person should see, as psr_coordinator_events.say. NULL: not wanted. */
    void (*say)(void *context, const char *line);
    void *context; /* of judged and say */
} psr_judge_options;

/* NOMEM. The caller owns *ret_judge. */
PSR_MUST_CHECK psr_err psr_judge_new(const psr_judge_options *options, int64_t now_ms,
                                     psr_judge **ret_judge);
/* NULL allowed. */
void psr_judge_free(psr_judge *judge);

/* The coordinator: messages and times go to it, and it knows who is here. Borrowed for the judge's
 * life. */
psr_coordinator *psr_judge_coordinator(psr_judge *judge);

/* The process of that rank has ended; how says in which way. If the rank is here, it is lost. */
void psr_judge_lost(psr_judge *judge, uint32_t rank, const char *how);
/* Everything ends; the last failure on this thread says why. rank: the one to blame, or
 * PSR_RANK_ANY. */
void psr_judge_fail(psr_judge *judge, psr_err err, uint32_t rank);
/* OK, or the first failure that no smaller group has overcome, with the line that all were told;
 * the line is borrowed for the judge's life. */
psr_err psr_judge_verdict(const psr_judge *judge, const char **ret_line);

#endif
