/* What a person sees of a run while it goes: the newest lines of metrics, over all ranks. One
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
    double loss;          /* mean of the ranks' newest; NaN when none had a sample */
} psr_progress_now;

typedef struct psr_progress_options {
    uint32_t ranks;
    uint64_t total;       /* steps of the run */
    uint64_t round_every; /* multiples of so many steps are always shown */
    uint32_t samples;     /* of an evaluation */
} psr_progress_options;

/* ret owns. */
PSR_MUST_CHECK psr_err psr_progress_new(const psr_progress_options *options,
                                        psr_progress **ret_progress);
void psr_progress_free(psr_progress *progress);

/* A line of metrics: its loss, and what an evaluation came to. What it lacks is not shown. */
void psr_progress_take(psr_progress *progress, const psr_metrics_line *line);

/* True when there is something new to show, at most ten times a second, and always for round steps
 * and the last one. */
bool psr_progress_look(psr_progress *progress, int64_t now_ms, psr_progress_now *ret_now);

typedef struct psr_progress_evaluating {
    uint64_t step, total;      /* completed steps, of the run */
    uint64_t counted, samples; /* by all ranks together, of all */
} psr_progress_evaluating;

/* rank has counted so many samples in its evaluation after `step` steps. */
void psr_progress_counted(psr_progress *progress, uint32_t rank, uint64_t step, uint64_t counted);
/* True when there is something new to show of an evaluation that goes on: at its begin, and then at
 * most ten times a second. */
bool psr_progress_look_evaluating(psr_progress *progress, int64_t now_ms,
                                  psr_progress_evaluating *ret_evaluating);

typedef struct psr_progress_evaluation {
    uint64_t step;
    double accuracy, loss; /* on the test set */
} psr_progress_evaluation;

/* True once for each evaluation that the metrics told of. */
bool psr_progress_evaluated(psr_progress *progress, psr_progress_evaluation *ret_evaluation);

#endif
