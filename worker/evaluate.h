/* Evaluation across workers: every test sample once, however many share the work. Collective: all
 * workers call at the same step, after psr_exchange_drain. One thread: the compute thread. */
#ifndef PSR_WORKER_EVALUATE_H
#define PSR_WORKER_EVALUATE_H

#include "worker/trainer.h"

typedef struct psr_evaluation {
    uint64_t count;
    double accuracy, top5, loss; /* means over the test samples */
    /* not all samples were counted because the run is being stopped: the other fields are not
     * valid */
    bool left_out;
} psr_evaluation;

/* Each rank's batch-norm statistics, averaged in double (psr_exchange_average), rounded once:
 * into averaged (net->buffers.length floats), on every worker. */
PSR_MUST_CHECK psr_err psr_average_buffers(psr_trainer *trainer, float *averaged);

/* Evaluates the test split with the present weights, those after `steps` steps, and the averaged
 * statistics. Every worker gets the whole result. If the run is being stopped and these steps are
 * its last, every worker leaves the evaluation when the back end next asks for a bucket of weights.
 * A large network asks several times for each batch, a small one once. Fails as the exchange, the
 * back end and the loader do. A loss that is not finite is returned; the caller makes it
 * NUMERIC. */
PSR_MUST_CHECK psr_err psr_evaluate(psr_trainer *trainer, uint64_t steps,
                                    psr_evaluation *ret_evaluation);

#endif
