/* Liveness: who made progress when, and whom to name when a deadline passes. Free of I/O and of clocks: the
 * time is passed in, and where half a deadline lies between two calls, its keeper was away, which is nobody's silence
 * (psr_presence_clock). The scheduler holds one.
 *
 * A member reports PROGRESS (phase, step, bucket, counter of its compute thread, whom it waits for) at least
 * every quarter of the deadline and when its step or phase has changed, from its exchange thread. A member is
 * to blame when
 *   - nothing was heard of it for the deadline (stopped, cut off), be it done or not, or
 *   - its counter stood still for the deadline in a phase in which it waits for nobody (hung); in its
 *     start and first step for five seconds at least.
 *
 * A member that waits for another is not to blame; if all wait and nobody moves for the deadline, nor the scheduler
 * works, the member at which the waiting ends is named with what it waits for itself. One thread. */
#ifndef PSR_COMM_LIVENESS_H
#define PSR_COMM_LIVENESS_H

#include "comm/wire/messages.h"

typedef struct psr_liveness psr_liveness;

PSR_MUST_CHECK psr_err psr_liveness_new(int64_t deadline_ms, int64_t now_ms, psr_liveness **ret_liveness);
void psr_liveness_free(psr_liveness *liveness);

/* Begins to watch a member (host is copied). */
PSR_MUST_CHECK psr_err psr_liveness_add(psr_liveness *liveness, psr_peer peer, const char *host,
                                        int64_t now_ms);
/* It said that it is done, with all steps or with none to do: it waits for the run's end. It goes on to report, and is watched for
 * silence alone. */
void psr_liveness_done(psr_liveness *liveness, psr_peer peer);
/* Anything at all was heard of it. */
void psr_liveness_heard(psr_liveness *liveness, psr_peer peer, int64_t now_ms);
/* The scheduler is at work on what members may be waiting for: who has yet to join, a checkpoint on its way to the
 * disk. That they wait for it is nobody's fault until now. */
void psr_liveness_scheduler_works(psr_liveness *liveness, int64_t now_ms);
/* A PROGRESS report. */
void psr_liveness_progress(psr_liveness *liveness, psr_peer peer, const psr_msg_progress *report,
                           int64_t now_ms);

/* When the next check is due (absolute ms), for the caller's timer; INT64_MAX when nobody is watched. */
int64_t psr_liveness_next(const psr_liveness *liveness);
/* True when somebody is to blame: fills line with "worker 1 on host7: no sign of life for 30.0 s; last in
 * step 12, backward, bucket 3; shards 0-2 wait for it". Steps count from 1 in all lines, as in the step line.
 * To be called when psr_liveness_next says so, or an absence could not be told from silence. */
bool psr_liveness_check(psr_liveness *liveness, int64_t now_ms, psr_peer *ret_peer, char *line,
                        size_t line_size);

/* "workers 0, 2-3: step 12, pull, bucket 3, waiting for shard 1; shard 0: ..." for the line that is printed
 * when a member dies. */
void psr_liveness_describe(const psr_liveness *liveness, const psr_peer *except, char *line,
                           size_t line_size);

/* The member that others have waited for longest, when longer than since_ms: to say who is slow. Not one that
 * waits itself: the one at the end of the waiting. Shards wait for no worker while it evaluates: all do. false: none. */
bool psr_liveness_slowest(psr_liveness *liveness, int64_t now_ms, int64_t since_ms, psr_peer *ret_peer,
                          int64_t *ret_waited_ms);

#endif
