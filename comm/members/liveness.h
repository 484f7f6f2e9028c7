/* Liveness: who made progress when, who waits for whom, and whom to name when a deadline passes.
 * Free of I/O and of clocks: the time is passed in, and where half a deadline lies between two
 * calls, its keeper was away, which is nobody's silence (psr_presence_clock). The coordinator holds
 * one.
 *
 * A member reports PROGRESS (phase, step, bucket, counter of its compute thread, whom it waits for)
 * at least every quarter of the deadline and when its step or phase has changed, from its exchange
 * thread. A member is to blame when
 *   - nothing was heard of it for the deadline (stopped, cut off), be it done or not, or
 *   - its counter stood still for the deadline in a phase in which it waits for nobody (hung); in
 *     its start and first step for five seconds at least.
 *
 * A member that waits for another is not to blame; if all wait and nobody moves for the deadline,
 * nor the scheduler works, the member at which the waiting ends is named with what it waits for
 * itself. One thread. */
#ifndef PSR_COMM_LIVENESS_H
#define PSR_COMM_LIVENESS_H

#include "comm/wire/messages.h"

typedef struct psr_liveness psr_liveness;

/* What is known of a member. All times are present times: psr_liveness_present_ms. */
typedef struct psr_watched {
    psr_peer peer;
    char host[64];
    bool on;   /* neither done nor gone */
    bool gone; /* it has left, or was given up */
    int64_t heard_ms;
    int64_t moved_ms; /* when its counter last moved, or it last began to wait for another */
    bool reported;
    psr_msg_progress says; /* the last, when it has reported */
    size_t waits_index;    /* of whom it waits for among the watched; SIZE_MAX: of nobody */
} psr_watched;

PSR_MUST_CHECK psr_err psr_liveness_new(int64_t deadline_ms, int64_t now_ms,
                                        psr_liveness **ret_liveness);
void psr_liveness_free(psr_liveness *liveness);

/* Begins to watch a member (host is copied). */
PSR_MUST_CHECK psr_err psr_liveness_add(psr_liveness *liveness, psr_peer peer, const char *host,
                                        int64_t now_ms);
/* It said that it is done, with all steps or with none to do: it waits for the run's end. It goes
 * on to report, and is watched for silence alone. */
void psr_liveness_done(psr_liveness *liveness, psr_peer peer);
/* It has left, or was given up: it is watched no more. Who waits for it waits in vain. */
void psr_liveness_gone(psr_liveness *liveness, psr_peer peer);
/* Anything at all was heard of it. */
void psr_liveness_heard(psr_liveness *liveness, psr_peer peer, int64_t now_ms);
/* The scheduler is at work on what members may be waiting for: who has yet to join, a checkpoint on
 * its way to the disk. That they wait for it is nobody's fault until now. */
void psr_liveness_scheduler_works(psr_liveness *liveness, int64_t now_ms);
/* A PROGRESS report. */
void psr_liveness_progress(psr_liveness *liveness, psr_peer peer, const psr_msg_progress *report,
                           int64_t now_ms);

/* now_ms without the times in which the keeper was away. A look at the clock. */
int64_t psr_liveness_present_ms(psr_liveness *liveness, int64_t now_ms);
/* The time at which the keeper is to look at the clock again; and that of a present time. */
int64_t psr_liveness_look_ms(const psr_liveness *liveness);
int64_t psr_liveness_when_ms(const psr_liveness *liveness, int64_t present_ms);

/* When the next check is due (absolute ms), for the caller's timer. */
int64_t psr_liveness_next(const psr_liveness *liveness);
/* True when somebody is to blame: fills line with "worker 1 on host7: no sign of life for 30.0 s;
 * last in step 12, backward, bucket 3; shards 0-2 wait for it". Steps count from 1 in all lines, as
 * in the step line. To be called when psr_liveness_next says so, or an absence could not be told
 * from silence. */
bool psr_liveness_check(psr_liveness *liveness, int64_t now_ms, psr_peer *ret_peer, char *line,
                        size_t line_size);

/* The member of which nothing was heard for longest, when that is at least for_ms. NULL: there is
 * none. */
const psr_watched *psr_liveness_silent(const psr_liveness *liveness, int64_t present_ms,
                                       int64_t for_ms);
/* The present time at which the first of them will have been silent for so long; INT64_MAX:
 * nobody. */
int64_t psr_liveness_silent_at(const psr_liveness *liveness, int64_t for_ms);

/* NULL: it is not watched. Borrowed until the next is added. */
const psr_watched *psr_liveness_of(const psr_liveness *liveness, psr_peer peer);
/* Whom a member waits for that is watched and not gone. NULL: nobody. */
const psr_watched *psr_liveness_awaited(const psr_liveness *liveness, const psr_watched *member);
/* Where waiting for one another ends, from a member on: at one that waits for nobody. NULL: in a
 * circle. */
const psr_watched *psr_liveness_end_of_waiting(const psr_liveness *liveness,
                                               const psr_watched *member);
/* Members wait in a way that their reports do not say: asked of each, before its report. true: it
 * waits for *ret_peer. */
void psr_liveness_waits_also(psr_liveness *liveness,
                             bool (*waits)(void *context, psr_peer peer, psr_peer *ret_peer),
                             void *context);

/* "workers 0, 2-3: step 12, pull, bucket 3, waiting for shard 1; shard 0: ..." for the line that is
 * printed when a member dies. */
void psr_liveness_describe(const psr_liveness *liveness, const psr_peer *except, char *line,
                           size_t line_size);

/* The member that others have waited for longest, when longer than since_ms: to say who is slow.
 * Not one that waits itself: the one at the end of the waiting. Shards wait for no worker while it
 * evaluates: all do. false: none. */
bool psr_liveness_slowest(psr_liveness *liveness, int64_t now_ms, int64_t since_ms,
                          psr_peer *ret_peer, int64_t *ret_waited_ms);

#endif
