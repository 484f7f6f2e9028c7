/* A member of a run (shard or worker) as its scheduler sees it: joins, gets rank and view, reports
 * progress, hears that it is alive, and leaves. What it computes, and what it must agree on with
 * others, passes through as bytes of its user's. The membership machine (comm/members/membership.h,
 * which has the order of the messages) on a transport, with comm/members/join.h's payloads.
 *
 * Two ways to drive it. With a clock and a transport that waits: psr_member_join and
 * psr_member_recv. Without either, in a simulated network: psr_member_open, then
 * psr_member_message, psr_member_early and psr_member_tick, which are the membership machine's.
 *
 * All of it on the one thread that made the transport. */
#ifndef PSR_COMM_MEMBER_H
#define PSR_COMM_MEMBER_H

#include "comm/members/join.h"
#include "comm/wire/messages.h"
#include "comm/members/provision.h"
#include "net/transport.h"

typedef struct psr_member psr_member;

/* While so many messages wait for a scheduler that is slow to read, no PROGRESS is added, and a
 * loop takes no commands (comm/loop.h). */
#define PSR_MEMBER_WAITING_MAX 256

typedef struct psr_member_options {
    psr_transport *transport; /* borrowed for the member's life, as all here */
    const psr_provision *provision;
    int64_t first_deadline_ms; /* until CONFIG says the run's; 0: 30 s */
    bool shares_memory;        /* where CONFIG asks for it
                                  (comm/members/shared_memory.h): JOIN tells where */
    void *context;
    /* CONFIG came, once: its place in the run, and what the scheduler's user gives it, borrowed
     * during the call. Returns what FACTS shall say, malloc'ed; left NULL: nothing. A failure is
     * told to the scheduler (FAILED) and becomes psr_member_join's. */
    psr_err (*configured)(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size);
    /* Where facts take a while to find, so that `configured` leaves them out: asked again and again
     * from then on, and whenever the transport was woken, until *ret_known. As `configured` in the
     * rest. NULL: `configured` says all. */
    psr_err (*facts)(void *context, bool *ret_known, void **ret_facts, size_t *ret_facts_size);
    /* Fills a report, zero before: what this process does, and whom it waits for. Also called while
     * joining. NULL: phase start. */
    void (*report)(void *context, psr_msg_progress *progress);
    /* Asked whenever the transport was woken while joining: something other than PSR_OK ends it.
     * May be NULL.
     */
    psr_err (*interrupted)(void *context);
} psr_member_options;

/* Opens the channel to the scheduler and says JOIN. ret owns. */
PSR_MUST_CHECK psr_err psr_member_open(const psr_member_options *options, int64_t now_ms,
                                       psr_member **ret_member);
/* Joins; returns after WELCOME. ret owns. TIMEOUT: the scheduler was not heard of for the deadline
 * (before CONFIG: first_deadline_ms); DENIED, PEER, USAGE...: the scheduler's ABORT, its line as
 * detail. */
PSR_MUST_CHECK psr_err psr_member_join(const psr_member_options *options, psr_member **ret_member);
/* After psr_member_join has failed with err before CONFIG: whether to join once more, over a new
 * transport. A launcher that starts processes again does so before all of the former attempt have
 * noticed that one of them was lost: its scheduler still holds their places. For the provision's
 * patience at most. Waits half a second, or until the transport is woken, before it says true; says
 * so in the log the first time (*said). began_ms: of the first try, by psr_clock_ms. */
bool psr_member_joins_again(const psr_provision *provision, psr_transport *transport, psr_err err,
                            int64_t began_ms, bool *said);
void psr_member_free(psr_member *member);

/* All borrowed for the member's life; what WELCOME tells is there once it has joined. */
psr_peer psr_member_self(const psr_member *member);
const psr_view *psr_member_view(const psr_member *member);
/* What the scheduler's user says that was agreed on. */
psr_bytes psr_member_agreed(const psr_member *member);
/* "worker 2 on host7", or "worker 2" when it is not in the view. Borrowed until the next call. */
const char *psr_member_name(psr_member *member, psr_peer peer);

/* Opens the channel to a member of the view; what is lent goes by reference where both share
 * memory. NOT_FOUND. */
PSR_MUST_CHECK psr_err psr_member_connect(psr_member *member, psr_peer peer);

/* READY; json may be NULL. */
PSR_MUST_CHECK psr_err psr_member_ready(psr_member *member, const char *json);

/* The next message within timeout_ms (-1: without end), as psr_transport_recv, with the member's
 * own business done inside: PROGRESS goes out when due; ALIVE is taken. TIMEOUT: none within
 * timeout_ms. CANCELLED: psr_transport_wake. PEER, and what ABORT says: the run ends. PEER too when
 * the scheduler was silent for the deadline, and where that is told when a peer cannot be reached.
 * Everything else is the caller's: START, HOLD, STOP_AT, RESTORE, BYE and all that comes from
 * shards and workers. ret owns. */
PSR_MUST_CHECK psr_err psr_member_recv(psr_member *member, int timeout_ms,
                                       psr_message **ret_message);

/* The same without waiting and clock: comm/members/membership.h's functions of these names. tick
 * fails too, PEER, when a peer's address cannot be reached and the transport watches that
 * (psr_zmq_options.watches_ways). */
PSR_MUST_CHECK psr_err psr_member_message(psr_member *member, psr_message **message,
                                          int64_t now_ms);
bool psr_member_joined(const psr_member *member);
psr_message *psr_member_early(psr_member *member);
PSR_MUST_CHECK psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms);

/* To the scheduler: HELD, METRICS, CHECKPOINT, DONE. Copied. */
PSR_MUST_CHECK psr_err psr_member_tell(psr_member *member, const psr_head *head,
                                       const void *payload, size_t bytes);

/* FAILED, with the line and the status that the process will exit with: the last thing that a
 * member says. Never fails. */
void psr_member_failed(psr_member *member, psr_err status, const char *line);

#endif
