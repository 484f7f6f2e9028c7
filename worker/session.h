/* A run's life, as one worker takes part in it: READY and START, the state of a checkpoint in and
 * out, metrics, hold and stop, reports, DONE and BYE. How gradients become weights is the
 * exchange's (worker/exchange/exchange.h), which stands on the same thread; nothing here knows a
 * bucket's way.
 *
 * All of it is between this worker and the scheduler. The compute thread calls it, but for
 * psr_session_report. One thread underneath, the exchange thread (comm/loop.h), owns all sockets. A
 * failure anywhere (deadline, abort from the scheduler, peer's violation) makes every call of
 * session and exchange return that status at once. */
#ifndef PSR_WORKER_SESSION_H
#define PSR_WORKER_SESSION_H

#include "comm/comm.h"

typedef struct psr_session psr_session;

/* All borrowed for life. */
typedef struct psr_session_options {
    uint64_t first_step, total_steps;
    const psr_view
        *view; /* that the run begins with; NULL: of epoch 0, and its plan is not known */
    uint32_t commands_max; /* that may wait for the thread before a call waits for room */
    /* Belong to the thread from psr_session_start to psr_session_stop; connected to all that this
     * worker sends to. */
    psr_transport *transport;
    psr_member *member;
    const struct psr_loop_waiter *waiter; /* comm/loop.h: for a simulated
                                             process; NULL: psr_session_start */
} psr_session_options;

/* No thread yet. ret owns: psr_session_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_session_new(const psr_session_options *options,
                                       psr_session **ret_session);

/* Starts the thread, once an exchange has been made on the session. The member's report callback
 * may call psr_session_report from now on. */
PSR_MUST_CHECK psr_err psr_session_start(psr_session *session);

/* In its place, for a simulated process: psr_loop_step. */
PSR_MUST_CHECK psr_err psr_session_step(psr_session *session, int64_t now_ms, int64_t *ret_next_ms);

/* Ends the thread. Then, in this order: psr_member_free, psr_transport_free (which gives back what
 * is still lent to it), psr_exchange_free and psr_session_free. NULL allowed, and a second call. */
void psr_session_stop(psr_session *session);

/* After psr_session_stop. NULL allowed. */
void psr_session_free(psr_session *session);

/* ---- from one end to the other ---- */

/* The next RESTORE message of the scheduler, in order; waits for it. ret owns. Only before
 * READY. */
PSR_MUST_CHECK psr_err psr_session_restored(psr_session *session, psr_message **ret_message);

/* Tells the scheduler READY (json: may be NULL) and waits for START. */
PSR_MUST_CHECK psr_err psr_session_ready(psr_session *session, const char *json);

/* One line of metrics.jsonl to the scheduler. Copies; waits only for room. */
PSR_MUST_CHECK psr_err psr_session_metrics(psr_session *session, const char *json);

/* A run of a section's arena (net/message.h) for the checkpoint after `steps` steps, in pieces.
 * Copies, as above. */
PSR_MUST_CHECK psr_err psr_session_checkpoint(psr_session *session, uint64_t steps,
                                              uint32_t section, const float *arena, psr_span run);

/* Waits until the checkpoint after `steps` steps, which this worker has sent, is in place; 0: none
 * was sent. So at most one is on its way to the disk while the next one is sent, however slow the
 * disk is. */
PSR_MUST_CHECK psr_err psr_session_await_saved(psr_session *session, uint64_t steps);

/* Tells DONE (steps completed, final figures; whether it left something else out because it was
 * told to stop) and waits for BYE: everything that this worker sent has been dealt with. */
PSR_MUST_CHECK psr_err psr_session_done(psr_session *session, uint64_t steps, bool left_out,
                                        const char *json);

/* The compute thread failed with status and the line of psr_err_detail: the thread tells the
 * scheduler, unless it failed first, and ends. */
void psr_session_fail(psr_session *session, psr_err status);

/* Something outside has failed: every call of session and exchange returns this status from now on,
 * and the scheduler is told the line. Any thread, between psr_session_start and
 * psr_session_stop. */
void psr_session_break(psr_session *session, psr_err status, const char *line);

/* ---- hold, stop and change ---- */

/* Asked before each step (0-based, of the run), by the exchange: waits while the run is being
 * stopped or changed, and where a view is planned that begins with this step, until that has come.
 * The same step again is another rank's turn of it, and goes on at once. CANCELLED: the run is
 * being stopped in order and this step must not be taken (Ctrl-C); the last step of the run is then
 * psr_session_last_step. */
PSR_MUST_CHECK psr_err psr_session_may_begin(psr_session *session, uint64_t step);
uint64_t psr_session_last_step(psr_session *session);

/* After psr_session_may_begin of that step: the view that begins with it, which this worker has to
 * stand on before it takes the step. NULL: none does. Given once. Borrowed until the next one is
 * given or the session is freed; psr_view_hold keeps it for longer. */
const psr_view *psr_session_view_at(psr_session *session, uint64_t step);

/* This worker stands on the view of that epoch, which psr_session_view_at has given: tells the
 * scheduler, with the pause: the time since psr_session_may_begin was called. */
PSR_MUST_CHECK psr_err psr_session_bound(psr_session *session, uint32_t epoch, double *ret_pause_s);

/* Steps begun, those before first_step included. */
uint64_t psr_session_steps_begun(psr_session *session);

/* The run is being stopped, and takes no step after the first `steps`, which this worker has taken:
 * what only looks at their outcome may be left out. A worker that asks between them and what all
 * workers do together before another step is right to take any order to stop for that: nobody has
 * begun one. */
bool psr_session_stops_after(psr_session *session, uint64_t steps);

/* ---- reports ---- */

/* The compute thread is alive and in this phase (the back end's progress hook; cheap, atomic). */
void psr_session_progress(psr_session *session, int phase);

/* An evaluation goes on, and this process has counted so many samples of the test set; none goes on
 * any more. */
void psr_session_evaluating(psr_session *session, uint64_t samples);
void psr_session_evaluated(psr_session *session);

/* A report: what the compute thread does, and whom it waits for. The exchange thread's
 * (psr_member_options.report). */
void psr_session_report(psr_session *session, psr_msg_progress *progress);

/* Does nothing for that long, or until something fails (--slow). */
PSR_MUST_CHECK psr_err psr_session_pause(psr_session *session, double seconds);

#endif
