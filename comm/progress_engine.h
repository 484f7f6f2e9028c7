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
 * reached; before it sleeps, it looks for a moment (psr_transport_look). While one thread of the
 * owner waits, another may submit: one waits at a time, and one submits at a time. What must go on
 * without the owner is the thread's: it takes the turn when something is under way that the owner
 * has left (at once, or half a millisecond later if the owner has lately come back at once), and
 * otherwise when the owner has not come back for a while. */
#ifndef PSR_COMM_PROGRESS_ENGINE_H
#define PSR_COMM_PROGRESS_ENGINE_H

#include "net/transport.h"

typedef struct psr_progress_engine psr_progress_engine;

/* How the owner waits if no thread runs the loop: both are on one thread. */
typedef struct psr_loop_waiter {
    void *context;
    /* returns when something has changed; it may return without that */
    void (*pause)(void *context);
    void (*pass)(void *context, double seconds); /* returns after that time */
    void (*changed)(void *context);              /* something has changed while it pauses */
    int64_t (*now_ns)(void *context);            /* the clock; NULL: psr_clock_ns */
} psr_loop_waiter;

typedef struct psr_progress_engine_options {
    /* NULL: there is no loop, and the owner is alone. Borrowed for life */
    psr_transport *transport;
    void *context;
    /* Called with the turn: takes what was handed over and does what the time asks for; returns
     * when to be called again. A failure ends the loop. */
    psr_err (*pass)(void *context, int64_t now_ms, int64_t *ret_next_ms);
    /* Called with the turn: takes one message, if there is one. *ret_any: there was a message or a
     * wake, so there may be more to do. */
    psr_err (*take)(void *context, int64_t now_ms, bool *ret_any);
    /* Called once, with the turn: the loop has failed with err, with its line as the detail, and is
     * over. */
    void (*failed)(void *context, psr_err err);
    /* By turns; called with the turn: something is under way that others may continue before the
     * owner comes back. NULL: not by turns. */
    bool (*busy)(void *context);
    /* If there is no loop, or it is over: does what the owner has to do itself. Returns in how many
     * ms to call it again, INT64_MAX: never. NULL: there is nothing to do. */
    int64_t (*alone)(void *context);
    const psr_loop_waiter *waiter; /* for step by step; borrowed for life. NULL: another way */
} psr_progress_engine_options;

/* NOMEM. The caller owns *ret_engine. */
PSR_MUST_CHECK psr_err psr_progress_engine_new(const psr_progress_engine_options *options,
                                               psr_progress_engine **ret_engine);
/* Call it when its thread does not run. NULL allowed. */
void psr_progress_engine_free(psr_progress_engine *engine);

/* Starts the thread. Does nothing without a transport. IO. */
PSR_MUST_CHECK psr_err psr_progress_engine_start(psr_progress_engine *engine);
/* Ends the thread. A second call, and one without a start, are allowed. */
void psr_progress_engine_stop(psr_progress_engine *engine);
/* Runs the loop on this thread until psr_progress_engine_quit. A failure ends it and is
 * returned. */
PSR_MUST_CHECK psr_err psr_progress_engine_run(psr_progress_engine *engine);
/* The loop ends after what it is doing. Any thread. */
void psr_progress_engine_quit(psr_progress_engine *engine);

/* ---- the owner ---- */

/* There is no loop, or it has failed or was stopped: only the owner does anything. */
bool psr_progress_engine_over(const psr_progress_engine *engine);
/* There is something for the loop to take; it is taken now, by the owner, or soon. */
void psr_progress_engine_submit(psr_progress_engine *engine);
/* Waits until reached returns true, at most timeout_ns (INT64_MAX: without limit). reached is
 * called after each change. false: it never returned true. drives, by turns: the owner has the turn
 * meanwhile. Otherwise the thread goes on; what is waited for was submitted before, and any thread
 * that reports a change may call reached too. */
bool psr_progress_engine_wait(psr_progress_engine *engine, bool drives,
                              bool (*reached)(void *context), void *context, int64_t timeout_ns);

/* By turns: the owner hears of changes in another way than by waiting here, so whatever is under
 * way is the thread's at once. */
void psr_progress_engine_unattended(psr_progress_engine *engine);

/* ---- any thread ---- */

/* Something that the owner may wait for has changed. Costs one load if the owner does not wait, or
 * makes the change itself. */
void psr_progress_engine_changed(psr_progress_engine *engine);

#endif
