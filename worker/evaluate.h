/* Evaluation across workers: every test sample once, however many share the work. Collective: all workers
 * call at the same step, after psr_exchange_drain. One thread: the compute thread. */
#ifndef PSR_WORKER_EVALUATE_H
#define PSR_WORKER_EVALUATE_H

#include "worker/trainer.h"

typedef struct psr_evaluation {
    uint64_t count, correct;
    double loss; /* mean over the test samples */
} psr_evaluation;

/* Each rank's batch-norm statistics, summed in double in ascending order of rank, divided by n, rounded once:
 * into averaged (net->buffers.length floats), on every worker. */
PSR_MUST_CHECK psr_err psr_average_buffers(psr_trainer *trainer, float *averaged);

/* The test split with the present weights and the averaged statistics. Every worker gets the whole result.
 * Errors: the exchange's, the back end's, the loader's; NUMERIC when the loss is not finite is the caller's
 * to judge. */
PSR_MUST_CHECK psr_err psr_evaluate(psr_trainer *trainer, psr_evaluation *ret_evaluation);

#endif
