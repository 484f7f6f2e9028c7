/* The progress loop of a process, the one of training and of libpsring: it has a transport and a
 * member, takes the commands that its owner has handed over, gives each message to who registered
 * for its type, and lets the member's time pass. It sleeps in psr_transport_wait alone, from which
 * a message, a wake or the time brings it back.
 *
 * comm/progress_engine.h says who runs it and how the owner waits: a thread of its own
 * (psr_loop_start: a worker, whose own thread computes), that thread and the owner by turns (the
 * same, with busy: libpsring), the owner's thread (psr_loop_run: a shard), or a step at a time and
 * without a clock (psr_loop_step: a simulated process). The callbacks are called by whoever runs
 * it.
 *
 * Down, from the owner: one queue of commands (comm/command_queue.h) and a wake. Up: whatever the
 * callbacks write atomically, a call of psr_loop_changed after it, which costs one load while
 * nobody waits, and psr_loop_wait. */
#ifndef PSR_COMM_LOOP_H
#define PSR_COMM_LOOP_H

#include "comm/command_queue.h"
#include "comm/members/member.h"
#include "comm/observer.h"
#include "comm/outbox.h"
#include "comm/progress_engine.h"

typedef struct psr_loop psr_loop;

typedef struct psr_loop_options {
    /* Borrowed for life. Only the thread that runs the loop uses them. transport NULL: the owner is
     * alone and carries out its own commands; then member is NULL too. */
    psr_transport *transport;
    psr_member *member;
    uint32_t commands_max; /* most commands that may wait for the loop; 0: no limit */
    void *context;
    /* Carries out a command of the owner's kinds. NULL: there are none. */
    psr_err (*command)(void *context, const psr_command *command);
    /* A message that nobody registered for. It may take it and set it to NULL. */
    psr_err (*message)(void *context, psr_message **message);
    /* The transport was woken: another thread has something for the owner. NULL: only commands come
     * this way. */
    psr_err (*woken)(void *context);
    /* Time has passed; returns when to be called again. NULL: nothing of the owner's depends on
     * time. */
    psr_err (*tick)(void *context, int64_t now_ms, int64_t *ret_next_ms);
    /* Called by whoever runs the loop: it has failed with err, with its line as the detail, and
     * ends. NULL: nothing to do. */
    void (*failed)(void *context, psr_err err);
    /* See psr_progress_engine_options. With alone, a failure does not end the owner's waits. */
    bool (*busy)(void *context);
    int64_t (*alone)(void *context);
    const psr_loop_waiter *waiter;
} psr_loop_options;

/* NOMEM. The caller owns *ret_loop: psr_loop_free. */
PSR_MUST_CHECK psr_err psr_loop_new(const psr_loop_options *options, psr_loop **ret_loop);
/* Call it when the loop does not run, and when what is lent to its transport has come back. Frees
 * commands that were never taken. NULL allowed. */
void psr_loop_free(psr_loop *loop);

/* Sets the options' context, if the owner was made after the loop. Before the loop runs. */
void psr_loop_attach(psr_loop *loop, void *context);

/* Gives messages of that type from that role to take, which may take them and set them to NULL. One
 * function for each role and type; before the loop runs. */
void psr_loop_route(psr_loop *loop, psr_role from, psr_message_type type, void *context,
                    psr_err (*take)(void *context, psr_message **message));

/* observer hears of every message of the transport, and of what psr_loop_tell says; copied. NULL:
 * nobody hears any more, and it costs one branch for each of them. Before the loop runs, or on the
 * thread that runs it. */
void psr_loop_observe(psr_loop *loop, const psr_observer *observer);
/* Tells the observer, with the stamp of now. On the thread that psr_observer says. */
void psr_loop_tell(psr_loop *loop, const psr_observed *observed);

/* The outbox for what runs in the loop. It sends on the loop's transport, and returned loans count
 * as a change. */
psr_outbox psr_loop_outbox(psr_loop *loop);

/* ---- the loop ---- */

/* Runs the loop on a thread of its own, or by turns. A failure ends it, is kept, and is told to the
 * waiting owner and to the scheduler (FAILED). Does nothing if the owner is alone. IO. */
PSR_MUST_CHECK psr_err psr_loop_start(psr_loop *loop);
/* Ends that thread. By turns, commands that were not taken yet are taken. NULL, a second call, and
 * a call without a start are allowed. */
void psr_loop_stop(psr_loop *loop);

/* Runs the loop on this thread until psr_loop_quit. A failure ends it and is returned; the caller
 * tells others. */
PSR_MUST_CHECK psr_err psr_loop_run(psr_loop *loop);
/* Does everything that there is to do now, without waiting: commands, all messages that the
 * transport has, and last what the time asks for (psr_member_tick). Call it when a message came, at
 * *ret_next_ms, and after the other side had its turn. A failure is returned, as is one of
 * psr_loop_fail; the caller tells others. */
PSR_MUST_CHECK psr_err psr_loop_step(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms);
/* The loop ends after what it is doing. Any thread. */
void psr_loop_quit(psr_loop *loop);

/* ---- the owner ---- */

/* Hands over a command, to be taken now or soon. false: there is no room, and the command is still
 * the caller's. A loop with commands_max takes none while many messages wait for a slow scheduler
 * (PSR_MEMBER_WAITING_MAX), so there is no room then, and the caller waits. */
bool psr_loop_submit(psr_loop *loop, const psr_command *command);
/* The same, but the command is taken when the owner next submits a command or waits, or a message
 * comes. */
bool psr_loop_submit_later(psr_loop *loop, const psr_command *command);
/* Whether there is room. */
bool psr_loop_room(const psr_loop *loop);

/* The loop does nothing: it has failed, was stopped, or the owner is alone. */
bool psr_loop_over(const psr_loop *loop);

/* Commands that were submitted for later are taken soon, although the owner does not wait here. */
void psr_loop_nudge(psr_loop *loop);
/* See psr_progress_engine_unattended. */
void psr_loop_unattended(psr_loop *loop);
/* If the loop is over, or there is none: takes commands and does what the owner has to do itself.
 * Returns in how many ms to call it again, INT64_MAX: never. */
int64_t psr_loop_alone(psr_loop *loop);

/* Waits until reached returns true, at most timeout_ns (INT64_MAX: without limit). reached is
 * called after each change. drives, by turns: the owner runs the loop meanwhile; otherwise the
 * loop's thread does, and any thread may call reached. Without `alone` a failure ends the wait.
 * false: it never returned true. */
bool psr_loop_await(psr_loop *loop, bool drives, bool (*reached)(void *context), void *context,
                    int64_t timeout_ns);
/* Waits, without limit, for something that the loop's thread does. A failure of the loop ends the
 * wait and is returned. */
PSR_MUST_CHECK psr_err psr_loop_wait(psr_loop *loop, bool (*reached)(void *context), void *context);
/* Waits for that long; otherwise the same. */
PSR_MUST_CHECK psr_err psr_loop_pause(psr_loop *loop, double seconds);

/* ---- any thread ---- */

/* Something that the other thread may wait for has changed. */
void psr_loop_changed(psr_loop *loop);

/* The loop has failed, and ends. The first status and line are kept. */
void psr_loop_fail(psr_loop *loop, psr_err status, const char *line);
/* The status with which it failed; its line is the detail. */
psr_err psr_loop_failure(const psr_loop *loop);

#endif
