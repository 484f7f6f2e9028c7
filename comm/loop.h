/* The progress loop of a process: it has a transport and a member, sends what another thread hands it, gives each message to
 * who registered for its type, and lets the member's time pass. It sleeps in psr_member_recv alone, from which a message, a
 * wake or the member's own timer brings it back; nobody polls.
 *
 * It runs on a thread of its own (psr_loop_start: a worker, whose own thread computes), on its owner's
 * (psr_loop_run: a shard), a step at a time and without a clock (psr_loop_step: a simulated process), or by turns, of which one thread
 * at a time has one (psr_loop_pass and psr_loop_take: libpsring). The callbacks are called on the thread that runs it.
 *
 * Down, from one other thread: the command queue and a wake. Up: whatever the callbacks write atomically, a call of
 * psr_loop_changed after it, which costs one load while nobody waits, and psr_loop_wait. */
#ifndef PSR_COMM_LOOP_H
#define PSR_COMM_LOOP_H

#include "comm/command_queue.h"
#include "comm/members/member.h"
#include "comm/outbox.h"

typedef struct psr_loop psr_loop;

/* How the other side waits where no thread runs the loop: both are on one thread. */
typedef struct psr_loop_waiter {
    void *context;
    void (*pause)(void *context);                /* returns when something has changed, or in vain */
    void (*pass)(void *context, double seconds); /* returns after that time */
    void (*changed)(void *context);              /* it pauses, and something has changed */
} psr_loop_waiter;

typedef struct psr_loop_options {
    /* Borrowed for life. The loop's thread alone touches them while it runs. */
    psr_transport *transport;
    psr_member *member;
    uint32_t commands_max; /* that may wait for the loop */
    void *context;
    /* A command of the owner's kinds. NULL: there are none. */
    psr_err (*command)(void *context, const psr_command *command);
    /* A message that nobody registered for. It may take it (and null it). */
    psr_err (*message)(void *context, psr_message **message);
    /* Something woke the transport: what another thread has for the owner. NULL: only commands come so. */
    psr_err (*woken)(void *context);
    /* Before each wait, after the commands. NULL: nothing to do. */
    void (*turned)(void *context);
    /* Time passes, beside the member's: when to be called again. NULL: nothing of the owner's depends on it. */
    psr_err (*tick)(void *context, int64_t now_ms, int64_t *ret_next_ms);
    /* Receiving failed with err, its line is the detail. PSR_OK: the loop goes on. NULL: it ends with that. */
    psr_err (*failed)(void *context, psr_err err);
    const psr_loop_waiter *waiter; /* borrowed for life; NULL: a thread runs the loop */
} psr_loop_options;

/* NOMEM. ret owns: psr_loop_free. */
PSR_MUST_CHECK psr_err psr_loop_new(const psr_loop_options *options, psr_loop **ret_loop);
/* When the loop does not run, and after what is lent to its transport has come back. Frees commands that were never taken. NULL
 * allowed. */
void psr_loop_free(psr_loop *loop);

/* Messages of that type from that role go to take, which may take them (and null them). One for each type; before the loop
 * runs. */
void psr_loop_route(psr_loop *loop, psr_role from, psr_message_type type, void *context,
                    psr_err (*take)(void *context, psr_message **message));

/* The way out of what runs in the loop: sends on its transport; what comes back counts as a change. */
psr_outbox psr_loop_outbox(psr_loop *loop);

/* ---- the loop ---- */

/* Runs it on a thread of its own. A failure is kept, told to who waits and to the scheduler (FAILED), and ends it. IO. */
PSR_MUST_CHECK psr_err psr_loop_start(psr_loop *loop);
/* Ends that thread. NULL, a second call, and one without a start are allowed. */
void psr_loop_stop(psr_loop *loop);

/* Runs it on this thread until psr_loop_quit. A failure ends it and is the caller's to tell. */
PSR_MUST_CHECK psr_err psr_loop_run(psr_loop *loop);
/* What there is to do now, without waiting: commands, all messages that the transport has, and at last the time
 * (psr_member_tick). To be called when a message came, by *ret_next_ms, and after the other side had its turn. A failure is the
 * caller's to tell; one of psr_loop_fail is returned. */
PSR_MUST_CHECK psr_err psr_loop_step(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms);
/* Likewise in two parts, without a wait: what another thread has handed over, and the time, until *ret_next_ms; */
PSR_MUST_CHECK psr_err psr_loop_pass(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms);
/* and one message, if there is one. *ret_any: there was, or a wake, so there may be more to do. */
PSR_MUST_CHECK psr_err psr_loop_take(psr_loop *loop, int64_t now_ms, bool *ret_any);
/* The loop ends after what it is at. Any thread. */
void psr_loop_quit(psr_loop *loop);

/* ---- from one other thread ---- */

/* Hands over a command and wakes the loop. false: there is no room, and the command is still the
 * caller's. A loop takes none while much waits for a slow scheduler (PSR_MEMBER_WAITING_MAX): so
 * there is no room then, and whoever has more to say waits. */
bool psr_loop_submit(psr_loop *loop, const psr_command *command);
/* Whether there is room. */
bool psr_loop_room(const psr_loop *loop);

/* Waits until reached says so, which is asked after each change, on the waiting thread. The loop's failure ends the wait. */
PSR_MUST_CHECK psr_err psr_loop_wait(psr_loop *loop, bool (*reached)(void *context), void *context);
/* Waits for that long. The loop's failure ends it. */
PSR_MUST_CHECK psr_err psr_loop_pause(psr_loop *loop, double seconds);

/* ---- any thread ---- */

/* Something that the other thread may wait for has changed. */
void psr_loop_changed(psr_loop *loop);

/* It has failed: the loop ends. The first status and line stay. */
void psr_loop_fail(psr_loop *loop, psr_err status, const char *line);
/* The status that it failed with, and its line as detail. */
psr_err psr_loop_failure(const psr_loop *loop);

#endif
