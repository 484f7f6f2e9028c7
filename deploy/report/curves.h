/* The loss of each step of a run, from its metrics.jsonl: the mean over the step's samples of all
 * ranks that have reported it. One thread. */
#ifndef PSR_DEPLOY_REPORT_CURVES_H
#define PSR_DEPLOY_REPORT_CURVES_H

#include "base/err.h"

#include <stddef.h>

#define PSR_CURVE_POINTS_MAX 300

typedef struct psr_curve_point {
    double step;    /* the last of the steps that it stands for */
    double train_s; /* the training clock after that step, of the worker that was last */
    double loss;    /* the mean over these steps */
} psr_curve_point;

typedef struct psr_curve {
    psr_curve_point points[PSR_CURVE_POINTS_MAX];
    size_t count;
    size_t steps_per_point;
} psr_curve;

/* Fails as psr_run_steps_read (deploy/report/run_steps.h), which reads the file. */
PSR_MUST_CHECK psr_err psr_curve_read(const char *directory, psr_curve *ret_curve);

#endif
