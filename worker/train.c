#include "worker/train.h"

#include "base/clock.h"
#include "worker/device_update.h"
#include "worker/train_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* An evaluation that was due after the checkpoint's step and was cut. It counts as one of a step
 * does, but no step of this run has a line for it, so worker 0 tells it by itself. */
static psr_err make_up_evaluation(psr_training *tr)
{
    psr_trainer *t = tr->t;
    char line[PSR_METRICS_LINE_MAX];
    PSR_TRY(psr_training_evaluate(tr, t->first_step));
    if (tr->last_evaluated != t->first_step) /* it was cut again */
        return PSR_OK;
    psr_metrics_print_evaluation(t->first_step, &tr->outcome.test,
                                 tr->outcome.has_ema ? &tr->outcome.ema : NULL, line);
    if (psr_trainer_is_first(t))
        PSR_TRY(psr_session_metrics(t->session, line));
    psr_training_end_at_target(tr, t->first_step);
    return PSR_OK;
}

static psr_err take_steps(psr_training *tr)
{
    psr_trainer *t = tr->t;
    if (t->first_step == t->total_steps) /* resumed after its last step */
        return psr_config_evaluates(t->config) ? psr_training_evaluate(tr, t->total_steps) : PSR_OK;
    if (t->evaluates_first)
        PSR_TRY(make_up_evaluation(tr));
    for (uint64_t step = t->first_step; step < t->total_steps; step++) {
        const bool together = psr_passes_are_together(t);
        for (uint32_t i = 0; i < (together ? 1 : t->replica_count); i++) {
            psr_err err = together ? psr_turns_take_together(tr, step) : psr_turn_take(tr, step, i);
            tr->outcome.stopped =
                err == PSR_ERR_CANCELLED && i == 0 && step > psr_session_last_step(t->session);
            if (tr->outcome.stopped)
                return PSR_OK;
            PSR_TRY(err);
        }
        PSR_TRY(psr_training_finish_step(tr, step + 1));
    }
    return PSR_OK;
}

/* A sum and its weight, of one rank. */
typedef struct share_of_mean {
    double sum, weight;
} share_of_mean;

/* *ret_mean: all ranks' sums over all their weights; NaN without any. Every process calls it. */
static psr_err average_over_ranks(const psr_training *tr,
                                  share_of_mean (*of)(const psr_training *tr, const psr_turn *now),
                                  double *ret_mean)
{
    enum { SUM, WEIGHT, WIDTH };
    const uint32_t count = tr->t->replica_count;
    double *rows = calloc(count, WIDTH * sizeof *rows);
    if (rows == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the averages of %u replicas", count);
    for (uint32_t i = 0; i < count; i++) {
        const share_of_mean share = of(tr, &tr->turns[i]);
        rows[i * WIDTH + SUM] = share.sum;
        rows[i * WIDTH + WEIGHT] = share.weight;
    }
    psr_err err = psr_exchange_average(tr->t->exchange, rows, WIDTH);
    if (err == PSR_OK)
        *ret_mean = rows[SUM];
    free(rows);
    return err;
}

/* The loss of the last complete step, mean over its samples; NaN if no step was taken. */
static share_of_mean last_loss(const psr_training *tr, const psr_turn *now)
{
    (void)tr;
    return (share_of_mean){now->last_loss_sum, now->last_count};
}

/* The share of the last epoch's samples, as far as this run has taken them, that the network had
 * right when it learned from them. */
static share_of_mean right_in_epoch(const psr_training *tr, const psr_turn *now)
{
    (void)tr;
    return (share_of_mean){(double)now->epoch_correct, (double)now->epoch_count};
}

/* The share of ranks whose --seconds are up. Above 0: that has ended the run, and not a person, as
 * the worker whose time was up is among those that are counted. */
static share_of_mean out_of_time(const psr_training *tr, const psr_turn *now)
{
    (void)now;
    return (share_of_mean){tr->outcome.train_s >= tr->t->config->seconds, 1};
}

/* The evaluation at the end of a run that --seconds has ended. */
static psr_err evaluate_at_end(psr_training *tr)
{
    const psr_config *config = tr->t->config;
    double out = 0;
    if (!tr->outcome.stopped || config->seconds == 0 || !config->eval ||
        tr->last_evaluated == tr->outcome.steps)
        return PSR_OK;
    PSR_TRY(average_over_ranks(tr, out_of_time, &out));
    tr->t->evaluates_at_end = out > 0;
    return out > 0 ? psr_training_evaluate(tr, tr->outcome.steps) : PSR_OK;
}

static psr_err finish_run(psr_training *tr)
{
    psr_trainer *t = tr->t;
    tr->outcome.loss_scale = t->loss_scale.scale;
    tr->outcome.skipped_steps = t->loss_scale.skipped;
    if (tr->settled != tr->outcome.steps) /* it was stopped before its end */
        PSR_TRY(psr_training_await_weights(tr, tr->outcome.steps, false));
    tr->passes.tracer = NULL;
    PSR_TRY(psr_session_trace_end(t->session));
    PSR_TRY(psr_training_average_weights(tr, tr->outcome.steps));
    PSR_TRY(psr_device_update_copy_weights(t, tr->outcome.steps));
    tr->outcome.hash = psr_layout_hash(&t->net->params, psr_exchange_weights(t->exchange));
    PSR_TRY(average_over_ranks(tr, last_loss, &tr->outcome.loss));
    PSR_TRY(average_over_ranks(tr, right_in_epoch, &tr->outcome.train_accuracy));
    PSR_TRY(evaluate_at_end(tr));
    /* it was stopped before its end */
    if (tr->last_saved != tr->outcome.steps && tr->outcome.steps > t->first_step)
        PSR_TRY(psr_training_save(tr, tr->outcome.steps));
    return PSR_OK;
}

/* ---- --record ---- */

static psr_err begin_recording(psr_training *tr)
{
    const psr_trainer *t = tr->t;
    if (t->config->record[0] == '\0' || !psr_trainer_is_first(t))
        return PSR_OK;
    PSR_TRY(psr_pass_times_new(t->net, &tr->times));
    tr->passes.times = tr->times;
    return PSR_OK;
}

static psr_err end_recording(psr_training *tr)
{
    const psr_config *config = tr->t->config;
    char host[256] = "?", machine[512];
    if (tr->times == NULL)
        return PSR_OK;
    (void)gethostname(host, sizeof host - 1);
    snprintf(machine, sizeof machine, "%.200s on %.40s",
             psr_backend_identity(psr_config_backend(config), 0), host);
    return psr_pass_times_write(tr->times, config, machine);
}

psr_err psr_train(psr_trainer *trainer, psr_outcome *ret_outcome)
{
    psr_training tr = {.t = trainer,
                       .passes = {.trainer = trainer},
                       .settled = trainer->first_step,
                       .averaged = trainer->first_step,
                       .outcome = {.steps = trainer->first_step,
                                   .test = {NAN, NAN, NAN},
                                   .loss = NAN,
                                   .train_accuracy = NAN}};
    tr.turns = calloc(trainer->replica_count, sizeof *tr.turns);
    tr.shares = calloc(trainer->replica_count, sizeof *tr.shares);
    if (tr.turns == NULL || tr.shares == NULL) {
        free(tr.turns);
        free(tr.shares);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the turns of %u replicas",
                        trainer->replica_count);
    }

    psr_exchange_figures start_up; /* waiting before START belongs to no step */
    psr_exchange_take_figures(trainer->exchange, &start_up);
    tr.start_s = psr_clock_s();
    psr_err err = begin_recording(&tr);
    if (err == PSR_OK)
        err = take_steps(&tr);
    if (err == PSR_OK)
        err = finish_run(&tr);
    if (err == PSR_OK)
        err = end_recording(&tr);
    psr_pass_times_free(tr.times);
    free(tr.turns);
    free(tr.shares);
    if (err == PSR_OK)
        *ret_outcome = tr.outcome;
    return err;
}
