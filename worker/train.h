/* The training loop. One thread: the compute thread. */
#ifndef PSR_WORKER_TRAIN_H
#define PSR_WORKER_TRAIN_H

#include "worker/metrics.h"
#include "worker/trainer.h"

/* Takes the steps from trainer->first_step to the run's last, or to the step after which it is told
 * to stop. Evaluates and checkpoints when due and at the end. An evaluation in progress is left out
 * when the run is told to stop. A run that is resumed after its last step only evaluates, and saves
 * nothing. Step lines go to stdout by psr_log_plain, metrics to the scheduler. Errors: NUMERIC: a
 * loss that is not finite, naming step and worker; those of exchange, back end and loader. */
PSR_MUST_CHECK psr_err psr_train(psr_trainer *trainer, psr_outcome *ret_outcome);

#endif
