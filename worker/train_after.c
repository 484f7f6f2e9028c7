/* What follows a step, when every replica has had its turn. */
#include "worker/train_private.h"

#include "base/arrays/finite.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/optimizers/ema.h"
#include "worker/device_update.h"
#include "worker/evaluate.h"
#include "worker/norm_lines.h"
#include "worker/snapshot.h"

#include <inttypes.h>
#include <math.h>

static bool due(uint64_t every, uint64_t steps)
{
    return every > 0 && steps % every == 0;
}

psr_err psr_training_await_weights(psr_training *tr, uint64_t steps, bool of_all_workers)
{
    psr_trainer *t = tr->t;
    PSR_TRY(of_all_workers ? psr_exchange_drain_all(t->exchange) : psr_exchange_drain(t->exchange));
    psr_turn *last = &tr->turns[t->replica_count - 1];
    const double waited_s = psr_turn_end(tr, last);
    last->metrics.drain_s += waited_s;
    tr->outcome.drain_s += waited_s;
    tr->settled = steps;
    return PSR_OK;
}

/* Called after an evaluation or a checkpoint that began at left_s. The training clock stood still
 * meanwhile, and the waiting belongs to no step. */
static void leave_out_of_training_time(psr_training *tr, double left_s)
{
    psr_exchange_figures aside;
    psr_exchange_take_figures(tr->t->exchange, &aside);
    tr->carried_sent += aside.bytes_sent;
    tr->carried_received += aside.bytes_received;
    tr->carried_lent += aside.bytes_lent;
    tr->aside_s += psr_clock_s() - left_s;
}

psr_err psr_training_evaluate(psr_training *tr, uint64_t steps)
{
    psr_trainer *t = tr->t;
    psr_evaluation e;
    double left_s = psr_clock_s();
    PSR_TRY(psr_evaluate(t, steps, &e));
    leave_out_of_training_time(tr, left_s);
    psr_evaluation_log(t, steps, &e);
    tr->outcome.left_out = e.left_out;
    if (e.left_out)
        return PSR_OK;
    tr->last_evaluated = steps;
    tr->judged_accuracy = psr_evaluation_judged(&e);
    tr->outcome.test = (psr_test_figures){e.loss, e.accuracy, e.top5};
    tr->outcome.has_ema = e.has_ema;
    tr->outcome.ema = (psr_test_figures){e.ema_loss, e.ema_accuracy, e.ema_top5};
    tr->outcome.test_count = e.count;
    return PSR_OK;
}

psr_err psr_training_save(psr_training *tr, uint64_t steps)
{
    double left_s = psr_clock_s();
    PSR_TRY(psr_session_await_saved(tr->t->session, tr->last_saved));
    PSR_TRY(psr_device_update_copy_state(tr->t, steps));
    PSR_TRY(psr_snapshot_save(tr->t, steps));
    leave_out_of_training_time(tr, left_s);
    tr->last_saved = steps;
    return PSR_OK;
}

static psr_err tell_metrics(psr_training *tr, uint64_t steps)
{
    psr_trainer *t = tr->t;
    for (uint32_t i = 0; i < t->replica_count; i++) {
        psr_metrics *m = &tr->turns[i].metrics;
        if (tr->last_evaluated == steps) {
            m->has_test = true;
            m->test = tr->outcome.test;
            m->has_ema = tr->outcome.has_ema;
            m->ema = tr->outcome.ema;
        }
        char line[PSR_METRICS_LINE_MAX];
        psr_metrics_print(m, line);
        PSR_TRY(psr_session_metrics(t->session, line));
    }
    /* local mode computes all ranks but logs rank 0's lines only, as rank 0's log does in other
     * modes */
    const psr_metrics *m = &tr->turns[0].metrics;
    if (due(t->config->log_every, steps) && tr->turns[0].count > 0)
        psr_log_plain("epoch: %" PRIu32 " step: %" PRIu64 ", loss is %.16g", m->epoch, steps,
                      psr_shown(m->loss));
    return PSR_OK;
}

/* --precision fp16: all know alike whether the step was taken, and what the next one's scale is. */
static psr_err judge_step(psr_training *tr, bool taken)
{
    psr_trainer *t = tr->t;
    psr_metrics *m = &tr->turns[0].metrics;
    m->loss_scale = psr_trainer_is_first(t) ? t->loss_scale.scale : 0;
    m->skipped = !taken;
    psr_err err = psr_loss_scale_step(t->config, taken, &t->loss_scale);
    if (err != PSR_OK)
        return psr_fail_context(err, "step %" PRIu64, m->step);
    for (uint32_t i = 0; i < t->replica_count && taken; i++)
        PSR_TRY(psr_turn_check_loss(&tr->turns[i]));
    return PSR_OK;
}

/* Worker 0 tells the norm that all agree on. No new weights land before it is known, so waiting for
 * it delays nothing. */
static psr_err find_norm(psr_training *tr)
{
    psr_trainer *t = tr->t;
    psr_metrics *m = &tr->turns[0].metrics;
    const bool scales = psr_config_scales_loss(t->config);
    double norm;
    tr->skipped = false;
    if (!scales && (t->config->clip_norm == 0 || !psr_trainer_is_first(t)))
        return PSR_OK;
    PSR_TRY(psr_exchange_gradient_norm(t->exchange, &norm));
    (void)psr_turn_end(tr, &tr->turns[t->replica_count - 1]);
    tr->skipped = scales && !isfinite(norm);
    m->has_norm = t->config->clip_norm > 0 && psr_trainer_is_first(t) && !tr->skipped;
    m->norm = norm;
    return scales ? judge_step(tr, !tr->skipped) : PSR_OK;
}

/* A gradient that is not finite has no norm. */
static bool tells_norms(const psr_training *tr, uint64_t steps)
{
    return psr_config_norms_due(tr->t->config, steps) && psr_trainer_is_first(tr->t) &&
           !tr->skipped;
}

/* --tensorboard-norms: of the weights after the step, and of its gradient. */
static psr_err tell_norms(psr_training *tr, uint64_t steps)
{
    const psr_trainer *t = tr->t;
    const double *squares;
    char line[PSR_NORM_LINE_MAX];
    if (!tells_norms(tr, steps))
        return PSR_OK;
    PSR_TRY(psr_exchange_tensor_squares(t->exchange, &squares));
    for (size_t next = 0;
         psr_norm_line_next(&t->net->params, steps, tr->turns[0].metrics.unix_s,
                            psr_exchange_weights(t->exchange), squares, &next, line);)
        PSR_TRY(psr_session_metrics(t->session, line));
    return PSR_OK;
}

static psr_err hash_weights(psr_training *tr, uint64_t steps)
{
    psr_trainer *t = tr->t;
    PSR_TRY(psr_device_update_copy_weights(t, steps));
    uint64_t hash = psr_layout_hash(&t->net->params, psr_exchange_weights(t->exchange));
    for (uint32_t i = 0; i < t->replica_count; i++) {
        tr->turns[i].metrics.has_hash = true;
        tr->turns[i].metrics.hash = hash;
    }
    return PSR_OK;
}

static void count_in_epoch(psr_turn *now)
{
    if (now->epoch != now->metrics.epoch)
        now->epoch_count = now->epoch_correct = 0;
    now->epoch = now->metrics.epoch;
    now->epoch_count += now->count;
    now->epoch_correct += now->correct;
    now->metrics.train_accuracy = (double)now->correct / now->count; /* NaN: it had none */
}

/* --ema: those of the weights are averaged where these are updated. */
static void follow_statistics(const psr_training *tr, const psr_replica *replica, uint64_t steps)
{
    const psr_trainer *t = tr->t;
    if (replica->ema_buffers != NULL && !tr->skipped)
        psr_ema_follow(t->config, steps - t->loss_scale.skipped, replica->buffers,
                       replica->ema_buffers, t->net->buffers.length);
}

psr_err psr_training_average_weights(psr_training *tr, uint64_t steps)
{
    if (tr->averaged == steps)
        return PSR_OK;
    tr->averaged = steps;
    return psr_device_update_average(tr->t, steps);
}

static bool averages_on_host(const psr_training *tr, uint64_t steps)
{
    const psr_config *config = tr->t->config;
    return psr_config_updates_on_device(config) && psr_ema_is_on(config) &&
           steps % config->ema.every == 0;
}

void psr_training_end_at_target(psr_training *tr, uint64_t steps)
{
    const double target = tr->t->config->target_accuracy;
    if (target > 0 && tr->last_evaluated == steps && tr->judged_accuracy >= target)
        psr_session_ends_here(tr->t->session);
}

psr_err psr_training_finish_step(psr_training *tr, uint64_t steps)
{
    const psr_config *config = tr->t->config;
    bool last = steps == tr->t->total_steps;
    bool evaluates = psr_config_evaluates(config) &&
                     (last || psr_pace_due(&config->pace, config->eval_every, steps));
    bool saves = last || psr_pace_due(&config->pace, config->checkpoint_every, steps);
    /* In a checkpoint without averaged statistics no worker waits for another. At the end each
     * worker's time is its own. */
    bool of_all_workers = !last && (evaluates || (saves && tr->t->net->buffers.length > 0));
    tr->outcome.steps = steps;
    for (uint32_t i = 0; i < tr->t->replica_count; i++) {
        tr->turns[i].last_count = tr->turns[i].count;
        tr->turns[i].last_loss_sum = tr->turns[i].loss_sum;
        count_in_epoch(&tr->turns[i]);
    }
    PSR_TRY(find_norm(tr));
    for (uint32_t i = 0; i < tr->t->replica_count; i++)
        follow_statistics(tr, &tr->t->replicas[i], steps);
    const bool averages = averages_on_host(tr, steps);
    if (evaluates || saves || averages || config->hash || tells_norms(tr, steps))
        PSR_TRY(psr_training_await_weights(tr, steps, of_all_workers));
    if (evaluates || saves || averages)
        PSR_TRY(psr_training_average_weights(tr, steps));
    if (config->hash)
        PSR_TRY(hash_weights(tr, steps));
    PSR_TRY(tell_norms(tr, steps));
    const int64_t evaluated_ns = psr_passes_clock(&tr->passes);
    if (evaluates) {
        PSR_TRY(psr_training_evaluate(tr, steps));
        if (!last)
            psr_training_end_at_target(tr, steps);
        psr_passes_record(&tr->passes, PSR_TRACE_EVALUATION, PSR_TRACE_NO_INDEX, 0, evaluated_ns);
    }
    PSR_TRY(tell_metrics(tr, steps));
    const int64_t saved_ns = psr_passes_clock(&tr->passes);
    if (saves) {
        PSR_TRY(psr_training_save(tr, steps));
        psr_passes_record(&tr->passes, PSR_TRACE_CHECKPOINT, PSR_TRACE_NO_INDEX, 0, saved_ns);
    }
    return PSR_OK;
}
