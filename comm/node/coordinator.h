/* The coordinator of a communicator: the scheduler's side of joining, and of how it fails and ends, for processes that are all ranks
 * (comm/node/node.h). Free of I/O and of clocks: messages and the time come in, messages go out.
 *
 *     JOIN, CONFIG, FACTS, WELCOME   as comm/members/membership.h has them. FACTS are what all ranks must say alike
 *             ->  VERDICT   with no failure: all may begin; or who said something else
 *     PROGRESS  ->          ALIVE
 *     FINDING   ->          VERDICT: the failure, and what it breaks, to all; of a TIMEOUT perhaps: wait on for so long, to who
 *                            asked
 *               ->          nothing, of status OK: what the rank asked about has ended, and is in no line any more
 *     SHRINK    ->          SHRUNK, when all ranks of the group have said it that live: who they are; or why there is none
 *     DONE      ->          BYE: the rank has left in order; with a set of those who had left before
 * A rank of which nothing is heard for three quarters of the deadline is lost, so that all have the verdict before theirs passes. Who is
 * lost is out for good: nothing that it says later changes anything. A rank is believed about a group as any other of it would be, and
 * about who is lost only when that is itself.
 * One thread. */
#ifndef PSR_COMM_NODE_COORDINATOR_H
#define PSR_COMM_NODE_COORDINATOR_H

#include "comm/members/join.h"
#include "comm/wire/messages.h"
#include "net/transport.h"

#define PSR_NODE_FACTS_MAX                                                                                   \
    ((64u << 10) + 64) /* bytes: what a program lets its ranks agree on, and the library */

typedef struct psr_node_coordinator psr_node_coordinator;

/* So many messages may wait for a rank: whoever then says what would be told more is out. None is
 * longer than 1 KiB. */
#define PSR_NODE_COORDINATOR_WAITING_MAX 4096

typedef struct psr_node_coordinator_options {
    uint32_t ranks;           /* at least 1 */
    int64_t deadline_ms;      /* of the communicator, for all */
    int64_t join_deadline_ms; /* from the beginning until all have joined */
    const char *host;         /* its own, for lines. Borrowed for life */
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* Messages that have not left for it: psr_transport_waiting. NULL: they all leave at once. */
    size_t (*waiting)(void *context, psr_peer to);
    /* A process joined: open a channel to it, instead of one that there may be to another of its name, which is gone. */
    psr_err (*connect)(void *context, psr_peer peer, const char *endpoint);
    /* Whoever sent this JOIN has no channel, and hears why: psr_transport_refuse. */
    void (*refuse)(void *context, const psr_message *join, psr_err status, const char *line);
    /* It has left after everything failed, or is given up and nobody is here any more: what has not reached it never will. */
    void (*cut)(void *context, psr_peer peer);
    /* It is given up: what it still says may be dropped. */
    void (*retire)(void *context, psr_peer peer);
    /* All who are here are told this verdict. NULL: nobody else wants to know. */
    void (*judged)(void *context, const psr_msg_failure *verdict, const char *line);
} psr_node_coordinator_options;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_node_coordinator_new(const psr_node_coordinator_options *options, int64_t now_ms,
                                                psr_node_coordinator **ret_coordinator);
/* NULL allowed. */
void psr_node_coordinator_free(psr_node_coordinator *coordinator);

/* These never fail: what goes wrong is the verdict, or ends the joining (ABORT). */
void psr_node_coordinator_message(psr_node_coordinator *coordinator, const psr_message *message,
                                  int64_t now_ms);
/* Time passes. When the inbox is empty, so that nobody is called silent whose words lie there. */
void psr_node_coordinator_tick(psr_node_coordinator *coordinator, int64_t now_ms, int64_t *ret_next_ms);
/* It ends, as the last failure on this thread says. rank: to blame; PSR_RANK_ANY. */
void psr_node_coordinator_fail(psr_node_coordinator *coordinator, psr_err err, uint32_t rank);
/* That rank is gone, as its launcher says, whose words the line is. */
void psr_node_coordinator_lose(psr_node_coordinator *coordinator, uint32_t rank, const char *line);
/* All have left, or were given up. */
bool psr_node_coordinator_over(const psr_node_coordinator *coordinator);
/* That rank has left in order. */
bool psr_node_coordinator_has_left(const psr_node_coordinator *coordinator, uint32_t rank);
/* That rank has joined. */
bool psr_node_coordinator_has_joined(const psr_node_coordinator *coordinator, uint32_t rank);
/* Others are here and would wait for that rank: to join, or until it leaves. */
bool psr_node_coordinator_misses(const psr_node_coordinator *coordinator, uint32_t rank);
/* OK, or what failed first and was not overcome by a smaller group, and the line that all were told; borrowed for life. */
psr_err psr_node_coordinator_verdict(const psr_node_coordinator *coordinator, const char **ret_line);

#endif
