/* One line of metrics.jsonl: a step of a rank, as a JSON object. Plain data; any thread. */
#ifndef PSR_WORKER_METRICS_H
#define PSR_WORKER_METRICS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_METRICS_LINE_MAX 768

typedef struct psr_metrics {
    uint64_t step;        /* counted from 1, as in the step line: steps completed when it ended */
    uint32_t rank, epoch; /* epoch from 1 */
    double loss;          /* mean over this rank's own batch; NaN when it had no sample: null in JSON */
    float lr;
    double images_per_s; /* of this rank */
    double compute_s;    /* forward and backward, without waiting */
    double exchange_s;   /* first gradient ready to last weights landed, of the last step that was through by
                            then */
    double wait_s;       /* the compute thread waited for the exchange */
    double load_wait_s;  /* the compute thread waited for the loader */
    uint64_t bytes_sent, bytes_received, staleness;
    bool has_hash;
    uint64_t hash; /* of the weights after this step */
    bool has_test; /* an evaluation followed this step */
    double test_loss, test_accuracy;
} psr_metrics;

/* Without a newline. Reals with 17 digits, which read back to the same bits; not finite ones as null. The
 * hash as sixteen hex digits. */
void psr_metrics_print(const psr_metrics *metrics, char line[static PSR_METRICS_LINE_MAX]);

/* What a run comes to for one worker: the payload of DONE. */
typedef struct psr_outcome {
    uint64_t steps;  /* completed, those before a resume included */
    uint64_t images; /* samples that all workers together trained on here */
    double seconds;  /* from the first step's begin to the last one's end */
    double wait_s, load_wait_s, compute_s;
    double loss;                /* last step's, mean over all workers' samples */
    double test_loss, accuracy; /* of the last evaluation */
    uint64_t test_count;
    uint64_t hash;
    bool stopped; /* before its last step, because it was told to */
} psr_outcome;

void psr_outcome_print(const psr_outcome *outcome, char line[static PSR_METRICS_LINE_MAX]);

#endif
