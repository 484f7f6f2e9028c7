/* One line of metrics.jsonl: a step of a rank, as a JSON object. Plain data; any thread. */
#ifndef PSR_WORKER_METRICS_H
#define PSR_WORKER_METRICS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_METRICS_LINE_MAX 896

typedef struct psr_metrics {
    uint64_t step;        /* counted from 1, as in the step line: steps completed when it ended */
    uint32_t rank, epoch; /* epoch from 1 */
    double loss;          /* mean over this rank's own batch; NaN
                             when it had no sample: null in JSON */
    float lr;
    double unix_s;                                   /* when the step ended: seconds since
                                                        1970, by this host's clock */
    double train_s;                                  /* the same by the training clock: from START,
                                                        without evaluations and checkpoints */
    uint32_t images;                                 /* samples of this rank's batch */
    double images_per_s;                             /* of this rank: over train_s
                                                        since its step before */
    double compute_s;                                /* forward and backward, without waiting */
    double exchange_s;                               /* first gradient ready to last weights landed,
                                                        of the last step that was through by then */
    double wait_s;                                   /* the compute thread waited for weights */
    double load_wait_s;                              /* the compute thread waited for the loader */
    double pause_s;                                  /* a change of the architecture held this step
                                                        up before it began; 0: none did */
    uint64_t bytes_sent, bytes_received;             /* of all kinds, since this
                                                        process's line before */
    uint64_t gradient_bytes, gradient_float32_bytes; /* psr_exchange_figures', since then */
    uint64_t bytes_lent;                             /* of those sent: through shared memory */
    uint64_t staleness;                              /* the oldest weights that this step
                                                        took: updates behind (SSP, async) */
    bool has_hash;
    uint64_t hash; /* of the weights after this step */
    bool has_test; /* an evaluation followed this step */
    double test_loss, test_accuracy;
} psr_metrics;

/* Without a newline. Reals with 17 digits, which read back to the same bits; not finite ones as
 * null. The hash as sixteen hex digits. */
void psr_metrics_print(const psr_metrics *metrics, char line[static PSR_METRICS_LINE_MAX]);

/* What a run comes to for one worker: the payload of DONE. The run's figures are made of all of
 * them (ps/scheduler/metrics/figures.h). */
typedef struct psr_outcome {
    uint64_t steps;                        /* completed, those before a resume included */
    double train_s;                        /* the training clock when the last weights had come */
    double wait_s, load_wait_s, compute_s; /* of all steps of this run */
    uint64_t gradient_bytes, gradient_float32_bytes;
    double loss;                     /* last whole step's, mean over all
                                        workers' samples; NaN: there is none */
    double test_loss, test_accuracy; /* of the last evaluation */
    uint64_t test_count;
    uint64_t hash;
    bool stopped;  /* before its last step, because it was told to */
    bool left_out; /* an evaluation, because it was told to stop */
} psr_outcome;

void psr_outcome_print(const psr_outcome *outcome, char line[static PSR_METRICS_LINE_MAX]);

#endif
