/* What launcher and scheduler say to each other: one codec for both sides and both directions. A
 * line of JSON each, on pipes that are theirs alone.
 *
 * Orders go to the scheduler, on its standard input, whose end means that the launcher died:
 *     {"order": "lost", "role": "worker", "rank": 1, "host": "b", "by_itself": false,
 *      "how": "killed by signal 9"}
 * Events come from it, on its standard output:
 *     {"event": "progress", "step": 4, "total": 10, "loss": 0.5, "images_per_s": 100}
 *
 * Encoding cuts no text: what is too long for a field is the caller's to cut. The bytes that are
 * decoded may be hostile: FORMAT names the field, and nothing is returned. No state; any thread. */
#ifndef PSR_COMM_LAUNCHER_LINE_H
#define PSR_COMM_LAUNCHER_LINE_H

#include "base/log.h"
#include "comm/members/join.h"

#include <cjson/cJSON.h>

#define PSR_LAUNCHER_TEXT_MAX 4096
#define PSR_LAUNCHER_PATH_MAX 1024

/* ---- orders ---- */

typedef enum psr_order_kind {
    PSR_ORDER_LOST,   /* a member's process ended: peer, host, by_itself, how */
    PSR_ORDER_LEFT,   /* of a program: a member's process ended well: peer, host */
    PSR_ORDER_AGENT,  /* a host's agent, which its processes do without, is silent: host, how */
    PSR_ORDER_LOG,    /* a member printed a line: peer, line */
    PSR_ORDER_CLOSED, /* after the run's end: all that members printed has come; no LOG follows */
    PSR_ORDER_STOP,   /* Ctrl-C: in order, with a checkpoint */
    /* Ctrl-Z: the launcher is about to be stopped, and the agents stop their processes; it goes on,
     * and so do they. In between no time passes: the clock stands. */
    PSR_ORDER_PAUSE,
    PSR_ORDER_GO_ON,
    PSR_ORDER_ALIVE, /* at least four times per deadline */
} psr_order_kind;

typedef struct psr_order {
    psr_order_kind kind;
    psr_peer peer;
    char host[PSR_HOST_MAX]; /* "": not told */
    bool by_itself;          /* it exited, so that it has said why; nobody killed it */
    char how[PSR_LAUNCHER_TEXT_MAX];
    char line[PSR_LAUNCHER_TEXT_MAX];
} psr_order;

/* ret owns: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_order_encode(const psr_order *order, char **ret_text);
/* FORMAT. Fields that are not of its kind are zero. */
PSR_MUST_CHECK psr_err psr_order_decode(const char *text, psr_order *ret_order);

/* ---- events ---- */

typedef enum psr_run_event_kind {
    PSR_RUN_LISTENING,
    PSR_RUN_JOINED,
    PSR_RUN_DIRECTORY, /* all have joined, and the run directory is there */
    PSR_RUN_RUNNING,
    PSR_RUN_PROGRESS,
    PSR_RUN_EVALUATING,
    PSR_RUN_EVALUATED, /* an evaluation is over: what it came to */
    PSR_RUN_SAY,
    PSR_RUN_ALIVE,
    PSR_RUN_PAUSED, /* the answer to PAUSE */
    PSR_RUN_ENDED,
} psr_run_event_kind;

typedef struct psr_run_joined {
    psr_peer peer;
    char host[PSR_HOST_MAX];
    uint32_t count, total; /* members that are there, of all */
} psr_run_joined;

typedef struct psr_run_directory {
    char out[PSR_LAUNCHER_PATH_MAX];
    char resumed[PSR_LAUNCHER_PATH_MAX]; /* what the run goes on with; "": nothing */
} psr_run_directory;

typedef struct psr_run_progress {
    uint64_t step, total;      /* completed steps, of the run */
    double loss, images_per_s; /* not finite: not known; come back as NaN */
} psr_run_progress;

typedef struct psr_run_evaluating {
    uint64_t step, total;      /* after which step, of the run */
    uint64_t counted, samples; /* of the test set, so far and in all */
} psr_run_evaluating;

typedef struct psr_run_say {
    psr_log_level level;
    psr_log_kind kind;
    char line[PSR_LAUNCHER_TEXT_MAX];
} psr_run_say;

typedef struct psr_run_ended {
    int status; /* the exit status, 0 to 255 */
    char line[PSR_LAUNCHER_TEXT_MAX];
    cJSON *outcome; /* owned by the event: an object, the run's
                       figures; NULL: the run had not begun */
} psr_run_ended;

typedef struct psr_run_event {
    psr_run_event_kind kind;
    union {
        char endpoint[PSR_ENDPOINT_MAX]; /* LISTENING */
        psr_run_joined joined;
        psr_run_directory directory;
        psr_run_progress progress;
        psr_run_evaluating evaluating;
        char evaluated[PSR_LAUNCHER_TEXT_MAX];
        psr_run_say say;
        psr_run_ended ended;
    };
} psr_run_event;

/* ret owns: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_run_event_encode(const psr_run_event *event, char **ret_text);
/* ret owns: psr_run_event_done. FORMAT. */
PSR_MUST_CHECK psr_err psr_run_event_decode(const char *text, psr_run_event *ret_event);
void psr_run_event_done(psr_run_event *event);

#endif
