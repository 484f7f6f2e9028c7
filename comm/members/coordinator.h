/* The coordinator: the state machine of the process that all others join. Its members run
 * comm/members/member.h and, in a program, comm/node/node.h. It gives ranks, checks that facts
 * agree, issues the view, and knows who is alive and who waits for whom. It does no I/O, reads no
 * clock and does not know what the run computes: messages, times and news of processes come in;
 * messages and events go out. It has two users: training (ps/scheduler/scheduler.h) and the ranks
 * of a program (comm/node/judge.h).
 *
 *     JOIN   ->  a seat of its role        <-  CONFIG, with what the user gives
 *                no seat is free, or the run has ended:  <-  REFUSED, with the reason
 *     FACTS  ->  given to the user; when all have sent theirs and they agree:
 *                                          <-  WELCOME: the view, with what the user says was
 *                                              agreed on
 *     READY  ->  given to the user; when all are ready:  <-  START  (a user without READY runs from
 *                                                            WELCOME on)
 *     PROGRESS                             <-  ALIVE
 *     all other messages are given to the user, which says when a member is done or leaves, and
 *         ends the run:                     <-  BYE
 *
 * A member that fails, breaks the protocol or falls silent ends the run: <- ABORT. A user that goes
 * on without lost members (psr_coordinator_user.failed) is told of each lost member instead, once
 * all have begun.
 *
 * States: JOINING -> WELCOMED -> RUNNING -> ENDED. now_ms is psr_clock_ms(), or a virtual time; it
 * never goes back. One thread. */
#ifndef PSR_COMM_COORDINATOR_H
#define PSR_COMM_COORDINATOR_H

#include "base/bytes.h"
#include "comm/members/liveness.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"
#include "net/transport.h"

/* Most bytes of text that a member may send in one message. The text is parsed into objects many
 * times its size. */
#define PSR_MEMBER_TEXT_MAX (64u << 10)
/* Room for a name such as "worker 1 on host7", with its zero. */
#define PSR_MEMBER_NAME_MAX (PSR_HOST_MAX + 32)
/* Room for a line that names who failed, and how. */
#define PSR_COORDINATOR_LINE_MAX 1024
/* The least time that a process has to join, however short the deadline is: it must be loaded, find
 * its data and connect. */
#define PSR_COME_UP_MS 5000

typedef struct psr_coordinator psr_coordinator;

/* How the coordinator reaches its members: psr_scheduler_loop_ways, or a test's. A failure of send
 * or connect ends the run. */
typedef struct psr_coordinator_ways {
    void *context;
    psr_err (*send)(void *context, psr_peer to, const psr_head *head, const psr_payload *payload);
    /* How many messages to this member have not left yet: psr_transport_waiting. NULL: they all
     * leave at once. */
    size_t (*waiting)(void *context, psr_peer to);
    /* A process joined: opens a channel to it. A channel to an earlier process of the same name is
     * replaced; that process is gone. */
    psr_err (*connect)(void *context, psr_peer peer, const char *endpoint);
    /* Tells the sender of a JOIN why it is refused. There is no channel to it:
     * psr_transport_refuse. */
    void (*refuse)(void *context, const psr_message *join, psr_err status, const char *line);
    /* Drops messages that have not reached this member; nobody waits for them any more. cut and
     * retire are called only for a user with `failed`. */
    void (*cut)(void *context, psr_peer peer);
    /* The member is given up: its further messages may be dropped. */
    void (*retire)(void *context, psr_peer peer);
} psr_coordinator_ways;

/* Events for people. NULL: not wanted. */
typedef struct psr_coordinator_events {
    void *context;
    /* A member has its rank now. count of total members have joined. */
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
    /* The bytes that CONFIG gives to members of that role. */
    psr_err (*given)(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
    /* The FACTS of a member; once for each member. */
    psr_err (*facts)(void *context, const psr_message *message);
    /* Called when all have sent FACTS. OK: this worker's facts are the same as worker 0's. USAGE:
     * they differ; the detail says how and names both. */
    psr_err (*agree)(void *context, uint32_t rank, const char *name, const char *name_of_first);
    /* The facts agree. Fills in the view, which has its members already: the plan, and the step
     * from which on it holds. The view owns the plan. */
    psr_err (*begin)(void *context, psr_view *view);
    /* The bytes that WELCOME gives to members of that role: what was agreed on. */
    psr_err (*agreed)(void *context, psr_role role, void **ret_bytes, size_t *ret_size);
    /* Everybody has been told WELCOME. */
    psr_err (*welcomed)(void *context);
    /* The READY of a member; once for each member. NULL: nobody sends READY, and all begin with
     * WELCOME. */
    psr_err (*ready)(void *context, const psr_message *message);
    /* Everybody has been told START. */
    psr_err (*started)(void *context);
    /* Fills in the limits against which the numbers of a message are checked; those of members and
     * buckets are set already. */
    void (*limit)(void *context, psr_msg_limits *limits);
    /* A PROGRESS report, before liveness gets it. */
    void (*progress)(void *context, psr_peer from, const psr_msg_progress *says);
    /* Any other message from START on, if its sender is not done. */
    psr_err (*message)(void *context, const psr_message *message);
    /* From START on: a member has failed, or broke the protocol, or was silent for
     * psr_liveness_silence_ms. NULL: this ends the run. */
    void (*failed)(void *context, psr_peer member, psr_err status, const char *line);
    /* Time has passed. Returns the present time (liveness.h) at which the user next has something
     * to do; INT64_MAX: never. */
    int64_t (*tick)(void *context, int64_t present_ms);
} psr_coordinator_user;

typedef struct psr_coordinator_options {
    psr_coordinator_ways ways;
    psr_coordinator_events events;
    psr_coordinator_user user;
    const char *host;         /* the name of this process's host in lines; copied */
    uint32_t workers, shards; /* how many shall join */
    bool program;             /* members are ranks of a program; lines call them ranks */
    uint32_t ranks;           /* the number of ranks whose values a sum has */
    int64_t deadline_ms;
    /* until all have joined. 0: the deadline, counted from the last member that joined */
    int64_t join_deadline_ms;
    size_t facts_max; /* most bytes of FACTS. 0: PSR_MEMBER_TEXT_MAX */
} psr_coordinator_options;

/* The caller owns *ret_coordinator. The options are copied. */
PSR_MUST_CHECK psr_err psr_coordinator_new(const psr_coordinator_options *options, int64_t now_ms,
                                           psr_coordinator **ret_coordinator);
/* NULL allowed. */
void psr_coordinator_free(psr_coordinator *coordinator);

/* ---- input. These functions never fail: a failure ends the run, or the user is told ---- */

/* Any message of a member. Borrows it. */
void psr_coordinator_message(psr_coordinator *coordinator, const psr_message *message,
                             int64_t now_ms);
/* The time at which the message came that is being taken, or the last one. */
int64_t psr_coordinator_now_ms(const psr_coordinator *coordinator);
/* Time passes: checks who is silent, who never joined, and who is slow. Call it when the inbox is
 * empty, so that no member is called silent whose messages have not been read. */
void psr_coordinator_tick(psr_coordinator *coordinator, int64_t now_ms);
/* When psr_coordinator_tick is to be called next. INT64_MAX: nothing is waited for. */
int64_t psr_coordinator_next_tick(const psr_coordinator *coordinator);
/* This process is busy with work that members may wait for; no member is blamed for that time. */
void psr_coordinator_works(psr_coordinator *coordinator, int64_t now_ms);
/* A member's process has ended; how says in which way ("killed by signal 9", "exit status 1"). The
 * run ends. by_itself: the process exited and has sent the reason itself. host: where it was
 * started, for a process that had not joined yet; NULL: not known. */
void psr_coordinator_lost(psr_coordinator *coordinator, psr_peer peer, const char *host,
                          bool by_itself, const char *how, int64_t now_ms);
/* The launcher on this host is gone or silent; how says in which way. */
void psr_coordinator_launcher_lost(psr_coordinator *coordinator, psr_err status, const char *how,
                                   int64_t now_ms);
/* The launcher says that the agent on host is silent; how says in which way. */
void psr_coordinator_agent_lost(psr_coordinator *coordinator, const char *host, const char *how,
                                int64_t now_ms);

/* ---- for the user ---- */

/* This member is done: from now on it is watched for silence only, and may send PROGRESS only. */
void psr_coordinator_set_done(psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_is_done(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_all_done(const psr_coordinator *coordinator);
/* Ends the run; only the first call counts. Sends BYE to all if the run went well (status OK, or
 * CANCELLED when all were done), else ABORT. line NULL: the detail of the last failure on this
 * thread. Messages that come later are ignored. */
void psr_coordinator_end(psr_coordinator *coordinator, psr_err status, const char *line);
/* Ends a run whose user has told all members of its failure. line is for processes that join late.
 * Members are still heard, and watched for silence, until each has left or is given up. */
void psr_coordinator_wind_up(psr_coordinator *coordinator, psr_err status, const char *line);
/* The member is here no longer: leave says that it left in order, give_up that it was given up, for
 * good. While others go on, the channel to a member that was given up stays open: if it lives after
 * all, the verdict reaches it. */
void psr_coordinator_leave(psr_coordinator *coordinator, psr_peer peer);
void psr_coordinator_give_up(psr_coordinator *coordinator, psr_peer peer);

/* Sends to all members that are here, or to those of one role. If one of them cannot be told, the
 * others are still told, and the first such failure is returned. With a user that has `failed` none
 * is returned: a member that cannot be told will fall silent. */
PSR_MUST_CHECK psr_err psr_coordinator_send_all(psr_coordinator *coordinator, psr_head head,
                                                psr_bytes payload);
PSR_MUST_CHECK psr_err psr_coordinator_send_role(psr_coordinator *coordinator, psr_role role,
                                                 psr_head head, psr_bytes payload);
PSR_MUST_CHECK psr_err psr_coordinator_send(psr_coordinator *coordinator, psr_peer to,
                                            psr_head head, psr_bytes payload);
/* Sends ALIVE as a sign of life, unless another message to this member still waits, which is a sign
 * of life too. So at most one ALIVE waits for a member, however often it reports. */
PSR_MUST_CHECK psr_err psr_coordinator_alive(psr_coordinator *coordinator, psr_peer to);
/* How many messages to this member have not left yet. */
size_t psr_coordinator_waiting(const psr_coordinator *coordinator, psr_peer to);

/* ---- what it knows ---- */

/* Whether peer is one of the run's members, joined or not. */
bool psr_coordinator_has(const psr_coordinator *coordinator, psr_peer peer);
void psr_coordinator_name(const psr_coordinator *coordinator, psr_peer peer,
                          char name[static PSR_MEMBER_NAME_MAX]);
bool psr_coordinator_running(const psr_coordinator *coordinator); /* from START to the end */
bool psr_coordinator_ended(const psr_coordinator *coordinator);
/* Of a member: is_here: it has joined, and has neither left nor been given up. has_joined: it
 * joined at some time. has_left: it left in order. */
bool psr_coordinator_is_here(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_has_joined(const psr_coordinator *coordinator, psr_peer peer);
bool psr_coordinator_has_left(const psr_coordinator *coordinator, psr_peer peer);
/* The run has not ended, other members are here, and this member is here or is still to join. */
bool psr_coordinator_misses(const psr_coordinator *coordinator, psr_peer peer);
/* Nobody is here and nobody will come: all members have left or were given up. */
bool psr_coordinator_over(const psr_coordinator *coordinator);
/* The run failed before all had joined: a process may still come that has not been told why. The
 * caller should stay a while for it. */
bool psr_coordinator_awaits_late(const psr_coordinator *coordinator);
/* The view; from `begin` on. */
const psr_view *psr_coordinator_view(const psr_coordinator *coordinator);
/* Who waits for whom. */
psr_liveness *psr_coordinator_liveness(psr_coordinator *coordinator);

/* The limits against which the numbers of a member's message are checked. */
psr_msg_limits psr_coordinator_limits(const psr_coordinator *coordinator);
/* PROTOCOL: a message's payload is longer than PSR_MEMBER_TEXT_MAX, or than facts_max. */
PSR_MUST_CHECK psr_err psr_coordinator_check_text(const psr_coordinator *coordinator,
                                                  const psr_message *message);

#endif
