/* The judge: what programs add to the coordinator (comm/members/coordinator.h), whose members are
 * then all ranks (comm/node/node.h). Ranks fail one by one, or a group of them does, and the others
 * go on. Free of I/O and of clocks: messages and the time go to its coordinator; messages come out.
 *
 *     FACTS   are bytes that all ranks must say alike
 *             ->  VERDICT   with no failure: all may begin; or who said something else
 *     FINDING   ->          VERDICT: the failure, and what it breaks, to all; of a TIMEOUT perhaps:
 *                           wait on
 *                            for so long, to who asked
 *               ->          nothing, of status OK: what the rank asked about has ended, and is in
 *                           no line
 *                            any more
 *     SHRINK    ->          SHRUNK, when all ranks of the group have said it that live: who they
 *                           are; or why
 *                            there is none
 *     DONE      ->          BYE: the rank has left in order; with a set of those who had left
 *                           before
 *
 * A rank of which nothing is heard for three quarters of the deadline is lost, so that all have the
 * verdict before theirs passes. Who is lost is out for good: nothing that it says later changes
 * anything. What any rank of a group says of that group is believed; that a rank is lost is
 * believed of that rank alone. One thread. */
#ifndef PSR_COMM_NODE_JUDGE_H
#define PSR_COMM_NODE_JUDGE_H

#include "comm/members/coordinator.h"

typedef struct psr_judge psr_judge;

/* Bytes of facts: what a program lets its ranks agree on, and the library's. */
#define PSR_JUDGE_FACTS_MAX ((64u << 10) + 64)
/* So many messages may wait for a rank: whoever then says what would be told more is out. None is
 * longer than 1 KiB. */
#define PSR_JUDGE_WAITING_MAX 4096

typedef struct psr_judge_options {
    uint32_t ranks;           /* at least 1 */
    int64_t deadline_ms;      /* of the communicator, for all */
    int64_t join_deadline_ms; /* from the beginning until all have joined */
    const char *host;         /* its own, for lines; copied */
    psr_coordinator_ways ways;
    /* All who are here are told this verdict. NULL: nobody else wants to know. */
    void (*judged)(void *context, const psr_msg_failure *verdict, const char *line);
    void *context; /* of judged */
} psr_judge_options;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_judge_new(const psr_judge_options *options, int64_t now_ms,
                                     psr_judge **ret_judge);
/* NULL allowed. */
void psr_judge_free(psr_judge *judge);

/* Takes messages and times, and knows who is here. Borrowed for the judge's life. */
psr_coordinator *psr_judge_coordinator(psr_judge *judge);

/* It ends, as the last failure on this thread says. rank: to blame; PSR_RANK_ANY. */
void psr_judge_fail(psr_judge *judge, psr_err err, uint32_t rank);
/* That rank is gone, as its launcher says, whose words the line is. */
void psr_judge_lose(psr_judge *judge, uint32_t rank, const char *line);
/* OK, or what failed first and was not overcome by a smaller group, and the line that all were
 * told; borrowed for life. */
psr_err psr_judge_verdict(const psr_judge *judge, const char **ret_line);

#endif
