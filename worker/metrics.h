/* One line of metrics.jsonl: a step of a rank, as a JSON object. Plain data; any thread. */
#ifndef PSR_WORKER_METRICS_H
#define PSR_WORKER_METRICS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_METRICS_LINE_MAX 1536

/* Of an evaluation: means over the test samples. */
typedef struct psr_test_figures {
    double loss, accuracy, top5;
} psr_test_figures;

typedef struct psr_metrics {
    uint64_t step;        /* counted from 1, as in the step line: steps completed when it ended */
    uint32_t rank, epoch; /* epoch from 1 */
    double loss; /* mean over this rank's own batch; NaN (in JSON null) if it had no sample */
    /* the share of the batch that the network had right before it learned from it; NaN as loss */
    double train_accuracy;
    float lr;
    double unix_s; /* end of the step: seconds since 1970, by this host's clock */
    /* end of the step by the training clock: seconds since START, without evaluations and
     * checkpoints */
    double train_s;
    uint32_t images;     /* samples of this rank's batch */
    double images_per_s; /* of this rank: images over the time since its last step, by train_s */
    double compute_s;    /* seconds in forward and backward, without waiting */
    /* seconds from the first gradient ready to the last weights landed, in the last step that was
     * complete by then */
    double exchange_s;
    double wait_s; /* seconds that the compute thread waited for weights, or other workers' sums */
    double sync_bn_wait_s; /* the part of wait_s for sums of batch norms (--sync-bn); 0: none */
    /* see psr_exchange_figures, since the last line */
    double hidden_s, exposed_s;
    /* the part of wait_s for all weights of this step, which an evaluation, a checkpoint, --hash or
     * the end needs; 0: none */
    double drain_s;
    double load_wait_s; /* seconds that the compute thread waited for the loader */
    /* seconds by which a change of the architecture delayed this step's beginning; 0: none */
    double pause_s;
    uint64_t bytes_sent, bytes_received; /* all bytes since this process's last line */
    /* see psr_exchange_figures, since the last line */
    uint64_t gradient_bytes, gradient_float32_bytes;
    uint64_t bytes_lent; /* the part of bytes_sent that went through shared memory */
    /* the oldest weights that this step used: how many updates behind (SSP, async) */
    uint64_t staleness;
    bool has_hash;
    uint64_t hash;       /* of the weights after this step */
    bool has_norm;       /* --clip-norm, worker 0 */
    double norm;         /* of the step's gradient over all parameters, before it was clipped */
    uint32_t loss_scale; /* --precision fp16, worker 0: what the loss was multiplied by; 0: none */
    bool skipped;        /* then: the gradient has overflowed, and the step was left out */
    bool has_test;       /* an evaluation followed this step */
    psr_test_figures test;
    bool has_ema; /* --ema: so was the average of the weights evaluated */
    psr_test_figures ema;
} psr_metrics;

/* Without a newline. Reals with 17 digits, which read back to the same bits; not finite ones as
 * null. The hash as sixteen hex digits. */
void psr_metrics_print(const psr_metrics *metrics, char line[static PSR_METRICS_LINE_MAX]);
/* What rank 0 tells of an evaluation after the step that a resumed run begins at. ema: of the
 * average of the weights; NULL: there is none. */
void psr_metrics_print_evaluation(uint64_t step, const psr_test_figures *test,
                                  const psr_test_figures *ema,
                                  char line[static PSR_METRICS_LINE_MAX]);

/* The result of a run for one worker: the payload of DONE. The run's figures are made of all of
 * them (ps/scheduler/metrics/figures.h). */
typedef struct psr_outcome {
    uint64_t steps;                        /* completed steps, including those before a resume */
    double train_s;                        /* the training clock when the last weights had come */
    double wait_s, load_wait_s, compute_s; /* of all steps of this run */
    double hidden_s, exposed_s, drain_s;   /* likewise */
    uint64_t gradient_bytes, gradient_float32_bytes;
    /* that of the last complete step, mean over all workers' samples; NaN: there is none */
    double loss;
    psr_test_figures test; /* of the last evaluation */
    bool has_ema;          /* --ema: so was the average of the weights evaluated */
    psr_test_figures ema;
    /* of the samples of the last epoch, as far as this run took them, all workers' */
    double train_accuracy;
    uint64_t test_count;
    uint64_t hash;
    /* --precision fp16: what the next step's loss would be multiplied by (0: not scaled), and how
     * many steps were left out */
    uint32_t loss_scale;
    uint64_t skipped_steps;
    bool stopped;  /* it stopped before its last step because it was told to */
    bool left_out; /* it left out an evaluation because it was told to stop */
} psr_outcome;

/* links: a JSON array (psr_exchange_links), which the object has under that name. The caller owns
 * *ret_json: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_outcome_to_json(const psr_outcome *outcome, const char *links,
                                           char **ret_json);

#endif
