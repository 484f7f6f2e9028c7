/* Evaluation across workers: every test sample once, however many share the work. Collective: all
 * workers call at the same step, after psr_exchange_drain. One thread: the compute thread. */
#ifndef PSR_WORKER_EVALUATE_H
#define PSR_WORKER_EVALUATE_H

#include "worker/trainer.h"

typedef struct psr_evaluation {
    uint64_t count;
    double accuracy, top5, loss; /* means over the test samples */
    /* --ema: the same of the average of the weights, with the averaged statistics of its own */
    bool has_ema;
    double ema_accuracy, ema_top5, ema_loss;
    /* not all samples were counted because the run is being stopped: the other fields are not
     * valid */
    bool left_out;
} psr_evaluation;

/* Each rank's batch-norm statistics, or their averages by --ema, averaged over the ranks in double
 * (psr_exchange_average), rounded once: into averaged (net->buffers.length floats), on every
 * worker. */
typedef enum psr_statistics { PSR_STATISTICS_OWN, PSR_STATISTICS_EMA } psr_statistics;
PSR_MUST_CHECK psr_err psr_average_buffers(psr_trainer *trainer, psr_statistics which,
                                           float *averaged);

/* Evaluates the test split with the present weights, those after `steps` steps, and the averaged
 * statistics; with --ema, if a step was taken, with the average of the weights too. Every worker
 * gets the whole result. If the run is being stopped and these steps are its last, every worker
 * leaves the evaluation when the back end next asks for a bucket of weights. A large network asks
 * several times for each batch, a small one once. Fails as the exchange, the back end and the
 * loader do. A loss that is not finite is returned; the caller makes it NUMERIC. */
PSR_MUST_CHECK psr_err psr_evaluate(psr_trainer *trainer, uint64_t steps,
                                    psr_evaluation *ret_evaluation);

/* By what --target-accuracy and --keep-best go: the average of the weights if there is one. */
static inline double psr_evaluation_judged(const psr_evaluation *evaluation)
{
    return evaluation->has_ema ? evaluation->ema_accuracy : evaluation->accuracy;
}

/* Logs the evaluation after `steps` steps, in worker 0 alone. */
void psr_evaluation_log(const psr_trainer *trainer, uint64_t steps,
                        const psr_evaluation *evaluation);

#endif
