/* The coordinator: the machine of the process that all join, the other side of comm/members/member.h. It gives ranks, sees that
 * facts agree, issues the view, knows who is alive, and when one is lost ends the run with a line that names it. Free of I/O, of clocks
 * and of what the run is about: messages, times and news of processes come in; messages and events go out.
 *
 *     JOIN   ->  a seat of its role        <-  CONFIG, with what the user gives
 *                there is none, or the run has ended:  <-  REFUSED, why
 *     FACTS  ->  given to the user; when all have told and agree:
 *                                          <-  WELCOME: the view, with what the user says was agreed on
 *     READY  ->  given to the user; of all:    <-  START
 *     PROGRESS                             <-  ALIVE
 *     FAILED, or silence, or a process that is gone:  <-  ABORT
 *     what else comes from START on is the user's, who says when a member is done and ends the run:  <-  BYE
 *
 * States: JOINING -> WELCOMED -> RUNNING -> ENDED. now_ms is psr_clock_ms(), or a virtual time; it never goes back. One thread. */
#ifndef PSR_COMM_COORDINATOR_H
#define PSR_COMM_COORDINATOR_H

#include "base/bytes.h"
#include "comm/view.h"
#include "comm/wire/messages.h"
#include "net/transport.h"

/* Bytes of text that a member may send in one message: it is parsed into objects many times its size. */
#define PSR_MEMBER_TEXT_MAX (64u << 10)
/* "worker 1 on host7", with its zero. */
#define PSR_MEMBER_NAME_MAX (PSR_HOST_MAX + 32)

typedef struct psr_coordinator psr_coordinator;

/* What the process does for it. A failure ends the run. */
typedef struct psr_coordinator_driver {
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* Messages that have not left for it: psr_transport_waiting. NULL: they all leave at once. */
    size_t (*waiting)(void *context, psr_peer to);
    /* A process joined: open a channel to it. */
    psr_err (*connect)(void *context, psr_peer peer, const char *endpoint);
    /* Whoever sent this JOIN has no channel, and hears why: psr_transport_refuse. */
    void (*refuse)(void *context, const psr_message *join, psr_err status, const char *line);
    /* It has its rank now. count of total are here. */
    void (*joined)(void *context, const psr_view_member *entry, uint32_t count, uint32_t total);
    /* Something a person should see: who is slow, who was turned away. */
    void (*say)(void *context, const char *line);
    /* The run is over; status is PSR_OK or why; line is for the person. Called once. */
    void (*ended)(void *context, psr_err status, const char *line);
} psr_coordinator_driver;

/* What the run is about. A failure ends the run; what is wrong with a message is a psr_violation, to which the member's host is added.
 * Bytes that are returned are malloc'ed. */
typedef struct psr_coordinator_user {
    void *context;
    /* What CONFIG gives to members of that role. */
    psr_err (*given)(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
    /* The FACTS of a member, once each. */
    psr_err (*facts)(void *context, const psr_message *message);
    /* All have told theirs. OK when those of a worker are worker 0's, or USAGE that says in words what differs, with both names. */
    psr_err (*agree)(void *context, uint32_t rank, const char *name, const char *name_of_first);
    /* They agree: by which plan do these members exchange? ret owns. */
    psr_err (*begin)(void *context, const psr_view *members, psr_plan *ret_plan);
    /* What WELCOME says to members of that role that was agreed on. */
    psr_err (*agreed)(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
    /* Everybody has been told WELCOME. */
    psr_err (*welcomed)(void *context);
    /* The READY of a member, once each. */
    psr_err (*ready)(void *context, const psr_message *message);
    /* Everybody has been told START. */
    psr_err (*started)(void *context);
    /* Steps and samples of the run, as far as they are known; the rest of the limits is in place. */
    void (*limit)(void *context, psr_msg_limits *limits);
    /* A PROGRESS, which counts. */
    void (*progress)(void *context, psr_peer from, const psr_msg_progress *says);
    /* From START on: any other message of a member that is not done. */
    psr_err (*message)(void *context, const psr_message *message);
} psr_coordinator_user;

typedef struct psr_coordinator_options {
    psr_coordinator_driver driver;
    psr_coordinator_user user;
    const char *host;         /* what this process's host is called in lines; copied */
    uint32_t workers, shards; /* that shall join */
    uint32_t ranks;           /* whose values a sum is of */
    int64_t deadline_ms;
} psr_coordinator_options;

/* ret owns; the options are copied. */
PSR_MUST_CHECK psr_err psr_coordinator_new(const psr_coordinator_options *options, int64_t now_ms,
                                           psr_coordinator **ret_coordinator);
void psr_coordinator_free(psr_coordinator *coordinator);

/* ---- what comes in. These never fail: what goes wrong ends the run ---- */

/* Any message of a member. Borrows it. A violation of the protocol ends the run (status PROTOCOL or VERSION). */
void psr_coordinator_message(psr_coordinator *coordinator, const psr_message *message, int64_t now_ms);
/* Time passes: liveness, who never came up, who is slow. Call it when the inbox is empty, so that nobody is called silent whose words
 * lie there unread. */
void psr_coordinator_tick(psr_coordinator *coordinator, int64_t now_ms);
int64_t psr_coordinator_next_tick(const psr_coordinator *coordinator);
/* This process is at work on what members may be waiting for: that they do is nobody's fault. */
void psr_coordinator_works(psr_coordinator *coordinator, int64_t now_ms);
/* A member's process ended, how ("killed by signal 9", "exit status 1"). by_itself: it exited, and has said why. host: where it was
 * started, for one that had not joined yet; NULL: not known. */
void psr_coordinator_lost(psr_coordinator *coordinator, psr_peer peer, const char *host, bool by_itself,
                          const char *how, int64_t now_ms);
/* The launcher, on this host, is gone or silent: how. */
void psr_coordinator_launcher_lost(psr_coordinator *coordinator, psr_err status, const char *how,
                                   int64_t now_ms);
/* The agent on host is silent (the launcher tells): how. */
void psr_coordinator_agent_lost(psr_coordinator *coordinator, const char *host, const char *how,
                                int64_t now_ms);

/* ---- for the user ---- */

/* That member is done: it is watched for silence alone, and says PROGRESS at most. */
void psr_coordinator_set_done(psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_is_done(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_all_done(const psr_coordinator *coordinator);
/* Ends the run, the first time: BYE to all when it went well (status OK, or CANCELLED when all were done), else ABORT. line NULL: the
 * detail of the last failure on this thread. */
void psr_coordinator_end(psr_coordinator *coordinator, psr_err status, const char *line);

/* To all who have joined, or of them to one role. */
PSR_MUST_CHECK psr_err psr_coordinator_send_all(psr_coordinator *coordinator, psr_head head,
                                                psr_bytes payload);
PSR_MUST_CHECK psr_err psr_coordinator_send_role(psr_coordinator *coordinator, psr_role role, psr_head head,
                                                 psr_bytes payload);

/* A sign of life: ALIVE, unless something waits for it that is one too. So however much it says,
 * one of them waits at most. */
PSR_MUST_CHECK psr_err psr_coordinator_alive(psr_coordinator *coordinator, psr_peer to);

/* ---- what it knows ---- */

/* Whether peer is one of the run's members, joined or not. */
bool psr_coordinator_has(const psr_coordinator *coordinator, psr_peer peer);
void psr_coordinator_name(const psr_coordinator *coordinator, psr_peer peer,
                          char name[static PSR_MEMBER_NAME_MAX]);
bool psr_coordinator_running(const psr_coordinator *coordinator); /* from START to the end */
bool psr_coordinator_ended(const psr_coordinator *coordinator);
/* The run has failed before all had joined: somebody may still come and has not been told why. Its process should stay a while for that. */
bool psr_coordinator_awaits_late(const psr_coordinator *coordinator);
/* From `begin` on. */
const psr_view *psr_coordinator_view(const psr_coordinator *coordinator);

/* What the numbers of a member's message are held against. */
psr_msg_limits psr_coordinator_limits(const psr_coordinator *coordinator);
/* PROTOCOL when a message's payload is longer than PSR_MEMBER_TEXT_MAX. */
PSR_MUST_CHECK psr_err psr_coordinator_check_text(const psr_message *message);

#endif
