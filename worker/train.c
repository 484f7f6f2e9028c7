#include "worker/train.h"

#include "base/clock.h"
#include "base/arrays/finite.h"
#include "base/arrays/fold.h"
#include "base/log.h"
#include "worker/evaluate.h"
#include "worker/pass_times.h"
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
} turn;

typedef struct training {
    psr_trainer *t;
    bool adds;   /* the pass under way is the last of several whose gradients are added */
    turn *turns; /* [replicas] */
    psr_outcome outcome;
    uint64_t last_evaluated, last_saved; /* completed steps at that time; 0: never */
    /* The training clock: time since START less that of evaluations and checkpoints. */
    double start_s, aside_s;
    uint64_t settled; /* completed steps when all weights had last landed */
    /* bytes of evaluations and checkpoints, for the next line */
    uint64_t carried_sent, carried_received, carried_lent;
    /* The pass under way. */
    uint32_t nodes_done;
    /* --slow: after each bucket this rank waits in proportion to what it has computed since the
     * last one */
    double slow_factor;    /* 1: it does not */
    psr_pass_times *times; /* --record, in worker 0; owned; NULL: none */
    bool records;          /* the pass under way is recorded */
    double marked_s, busy_s;
    /* --trace; NULL: this step is not recorded. Then when pass and layer under way began, and which
     * pass it is. */
    psr_tracer *tracer;
    uint64_t step;
    int64_t pass_ns, layer_ns;
    bool backward;
} training;

/* ---- the trace ---- */

/* What began then ends now. */
static void record(const training *tr, psr_trace_kind kind, uint32_t index, uint32_t count,
                   int64_t begin_ns)
{
    if (tr->tracer != NULL)
        psr_tracer_span(tr->tracer, kind, tr->step, index, count, begin_ns, psr_clock_ns());
}

static int64_t trace_clock(const training *tr)
{
    return tr->tracer != NULL ? psr_clock_ns() : 0;
}

/* The first layer backward ends the forward pass. */
static void see_layer(void *context, const psr_exec_layer *layer, bool begins)
{
    training *tr = context;
    if (begins && layer->backward && !tr->backward) {
        record(tr, PSR_TRACE_FORWARD, PSR_TRACE_NO_INDEX, 0, tr->pass_ns);
        tr->backward = true;
        tr->pass_ns = psr_clock_ns();
    }
    if (begins)
        tr->layer_ns = psr_clock_ns();
    else
        record(tr, layer->backward ? PSR_TRACE_LAYER_BACK : PSR_TRACE_LAYER, layer->node,
               layer->count, tr->layer_ns);
}

/* ---- the back end's hooks ---- */

static void mark_busy(training *tr)
{
    tr->busy_s += psr_clock_s() - tr->marked_s;
}

static psr_err weights_wanted(void *context, uint32_t bucket)
{
    training *tr = context;
    mark_busy(tr);
    psr_err err = psr_exchange_weights_wanted(tr->t->exchange, bucket);
    tr->marked_s = psr_clock_s();
    return err;
}

/* The last pass wrote its gradient where the exchange reads it: the sum of those before it is
 * added. Padding is zero in both. */
static psr_err add_accumulated(training *tr, uint32_t bucket, const psr_fence *fence)
{
    const psr_bucket *b = &tr->t->buckets->items[bucket];
    if (fence != NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--accumulate: a device still writes the gradient, and cannot add to it");
    psr_fold_add(psr_exchange_gradients(tr->t->exchange) + b->offset,
                 tr->t->accumulated + b->offset, b->length);
    return PSR_OK;
}

static psr_err gradient_ready(void *context, uint32_t bucket, psr_fence *fence)
{
    training *tr = context;
    if (tr->adds)
        PSR_TRY(add_accumulated(tr, bucket, fence));
    mark_busy(tr);
    psr_err err = psr_exchange_gradient_ready(tr->t->exchange, bucket, fence);
    tr->marked_s = psr_clock_s();
    return err;
}

/* Called once for each node of the forward pass, and then once for each node of the backward pass.
 * With --slow it waits, so that the node takes FACTOR times as long. */
static void progress(void *context)
{
    training *tr = context;
    tr->nodes_done++;
    psr_phase phase =
        tr->nodes_done <= tr->t->net->node_count ? PSR_PHASE_FORWARD : PSR_PHASE_BACKWARD;
    psr_session_progress(tr->t->session, phase);
    if (tr->slow_factor <= 1 && !tr->records)
        return;
    mark_busy(tr);
    if (tr->records)
        psr_pass_times_progress(tr->times, tr->busy_s);
    /* fails if the exchange has failed; the next call of the exchange returns that */
    psr_err held_up = PSR_OK;
    for (double left = tr->slow_factor - 1; left > 0 && held_up == PSR_OK; left--) {
        held_up = psr_session_pause(tr->t->session, tr->busy_s * (left < 1 ? left : 1));
        psr_session_progress(tr->t->session, phase);
    }
    tr->busy_s = 0;
    tr->marked_s = psr_clock_s();
}

/* ---- one rank's turn ---- */

/* One forward and backward pass over count samples of the loaded batch, from `first` on, which
 * writes its gradient into gradients. last: of the step, so the exchange hears of it. */
static psr_err run_pass(training *tr, const psr_replica *replica, const psr_loader_batch *loaded,
                        uint32_t first, uint32_t count, uint32_t global_batch, float *gradients,
                        bool last, psr_pass_result *sum)
{
    psr_trainer *t = tr->t;
    const bool mixed = loaded->second_labels != NULL;
    const psr_second_labels second = {mixed ? loaded->second_labels + first : NULL,
                                      mixed ? loaded->shares + first : NULL};
    const size_t image = (size_t)t->net->channels * t->net->height * t->net->width;
    const psr_batch batch = {.images = loaded->images + first * image,
                             .labels = loaded->labels + first,
                             .samples = loaded->samples + first,
                             .count = count,
                             .epoch = loaded->epoch,
                             .seed = t->config->seed,
                             .second = mixed ? &second : NULL};
    const psr_exec_state state = {.weights = psr_exchange_weights(t->exchange),
                                  .gradients = gradients,
                                  .buffers = replica->buffers};
    const psr_exec_hooks hooks = {.context = tr,
                                  .weights_wanted = weights_wanted,
                                  .gradient_ready = last ? gradient_ready : NULL,
                                  .progress = progress,
                                  .layer = tr->tracer != NULL ? see_layer : NULL};
    psr_pass_result result;
    tr->nodes_done = 0;
    tr->backward = false;
    tr->pass_ns = trace_clock(tr);
    PSR_TRY(psr_backend_train(t->backend, &batch, &state, (float)(1.0 / global_batch), &hooks,
                              &result));
    record(tr, PSR_TRACE_BACKWARD, PSR_TRACE_NO_INDEX, 0, tr->pass_ns);
    sum->loss_sum += result.loss_sum;
    sum->correct += result.correct;
    return PSR_OK;
}

/* --accumulate: the passes before the last one, whose gradients are added in their order. Nothing
 * is exchanged meanwhile. Returns the first sample of the last pass. */
static psr_err accumulate(training *tr, const psr_replica *replica, const psr_loader_batch *loaded,
                          uint32_t global_batch, psr_pass_result *sum, uint32_t *ret_first)
{
    psr_trainer *t = tr->t;
    const uint32_t size = t->config->batch_size;
    uint32_t first = 0;
    for (; loaded->count - first > size; first += size) {
        float *gradients = first == 0 ? t->accumulated : t->pass;
        PSR_TRY(run_pass(tr, replica, loaded, first, size, global_batch, gradients, false, sum));
        if (first > 0)
            psr_fold_add(t->accumulated, t->pass, t->net->params.length);
    }
    tr->adds = first > 0;
    *ret_first = first;
    return PSR_OK;
}

static psr_err compute(training *tr, const psr_replica *replica, const psr_loader_batch *loaded,
                       uint32_t global_batch, turn *now)
{
    psr_trainer *t = tr->t;
    psr_pass_result sum = {0};
    uint32_t first = 0;
    /* Work that only the first step does says nothing about a worker's speed. */
    tr->slow_factor = now->metrics.step > t->first_step + 1
                          ? psr_config_slow_factor(t->config, replica->rank)
                          : 1;
    tr->records = tr->times != NULL && replica->rank == 0 &&
                  loaded->count == t->config->batch_size && now->metrics.step > t->first_step + 1;
    if (tr->records)
        psr_pass_times_begin(tr->times);
    tr->busy_s = 0;
    tr->marked_s = psr_clock_s();
    PSR_TRY(accumulate(tr, replica, loaded, global_batch, &sum, &first));
    PSR_TRY(run_pass(tr, replica, loaded, first, loaded->count - first, global_batch,
                     psr_exchange_gradients(t->exchange), true, &sum));
    if (tr->records) {
        mark_busy(tr);
        psr_pass_times_end(tr->times, tr->busy_s);
    }
    now->loss_sum = sum.loss_sum;
    now->correct = sum.correct;
    now->metrics.loss = sum.loss_sum / loaded->count;
    if (!isfinite(now->metrics.loss))
        return psr_fail(PSR_ERR_NUMERIC,
                        "step %" PRIu64 ": the loss of worker %" PRIu32
                        " is not finite (%g); a lower --lr or --warmup would be right",
                        now->metrics.step, replica->rank, psr_shown(now->metrics.loss));
    return PSR_OK;
}

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

/* CANCELLED: this step must not be taken. */
static psr_err take_turn(training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    const psr_replica *replica = &t->replicas[index];
    turn *now = &tr->turns[index];
    const psr_loader_batch *batch = NULL;
    if (index == 0)
        PSR_TRY(psr_session_trace_step(t->session, step));
    tr->tracer = psr_session_tracer(t->session);
    tr->step = step;
    const int64_t begun_ns = trace_clock(tr);
    psr_session_progress(t->session, PSR_PHASE_DATA);
    /* In local mode a turn begins where the last one, another rank's, ended. */
    now->begun_s = t->replica_count > 1 ? training_clock_s(tr) : tr->outcome.train_s;
    PSR_TRY(psr_loader_next(replica->loader, &batch));
    record(tr, PSR_TRACE_DATA, PSR_TRACE_NO_INDEX, 0, begun_ns);

    const uint32_t global_batch = batch->global_count;
    now->count = batch->count;
    now->loss_sum = 0;
    now->correct = 0;
    now->metrics = (psr_metrics){.step = step + 1,
                                 .rank = replica->rank,
                                 .epoch = batch->epoch + 1,
                                 .loss = NAN,
                                 .images = batch->count,
                                 .lr = psr_schedule_lr(t->config, step, t->total_steps)};
    psr_session_progress(t->session, PSR_PHASE_FORWARD);
    double begun_s = psr_clock_s();
    psr_err err = psr_exchange_begin_step(
        t->exchange, &(psr_step){step, replica->rank, batch->count, global_batch});
    if (err == PSR_OK && batch->count > 0)
        err = compute(tr, replica, batch, global_batch, now);
    if (err == PSR_OK)
        err = psr_exchange_end_step(t->exchange);
    if (err == PSR_OK)
        take_times(tr, replica, now, psr_clock_s() - begun_s);
    psr_loader_return(replica->loader, batch);
    if (err == PSR_OK)
        record(tr, PSR_TRACE_STEP, replica->rank, 0, begun_ns);
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
    tr->outcome.left_out = e.left_out;
    if (e.left_out) {
        if (psr_trainer_is_first(t))
            psr_log(PSR_LOG_INFO, "evaluation step=%" PRIu64 " left out: the run is being stopped",
                    steps);
        return PSR_OK;
    }
    tr->last_evaluated = steps;
    tr->outcome.test_top5 = e.top5;
    tr->outcome.test_loss = e.loss;
    tr->outcome.test_accuracy = e.accuracy;
    tr->outcome.test_count = e.count;
    if (psr_trainer_is_first(t))
        psr_log(PSR_LOG_INFO,
                "evaluation step=%" PRIu64 " accuracy=%.4f top5=%.4f loss=%.4f samples=%" PRIu64,
                steps, e.accuracy, e.top5, psr_shown(e.loss), e.count);
    if (psr_trainer_is_first(t) && t->config->eval_format == PSR_EVAL_FORMAT_TORCH)
        psr_log_plain("Test set: Average loss: %.4f, Accuracy: %.2f%%", psr_shown(e.loss),
                      100 * e.accuracy);
    return PSR_OK;
}

static psr_err save(training *tr, uint64_t steps)
{
    double left_s = psr_clock_s();
    PSR_TRY(psr_session_await_saved(tr->t->session, tr->last_saved));
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
            m->test_loss = tr->outcome.test_loss;
            m->test_accuracy = tr->outcome.test_accuracy;
            m->test_top5 = tr->outcome.test_top5;
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
                      m->loss);
    return PSR_OK;
}

/* Worker 0 tells the norm that all agree on. No new weights land before it is known, so waiting for
 * it delays nothing. */
static psr_err find_norm(training *tr)
{
    psr_trainer *t = tr->t;
    psr_metrics *m = &tr->turns[0].metrics;
    if (t->config->clip_norm == 0 || !psr_trainer_is_first(t))
        return PSR_OK;
    PSR_TRY(psr_exchange_gradient_norm(t->exchange, &m->norm));
    m->has_norm = true;
    (void)end_turn(tr, &tr->turns[t->replica_count - 1]);
    return PSR_OK;
}

static psr_err hash_weights(training *tr)
{
    psr_trainer *t = tr->t;
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

/* --target-accuracy: every worker has the same figures of the evaluation, and so stops here. */
static void end_at_target(training *tr, uint64_t steps)
{
    const double target = tr->t->config->target_accuracy;
    if (target > 0 && tr->last_evaluated == steps && tr->outcome.test_accuracy >= target)
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
    if (evaluates || saves || config->hash)
        PSR_TRY(await_last_weights(tr, steps, of_all_workers));
    if (config->hash)
        PSR_TRY(hash_weights(tr));
    const int64_t evaluated_ns = trace_clock(tr);
    if (evaluates) {
        PSR_TRY(evaluate(tr, steps));
        if (!last)
            end_at_target(tr, steps);
        record(tr, PSR_TRACE_EVALUATION, PSR_TRACE_NO_INDEX, 0, evaluated_ns);
    }
    PSR_TRY(tell_metrics(tr, steps));
    const int64_t saved_ns = trace_clock(tr);
    if (saves) {
        PSR_TRY(save(tr, steps));
        record(tr, PSR_TRACE_CHECKPOINT, PSR_TRACE_NO_INDEX, 0, saved_ns);
    }
    return PSR_OK;
}

static psr_err take_steps(training *tr)
{
    psr_trainer *t = tr->t;
    if (t->first_step == t->total_steps) /* resumed after its last step */
        return psr_config_evaluates(t->config) ? evaluate(tr, t->total_steps) : PSR_OK;
    if (t->evaluates_first)
        PSR_TRY(evaluate(tr, t->first_step));
    for (uint64_t step = t->first_step; step < t->total_steps; step++) {
        for (uint32_t i = 0; i < t->replica_count; i++) {
            psr_err err = take_turn(tr, step, i);
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

/* The loss of the last complete step, mean over all ranks' samples; NaN if no step was taken. Every
 * process calls it. */
static psr_err average_loss(training *tr)
{
    enum { LOSS, WEIGHT, WIDTH };
    double *rows = calloc(tr->t->replica_count, WIDTH * sizeof *rows);
    if (rows == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the loss of %u replicas",
                        tr->t->replica_count);
    for (uint32_t i = 0; i < tr->t->replica_count; i++) {
        rows[i * WIDTH + LOSS] = tr->turns[i].last_loss_sum;
        rows[i * WIDTH + WEIGHT] = tr->turns[i].last_count;
    }
    psr_err err = psr_exchange_average(tr->t->exchange, rows, WIDTH);
    if (err == PSR_OK)
        tr->outcome.loss = rows[LOSS];
    free(rows);
    return err;
}

/* The share of the last epoch's samples, as far as this run has taken them, that the network had
 * right when it learned from them. Every process calls it. */
static psr_err average_training(training *tr)
{
    enum { CORRECT, WEIGHT, WIDTH };
    const uint32_t count = tr->t->replica_count;
    double *rows = calloc(count, WIDTH * sizeof *rows);
    if (rows == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the accuracy of %u replicas", count);
    for (uint32_t i = 0; i < count; i++) {
        rows[i * WIDTH + CORRECT] = (double)tr->turns[i].epoch_correct;
        rows[i * WIDTH + WEIGHT] = (double)tr->turns[i].epoch_count;
    }
    psr_err err = psr_exchange_average(tr->t->exchange, rows, WIDTH);
    if (err == PSR_OK)
        tr->outcome.train_accuracy = rows[CORRECT];
    free(rows);
    return err;
}

/* Whether --seconds has ended the run, and not a person: the worker whose time was up is among
 * those that sum up here. Every process calls it. */
static psr_err time_was_up(training *tr, bool *ret_up)
{
    enum { UP, WEIGHT, WIDTH };
    const uint32_t count = tr->t->replica_count;
    double *rows = calloc(count, WIDTH * sizeof *rows);
    if (rows == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the times of %u replicas", count);
    for (uint32_t i = 0; i < count; i++) {
        rows[i * WIDTH + UP] = tr->outcome.train_s >= tr->t->config->seconds;
        rows[i * WIDTH + WEIGHT] = 1;
    }
    psr_err err = psr_exchange_average(tr->t->exchange, rows, WIDTH);
    if (err == PSR_OK)
        *ret_up = rows[UP] > 0;
    free(rows);
    return err;
}

/* The evaluation at the end of a run that --seconds has ended. */
static psr_err evaluate_at_end(training *tr)
{
    const psr_config *config = tr->t->config;
    bool up = false;
    if (!tr->outcome.stopped || config->seconds == 0 || !config->eval ||
        tr->last_evaluated == tr->outcome.steps)
        return PSR_OK;
    PSR_TRY(time_was_up(tr, &up));
    tr->t->evaluates_at_end = up;
    return up ? evaluate(tr, tr->outcome.steps) : PSR_OK;
}

static psr_err finish_run(training *tr)
{
    psr_trainer *t = tr->t;
    if (tr->settled != tr->outcome.steps) /* it was stopped before its end */
        PSR_TRY(await_last_weights(tr, tr->outcome.steps, false));
    tr->tracer = NULL;
    PSR_TRY(psr_session_trace_end(t->session));
    tr->outcome.hash = psr_layout_hash(&t->net->params, psr_exchange_weights(t->exchange));
    PSR_TRY(average_loss(tr));
    PSR_TRY(average_training(tr));
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
    return psr_pass_times_new(t->net, &tr->times);
}

static psr_err end_recording(training *tr)
{
    const psr_config *config = tr->t->config;
    char host[256] = "?", machine[512];
    if (tr->times == NULL)
        return PSR_OK;
    (void)gethostname(host, sizeof host - 1);
    snprintf(machine, sizeof machine, "%.200s on %.40s", psr_backend_identity(config->backend),
             host);
    return psr_pass_times_write(tr->times, config, machine);
}

psr_err psr_train(psr_trainer *trainer, psr_outcome *ret_outcome)
{
    training tr = {.t = trainer,
                   .settled = trainer->first_step,
                   .outcome = {.steps = trainer->first_step,
                               .test_accuracy = NAN,
                               .test_top5 = NAN,
                               .test_loss = NAN,
                               .loss = NAN,
                               .train_accuracy = NAN}};
    tr.turns = calloc(trainer->replica_count, sizeof *tr.turns);
    if (tr.turns == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the turns of %u replicas",
                        trainer->replica_count);

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
    if (err == PSR_OK)
        *ret_outcome = tr.outcome;
    return err;
}
