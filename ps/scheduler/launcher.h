/* The scheduler's two pipes with the launcher, as JSON lines (one object each).
 *
 * From the launcher, on standard input, whose end means that the launcher died:
 *     {"lost": {"role": "worker", "rank": 1, "host": "b", "how": "killed by signal 9"}}
 *         a member's process ended; host may be absent
 *     {"agent": {"host": "b", "how": "no sign of life for 30.0 s"}}
 *         a host's agent, which its processes do without, is silent
 *     {"log": {"role": "worker", "rank": 1, "stream": "err", "line": ".."}}
 *         it printed a line
 *     {"stop": true}
 *         Ctrl-C
 *     {"pause": true}, {"go_on": true}
 *         Ctrl-Z: the launcher is about to be stopped, and the agents stop their processes; it goes on, and so do they. In between
 *         no time passes: the clock stands
 *     {"alive": true}
 *         at least four times per deadline
 * To the launcher, on standard output, each with its name as "event":
 *     listening   endpoint
 *     joined      role, rank, host, count, total
 *     running
 *     progress    step, total, loss, images_per_s
 *     evaluating  step, total, counted, samples
 *     evaluated   line: what the evaluation came to
 *     say         line
 *     alive
 *     paused
 *     ended       status (exit status), line, outcome
 *
 * Writing never blocks: what the pipe does not take waits here; while much waits, progress, evaluating and alive are
 * left out. Without a launcher (a start by hand) events go to the log and there are no orders. One thread. */
#ifndef PSR_PS_LAUNCHER_H
#define PSR_PS_LAUNCHER_H

#include "comm/join.h"

typedef struct psr_launcher psr_launcher;

typedef enum psr_order_kind {
    PSR_ORDER_NOTHING,
    PSR_ORDER_LOST,
    PSR_ORDER_AGENT, /* host, and text says how */
    PSR_ORDER_LOG,
    PSR_ORDER_STOP, /* the launcher's, or SIGINT or SIGTERM to this process */
    PSR_ORDER_ALIVE,
    PSR_ORDER_PAUSE,
    PSR_ORDER_GO_ON,
    PSR_ORDER_GONE, /* the launcher died */
    PSR_ORDER_BAD,  /* not one of these: text says what it was */
} psr_order_kind;

typedef struct psr_order {
    psr_order_kind kind;
    psr_peer peer;
    char host[PSR_HOST_MAX]; /* "": not told */
    char text[4096];         /* how, or a line */
} psr_order;

/* wake: called on another thread when an order may be there. ret owns. */
PSR_MUST_CHECK psr_err psr_launcher_new(bool by_hand, void (*wake)(void *context), void *context,
                                        psr_launcher **ret_launcher);
/* Writes what still waits, for at most a second. NULL allowed. */
void psr_launcher_free(psr_launcher *launcher);

/* The next order, without waiting. */
void psr_launcher_take(psr_launcher *launcher, psr_order *ret_order);
/* Tries again to write what waits. */
void psr_launcher_flush(psr_launcher *launcher);

void psr_launcher_listening(psr_launcher *launcher, const char *endpoint);
void psr_launcher_joined(psr_launcher *launcher, const psr_roster_entry *entry, uint32_t count,
                         uint32_t total);
void psr_launcher_running(psr_launcher *launcher);
void psr_launcher_progress(psr_launcher *launcher, uint64_t step, uint64_t total, double loss,
                           double images_per_s);
void psr_launcher_evaluating(psr_launcher *launcher, uint64_t step, uint64_t total, uint64_t counted,
                             uint64_t samples);
void psr_launcher_evaluated(psr_launcher *launcher, const char *line);
void psr_launcher_say(psr_launcher *launcher, const char *line);
void psr_launcher_alive(psr_launcher *launcher);
/* The answer to PAUSE. */
void psr_launcher_paused(psr_launcher *launcher);
void psr_launcher_ended(psr_launcher *launcher, psr_err status, const char *line, const char *outcome_json);

#endif
