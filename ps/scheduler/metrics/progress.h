/* What a person sees of a run while it goes on: the newest lines of metrics, over all ranks. One
 * thread. */
#ifndef PSR_PS_SCHEDULER_METRICS_PROGRESS_H
#define PSR_PS_SCHEDULER_METRICS_PROGRESS_H

#include "base/err.h"
#include "ps/scheduler/metrics/metrics_line.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_progress psr_progress;

typedef struct psr_progress_now {
    uint64_t step, total; /* steps completed by all ranks */
    double loss;          /* mean over the ranks' newest lines; NaN if none had a sample */
} psr_progress_now;

typedef struct psr_progress_options {
    uint32_t ranks;
    uint64_t total;       /* steps of the run */
    uint64_t round_every; /* multiples of this number of steps are always shown */
    uint32_t samples;     /* number of samples of an evaluation */
    /* of --seconds, after which the run ends if it has not had all steps; 0: none. What is shown as
     * total is an estimate then */
    double seconds;
} psr_progress_options;

/* The caller owns *ret_progress. */
PSR_MUST_CHECK psr_err psr_progress_new(const psr_progress_options *options,
                                        psr_progress **ret_progress);
void psr_progress_free(psr_progress *progress);

/* Takes a line of metrics: its loss, and the result of an evaluation. Missing values are not
 * shown. */
void psr_progress_take(psr_progress *progress, const psr_metrics_line *line);

/* true: there is something new to show; at most ten times a second, but always for multiples of
 * round_every and the last step. */
bool psr_progress_look(psr_progress *progress, int64_t now_ms, psr_progress_now *ret_now);

typedef struct psr_progress_evaluating {
    uint64_t step, total;      /* completed steps, and those of the run */
    uint64_t counted, samples; /* samples counted by all ranks together, and all samples */
} psr_progress_evaluating;

/* rank has counted so many samples in its evaluation after `step` steps. */
void psr_progress_counted(psr_progress *progress, uint32_t rank, uint64_t step, uint64_t counted);
/* true: there is something new to show about the present evaluation; at its beginning, and then at
 * most ten times a second. */
bool psr_progress_look_evaluating(psr_progress *progress, int64_t now_ms,
                                  psr_progress_evaluating *ret_evaluating);

typedef struct psr_progress_evaluation {
    uint64_t step;
    double accuracy, loss; /* on the test set */
    /* --ema: the same of the average of the weights */
    bool has_ema;
    double ema_accuracy, ema_loss;
} psr_progress_evaluation;

/* What a line tells of an evaluation; its accuracy is NaN if there was none. */
psr_progress_evaluation psr_progress_evaluation_of(const psr_metrics_line *line);

/* true once for each evaluation whose result came with the metrics. */
bool psr_progress_evaluated(psr_progress *progress, psr_progress_evaluation *ret_evaluation);

#endif
