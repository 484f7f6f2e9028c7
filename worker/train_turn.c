/* One rank's turn in a step: it takes its batch, computes forward and backward, where each bucket
 * goes to the exchange as it becomes ready, and ends with its times. */
#include "worker/train_private.h"

#include "base/arrays/finite.h"
#include "base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

static double training_clock_s(const psr_training *tr)
{
    return psr_clock_s() - tr->start_s - tr->aside_s;
}

static double unix_clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double psr_turn_end(psr_training *tr, psr_turn *now)
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

static void take_times(psr_training *tr, const psr_replica *replica, psr_turn *now,
                       double computing_s)
{
    psr_metrics *m = &now->metrics;
    computing_s -= psr_turn_end(tr, now);
    m->compute_s = computing_s > 0 ? computing_s : 0;

    double load_waited_s;
    uint64_t waits;
    psr_loader_waits(replica->loader, &load_waited_s, &waits);
    m->load_wait_s = load_waited_s - now->load_waited_s;
    now->load_waited_s = load_waited_s;

    tr->outcome.load_wait_s += m->load_wait_s;
    tr->outcome.compute_s += m->compute_s;
}

static void begin_metrics(const psr_trainer *t, uint64_t step, const psr_share *share,
                          psr_turn *now)
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
static psr_err begin_turn(psr_training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    psr_turn *now = &tr->turns[index];
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

static void return_batch(psr_training *tr, uint32_t index)
{
    const psr_share *share = &tr->shares[index];
    if (share->batch != NULL)
        psr_loader_return(share->replica->loader, share->batch);
    tr->shares[index].batch = NULL;
}

psr_err psr_turn_check_loss(const psr_turn *now)
{
    if (now->count == 0 || isfinite(now->metrics.loss))
        return PSR_OK;
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the loss of worker %" PRIu32
                    " is not finite (%g); a lower --lr or --warmup would be right",
                    now->metrics.step, now->metrics.rank, psr_shown(now->metrics.loss));
}

/* What the passes gave. A step that may be left out is judged at its end. */
static psr_err take_result(const psr_trainer *t, psr_turn *now, const psr_share *share)
{
    now->loss_sum = share->result.loss_sum;
    now->correct = share->result.correct;
    if (now->count > 0)
        now->metrics.loss = now->loss_sum / now->count;
    return psr_config_scales_loss(t->config) ? PSR_OK : psr_turn_check_loss(now);
}

psr_err psr_turn_take(psr_training *tr, uint64_t step, uint32_t index)
{
    psr_trainer *t = tr->t;
    psr_turn *now = &tr->turns[index];
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
static psr_err hand_over(psr_training *tr, uint64_t step, uint32_t index)
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

psr_err psr_turns_take_together(psr_training *tr, uint64_t step)
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
