/* The life of a run for one worker: READY and START, the state of a checkpoint in and out, metrics,
 * hold and stop, reports, DONE and BYE. All of it is between this worker and the scheduler. The
 * exchange (worker/exchange/exchange.h) turns gradients into weights; it uses the same thread, and
 * nothing here knows the route of a bucket.
 *
 * The compute thread makes all calls, except psr_session_report. One thread below, the exchange
 * thread (comm/loop.h), owns all sockets. After any failure (deadline, the scheduler's abort, a
 * peer's violation) every call of session and exchange returns its status at once. */
#ifndef PSR_WORKER_SESSION_H
#define PSR_WORKER_SESSION_H

#include "base/arrays/blocks.h"
#include "comm/members/member.h"
#include "comm/progress_engine.h"
#include "comm/trace/tracer.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"

typedef struct psr_session psr_session;

/* All borrowed for life. */
typedef struct psr_session_options {
    uint64_t first_step, total_steps;
    /* the view with which the run begins; NULL: epoch 0, and its plan is not known */
    const psr_view *view;
    /* most commands that may wait for the thread before a call waits for room */
    uint32_t commands_max;
    /* Used by the thread from psr_session_start to psr_session_stop. The member has channels to all
     * that this worker sends to. */
    psr_transport *transport;
    psr_member *member;
    psr_tracer *tracer; /* --trace, not yet begun; NULL: nothing is recorded */
    /* see comm/loop.h: for a simulated process; NULL: psr_session_start is used */
    const struct psr_loop_waiter *waiter;
} psr_session_options;

/* Starts no thread yet. The caller owns *ret_session: psr_session_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_session_new(const psr_session_options *options,
                                       psr_session **ret_session);

/* Starts the thread, when an exchange has been made for the session. The member's report callback
 * may call psr_session_report from now on. */
PSR_MUST_CHECK psr_err psr_session_start(psr_session *session);

/* For a simulated process instead: see psr_loop_step. */
PSR_MUST_CHECK psr_err psr_session_step(psr_session *session, int64_t now_ms, int64_t *ret_next_ms);

/* Ends the thread. After it, call in this order: psr_member_free, psr_transport_free (which ends
 * the remaining loans), psr_exchange_free and psr_session_free. NULL and a second call are
 * allowed. */
void psr_session_stop(psr_session *session);

/* After psr_session_stop. NULL allowed. */
void psr_session_free(psr_session *session);

/* ---- from one end to the other ---- */

/* Waits for the next RESTORE message of the scheduler, and returns it. Only before READY. The
 * caller owns *ret_message. */
PSR_MUST_CHECK psr_err psr_session_restored(psr_session *session, psr_message **ret_message);

/* Tells the scheduler READY (json: may be NULL) and waits for START. */
PSR_MUST_CHECK psr_err psr_session_ready(psr_session *session, const char *json);

/* Sends one line of metrics.jsonl to the scheduler. It is copied; the call waits only for room. */
PSR_MUST_CHECK psr_err psr_session_metrics(psr_session *session, const char *json);

/* Sends a run of a section's arena (net/message.h) for the checkpoint after `steps` steps, in
 * pieces. It is copied. */
PSR_MUST_CHECK psr_err psr_session_checkpoint(psr_session *session, uint64_t steps,
                                              uint32_t section, const float *arena, psr_span run);

/* Takes the memory of so many large pieces now, which is kept from one checkpoint to the next, so
 * that the first one finds it. NOMEM. */
PSR_MUST_CHECK psr_err psr_session_keep_pieces(psr_session *session, size_t pieces);
/* The pool of that memory, to which shared memory may be lent (psr_shared_memory_blocks). Borrowed
 * for life. */
psr_blocks *psr_session_pieces(psr_session *session);

/* Waits until the checkpoint after `steps` steps, which this worker has sent, is in place; 0: none
 * was sent. So at most one is on its way to the disk while the next one is sent, however slow the
 * disk is. */
PSR_MUST_CHECK psr_err psr_session_await_saved(psr_session *session, uint64_t steps);

/* Sends DONE (steps completed, final figures; whether it left something else out because it was
 * told to stop) and waits for BYE: then everything that this worker sent has been dealt with. */
PSR_MUST_CHECK psr_err psr_session_done(psr_session *session, uint64_t steps, bool left_out,
                                        const char *json);

/* The compute thread has failed with status and the line of psr_err_detail. The exchange thread
 * tells the scheduler, unless it failed first, and ends. */
void psr_session_fail(psr_session *session, psr_err status);

/* Something else has failed: every call of session and exchange returns this status from now on,
 * and the scheduler is told the line. Any thread, between psr_session_start and
 * psr_session_stop. */
void psr_session_break(psr_session *session, psr_err status, const char *line);

/* ---- traces ---- */

/* The compute thread is about to take a step (from 0, of the run): begins the trace with its first
 * step, and ends it one step after its last one, when all weights of that have landed. */
PSR_MUST_CHECK psr_err psr_session_trace_step(psr_session *session, uint64_t step);
/* All steps are taken, and all weights have landed: ends the trace if it has begun. Before
 * psr_session_done, which waits until it has been sent. */
PSR_MUST_CHECK psr_err psr_session_trace_end(psr_session *session);
/* The tracer while it records, else NULL. */
psr_tracer *psr_session_tracer(const psr_session *session);

/* ---- hold, stop and change ---- */

/* The exchange calls it before each step (from 0, of the run). Waits while the run is being stopped
 * or changed; and if a view is planned that begins with this step, until that has come. For another
 * rank's turn of the same step it returns at once. CANCELLED: the run is being stopped in order
 * (Ctrl-C) and this step must not be taken; psr_session_last_step is the last step then. */
PSR_MUST_CHECK psr_err psr_session_may_begin(psr_session *session, uint64_t step);
uint64_t psr_session_last_step(psr_session *session);

/* After psr_session_may_begin of that step: the view that begins with it, to which this worker must
 * change before it takes the step. NULL: there is none. Each view is returned once. Borrowed until
 * the next one is returned or the session is freed; psr_view_hold keeps it for longer. */
const psr_view *psr_session_view_at(psr_session *session, uint64_t step);

/* This worker has changed to the view of that epoch: tells the scheduler, with the pause, which is
 * the time since psr_session_may_begin was called. */
PSR_MUST_CHECK psr_err psr_session_bound(psr_session *session, uint32_t epoch, double *ret_pause_s);

/* This worker takes no further step: the run ends here, as all workers have seen at the same step
 * and the scheduler, which stops it in order, will see too. psr_session_may_begin waits for
 * that. */
void psr_session_ends_here(psr_session *session);

/* The steps that have begun, including those before first_step. */
uint64_t psr_session_steps_begun(psr_session *session);

/* Whether the run is being stopped and ends after the first `steps` steps, which this worker has
 * taken. Then work that only looks at their result may be left out. The answer is reliable between
 * these steps and the next operation of all workers: no worker has begun another step. */
bool psr_session_stops_after(psr_session *session, uint64_t steps);

/* ---- reports ---- */

/* The compute thread lives and is in this phase (the back end's progress hook; cheap, atomic). */
void psr_session_progress(psr_session *session, int phase);

/* evaluating: an evaluation goes on, and this process has counted so many samples of the test set.
 * The other: it has ended. */
void psr_session_evaluating(psr_session *session, uint64_t samples);
void psr_session_evaluated(psr_session *session);

/* Fills in a report: what the compute thread does, and what it waits for. Exchange thread
 * (psr_member_options.report). */
void psr_session_report(psr_session *session, psr_msg_progress *progress);

/* Waits for that long, or until something fails (--slow). */
PSR_MUST_CHECK psr_err psr_session_pause(psr_session *session, double seconds);

#endif
