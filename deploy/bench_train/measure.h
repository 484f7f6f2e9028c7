/* What one run of a benchmark says, as a record: from its run directory, by the definitions of
 * docs/benchmarking.md. One thread. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_MEASURE_H
#define PSR_DEPLOY_BENCH_TRAIN_MEASURE_H

#include "base/config/config.h"

#include <cjson/cJSON.h>

/* Values that a run is timed to reach; NaN: none. */
typedef struct psr_measure_targets {
    double loss, accuracy;
} psr_measure_targets;

/* Adds the figures of the run in that directory to record, which is the caller's, with "status":
 * "done"; if the run did not end well "failed" and "line", why. NOMEM. */
PSR_MUST_CHECK psr_err psr_measure_run(const char *directory, const psr_config *config,
                                       const psr_measure_targets *targets, cJSON *record);

/* Adds "status" and "line", in place of those that are there. NOMEM. */
PSR_MUST_CHECK psr_err psr_measure_failed(cJSON *record, const char *line);

/* The bytes that the busiest link of any host must carry in one direction in a step of so many
 * bytes of float32 gradients, by docs/algorithms.md, if every host has a link of its own: from
 * "placement" of the run's outcome. 0: nothing crosses a link. NaN: not known, as with
 * compression. */
double psr_measure_least_bytes(const psr_config *config, const cJSON *placement, double bytes);

#endif
