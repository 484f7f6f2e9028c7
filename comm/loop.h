/* The progress loop of a process, the one of training and of libpsring: it has a transport and a
 * member, takes the commands that its owner has handed over, gives each message to who registered
 * for its type, and lets the member's time pass. It sleeps in psr_transport_wait alone, from which
 * a message, a wake or the time brings it back; nobody polls.
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
#include "comm/outbox.h"
#include "comm/progress_engine.h"

typedef struct psr_loop psr_loop;

typedef struct psr_loop_options {
    /* Borrowed for life. Whoever runs the loop alone touches them. NULL: the owner is alone, and
     * does what it has handed over itself; member then too. */
    psr_transport *transport;
    psr_member *member;
    uint32_t commands_max; /* that may wait for the loop; 0: as many as there are */
    void *context;
    /* A command of the owner's kinds. NULL: there are none. */
    psr_err (*command)(void *context, const psr_command *command);
    /* A message that nobody registered for. It may take it (and null it). */
    psr_err (*message)(void *context, psr_message **message);
    /* Something woke the transport: what another thread has for the owner. NULL: only commands come
     * so. */
    psr_err (*woken)(void *context);
    /* Before each message, after the commands. NULL: nothing to do. */
    void (*turned)(void *context);
    /* Time passes, beside the member's: when to be called again. NULL: nothing of the owner's
     * depends on it. */
    psr_err (*tick)(void *context, int64_t now_ms, int64_t *ret_next_ms);
    /* On the loop's thread, or by turns: it has failed with err, its line is the detail, and ends.
     * NULL: nothing to do. */
    void (*failed)(void *context, psr_err err);
    /* As psr_progress_engine_options. With alone, a failure does not end the owner's waits. */
    bool (*busy)(void *context);
    int64_t (*alone)(void *context);
    const psr_loop_waiter *waiter;
} psr_loop_options;

/* NOMEM. ret owns: psr_loop_free. */
PSR_MUST_CHECK psr_err psr_loop_new(const psr_loop_options *options, psr_loop **ret_loop);
/* When the loop does not run, and after what is lent to its transport has come back. Frees commands
 * that were never taken. NULL allowed. */
void psr_loop_free(psr_loop *loop);

/* Messages of that type from that role go to take, which may take them (and null them). One for
 * each role and type; before the loop runs. */
void psr_loop_route(psr_loop *loop, psr_role from, psr_message_type type, void *context,
                    psr_err (*take)(void *context, psr_message **message));

/* The way out of what runs in the loop: sends on its transport; what comes back counts as a
 * change. */
psr_outbox psr_loop_outbox(psr_loop *loop);

/* ---- the loop ---- */

/* Runs it on a thread of its own, or by turns. A failure is kept, told to who waits and to the
 * scheduler (FAILED), and ends it. Alone: nothing. IO. */
PSR_MUST_CHECK psr_err psr_loop_start(psr_loop *loop);
/* Ends that thread. By turns, commands that nobody came to are taken. NULL, a second call, and one
 * without a start are allowed. */
void psr_loop_stop(psr_loop *loop);

/* Runs it on this thread until psr_loop_quit. A failure ends it and is the caller's to tell. */
PSR_MUST_CHECK psr_err psr_loop_run(psr_loop *loop);
/* What there is to do now, without waiting: commands, all messages that the transport has, and at
 * last the time (psr_member_tick). To be called when a message came, by *ret_next_ms, and after the
 * other side had its turn. A failure is the caller's to tell; one of psr_loop_fail is returned. */
PSR_MUST_CHECK psr_err psr_loop_step(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms);
/* The loop ends after what it is at. Any thread. */
void psr_loop_quit(psr_loop *loop);

/* ---- the owner ---- */

/* Hands over a command, to be taken now or soon. false: there is no room, and the command is still
 * the caller's. A loop with commands_max takes none while much waits for a slow scheduler
 * (PSR_MEMBER_WAITING_MAX): so there is no room then, and whoever has more to say waits. */
bool psr_loop_submit(psr_loop *loop, const psr_command *command);
/* The same, but it is taken when the owner next submits something, or waits, or the loop hears
 * something. */
bool psr_loop_submit_later(psr_loop *loop, const psr_command *command);
/* Whether there is room. */
bool psr_loop_room(const psr_loop *loop);

/* The loop does nothing any more, or never did: it has failed, or was stopped, or the owner is
 * alone. */
bool psr_loop_over(const psr_loop *loop);

/* Waits until reached says so, which is asked after each change, at most timeout_ns (INT64_MAX:
 * without end). drives, by turns: the owner runs the loop meanwhile; else its thread does, and any
 * thread may ask reached. Without alone a failure ends the wait. false: it was never reached. */
bool psr_loop_await(psr_loop *loop, bool drives, bool (*reached)(void *context), void *context,
                    int64_t timeout_ns);
/* Waits, without end, for what the loop's thread makes happen. Returns the loop's failure, which
 * ends the wait. */
PSR_MUST_CHECK psr_err psr_loop_wait(psr_loop *loop, bool (*reached)(void *context), void *context);
/* Waits for that long. Likewise. */
PSR_MUST_CHECK psr_err psr_loop_pause(psr_loop *loop, double seconds);

/* ---- any thread ---- */

/* Something that the other thread may wait for has changed. */
void psr_loop_changed(psr_loop *loop);

/* It has failed: the loop ends. The first status and line stay. */
void psr_loop_fail(psr_loop *loop, psr_err status, const char *line);
/* The status that it failed with, and its line as detail. */
psr_err psr_loop_failure(const psr_loop *loop);

#endif
