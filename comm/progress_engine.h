/* Who runs a progress loop (comm/loop.h), and how its owner waits. There is one owner: the thread
 * that asks something of the loop and waits for what comes of it. Four ways:
 *
 *     a thread of its own  the thread always runs the loop, and the owner sleeps while it waits (a
 *                          worker, which computes)
 *     by turns             the thread, or the owner while it waits in a call: a message then needs
 *                          no hop from one thread to the other, since the owner receives it itself
 *                          (libpsring)
 *     the owner's thread   psr_progress_engine_run (a shard)
 *     step by step         a waiter in the owner's place lets the loop and all else get on (a
 *                          simulated process)
 *
 * By turns, one of the two has the turn, and with it the loop and all that the loop's callbacks
 * touch; a mutex hands it over. The owner takes it to wait, and keeps it until what it waits for is
 * reached. What must go on without the owner is the thread's: it takes the turn when something is
 * under way that the owner has left, and otherwise when the owner has not come back for a while. */
#ifndef PSR_COMM_PROGRESS_ENGINE_H
#define PSR_COMM_PROGRESS_ENGINE_H

#include "net/transport.h"

typedef struct psr_progress_engine psr_progress_engine;

/* How the owner waits where no thread runs the loop: both are on one thread. */
typedef struct psr_loop_waiter {
    void *context;
    void (*pause)(void *context); /* returns when something has changed, or in vain */
    void (*pass)(void *context, double seconds); /* returns after that time */
    void (*changed)(void *context);              /* it pauses, and something has changed */
} psr_loop_waiter;

typedef struct psr_progress_engine_options {
    psr_transport
        *transport; /* NULL: there is no loop, and the owner is alone. Borrowed for life */
    void *context;
    /* With the turn: what was handed over, and what the time asks for; when that wants to be asked
     * again. A failure ends the loop. */
    psr_err (*pass)(void *context, int64_t now_ms, int64_t *ret_next_ms);
    /* With the turn: one message, if there is one. *ret_any: there was, or a wake, so there may be
     * more to do. */
    psr_err (*take)(void *context, int64_t now_ms, bool *ret_any);
    /* With the turn, once: the loop has failed with err, its line is the detail. It is over. */
    void (*failed)(void *context, psr_err err);
    /* By turns, with the turn: something is under way that others may go on with before the owner
     * comes back. NULL: not by turns. */
    bool (*busy)(void *context);
    /* The owner's, where the loop is over or was never: what it has to do itself. Returns in how
     * many ms again, INT64_MAX: never. NULL: there is nothing to do. */
    int64_t (*alone)(void *context);
    const psr_loop_waiter
        *waiter; /* step by step; borrowed for life. NULL: one of the other ways */
} psr_progress_engine_options;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_progress_engine_new(const psr_progress_engine_options *options,
                                               psr_progress_engine **ret_engine);
/* When its thread does not run. NULL allowed. */
void psr_progress_engine_free(psr_progress_engine *engine);

/* Starts the thread. Without a transport: nothing. IO. */
PSR_MUST_CHECK psr_err psr_progress_engine_start(psr_progress_engine *engine);
/* Ends the thread. A second call, and one without a start, are allowed. */
void psr_progress_engine_stop(psr_progress_engine *engine);
/* Runs the loop on this thread until psr_progress_engine_quit. A failure ends it and is
 * returned. */
PSR_MUST_CHECK psr_err psr_progress_engine_run(psr_progress_engine *engine);
/* The loop ends after what it is at. Any thread. */
void psr_progress_engine_quit(psr_progress_engine *engine);

/* ---- the owner ---- */

/* There is no loop, or it has failed, or was stopped: nothing is done but by the owner. */
bool psr_progress_engine_over(const psr_progress_engine *engine);
/* The loop has something to take over: now, by the owner, or soon. */
void psr_progress_engine_submit(psr_progress_engine *engine);
/* Waits until reached says so, which is asked after each change, at most timeout_ns (INT64_MAX:
 * without end). false: it never did. drives: by turns with the turn; otherwise the thread goes on,
 * what is waited for was submitted, and any thread that says that something changed may ask reached
 * too. */
bool psr_progress_engine_wait(psr_progress_engine *engine, bool drives,
                              bool (*reached)(void *context), void *context, int64_t timeout_ns);

/* ---- any thread ---- */

/* Something that the owner may wait for has changed. One load while it does not wait, or makes the
 * change itself. */
void psr_progress_engine_changed(psr_progress_engine *engine);

#endif
