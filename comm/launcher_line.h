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
    PSR_ORDER_LOST,  /* a member's process has ended: peer, host, by_itself, how */
    PSR_ORDER_LEFT,  /* of a program: a member's process has ended well: peer, host */
    PSR_ORDER_AGENT, /* a host's agent is silent, and its processes go on without it: host, how */
    /* before the members start: the slowest link between hosts, as measured: bits_per_s, host
     * (which sent), to */
    PSR_ORDER_LINKS,
    PSR_ORDER_LOG, /* a member printed a line: peer, line */
    /* after the end of the run: all that members printed has come, and no LOG follows */
    PSR_ORDER_CLOSED,
    PSR_ORDER_STOP, /* Ctrl-C: ends the run in order, with a checkpoint */
    /* Ctrl-Z: the launcher is about to be stopped, and the agents stop their processes; later all
     * go on. In between the clock stands. */
    PSR_ORDER_PAUSE,
    PSR_ORDER_GO_ON,
    PSR_ORDER_ALIVE, /* at least four times per deadline */
} psr_order_kind;

typedef struct psr_order {
    psr_order_kind kind;
    psr_peer peer;
    char host[PSR_HOST_MAX]; /* "": not known */
    bool by_itself;          /* the process exited and has said why itself; nobody killed it */
    char how[PSR_LAUNCHER_TEXT_MAX];
    char line[PSR_LAUNCHER_TEXT_MAX];
    uint64_t bits_per_s;
    char to[PSR_HOST_MAX];
} psr_order;

/* The caller owns *ret_text: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_order_encode(const psr_order *order, char **ret_text);
/* FORMAT. Fields that do not belong to its kind are zero. */
PSR_MUST_CHECK psr_err psr_order_decode(const char *text, psr_order *ret_order);

/* ---- events ---- */

typedef enum psr_run_event_kind {
    PSR_RUN_LISTENING,
    PSR_RUN_JOINED,
    PSR_RUN_DIRECTORY, /* all have joined, and the run directory exists */
    PSR_RUN_RUNNING,
    PSR_RUN_PROGRESS,
    PSR_RUN_EVALUATING,
    PSR_RUN_EVALUATED, /* an evaluation has ended, with its result */
    PSR_RUN_SAY,
    PSR_RUN_ALIVE,
    PSR_RUN_PAUSED, /* the answer to PAUSE */
    PSR_RUN_ENDED,
} psr_run_event_kind;

typedef struct psr_run_joined {
    psr_peer peer;
    char host[PSR_HOST_MAX];
    uint32_t count, total; /* members that have joined, and the number of all */
} psr_run_joined;

typedef struct psr_run_directory {
    char out[PSR_LAUNCHER_PATH_MAX];
    char resumed[PSR_LAUNCHER_PATH_MAX]; /* what the run continues from; "": nothing */
} psr_run_directory;

typedef struct psr_run_progress {
    uint64_t step, total;      /* completed steps, and those of the run */
    double loss, images_per_s; /* not finite if not known; NaN when decoded */
} psr_run_progress;

typedef struct psr_run_evaluating {
    uint64_t step, total;      /* the step after which it was made, and the steps of the run */
    uint64_t counted, samples; /* samples of the test set that were counted, and all */
} psr_run_evaluating;

typedef struct psr_run_say {
    psr_log_level level;
    psr_log_kind kind;
    char line[PSR_LAUNCHER_TEXT_MAX];
} psr_run_say;

typedef struct psr_run_ended {
    int status; /* the exit status, 0 to 255 */
    char line[PSR_LAUNCHER_TEXT_MAX];
    /* owned by the event: an object with the run's figures; NULL: the run had not begun */
    cJSON *outcome;
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

/* The caller owns *ret_text: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_run_event_encode(const psr_run_event *event, char **ret_text);
/* The caller owns *ret_event: psr_run_event_done. FORMAT. */
PSR_MUST_CHECK psr_err psr_run_event_decode(const char *text, psr_run_event *ret_event);
void psr_run_event_done(psr_run_event *event);

#endif
