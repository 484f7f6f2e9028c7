/* Liveness: when each member made progress, who waits for whom, and whom to blame when a deadline
 * passes. It does no I/O and reads no clock: the time is passed in. If half a deadline lies between
 * two calls, the caller itself was away, and this time counts as nobody's silence
 * (psr_presence_clock). The coordinator holds one.
 *
 * A member's exchange thread reports PROGRESS (phase, step, bucket, counter of its compute thread,
 * whom it waits for) at least every quarter of the deadline, and when its step or phase has
 * changed. A member is to blame when
 *   - nothing was heard of it for psr_liveness_silence_ms (stopped, cut off), done or not, or
 *   - its counter stood still for the deadline in a phase in which it waits for nobody (hung); in
 *     its start and first step the limit is at least five seconds.
 *
 * A member that waits for another is not to blame. If all wait, nobody moves for the deadline and
 * the scheduler does not work either, then the member at the end of the chain of waiting is named,
 * with what it waits for itself. One thread. */
#ifndef PSR_COMM_LIVENESS_H
#define PSR_COMM_LIVENESS_H

#include "comm/wire/messages.h"

typedef struct psr_liveness psr_liveness;

/* What is known of a member. All times are present times: psr_liveness_present_ms. */
typedef struct psr_watched {
    psr_peer peer;
    char host[64];
    bool on;   /* it is neither done nor gone */
    bool gone; /* it has left, or was given up */
    int64_t heard_ms;
    int64_t moved_ms; /* when its counter last moved, or it last began to wait for another */
    bool reported;
    psr_msg_progress says; /* its last report; valid if reported */
    /* index of the member that it waits for among the watched; SIZE_MAX: it waits for nobody */
    size_t waits_index;
} psr_watched;

/* For how long a process may be silent before it is given up. All others hear of it within three
 * quarters of the deadline after the process fell silent, and so before deadlines of their own
 * pass: an eighth of the deadline, or half a second if that is shorter, is left for its last
 * message to come and for the verdict to be told. It is at least twice as long as the pause between
 * two reports. */
int64_t psr_liveness_silence_ms(int64_t deadline_ms);

PSR_MUST_CHECK psr_err psr_liveness_new(int64_t deadline_ms, int64_t now_ms,
                                        psr_liveness **ret_liveness);
void psr_liveness_free(psr_liveness *liveness);

/* Begins to watch a member (host is copied). */
PSR_MUST_CHECK psr_err psr_liveness_add(psr_liveness *liveness, psr_peer peer, const char *host,
                                        int64_t now_ms);
/* The member said that it is done: it has made all its steps, or has none to make, and waits for
 * the end of the run. It goes on reporting, and is watched for silence only. */
void psr_liveness_done(psr_liveness *liveness, psr_peer peer);
/* The member has left or was given up: it is no longer watched. */
void psr_liveness_gone(psr_liveness *liveness, psr_peer peer);
/* A message of the member came, of any kind. */
void psr_liveness_heard(psr_liveness *liveness, psr_peer peer, int64_t now_ms);
/* The scheduler is doing something that members may wait for: it waits for others to join, or
 * writes a checkpoint. The time until now in which members waited for it is nobody's fault. */
void psr_liveness_scheduler_works(psr_liveness *liveness, int64_t now_ms);
/* A PROGRESS report. */
void psr_liveness_progress(psr_liveness *liveness, psr_peer peer, const psr_msg_progress *report,
                           int64_t now_ms);

/* now_ms less the times in which the caller was away (the present time). Counts as a look at the
 * clock. */
int64_t psr_liveness_present_ms(psr_liveness *liveness, int64_t now_ms);
/* look_ms: when the caller is to look at the clock again. when_ms: the time (ms of the clock) of a
 * present time. */
int64_t psr_liveness_look_ms(const psr_liveness *liveness);
int64_t psr_liveness_when_ms(const psr_liveness *liveness, int64_t present_ms);

/* When the next check is due (ms of the clock), for the caller's timer. */
int64_t psr_liveness_next(const psr_liveness *liveness);
/* True when somebody is to blame; fills line with for example "worker 1 on host7: no sign of life
 * for 30.0 s; last in step 12, backward, bucket 3; shards 0-2 wait for it". Steps count from 1 in
 * all lines, as in the step line. Call it when psr_liveness_next says: called later, the caller's
 * own absence cannot be told from a member's silence. */
bool psr_liveness_check(psr_liveness *liveness, int64_t now_ms, psr_peer *ret_peer, char *line,
                        size_t line_size);

/* The member that has been silent longest, if that is for_ms at least. NULL: there is none. */
const psr_watched *psr_liveness_silent(const psr_liveness *liveness, int64_t present_ms,
                                       int64_t for_ms);
/* The present time at which the first member will have been silent for for_ms; INT64_MAX: there is
 * none. */
int64_t psr_liveness_silent_at(const psr_liveness *liveness, int64_t for_ms);

/* NULL: the member is not watched. Borrowed until the next psr_liveness_add. */
const psr_watched *psr_liveness_of(const psr_liveness *liveness, psr_peer peer);
/* The member that this member waits for, if it is watched and not gone. NULL: none. */
const psr_watched *psr_liveness_awaited(const psr_liveness *liveness, const psr_watched *member);
/* The end of the chain of waiting that begins at member: a member that waits for nobody. NULL: the
 * chain is a circle. */
const psr_watched *psr_liveness_end_of_waiting(const psr_liveness *liveness,
                                               const psr_watched *member);
/* Sets a function that is asked first whom a member waits for, for waiting that reports do not say.
 * true: the member waits for *ret_peer. */
void psr_liveness_waits_also(psr_liveness *liveness,
                             bool (*waits)(void *context, psr_peer peer, psr_peer *ret_peer),
                             void *context);

/* Describes the others when a member dies: "workers 0, 2-3: step 12, pull, bucket 3, waiting for
 * shard 1; shard 0: ..." */
void psr_liveness_describe(const psr_liveness *liveness, const psr_peer *except, char *line,
                           size_t line_size);

/* Finds a slow member to report: the member that waits for nobody at the end of the chain that has
 * lasted longest, if it has lasted longer than since_ms. *ret_waited_ms is how long. A shard's wait
 * for a worker that evaluates or writes a checkpoint does not count: all shards wait then. false:
 * there is none. */
bool psr_liveness_slowest(psr_liveness *liveness, int64_t now_ms, int64_t since_ms,
                          psr_peer *ret_peer, int64_t *ret_waited_ms);

#endif
