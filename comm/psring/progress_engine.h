/* Who makes progress: a thread of its own, or the caller's while it waits in a call. A message then needs no hop from the one to the other:
 * the caller receives it itself.
 *
 * One of the two has the turn, and with it the loop and all that the loop's callbacks touch; a mutex hands it over. The caller takes it to
 * wait, and keeps it until what it waits for is reached. What must go on without the caller is the thread's: it takes the turn
 * when something is under way that the caller has left, and otherwise when the caller has not come back for a while. */
#ifndef PSR_COMM_PSRING_PROGRESS_ENGINE_H
#define PSR_COMM_PSRING_PROGRESS_ENGINE_H

#include "comm/loop.h"

typedef struct psr_progress_engine psr_progress_engine;

typedef struct psr_progress_engine_options {
    psr_loop *
        loop; /* driven by turns; NULL: there is none, and the caller is alone. Borrowed for life, as transport */
    psr_transport *transport;
    void *context;
    /* With the turn: something is under way that others may go on with before the caller comes back. */
    bool (*busy)(void *context);
    /* With the turn, once: the loop has failed with err, its line is the detail. It is over. */
    void (*failed)(void *context, psr_err err);
    /* The caller's, where it is over or was never: what it has to do itself. Returns in how many ms again, INT64_MAX: never. */
    int64_t (*alone)(void *context);
} psr_progress_engine_options;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_progress_engine_new(const psr_progress_engine_options *options,
                                               psr_progress_engine **ret_engine);
/* When its thread does not run. NULL allowed. */
void psr_progress_engine_free(psr_progress_engine *engine);

/* Starts the thread. Without a loop: nothing. IO. */
PSR_MUST_CHECK psr_err psr_progress_engine_start(psr_progress_engine *engine);
/* Ends the thread. A second call, and one without a start, are allowed. */
void psr_progress_engine_stop(psr_progress_engine *engine);

/* ---- the caller: one thread at a time ---- */

/* There is no loop, or it has failed, or was stopped: nothing is done but by the caller. */
bool psr_progress_engine_over(const psr_progress_engine *engine);
/* The loop has something to take over: now, by the caller, or soon. */
void psr_progress_engine_submit(psr_progress_engine *engine);
/* Waits until reached says so, which is asked after each change, at most timeout_ms (INT64_MAX: without end). False: it never did.
 * drives: with the turn; otherwise the thread goes on, and what is waited for was submitted; then any thread that says that something changed
 * may ask reached too. */
bool psr_progress_engine_wait(psr_progress_engine *engine, bool drives, bool (*reached)(void *context),
                              void *context, int64_t timeout_ms);

/* ---- any thread ---- */

/* Something that the caller may wait for has changed. One load while it does not wait, or makes the change itself. */
void psr_progress_engine_changed(psr_progress_engine *engine);

#endif
