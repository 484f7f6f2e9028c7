/* What a benchmark has found: two tables of 80 columns for each group, an answer in sentences, and
 * what is to be said about them. One thread. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_SUMMARY_H
#define PSR_DEPLOY_BENCH_TRAIN_SUMMARY_H

#include "deploy/bench_train/grid.h"
#include "deploy/bench_train/measure.h"
#include "deploy/bench_train/results.h"

#include <stdio.h>

typedef struct psr_bench_summary {
    const psr_grid *grid;       /* borrowed */
    const psr_results *results; /* borrowed */
    uint32_t repetitions;
    double link_bytes_per_s; /* of every host's link, in each direction; NaN: not known */
    psr_measure_targets targets;
} psr_bench_summary;

/* NOMEM. */
PSR_MUST_CHECK psr_err psr_bench_summary_print(const psr_bench_summary *summary, FILE *to);

#endif
