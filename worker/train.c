#include "worker/train.h"

#include "base/clock.h"
#include "base/arrays/finite.h"
#include "base/log.h"
#include "model/optimizers/ema.h"
#include "worker/device_update.h"
#include "worker/evaluate.h"
#include "worker/norm_lines.h"
#include "worker/passes.h"
#include "worker/snapshot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What happened to one replica in the present step. */
typedef struct turn {
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
} turn;

typedef struct training {
    psr_trainer *t;
    turn *turns;       /* [replicas] */
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
} training;

/* ---- one rank's turn ---- */

static double training_clock_s(const training *tr)
{
    return psr_clock_s() - tr->start_s - tr->aside_s;
}

static double unix_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Ends the turn now; if it had ended before, moves its end, because it has waited for its weights
 * since. Returns the waiting time since the last call. */
static double end_turn(training *tr, turn *now)
{
    psr_exchange_figures figures;
    psr_exchange_take_figures(tr->t->exchange, &figures);
    psr_metrics *m = &now->metrics;
    m->wait_s += figures.wait_s;
    m->sync_bn_wait_s += figures.sums_wait_s;
    m->pause_s += figures.pause_s;
    m->exchange_s = figures.exchange_s;
    m->hidden_s += figures.hidden_s;
    m->exposed_s += figures.exposed_s;
    m->bytes_sent += figures.bytes_sent + tr->carried_sent;
    m->bytes_received += figures.bytes_received + tr->carried_received;
    m->gradient_bytes += figures.gradient_bytes;
    m->gradient_float32_bytes += figures.gradient_float32_bytes;
    m->bytes_lent += figures.bytes_lent + tr->carried_lent;
    m->staleness = figures.staleness > m->staleness ? figures.staleness : m->staleness;
    m->unix_s = unix_clock_s();
    m->train_s = training_clock_s(tr);
    m->images_per_s = now->count / (m->train_s - now->begun_s);
    tr->carried_sent = tr->carried_received = tr->carried_lent = 0;
    tr->outcome.wait_s += figures.wait_s;
    tr->outcome.hidden_s += figures.hidden_s;
    tr->outcome.exposed_s += figures.exposed_s;
    tr->outcome.gradient_bytes += figures.gradient_bytes;
    tr->outcome.gradient_float32_bytes += figures.gradient_float32_bytes;
    tr->outcome.train_s = m->train_s;
    return figures.wait_s;
}

static void take_times(training *tr, const psr_replica *replica, turn *now, double computing_s)
{
    psr_metrics *m = &now->metrics;
    computing_s -= end_turn(tr, now);
    m->compute_s = computing_s > 0 ? computing_s : 0;

    double load_waited_s;
    uint64_t waits;
    psr_loader_waits(replica->loader, &load_waited_s, &waits);
    m->load_wait_s = load_waited_s - now->load_waited_s;
    now->load_waited_s = load_waited_s;

    tr->outcome.load_wait_s += m->load_wait_s;
    tr->outcome.compute_s += m->compute_s;
}

static void begin_metrics(const psr_trainer *t, uint64_t step, const psr_share *share, turn *now)
{
    now->count = share->batch->count;
    now->loss_sum = 0;
    now->correct = 0;
    now->metrics = (psr_metrics){.step = step + 1,
                                 .rank = share->replica->rank,
                                 .epoch = share->batch->epoch + 1,
                                 .loss = NAN,
                                 .images = share->batch->count,
                                 .lr = psr_schedule_lr(t->config, step, t->total_steps)};
}

static psr_err begin_exchange(const psr_trainer *t, uint64_t step, const psr_share *share)
{
    return psr_exchange_begin_step(
        t->exchange,
        &(psr_step){step, share->replica->rank, share->batch->count, share->batch->global_count});
}

/* Takes the replica's batch. CANCELLED: this step must not be taken; the batch is taken
 * nevertheless. */
static psr_err begin_turn(training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    turn *now = &tr->turns[index];
    psr_share *share = &tr->shares[index];
    const psr_loader_batch *batch = NULL;
    const int64_t begun_ns = psr_passes_clock(&tr->passes);
    psr_session_progress(t->session, PSR_PHASE_DATA);
    /* In local mode a turn begins where the last one, another rank's, ended. */
    now->begun_s = t->replica_count > 1 ? training_clock_s(tr) : tr->outcome.train_s;
    PSR_TRY(psr_loader_next(t->replicas[index].loader, &batch));
    psr_passes_record(&tr->passes, PSR_TRACE_DATA, PSR_TRACE_NO_INDEX, 0, begun_ns);

    *share = (psr_share){
        .replica = &t->replicas[index], .batch = batch, .first_step = step == t->first_step};
    begin_metrics(t, step, share, now);
    psr_session_progress(t->session, PSR_PHASE_FORWARD);
    now->stepped_s = psr_clock_s();
    PSR_TRY(begin_exchange(t, step, share));
    share->gradients = psr_exchange_gradients(t->exchange);
    return PSR_OK;
}

static void return_batch(training *tr, uint32_t index)
{
    const psr_share *share = &tr->shares[index];
    if (share->batch != NULL)
        psr_loader_return(share->replica->loader, share->batch);
    tr->shares[index].batch = NULL;
}

static psr_err check_loss(const turn *now)
{
    if (now->count == 0 || isfinite(now->metrics.loss))
        return PSR_OK;
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the loss of worker %" PRIu32
                    " is not finite (%g); a lower --lr or --warmup would be right",
                    now->metrics.step, now->metrics.rank, psr_shown(now->metrics.loss));
}

/* What the passes gave. A step that may be left out is judged at its end. */
static psr_err take_result(const psr_trainer *t, turn *now, const psr_share *share)
{
    now->loss_sum = share->result.loss_sum;
    now->correct = share->result.correct;
    if (now->count > 0)
        now->metrics.loss = now->loss_sum / now->count;
    return psr_config_scales_loss(t->config) ? PSR_OK : check_loss(now);
}

/* CANCELLED: this step must not be taken. */
static psr_err take_turn(training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    turn *now = &tr->turns[index];
    psr_share *share = &tr->shares[index];
    if (index == 0)
        PSR_TRY(psr_session_trace_step(t->session, step));
    tr->passes.tracer = psr_session_tracer(t->session);
    tr->passes.step = step;
    const int64_t begun_ns = psr_passes_clock(&tr->passes);
    psr_err err = begin_turn(tr, step, index);
    if (err == PSR_OK)
        err = psr_passes_run(&tr->passes, share, 1);
    if (err == PSR_OK)
        err = take_result(t, now, share);
    if (err == PSR_OK)
        err = psr_exchange_end_step(t->exchange);
    if (err == PSR_OK)
        take_times(tr, share->replica, now, psr_clock_s() - now->stepped_s);
    return_batch(tr, index);
    if (err == PSR_OK)
        psr_passes_record(&tr->passes, PSR_TRACE_STEP, t->replicas[index].rank, 0, begun_ns);
    return err;
}

/* The gradient is where the exchange expects it. */
static psr_err hand_over(training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    const psr_share *share = &tr->shares[index];
    const double begun_s = psr_clock_s();
    PSR_TRY(begin_exchange(t, step, share));
    for (uint32_t b = 0; b < t->buckets->count && share->batch->count > 0; b++)
        if (!t->buckets->items[b].frozen)
            PSR_TRY(psr_exchange_gradient_ready(t->exchange, b, NULL));
    PSR_TRY(psr_exchange_end_step(t->exchange));
    take_times(tr, share->replica, &tr->turns[index], share->computing_s + psr_clock_s() - begun_s);
    return PSR_OK;
}

/* --sync-bn where one process plays all ranks: their passes go on together, and then each hands
 * over its gradient in its turn. */
static psr_err take_turns_together(training *tr, uint64_t step)
{
    psr_trainer *t = tr->t;
    PSR_TRY(psr_session_trace_step(t->session, step));
    tr->passes.tracer = psr_session_tracer(t->session);
    tr->passes.step = step;
    const int64_t begun_ns = psr_passes_clock(&tr->passes);
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < t->replica_count && err == PSR_OK; i++)
        err = begin_turn(tr, step, i);
    if (err == PSR_OK)
        err = psr_passes_run(&tr->passes, tr->shares, t->replica_count);
    for (uint32_t i = 0; i < t->replica_count && err == PSR_OK; i++)
        err = take_result(t, &tr->turns[i], &tr->shares[i]);
    for (uint32_t i = 0; i < t->replica_count && err == PSR_OK; i++)
        err = hand_over(tr, step, i);
    for (uint32_t i = 0; i < t->replica_count; i++)
        return_batch(tr, i);
    if (err == PSR_OK)
        psr_passes_record(&tr->passes, PSR_TRACE_STEP, t->replicas[0].rank, 0, begun_ns);
    return err;
}

/* ---- after a step ---- */

static bool due(uint64_t every, uint64_t steps)
{
    return every > 0 && steps % every == 0;
}

/* The last turn ends when all weights have landed. of_all_workers: it waits until the weights of
 * the other workers have landed too, because an evaluation or a checkpoint follows, in which all
 * workers wait for each other anyway. While an early worker waits here, its training time goes on,
 * as that of the other workers does. */
static psr_err await_last_weights(training *tr, uint64_t steps, bool of_all_workers)
{
    psr_trainer *t = tr->t;
    PSR_TRY(of_all_workers ? psr_exchange_drain_all(t->exchange) : psr_exchange_drain(t->exchange));
    turn *last = &tr->turns[t->replica_count - 1];
    const double waited_s = end_turn(tr, last);
    last->metrics.drain_s += waited_s;
    tr->outcome.drain_s += waited_s;
    tr->settled = steps;
    return PSR_OK;
}

/* Called after an evaluation or a checkpoint that began at left_s. The training clock stood still
 * meanwhile, and the waiting belongs to no step. */
static void leave_out_of_training_time(training *tr, double left_s)
{
    psr_exchange_figures aside;
    psr_exchange_take_figures(tr->t->exchange, &aside);
    tr->carried_sent += aside.bytes_sent;
    tr->carried_received += aside.bytes_received;
    tr->carried_lent += aside.bytes_lent;
    tr->aside_s += psr_clock_s() - left_s;
}

static psr_err evaluate(training *tr, uint64_t steps)
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

static psr_err save(training *tr, uint64_t steps)
{
    double left_s = psr_clock_s();
    PSR_TRY(psr_session_await_saved(tr->t->session, tr->last_saved));
    PSR_TRY(psr_device_update_copy_state(tr->t, steps));
    PSR_TRY(psr_snapshot_save(tr->t, steps));
    leave_out_of_training_time(tr, left_s);
    tr->last_saved = steps;
    return PSR_OK;
}

static psr_err tell_metrics(training *tr, uint64_t steps)
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
static psr_err judge_step(training *tr, bool taken)
{
    psr_trainer *t = tr->t;
    psr_metrics *m = &tr->turns[0].metrics;
    m->loss_scale = psr_trainer_is_first(t) ? t->loss_scale.scale : 0;
    m->skipped = !taken;
    psr_err err = psr_loss_scale_step(t->config, taken, &t->loss_scale);
    if (err != PSR_OK)
        return psr_fail_context(err, "step %" PRIu64, m->step);
    for (uint32_t i = 0; i < t->replica_count && taken; i++)
        PSR_TRY(check_loss(&tr->turns[i]));
    return PSR_OK;
}

/* Worker 0 tells the norm that all agree on. No new weights land before it is known, so waiting for
 * it delays nothing. */
static psr_err find_norm(training *tr)
{
    psr_trainer *t = tr->t;
    psr_metrics *m = &tr->turns[0].metrics;
    const bool scales = psr_config_scales_loss(t->config);
    double norm;
    tr->skipped = false;
    if (!scales && (t->config->clip_norm == 0 || !psr_trainer_is_first(t)))
        return PSR_OK;
    PSR_TRY(psr_exchange_gradient_norm(t->exchange, &norm));
    (void)end_turn(tr, &tr->turns[t->replica_count - 1]);
    tr->skipped = scales && !isfinite(norm);
    m->has_norm = t->config->clip_norm > 0 && psr_trainer_is_first(t) && !tr->skipped;
    m->norm = norm;
    return scales ? judge_step(tr, !tr->skipped) : PSR_OK;
}

/* A gradient that is not finite has no norm. */
static bool tells_norms(const training *tr, uint64_t steps)
{
    return psr_config_norms_due(tr->t->config, steps) && psr_trainer_is_first(tr->t) &&
           !tr->skipped;
}

/* --tensorboard-norms: of the weights after the step, and of its gradient. */
static psr_err tell_norms(training *tr, uint64_t steps)
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

static psr_err hash_weights(training *tr, uint64_t steps)
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

static void count_in_epoch(turn *now)
{
    if (now->epoch != now->metrics.epoch)
        now->epoch_count = now->epoch_correct = 0;
    now->epoch = now->metrics.epoch;
    now->epoch_count += now->count;
    now->epoch_correct += now->correct;
    now->metrics.train_accuracy = (double)now->correct / now->count; /* NaN: it had none */
}

/* --ema: those of the weights are averaged where these are updated. */
static void follow_statistics(const training *tr, const psr_replica *replica, uint64_t steps)
{
    const psr_trainer *t = tr->t;
    if (replica->ema_buffers != NULL && !tr->skipped)
        psr_ema_follow(t->config, steps - t->loss_scale.skipped, replica->buffers,
                       replica->ema_buffers, t->net->buffers.length);
}

/* --ema of weights that a device updates, which have landed: after steps that are due, and where
 * the average is read. */
static psr_err average_weights(training *tr, uint64_t steps)
{
    if (tr->averaged == steps)
        return PSR_OK;
    tr->averaged = steps;
    return psr_device_update_average(tr->t, steps);
}

static bool averages_on_host(const training *tr, uint64_t steps)
{
    const psr_config *config = tr->t->config;
    return psr_config_updates_on_device(config) && psr_ema_is_on(config) &&
           steps % config->ema.every == 0;
}

/* --target-accuracy: every worker has the same figures of the evaluation, and so stops here. */
static void end_at_target(training *tr, uint64_t steps)
{
    const double target = tr->t->config->target_accuracy;
    if (target > 0 && tr->last_evaluated == steps && tr->judged_accuracy >= target)
        psr_session_ends_here(tr->t->session);
}

/* The step that makes `steps` complete has ended for every replica. */
static psr_err finish_step(training *tr, uint64_t steps)
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
        PSR_TRY(await_last_weights(tr, steps, of_all_workers));
    if (evaluates || saves || averages)
        PSR_TRY(average_weights(tr, steps));
    if (config->hash)
        PSR_TRY(hash_weights(tr, steps));
    PSR_TRY(tell_norms(tr, steps));
    const int64_t evaluated_ns = psr_passes_clock(&tr->passes);
    if (evaluates) {
        PSR_TRY(evaluate(tr, steps));
        if (!last)
            end_at_target(tr, steps);
        psr_passes_record(&tr->passes, PSR_TRACE_EVALUATION, PSR_TRACE_NO_INDEX, 0, evaluated_ns);
    }
    PSR_TRY(tell_metrics(tr, steps));
    const int64_t saved_ns = psr_passes_clock(&tr->passes);
    if (saves) {
        PSR_TRY(save(tr, steps));
        psr_passes_record(&tr->passes, PSR_TRACE_CHECKPOINT, PSR_TRACE_NO_INDEX, 0, saved_ns);
    }
    return PSR_OK;
}

/* An evaluation that was due after the checkpoint's step and was cut. It counts as one of a step
 * does, but no step of this run has a line for it, so worker 0 tells it by itself. */
static psr_err make_up_evaluation(training *tr)
{
    psr_trainer *t = tr->t;
    char line[PSR_METRICS_LINE_MAX];
    PSR_TRY(evaluate(tr, t->first_step));
    if (tr->last_evaluated != t->first_step) /* it was cut again */
        return PSR_OK;
    psr_metrics_print_evaluation(t->first_step, &tr->outcome.test,
                                 tr->outcome.has_ema ? &tr->outcome.ema : NULL, line);
    if (psr_trainer_is_first(t))
        PSR_TRY(psr_session_metrics(t->session, line));
    end_at_target(tr, t->first_step);
    return PSR_OK;
}

static psr_err take_steps(training *tr)
{
    psr_trainer *t = tr->t;
    if (t->first_step == t->total_steps) /* resumed after its last step */
        return psr_config_evaluates(t->config) ? evaluate(tr, t->total_steps) : PSR_OK;
    if (t->evaluates_first)
        PSR_TRY(make_up_evaluation(tr));
    for (uint64_t step = t->first_step; step < t->total_steps; step++) {
        const bool together = psr_passes_are_together(t);
        for (uint32_t i = 0; i < (together ? 1 : t->replica_count); i++) {
            psr_err err = together ? take_turns_together(tr, step) : take_turn(tr, step, i);
            tr->outcome.stopped =
                err == PSR_ERR_CANCELLED && i == 0 && step > psr_session_last_step(t->session);
            if (tr->outcome.stopped)
                return PSR_OK;
            PSR_TRY(err);
        }
        PSR_TRY(finish_step(tr, step + 1));
    }
    return PSR_OK;
}

/* A sum and its weight, of one rank. */
typedef struct share_of_mean {
    double sum, weight;
} share_of_mean;

/* *ret_mean: all ranks' sums over all their weights; NaN without any. Every process calls it. */
static psr_err average_over_ranks(const training *tr,
                                  share_of_mean (*of)(const training *tr, const turn *now),
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
static share_of_mean last_loss(const training *tr, const turn *now)
{
    (void)tr;
    return (share_of_mean){now->last_loss_sum, now->last_count};
}

/* The share of the last epoch's samples, as far as this run has taken them, that the network had
 * right when it learned from them. */
static share_of_mean right_in_epoch(const training *tr, const turn *now)
{
    (void)tr;
    return (share_of_mean){(double)now->epoch_correct, (double)now->epoch_count};
}

/* The share of ranks whose --seconds are up. Above 0: that has ended the run, and not a person, as
 * the worker whose time was up is among those that are counted. */
static share_of_mean out_of_time(const training *tr, const turn *now)
{
    (void)now;
    return (share_of_mean){tr->outcome.train_s >= tr->t->config->seconds, 1};
}

/* The evaluation at the end of a run that --seconds has ended. */
static psr_err evaluate_at_end(training *tr)
{
    const psr_config *config = tr->t->config;
    double out = 0;
    if (!tr->outcome.stopped || config->seconds == 0 || !config->eval ||
        tr->last_evaluated == tr->outcome.steps)
        return PSR_OK;
    PSR_TRY(average_over_ranks(tr, out_of_time, &out));
    tr->t->evaluates_at_end = out > 0;
    return out > 0 ? evaluate(tr, tr->outcome.steps) : PSR_OK;
}

static psr_err finish_run(training *tr)
{
    psr_trainer *t = tr->t;
    tr->outcome.loss_scale = t->loss_scale.scale;
    tr->outcome.skipped_steps = t->loss_scale.skipped;
    if (tr->settled != tr->outcome.steps) /* it was stopped before its end */
        PSR_TRY(await_last_weights(tr, tr->outcome.steps, false));
    tr->passes.tracer = NULL;
    PSR_TRY(psr_session_trace_end(t->session));
    PSR_TRY(average_weights(tr, tr->outcome.steps));
    PSR_TRY(psr_device_update_copy_weights(t, tr->outcome.steps));
    tr->outcome.hash = psr_layout_hash(&t->net->params, psr_exchange_weights(t->exchange));
    PSR_TRY(average_over_ranks(tr, last_loss, &tr->outcome.loss));
    PSR_TRY(average_over_ranks(tr, right_in_epoch, &tr->outcome.train_accuracy));
    PSR_TRY(evaluate_at_end(tr));
    /* it was stopped before its end */
    if (tr->last_saved != tr->outcome.steps && tr->outcome.steps > t->first_step)
        PSR_TRY(save(tr, tr->outcome.steps));
    return PSR_OK;
}

/* ---- --record ---- */

static psr_err begin_recording(training *tr)
{
    const psr_trainer *t = tr->t;
    if (t->config->record[0] == '\0' || !psr_trainer_is_first(t))
        return PSR_OK;
    PSR_TRY(psr_pass_times_new(t->net, &tr->times));
    tr->passes.times = tr->times;
    return PSR_OK;
}

static psr_err end_recording(training *tr)
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
    training tr = {.t = trainer,
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
