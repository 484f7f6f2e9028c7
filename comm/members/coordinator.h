/* The coordinator: the state machine of the process that all others join. Its members run
 * comm/members/member.h and, in a program, comm/node/node.h. It gives ranks, checks that facts
 * agree, issues the view, and knows who is alive and who waits for whom. It does no I/O, reads no
 * clock and does not know what the run computes: messages, times and news of processes come in;
 * messages and events go out. It has two users: training (ps/scheduler/scheduler.h) and the ranks
 * of a program (comm/node/judge.h).
 *
 *     JOIN   ->  a seat of its role        <-  CONFIG, with what the user gives
 *                there is none, or the run has ended:  <-  REFUSED, why
 *     FACTS  ->  given to the user; when all have told and agree:
 *                                          <-  WELCOME: the view, with what the user says was
 *                                              agreed on
 *     READY  ->  given to the user; of all:    <-  START      (a user without READY runs from
 *                                                             WELCOME on)
 *     PROGRESS                             <-  ALIVE
 *     all other messages are the user's, which says when a member is done or leaves, and ends the
 *         run:
 *                                          <-  BYE
 *
 * Who fails, breaks the protocol or falls silent ends the run:  <-  ABORT. A user that goes on
 * without those
 * who are lost (psr_coordinator_user.failed) is told of each instead, once all have begun.
 *
 * States: JOINING -> WELCOMED -> RUNNING -> ENDED. now_ms is psr_clock_ms(), or a virtual time; it
 * never goes back. One thread. */
#ifndef PSR_COMM_COORDINATOR_H
#define PSR_COMM_COORDINATOR_H

#include "base/bytes.h"
#include "comm/members/liveness.h"
#include "comm/view.h"
#include "comm/wire/messages.h"
#include "net/transport.h"

/* Bytes of text that a member may send in one message: it is parsed into objects many times its
 * size. */
#define PSR_MEMBER_TEXT_MAX (64u << 10)
/* "worker 1 on host7", with its zero. */
#define PSR_MEMBER_NAME_MAX (PSR_HOST_MAX + 32)
/* A line that names who failed, and of what. */
#define PSR_COORDINATOR_LINE_MAX 1024
/* The least time that a process has to join, however short the deadline is: it must be loaded, find
 * its data and connect. */
#define PSR_COME_UP_MS 5000

typedef struct psr_coordinator psr_coordinator;

/* How it reaches members: psr_scheduler_loop_ways, or a test's. A failure of send or connect is a
 * failure of the run. */
typedef struct psr_coordinator_ways {
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* Messages that have not left for it: psr_transport_waiting. NULL: they all leave at once. */
    size_t (*waiting)(void *context, psr_peer to);
    /* A process joined: open a channel to it, instead of one that there may be to another of its
     * name, which is gone. */
    psr_err (*connect)(void *context, psr_peer peer, const char *endpoint);
    /* Tells the sender of this JOIN, to which there is no channel, why it is refused:
     * psr_transport_refuse. */
    void (*refuse)(void *context, const psr_message *join, psr_err status, const char *line);
    /* Nobody waits any more for what has not reached it, which is dropped. Of a user with `failed`
     * alone, as the next. */
    void (*cut)(void *context, psr_peer peer);
    /* The member is given up: its further messages may be dropped. */
    void (*retire)(void *context, psr_peer peer);
} psr_coordinator_ways;

/* Events for people. NULL: not wanted. */
typedef struct psr_coordinator_events {
    void *context;
    /* It has its rank now. count of total are here. */
    void (*joined)(void *context, const psr_view_member *entry, uint32_t count, uint32_t total);
    /* Something a person should see: who is slow, who was turned away. */
    void (*say)(void *context, const char *line);
    /* The run is over; status is PSR_OK or why; line is for the person. Called once. */
    void (*ended)(void *context, psr_err status, const char *line);
} psr_coordinator_events;

/* The callbacks of the coordinator's user. A failure that one returns ends the run; a wrong message
 * is reported as a psr_violation. Returned bytes are malloc'ed. A callback may be NULL when the
 * user has nothing to do there, except limit and message. */
typedef struct psr_coordinator_user {
    void *context;
    /* What CONFIG gives to members of that role. */
    psr_err (*given)(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
    /* The FACTS of a member, once each. */
    psr_err (*facts)(void *context, const psr_message *message);
    /* All have told theirs. OK when those of a worker are worker 0's, or USAGE that says in words
     * what differs, with both names. */
    psr_err (*agree)(void *context, uint32_t rank, const char *name, const char *name_of_first);
    /* They agree: by which plan do these members exchange, and from which step on? Fills the rest
     * of the view, which has its members. The plan is owned by the view. */
    psr_err (*begin)(void *context, psr_view *view);
    /* What WELCOME says to members of that role that was agreed on. */
    psr_err (*agreed)(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
    /* Everybody has been told WELCOME. */
    psr_err (*welcomed)(void *context);
    /* The READY of a member, once each. NULL: nobody says READY, and all begin with WELCOME. */
    psr_err (*ready)(void *context, const psr_message *message);
    /* Everybody has been told START. */
    psr_err (*started)(void *context);
    /* Fills in the limits against which the numbers of a message are checked; those of members and
     * buckets are set already. */
    void (*limit)(void *context, psr_msg_limits *limits);
    /* A PROGRESS, before liveness knows of it. */
    void (*progress)(void *context, psr_peer from, const psr_msg_progress *says);
    /* From START on: any other message of a member that is not done. */
    psr_err (*message)(void *context, const psr_message *message);
    /* From START on a member has failed, by its own words or its breach of the protocol, or nothing
     * was heard of it for three quarters of the deadline. NULL: that ends the run. */
    void (*failed)(void *context, psr_peer member, psr_err status, const char *line);
    /* Time has passed. Returns the present time (liveness.h) of what the user waits for next;
     * INT64_MAX. */
    int64_t (*tick)(void *context, int64_t present_ms);
} psr_coordinator_user;

typedef struct psr_coordinator_options {
    psr_coordinator_ways ways;
    psr_coordinator_events events;
    psr_coordinator_user user;
    const char *host;         /* what this process's host is called in lines; copied */
    uint32_t workers, shards; /* that shall join */
    bool program;             /* members are ranks of a program, and lines call them so */
    uint32_t ranks;           /* whose values a sum is of */
    int64_t deadline_ms;
    int64_t join_deadline_ms; /* until all have joined. 0: the deadline,
                                 from the last that came on */
    size_t facts_max;         /* bytes of FACTS. 0: PSR_MEMBER_TEXT_MAX */
} psr_coordinator_options;

/* ret owns; the options are copied. */
PSR_MUST_CHECK psr_err psr_coordinator_new(const psr_coordinator_options *options, int64_t now_ms,
                                           psr_coordinator **ret_coordinator);
/* NULL allowed. */
void psr_coordinator_free(psr_coordinator *coordinator);

/* ---- input. These functions never fail: a failure ends the run, or the user is told ---- */

/* Any message of a member. Borrows it. */
void psr_coordinator_message(psr_coordinator *coordinator, const psr_message *message,
                             int64_t now_ms);
/* Time passes: checks who is silent, who never joined, and who is slow. Call it when the inbox is
 * empty, so that no member is called silent whose messages have not been read. */
void psr_coordinator_tick(psr_coordinator *coordinator, int64_t now_ms);
/* When psr_coordinator_tick is to be called next. INT64_MAX: nothing is waited for. */
int64_t psr_coordinator_next_tick(const psr_coordinator *coordinator);
/* This process is busy with work that members may wait for; no member is blamed for that time. */
void psr_coordinator_works(psr_coordinator *coordinator, int64_t now_ms);
/* A member's process ended, how ("killed by signal 9", "exit status 1"): the run ends. by_itself:
 * it exited, and has said why. host: where it was started, for one that had not joined yet; NULL:
 * not known. */
void psr_coordinator_lost(psr_coordinator *coordinator, psr_peer peer, const char *host,
                          bool by_itself, const char *how, int64_t now_ms);
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
/* Ends the run, the first time: BYE to all when it went well (status OK, or CANCELLED when all were
 * done), else ABORT. line NULL: the detail of the last failure on this thread. Nothing that members
 * say later counts. */
void psr_coordinator_end(psr_coordinator *coordinator, psr_err status, const char *line);
/* The run has failed, as the user has told all; line is for those who come late. Members are heard,
 * and watched for silence, until each has left or is given up. */
void psr_coordinator_wind_up(psr_coordinator *coordinator, psr_err status, const char *line);
/* That member is here no longer: it has left in order, or is given up, which is for good. While the
 * others go on, the channel to who is given up stays, for the verdict to reach it if it lives after
 * all. */
void psr_coordinator_leave(psr_coordinator *coordinator, psr_peer peer);
void psr_coordinator_give_up(psr_coordinator *coordinator, psr_peer peer);

/* To all who are here, or of them to one role, also to those behind one that cannot be told: the
 * first such failure is returned. Of a user with `failed` there is none: who cannot be told falls
 * silent. */
PSR_MUST_CHECK psr_err psr_coordinator_send_all(psr_coordinator *coordinator, psr_head head,
                                                psr_bytes payload);
PSR_MUST_CHECK psr_err psr_coordinator_send_role(psr_coordinator *coordinator, psr_role role,
                                                 psr_head head, psr_bytes payload);
PSR_MUST_CHECK psr_err psr_coordinator_send(psr_coordinator *coordinator, psr_peer to,
                                            psr_head head, psr_bytes payload);
/* A sign of life: ALIVE, unless something waits for it that is one too. So however much it says,
 * one of them waits at most. */
PSR_MUST_CHECK psr_err psr_coordinator_alive(psr_coordinator *coordinator, psr_peer to);
/* Messages that have not left for it. */
size_t psr_coordinator_waiting(const psr_coordinator *coordinator, psr_peer to);

/* ---- what it knows ---- */

/* Whether peer is one of the run's members, joined or not. */
bool psr_coordinator_has(const psr_coordinator *coordinator, psr_peer peer);
void psr_coordinator_name(const psr_coordinator *coordinator, psr_peer peer,
                          char name[static PSR_MEMBER_NAME_MAX]);
bool psr_coordinator_running(const psr_coordinator *coordinator); /* from START to the end */
bool psr_coordinator_ended(const psr_coordinator *coordinator);
/* Of a member: it has joined, and has neither left nor been given up; it has joined, once; it has
 * left in order. */
bool psr_coordinator_is_here(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_has_joined(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_has_left(const psr_coordinator *coordinator, psr_peer peer);
/* Others are here and would wait for that member: to join, or until it leaves. */
bool psr_coordinator_misses(const psr_coordinator *coordinator, psr_peer peer);
/* Nobody is here, and nobody will come: all have left, or were given up. */
bool psr_coordinator_over(const psr_coordinator *coordinator);
/* The run has failed before all had joined: somebody may still come and has not been told why. Its
 * process should stay a while for that. */
bool psr_coordinator_awaits_late(const psr_coordinator *coordinator);
/* From `begin` on. */
const psr_view *psr_coordinator_view(const psr_coordinator *coordinator);
/* Who waits for whom. */
psr_liveness *psr_coordinator_liveness(psr_coordinator *coordinator);

/* What the numbers of a member's message are held against. */
psr_msg_limits psr_coordinator_limits(const psr_coordinator *coordinator);
/* PROTOCOL when a message's payload is longer than PSR_MEMBER_TEXT_MAX, or facts_max. */
PSR_MUST_CHECK psr_err psr_coordinator_check_text(const psr_coordinator *coordinator,
                                                  const psr_message *message);

#endif
