/* The scheduler's end of its two pipes with the launcher, whose lines are comm/launcher_line.h's:
 * orders on standard input, events on standard output. Writing never blocks: what the pipe does not
 * take waits here; while much waits, progress, evaluating, alive and what is said of strangers are
 * left out. Without a launcher (a start by hand) there are no orders, and events are shown to the
 * person on standard output as psring train does (base/show/show.h), and told in the log what a
 * person need not see; by a worker that is started by another launcher, which hears nothing of
 * events, likewise, and orders come. One thread. */
#ifndef PSR_PS_LAUNCHER_H
#define PSR_PS_LAUNCHER_H

#include "base/show/show.h"
#include "comm/launcher_line.h"
#include "comm/view/view.h"

typedef struct psr_launcher psr_launcher;

typedef enum psr_launcher_kind {
    PSR_LAUNCHER_NONE,   /* started by hand: no launcher */
    PSR_LAUNCHER_WORKER, /* started by a worker under another launcher: orders only */
    /* psring train, psring run: orders and events, and signs of life in both directions */
    PSR_LAUNCHER_WHOLE,
} psr_launcher_kind;

typedef enum psr_launcher_heard {
    PSR_LAUNCHER_NOTHING,
    PSR_LAUNCHER_ORDER, /* an order of the launcher */
    /* SIGINT or SIGTERM to this process; means the same as the order STOP */
    PSR_LAUNCHER_INTERRUPT,
    PSR_LAUNCHER_GONE, /* the launcher died */
    /* a line that is no order: psr_err_detail() says why, and begins with the line */
    PSR_LAUNCHER_BAD,
} psr_launcher_heard;

/* wake: called on another thread when there may be an order. config: the run's, borrowed for life;
 * NULL for WHOLE. The caller owns *ret_launcher. */
PSR_MUST_CHECK psr_err psr_launcher_new(psr_launcher_kind kind, const psr_config *config,
                                        void (*wake)(void *context), void *context,
                                        psr_launcher **ret_launcher);
/* Writes what still waits, for at most a second, and frees it. NULL allowed. */
void psr_launcher_free(psr_launcher *launcher);

/* The next thing that the launcher said, without waiting. ret_order: filled in for ORDER only. */
psr_launcher_heard psr_launcher_take(psr_launcher *launcher, psr_order *ret_order);
/* Tries again to write what waits. */
void psr_launcher_flush(psr_launcher *launcher);

/* Members may join, at endpoint. */
void psr_launcher_listening(psr_launcher *launcher, const char *endpoint);
/* entry has joined: count of total have. */
void psr_launcher_joined(psr_launcher *launcher, const psr_view_member *entry, uint32_t count,
                         uint32_t total);
/* All have joined. Only shown here; psring train knows where they are. */
void psr_launcher_configuration(psr_launcher *launcher, const psr_show_place *place);
/* The run directory exists. resumed: what the run continues from, or "". */
void psr_launcher_directory(psr_launcher *launcher, const char *out, const char *resumed);
/* All are ready: the first step begins. */
void psr_launcher_running(psr_launcher *launcher);
void psr_launcher_progress(psr_launcher *launcher, uint64_t step, uint64_t total, double loss,
                           double images_per_s);
void psr_launcher_evaluating(psr_launcher *launcher, uint64_t step, uint64_t total,
                             uint64_t counted, uint64_t samples);
void psr_launcher_evaluated(psr_launcher *launcher, const char *line);
void psr_launcher_say(psr_launcher *launcher, psr_log_kind kind, psr_log_level level,
                      const char *line);
void psr_launcher_alive(psr_launcher *launcher);
/* The answer to PAUSE. */
void psr_launcher_paused(psr_launcher *launcher);
/* how_to_go_on: the command that continues a run that was stopped in order, for users who did not
 * start it by psring train; NULL: it was not stopped. */
void psr_launcher_ended(psr_launcher *launcher, psr_err status, const char *line,
                        const char *outcome_json, const char *how_to_go_on);

#endif
