/* The one-link model: docs/algorithms.md's formulas, with what is hidden behind computing counted
 * bucket by bucket. All of an exchange goes through the one thing that has most to do, a link or a
 * process, which serves buckets in the order in which the next forward pass needs them. No state;
 * any thread. */
#ifndef PSR_BENCH_ONE_LINK_H
#define PSR_BENCH_ONE_LINK_H

#include "bench/predict/scenario.h"

/* What a step's exchange asks of each, in seconds. */
typedef struct psr_demand {
    double worker_link_s, shard_link_s; /* of the busiest of a kind, in its busier direction */
    double worker_s, shard_s;           /* of the processes */
    double latency_s;                   /* of a bucket, beside these */
} psr_demand;

void psr_one_link_demand(const psr_scenario *scenario, const psr_choice *choice,
                         psr_demand *ret_demand);

/* NOMEM. */
PSR_MUST_CHECK psr_err psr_one_link_predict(const psr_scenario *scenario, const psr_choice *choice,
                                            psr_prediction *ret_prediction);

#endif
