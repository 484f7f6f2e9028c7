/* A member of a run (shard or worker): it joins a scheduler, gets its rank and the view, reports
 * progress, hears that the scheduler is alive, and leaves. What it computes and what it must agree
 * on with others are bytes of its user, which pass through unread. It is the membership machine
 * (comm/members/membership.h, which has the order of the messages) on a transport, with the
 * payloads of comm/members/join.h.
 *
 * It is driven in one of two ways. With a clock and a transport that waits: psr_member_join and
 * psr_member_recv. Without either, in a simulated network: psr_member_open, then
 * psr_member_message, psr_member_early and psr_member_tick, which are those of the membership
 * machine.
 *
 * All calls come from the one thread that made the transport. */
#ifndef PSR_COMM_MEMBER_H
#define PSR_COMM_MEMBER_H

#include "comm/members/join.h"
#include "comm/wire/messages.h"
#include "comm/members/provision.h"
#include "net/transport.h"

typedef struct psr_member psr_member;

/* While this many messages wait for a slow scheduler, no PROGRESS is added, and a loop takes no
 * commands (comm/loop.h). */
#define PSR_MEMBER_WAITING_MAX 256

typedef struct psr_member_options {
    psr_transport *transport; /* borrowed for the member's life, as all pointers here */
    const psr_provision *provision;
    int64_t first_deadline_ms; /* until CONFIG gives the run's deadline; 0: 30 s */
    /* this process can share memory (comm/members/memory/shared_memory.h); JOIN says where */
    bool shares_memory;
    void *context;
    /* Called once, when CONFIG came: gives this process's place in the run and the bytes of the
     * scheduler's user, borrowed during the call. Returns the bytes of FACTS, malloc'ed; NULL:
     * none. A failure is reported to the scheduler (FAILED), and psr_member_join returns it. */
    psr_err (*configured)(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                          size_t *ret_facts_size);
    /* For facts that take a while to find, which `configured` leaves out. Called repeatedly from
     * then on, and whenever the transport was woken, until it sets *ret_known. Otherwise like
     * `configured`. NULL: `configured` returns all facts. */
    psr_err (*facts)(void *context, bool *ret_known, void **ret_facts, size_t *ret_facts_size);
    /* Fills in a report that is zero before: what this process does, and whom it waits for. Called
     * while joining too. NULL: the phase is "start". */
    void (*report)(void *context, psr_msg_progress *progress);
    /* Called whenever the transport was woken while joining. A result other than PSR_OK ends the
     * joining. May be NULL. */
    psr_err (*interrupted)(void *context);
} psr_member_options;

/* Opens the channel to the scheduler and sends JOIN. The caller owns *ret_member. */
PSR_MUST_CHECK psr_err psr_member_open(const psr_member_options *options, int64_t now_ms,
                                       psr_member **ret_member);
/* Joins; returns after WELCOME. The caller owns *ret_member. PEER: the scheduler was silent (before
 * CONFIG: for first_deadline_ms). DENIED, PEER, USAGE and others: the scheduler's ABORT; its line
 * is the detail. */
PSR_MUST_CHECK psr_err psr_member_join(const psr_member_options *options, psr_member **ret_member);
/* After psr_member_join has failed with err before CONFIG: whether to join once more, over a new
 * transport. A launcher may start processes again before all processes of the former attempt have
 * noticed that one of them was lost; until then its scheduler still holds their places. True for at
 * most the provision's patience. Before it returns true it waits half a second, or until the
 * transport is woken; the first time it also logs this (*said). began_ms: when the first try began,
 * by psr_clock_ms. */
bool psr_member_joins_again(const psr_provision *provision, psr_transport *transport, psr_err err,
                            int64_t began_ms, bool *said);
void psr_member_free(psr_member *member);

/* Borrowed for the member's life. The view and what was agreed on exist once the member has
 * joined. */
psr_peer psr_member_self(const psr_member *member);
const psr_view *psr_member_view(const psr_member *member);
/* The bytes of WELCOME that the scheduler's user says were agreed on. */
psr_bytes psr_member_agreed(const psr_member *member);
/* "worker 2 on host7", or "worker 2" when it is not in the view. Borrowed until the next call. */
const char *psr_member_name(psr_member *member, psr_peer peer);

/* Opens the channel to a member of the view. If both share memory, lent buffers go by reference.
 * NOT_FOUND: there is no such member. */
PSR_MUST_CHECK psr_err psr_member_connect(psr_member *member, psr_peer peer);

/* If the scheduler is on this host and takes memory, lent buffers go to it by reference from now
 * on. For a process that shares memory. */
void psr_member_lend_to_scheduler(psr_member *member);

/* Returns the next message within timeout_ms (-1: no limit), as psr_transport_recv does, and
 * meanwhile does the member's own work: sends PROGRESS when it is due, and takes ALIVE. The caller
 * owns *ret_message; it gets START, HOLD, STOP_AT, RESTORE, BYE and all messages of shards and
 * workers. TIMEOUT: none came within timeout_ms. CANCELLED: psr_transport_wake was called. PEER, or
 * what ABORT says: the run ends. PEER also: the scheduler was silent, or a peer cannot be reached
 * (where the transport watches that). */
PSR_MUST_CHECK psr_err psr_member_recv(psr_member *member, int timeout_ms,
                                       psr_message **ret_message);

/* The same, driven without waiting and without a clock: see the functions of these names in
 * comm/members/membership.h. psr_member_tick fails with PEER also when a peer's address cannot be
 * reached, if the transport watches that (psr_zmq_options.watches_ways). */
PSR_MUST_CHECK psr_err psr_member_message(psr_member *member, psr_message **message,
                                          int64_t now_ms);
bool psr_member_joined(const psr_member *member);
psr_message *psr_member_early(psr_member *member);
PSR_MUST_CHECK psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms);
int64_t psr_member_silent_ms(const psr_member *member);

/* Sends a message to the scheduler: HELD, METRICS, CHECKPOINT, DONE. The payload is copied. */
PSR_MUST_CHECK psr_err psr_member_tell(psr_member *member, const psr_head *head,
                                       const void *payload, size_t bytes);

/* Sends FAILED, with line and the status that the process will exit with. It is the last thing that
 * a member sends. Never fails. */
void psr_member_failed(psr_member *member, psr_err status, const char *line);

#endif
