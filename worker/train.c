#include "worker/train.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/evaluate.h"
#include "worker/snapshot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* What happened to one replica in the present step. */
typedef struct turn {
    psr_metrics metrics;
    uint32_t count; /* samples of its batch */
    double loss_sum;
    double load_waited_s; /* the loader's own count when the turn before ended */
    double ended_s;       /* when that was */
} turn;

typedef struct training {
    psr_trainer *t;
    turn *turns; /* [replicas] */
    psr_outcome outcome;
    uint64_t last_evaluated, last_saved; /* steps completed at that time; 0: never */
    double begun_s, aside_s; /* when training began; time spent on evaluations and checkpoints since */
    /* The pass that runs. */
    uint32_t nodes_done;
    bool
        slow; /* --slow: this rank is held up after each bucket for what it has computed since the last one */
    double marked_s, busy_s;
} training;

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

static psr_err gradient_ready(void *context, uint32_t bucket)
{
    training *tr = context;
    mark_busy(tr);
    psr_err err = psr_exchange_gradient_ready(tr->t->exchange, bucket);
    tr->marked_s = psr_clock_s();
    return err;
}

/* Called once for each node of the forward pass, then once for each of the backward pass. With --slow, it then lasts as long as if the
 * node had been computed so many times. */
static void progress(void *context)
{
    training *tr = context;
    tr->nodes_done++;
    psr_phase phase = tr->nodes_done <= tr->t->net->node_count ? PSR_PHASE_FORWARD : PSR_PHASE_BACKWARD;
    psr_exchange_progress(tr->t->exchange, phase);
    if (!tr->slow)
        return;
    mark_busy(tr);
    psr_err held_up = PSR_OK; /* it fails when the exchange has: the next call of that says so */
    for (double left = tr->t->config->slow_factor - 1; left > 0 && held_up == PSR_OK; left--) {
        held_up = psr_exchange_pause(tr->t->exchange, tr->busy_s * (left < 1 ? left : 1));
        psr_exchange_progress(tr->t->exchange, phase);
    }
    tr->busy_s = 0;
    tr->marked_s = psr_clock_s();
}

/* ---- one rank's turn ---- */

static psr_err compute(training *tr, const psr_replica *replica, const psr_loader_batch *loaded,
                       uint32_t global_batch, turn *now)
{
    psr_trainer *t = tr->t;
    const psr_batch batch = {.images = loaded->images,
                             .labels = loaded->labels,
                             .samples = loaded->samples,
                             .count = loaded->count,
                             .epoch = loaded->epoch,
                             .seed = t->config->seed};
    const psr_exec_state state = {.weights = psr_exchange_weights(t->exchange),
                                  .gradients = psr_exchange_gradients(t->exchange),
                                  .buffers = replica->buffers};
    const psr_exec_hooks hooks = {.context = tr,
                                  .weights_wanted = weights_wanted,
                                  .gradient_ready = gradient_ready,
                                  .progress = progress};
    psr_pass_result result;
    /* What a first step does once and for all is no measure of how fast a worker is. */
    tr->slow =
        t->config->slowed && t->config->slow_rank == replica->rank && now->metrics.step > t->first_step + 1;
    tr->nodes_done = 0;
    tr->busy_s = 0;
    tr->marked_s = psr_clock_s();
    PSR_TRY(psr_backend_train(t->backend, &batch, &state, (float)(1.0 / global_batch), &hooks, &result));
    now->loss_sum = result.loss_sum;
    now->metrics.loss = result.loss_sum / loaded->count;
    if (!isfinite(now->metrics.loss))
        return psr_fail(PSR_ERR_NUMERIC,
                        "step %" PRIu64 ": the loss of worker %" PRIu32 " is not finite (%g); a lower --lr "
                        "or --warmup would be right",
                        now->metrics.step, replica->rank, now->metrics.loss);
    return PSR_OK;
}

static void take_times(training *tr, const psr_replica *replica, turn *now, double computing_s)
{
    psr_exchange_figures figures;
    psr_exchange_take_figures(tr->t->exchange, &figures);
    double load_waited_s, ended_s = psr_clock_s();
    uint64_t waits;
    psr_loader_waits(replica->loader, &load_waited_s, &waits);

    psr_metrics *m = &now->metrics;
    m->wait_s = figures.wait_s;
    m->exchange_s = figures.exchange_s;
    m->bytes_sent = figures.bytes_sent;
    m->bytes_received = figures.bytes_received;
    m->staleness = figures.staleness;
    m->compute_s = computing_s - figures.wait_s > 0 ? computing_s - figures.wait_s : 0;
    m->load_wait_s = load_waited_s - now->load_waited_s;
    m->images_per_s = now->count / (ended_s - now->ended_s);
    now->load_waited_s = load_waited_s;
    now->ended_s = ended_s;

    tr->outcome.wait_s += m->wait_s;
    tr->outcome.load_wait_s += m->load_wait_s;
    tr->outcome.compute_s += m->compute_s;
}

/* CANCELLED: this step is not to be taken. */
static psr_err take_turn(training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    const psr_replica *replica = &t->replicas[index];
    turn *now = &tr->turns[index];
    const psr_loader_batch *batch = NULL;
    psr_exchange_progress(t->exchange, PSR_PHASE_DATA);
    if (t->replica_count > 1) /* a turn of local mode begins where the one before ended */
        now->ended_s = psr_clock_s();
    PSR_TRY(psr_loader_next(replica->loader, &batch));

    uint32_t global_batch = psr_sampler_global_batch(&t->sampler, batch->step);
    now->count = batch->count;
    now->loss_sum = 0;
    now->metrics = (psr_metrics){.step = step + 1,
                                 .rank = replica->rank,
                                 .epoch = batch->epoch + 1,
                                 .loss = NAN,
                                 .lr = psr_schedule_lr(t->config, step, t->total_steps)};
    psr_exchange_progress(t->exchange, PSR_PHASE_FORWARD);
    double begun_s = psr_clock_s();
    psr_err err =
        psr_exchange_begin_step(t->exchange, &(psr_step){step, replica->rank, batch->count, global_batch});
    if (err == PSR_OK && batch->count > 0)
        err = compute(tr, replica, batch, global_batch, now);
    if (err == PSR_OK)
        err = psr_exchange_end_step(t->exchange);
    if (err == PSR_OK)
        take_times(tr, replica, now, psr_clock_s() - begun_s);
    psr_loader_return(replica->loader, batch);
    return err;
}

/* ---- after a step ---- */

static bool due(uint64_t every, uint64_t steps)
{
    return every > 0 && steps % every == 0;
}

/* Evaluations and checkpoints take place between steps: their time is neither a step's nor the training's. */
static void came_back(training *tr, double left_s)
{
    double now_s = psr_clock_s();
    tr->aside_s += now_s - left_s;
    for (uint32_t i = 0; i < tr->t->replica_count; i++)
        tr->turns[i].ended_s += now_s - left_s;
}

static psr_err evaluate(training *tr, uint64_t steps)
{
    psr_trainer *t = tr->t;
    psr_evaluation e;
    PSR_TRY(psr_exchange_drain(t->exchange));
    double left_s = psr_clock_s();
    PSR_TRY(psr_evaluate(t, &e));
    came_back(tr, left_s);
    tr->last_evaluated = steps;
    tr->outcome.test_loss = e.loss;
    tr->outcome.accuracy = (double)e.correct / (double)e.count;
    tr->outcome.test_count = e.count;
    if (psr_trainer_is_first(t))
        psr_log(PSR_LOG_INFO, "evaluation step=%" PRIu64 " accuracy=%.4f loss=%.4f samples=%" PRIu64, steps,
                tr->outcome.accuracy, e.loss, e.count);
    return PSR_OK;
}

static psr_err save(training *tr, uint64_t steps)
{
    PSR_TRY(psr_exchange_drain(tr->t->exchange));
    double left_s = psr_clock_s();
    PSR_TRY(psr_exchange_await_saved(tr->t->exchange, tr->last_saved));
    PSR_TRY(psr_snapshot_save(tr->t, steps));
    came_back(tr, left_s);
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
            m->test_accuracy = tr->outcome.accuracy;
        }
        char line[PSR_METRICS_LINE_MAX];
        psr_metrics_print(m, line);
        PSR_TRY(psr_exchange_metrics(t->exchange, line));
    }
    const psr_metrics *m =
        &tr->turns[0].metrics; /* of all that local mode plays, rank 0: as its log has it in other modes */
    if (due(t->config->log_every, steps) && tr->turns[0].count > 0)
        psr_log_plain("epoch: %" PRIu32 " step: %" PRIu64 ", loss is %.16g", m->epoch, steps, m->loss);
    return PSR_OK;
}

static psr_err hash_weights(training *tr)
{
    psr_trainer *t = tr->t;
    PSR_TRY(psr_exchange_drain(t->exchange));
    uint64_t hash = psr_layout_hash(&t->net->params, psr_exchange_weights(t->exchange));
    for (uint32_t i = 0; i < t->replica_count; i++) {
        tr->turns[i].metrics.has_hash = true;
        tr->turns[i].metrics.hash = hash;
    }
    return PSR_OK;
}

/* The step that makes `steps` complete is over for every replica. */
static psr_err finish_step(training *tr, uint64_t steps)
{
    const psr_config *config = tr->t->config;
    bool last = steps == tr->t->total_steps;
    tr->outcome.steps = steps;
    if (config->hash)
        PSR_TRY(hash_weights(tr));
    if (last || due(config->eval_every, steps))
        PSR_TRY(evaluate(tr, steps));
    PSR_TRY(tell_metrics(tr, steps));
    if (last || due(config->checkpoint_every, steps))
        PSR_TRY(save(tr, steps));
    return PSR_OK;
}

static psr_err take_steps(training *tr)
{
    psr_trainer *t = tr->t;
    for (uint64_t step = t->first_step; step < t->total_steps; step++) {
        for (uint32_t i = 0; i < t->replica_count; i++) {
            psr_err err = take_turn(tr, step, i);
            tr->outcome.stopped =
                err == PSR_ERR_CANCELLED && i == 0 && step > psr_exchange_last_step(t->exchange);
            if (tr->outcome.stopped)
                return PSR_OK;
            PSR_TRY(err);
        }
        tr->outcome.images += psr_sampler_global_batch(&t->sampler, (uint32_t)(step % t->steps_per_epoch));
        PSR_TRY(finish_step(tr, step + 1));
    }
    return PSR_OK;
}

/* The last step's loss over all ranks. Every process calls it. */
static psr_err sum_loss(training *tr)
{
    double sums[2] = {0, 0};
    for (uint32_t i = 0; i < tr->t->replica_count; i++) {
        sums[0] += tr->turns[i].loss_sum;
        sums[1] += tr->turns[i].count;
    }
    PSR_TRY(psr_exchange_sum(tr->t->exchange, sums, 2));
    tr->outcome.loss = sums[1] > 0 ? sums[0] / sums[1] : NAN;
    return PSR_OK;
}

static psr_err finish_run(training *tr)
{
    psr_trainer *t = tr->t;
    PSR_TRY(psr_exchange_drain(t->exchange));
    tr->outcome.seconds = psr_clock_s() - tr->begun_s - tr->aside_s;
    tr->outcome.hash = psr_layout_hash(&t->net->params, psr_exchange_weights(t->exchange));
    PSR_TRY(sum_loss(tr));
    if (tr->last_saved != tr->outcome.steps) /* it was stopped */
        PSR_TRY(save(tr, tr->outcome.steps));
    return PSR_OK;
}

psr_err psr_train(psr_trainer *trainer, psr_outcome *ret_outcome)
{
    training tr = {.t = trainer,
                   .outcome = {.steps = trainer->first_step, .accuracy = NAN, .test_loss = NAN, .loss = NAN}};
    tr.turns = calloc(trainer->replica_count, sizeof *tr.turns);
    if (tr.turns == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the turns of %u replicas", trainer->replica_count);

    psr_exchange_figures start_up; /* what was waited until START belongs to no step */
    psr_exchange_take_figures(trainer->exchange, &start_up);
    tr.begun_s = psr_clock_s();
    for (uint32_t i = 0; i < trainer->replica_count; i++)
        tr.turns[i].ended_s = tr.begun_s;
    psr_err err = take_steps(&tr);
    if (err == PSR_OK)
        err = finish_run(&tr);
    free(tr.turns);
    if (err == PSR_OK)
        *ret_outcome = tr.outcome;
    return err;
}
