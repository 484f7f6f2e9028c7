/* What the training loop's files share. One step goes this way:
 *
 *   train.c        steps one after the other; the run's end
 *   train_turn.c   each rank's turn: its batch, both passes, its part in the exchange
 *   train_after.c  what follows when all have had theirs: norm, evaluation, metrics, checkpoint
 *
 * All on the compute thread. */
#ifndef PSR_WORKER_TRAIN_PRIVATE_H
#define PSR_WORKER_TRAIN_PRIVATE_H

#include "worker/metrics.h"
#include "worker/passes.h"
#include "worker/train.h"

/* What happened to one replica in the present step. */
typedef struct psr_turn {
    psr_metrics metrics;
    uint32_t count; /* samples of its batch */
    double loss_sum;
    uint32_t correct;
    /* of the steps of the present epoch */
    uint32_t epoch;
    uint64_t epoch_count, epoch_correct;
    /* of the last complete step, because the present step may be refused */
    uint32_t last_count;
    double last_loss_sum;
    double load_waited_s; /* the loader's waiting time when the last turn ended */
    /* on the training clock: when the last turn ended, or in local mode when this one began */
    double begun_s;
    double stepped_s; /* when the exchange's step began */
} psr_turn;

typedef struct psr_training {
    psr_trainer *t;
    psr_turn *turns;   /* [replicas] */
    psr_share *shares; /* [replicas] */
    psr_passes passes;
    psr_outcome outcome;
    uint64_t last_evaluated, last_saved; /* completed steps at that time; 0: never */
    double judged_accuracy;              /* by what --target-accuracy goes, at last_evaluated */
    /* The training clock: time since START less that of evaluations and checkpoints. */
    double start_s, aside_s;
    uint64_t settled;  /* completed steps when all weights had last landed */
    uint64_t averaged; /* and when --ema last followed what a device has updated */
    bool skipped;      /* --precision fp16: the last step was left out */
    /* bytes of evaluations and checkpoints, for the next line */
    uint64_t carried_sent, carried_received, carried_lent;
    psr_pass_times *times; /* --record, in worker 0; owned; NULL: none */
} psr_training;

/* ---- train_turn.c ---- */

/* The turn of replica index in a step. CANCELLED: the step must not be taken. */
PSR_MUST_CHECK psr_err psr_turn_take(psr_training *tr, uint64_t step, uint32_t index);
/* --sync-bn where one process plays all ranks: their passes go on together, and then each hands
 * over its gradient in its turn. CANCELLED, as above. */
PSR_MUST_CHECK psr_err psr_turns_take_together(psr_training *tr, uint64_t step);
/* Ends the turn now; if it had ended before, moves its end, because it has waited for its weights
 * since. Returns the waiting time since the last call. */
double psr_turn_end(psr_training *tr, psr_turn *now);
/* NUMERIC: the loss is not finite. */
PSR_MUST_CHECK psr_err psr_turn_check_loss(const psr_turn *now);

/* ---- train_after.c ---- */

/* The step that makes `steps` complete has ended for every replica. */
PSR_MUST_CHECK psr_err psr_training_finish_step(psr_training *tr, uint64_t steps);
/* The last turn ends when all weights have landed. of_all_workers: it waits until the weights of
 * the other workers have landed too, because an evaluation or a checkpoint follows, in which all
 * workers wait for each other anyway. While an early worker waits here, its training time goes on,
 * as that of the other workers does. */
PSR_MUST_CHECK psr_err psr_training_await_weights(psr_training *tr, uint64_t steps,
                                                  bool of_all_workers);
/* --ema of weights that a device updates, which have landed: after steps that are due, and where
 * the average is read. */
PSR_MUST_CHECK psr_err psr_training_average_weights(psr_training *tr, uint64_t steps);
PSR_MUST_CHECK psr_err psr_training_evaluate(psr_training *tr, uint64_t steps);
/* --target-accuracy: every worker has the same figures of the evaluation, and so stops here. */
void psr_training_end_at_target(psr_training *tr, uint64_t steps);
PSR_MUST_CHECK psr_err psr_training_save(psr_training *tr, uint64_t steps);

#endif
