/* Evaluation across workers: every test sample once, however many share the work. Collective: all
 * workers call at the same step, after psr_exchange_drain. One thread: the compute thread. */
#ifndef PSR_WORKER_EVALUATE_H
#define PSR_WORKER_EVALUATE_H

#include "worker/trainer.h"

typedef struct psr_evaluation {
    uint64_t count;
    double accuracy, loss; /* means over the test samples */
    bool left_out;         /* the run is being stopped, and not all
                              samples were counted: none of the above */
} psr_evaluation;

/* Each rank's batch-norm statistics, averaged in double (psr_exchange_average), rounded once:
 * into averaged (net->buffers.length floats), on every worker. */
PSR_MUST_CHECK psr_err psr_average_buffers(psr_trainer *trainer, float *averaged);

/* The test split with the present weights, those after `steps` steps, and the averaged statistics.
 * Every worker gets the whole result. When the run is being stopped with these steps as its last,
 * every worker leaves the evaluation as soon as the back end next asks for a bucket of weights. In
 * a large network that is several times a batch; in a small one, once. Errors: the exchange's, the
 * back end's, the loader's; NUMERIC when the loss is not finite is the caller's to judge. */
PSR_MUST_CHECK psr_err psr_evaluate(psr_trainer *trainer, uint64_t steps,
                                    psr_evaluation *ret_evaluation);

#endif
