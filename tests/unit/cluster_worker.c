/* A worker of the simulated cluster: what its compute thread and its exchange thread do between them, on engine, collective
 * and member, one piece at a time. */
#include "tests/unit/cluster_private.h"

#include "comm/encoding.h"
#include "comm/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the parts ---- */

static psr_err send_on(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    worker *w = context;
    cluster *c = w->process.in;
    if (head->type == PSR_MSG_PUSH) {
        uint64_t count = ++c->in_flight[w->process.self.rank * c->s + to.rank];
        if (count > c->pushes_in_flight)
            c->pushes_in_flight = count;
    }
    return psr_transport_send(w->process.transport, to, head, payload);
}

static psr_err tell(worker *w, psr_head head)
{
    return psr_member_tell(w->process.member, &head, NULL, 0);
}

static psr_err landed(void *context, uint64_t step, uint32_t bucket)
{
    worker *w = context;
    const cluster_options *o = &w->process.in->options;
    const psr_bucket *range = &o->buckets->items[bucket];
    assert_int_equal(w->landed[bucket], step);
    w->landed[bucket] = step + 1;
    memcpy(w->history + (step - o->first_step) * o->layout->length + range->offset,
           w->weights + range->offset, range->length * sizeof(float));
    return PSR_OK;
}

static psr_err connect_peers(worker *w)
{
    const cluster *c = w->process.in;
    uint32_t rank = w->process.self.rank;
    for (uint32_t s = 0; s < c->s; s++)
        PSR_TRY(psr_member_connect(w->process.member, (psr_peer){PSR_ROLE_SHARD, s}));
    for (uint32_t other = 0; other < c->n; other++) {
        bool neighbour = c->s == 0 && other == (rank + 1) % c->n;
        if (other != rank && (rank == 0 || other == 0 || neighbour))
            PSR_TRY(psr_member_connect(w->process.member, (psr_peer){PSR_ROLE_WORKER, other}));
    }
    return PSR_OK;
}

static void make_arenas(worker *w)
{
    const cluster_options *o = &w->process.in->options;
    w->weights = calloc(o->layout->length + 1, sizeof(float));
    w->gradients = calloc(o->layout->length + 1, sizeof(float));
    w->history = calloc(o->layout->length * (o->steps + 1) + 1, sizeof(float));
    w->order = calloc(o->buckets->count + 1, sizeof *w->order);
    w->landed = calloc(o->buckets->count + 1, sizeof *w->landed);
    for (uint32_t b = 0; b < o->buckets->count; b++)
        w->landed[b] = o->first_step;
}

static psr_err open_engine(worker *w)
{
    const cluster *c = w->process.in;
    const cluster_options *o = &c->options;
    const psr_config *config = o->config;
    w->ops = c->s > 0 ? &psr_engine_ps : &psr_engine_ring;
    if (c->s == 0)
        PSR_TRY(psr_optimizer_new(config, o->layout, &w->optimizer));
    const psr_engine_env env = {
        .config = config,
        .layout = o->layout,
        .buckets = o->buckets,
        .plan = &w->process.in->plan,
        .rank = w->process.self.rank,
        .total_steps = psr_member_facts(w->process.member)->total_steps,
        .weights = w->weights,
        .gradients = w->gradients,
        .optimizer = w->optimizer,
        .outbox = {.context = w, .send = send_on},
        .context = w,
        .landed = landed,
    };
    const psr_outbox outbox = {.context = w, .send = send_on};
    size_t bytes_max = o->layout->length * sizeof(float) + sizeof w->sum;
    if (c->n > 1)
        PSR_TRY(psr_collective_new(w->process.self.rank, c->n, config->slice_bytes, bytes_max, outbox,
                                   &w->collective));
    return w->ops->open(&env, &w->engine);
}

psr_err worker_welcomed(worker *w)
{
    PSR_TRY(connect_peers(w));
    make_arenas(w);
    PSR_TRY(open_engine(w));
    w->step = psr_member_first_step(w->process.member);
    w->stop_at = UINT64_MAX;
    w->activity = ACTIVITY_RESTORE;
    return PSR_OK;
}

void worker_done(worker *w)
{
    if (w->engine)
        w->ops->close(w->engine);
    psr_collective_free(w->collective);
    psr_optimizer_free(w->optimizer);
    free(w->weights);
    free(w->gradients);
    free(w->history);
    free(w->order);
    free(w->landed);
}

/* ---- what it waits for ---- */

static bool is_resumed_first(const worker *w)
{
    return w->process.self.rank == 0 && w->process.in->options.first_step > 0;
}

static bool bucket_here(const worker *w, uint32_t b, uint64_t steps)
{
    return w->landed[b] >= steps && w->ops->lent(w->engine, b) == 0;
}

static bool all_here(const worker *w)
{
    for (uint32_t b = 0; b < w->process.in->options.buckets->count; b++)
        if (!bucket_here(w, b, w->step))
            return false;
    return true;
}

static uint32_t forward_bucket(const worker *w)
{
    return w->process.in->options.buckets->count - 1 - w->next;
}

static bool may_move(const worker *w)
{
    const cluster *c = w->process.in;
    switch (w->activity) {
    case ACTIVITY_JOIN:
        return false;
    case ACTIVITY_RESTORE:
        return !is_resumed_first(w) || w->restored == (1 + c->slot_count) * c->options.layout->length;
    case ACTIVITY_SPREAD:
    case ACTIVITY_FOLD:
        return !w->collective || psr_collective_finished(w->collective);
    case ACTIVITY_START:
        return w->started;
    case ACTIVITY_BEGIN:
        return !w->held;
    case ACTIVITY_FORWARD:
        return bucket_here(w, forward_bucket(w), w->step);
    case ACTIVITY_BACKWARD:
        return true;
    case ACTIVITY_DRAIN:
        return all_here(w);
    case ACTIVITY_SAVE:
        return w->saved >= w->last_saved;
    case ACTIVITY_BYE:
        return w->bye;
    }
    return false;
}

void worker_look(worker *w)
{
    cluster *c = w->process.in;
    if (w->compute_us != NEVER || w->hung || w->process.state != PROCESS_RUNS || !may_move(w))
        return;
    /* Of all sizes, as delays are. */
    uint32_t longest_us = (c->compute_max_us >> cluster_draw(c, 6)) + 1;
    if (w->process.self.rank == c->options.slow_worker)
        longest_us *= 10;
    w->compute_us = psr_sim_now_us(c->sim) + cluster_draw(c, longest_us);
}

static psr_phase phase_of(const worker *w)
{
    switch (w->activity) {
    case ACTIVITY_JOIN:
    case ACTIVITY_RESTORE:
    case ACTIVITY_SPREAD:
        return PSR_PHASE_START;
    case ACTIVITY_START:
        return PSR_PHASE_BARRIER;
    case ACTIVITY_BEGIN:
        return PSR_PHASE_DATA;
    case ACTIVITY_FORWARD:
        return may_move(w) ? PSR_PHASE_FORWARD : w->ops->waits_in;
    case ACTIVITY_BACKWARD:
        return PSR_PHASE_BACKWARD;
    case ACTIVITY_DRAIN:
        return w->ops->waits_in;
    case ACTIVITY_FOLD:
        return PSR_PHASE_EVALUATION;
    case ACTIVITY_SAVE:
        return PSR_PHASE_CHECKPOINT;
    case ACTIVITY_BYE:
        return PSR_PHASE_SHUTDOWN;
    }
    return PSR_PHASE_START;
}

static uint64_t last_begun(const worker *w)
{
    bool under_way = w->activity == ACTIVITY_FORWARD || w->activity == ACTIVITY_BACKWARD;
    if (!w->any_begun)
        return w->process.in->options.first_step;
    return under_way ? w->step : w->step - 1;
}

/* As psr_session_report. */
void worker_report(void *context, psr_msg_progress *progress)
{
    const worker *w = context;
    if (w->activity == ACTIVITY_JOIN)
        return;
    progress->step = last_begun(w);
    progress->phase = phase_of(w);
    progress->counter = w->counter;
    progress->waits = !may_move(w);
    progress->waits_for = (psr_peer){PSR_ROLE_SCHEDULER, 0};
    if (!progress->waits)
        return;
    if (w->activity == ACTIVITY_FORWARD || w->activity == ACTIVITY_DRAIN)
        progress->waits = w->ops->waits(w->engine, &progress->waits_for, &progress->step, &progress->bucket);
    psr_waiting waiting;
    if ((w->activity == ACTIVITY_SPREAD || w->activity == ACTIVITY_FOLD) &&
        psr_collective_waits(w->collective, &waiting))
        progress->waits_for = waiting.peer;
}

/* ---- before the first step ---- */

/* A slice of the arena to the shard that owns it; what: 0 weights, 1 + i optimizer slot i. */
static psr_err init_shards(worker *w, uint32_t what, const float *values)
{
    const cluster *c = w->process.in;
    for (uint32_t i = 0; i < c->plan.slice_count; i++) {
        const psr_slice *slice = &c->plan.slices[i];
        psr_peer home = {PSR_ROLE_SHARD, c->plan.buckets[slice->bucket].home};
        psr_head head = psr_msg_init_head(&(psr_msg_init){
            .bucket = slice->bucket, .step = c->options.first_step, .span = slice->span, .section = what});
        psr_payload payload =
            psr_encode(&head, PSR_ENCODING_FLOAT32, values + slice->span.offset, slice->span.count);
        PSR_TRY(psr_transport_send(w->process.transport, home, &head, &payload));
    }
    return PSR_OK;
}

static psr_err init_all_shards(worker *w)
{
    const cluster *c = w->process.in;
    PSR_TRY(init_shards(w, 0, w->weights));
    for (uint32_t slot = 0; slot < c->slot_count && c->options.first_step > 0; slot++) {
        float *values = calloc(c->options.layout->length + 1, sizeof *values);
        cluster_initial_slot(c->options.layout, slot, values); /* what RESTORE brought */
        psr_err err = init_shards(w, 1 + slot, values);
        free(values);
        PSR_TRY(err);
    }
    return PSR_OK;
}

/* The weights, and in a ring that goes on the optimizer's slots, one after the other. */
static psr_err spread_next(worker *w)
{
    const cluster *c = w->process.in;
    uint32_t k = w->spread++;
    if (k == 0 && w->process.self.rank == 0 && c->options.first_step == 0)
        cluster_initial_weights(c->options.layout, w->weights);
    if (k > 0 && (!w->optimizer || c->options.first_step == 0 || k > c->slot_count)) {
        if (w->process.self.rank == 0 && c->s > 0)
            PSR_TRY(init_all_shards(w));
        w->activity = ACTIVITY_START;
        return psr_member_ready(w->process.member, NULL);
    }
    w->activity = ACTIVITY_SPREAD;
    float *values = k == 0 ? w->weights : psr_optimizer_slot(w->optimizer, k - 1);
    if (!w->collective)
        return PSR_OK;
    const psr_buffer bytes = {
        .data = values, .count = c->options.layout->length * sizeof *values, .type = PSR_TYPE_UINT8};
    return psr_collective_start(w->collective, psr_collective_broadcast(w->collective), &bytes);
}

static psr_err take_restored(worker *w, const psr_message *message)
{
    psr_msg_piece piece;
    PSR_TRY(psr_msg_piece_read(message, &piece));
    assert_true(is_resumed_first(w));
    assert_int_equal(message->payload_bytes, piece.span.count * sizeof(float));
    w->restored += piece.span.count;
    if (piece.section == PSR_SECTION_WEIGHTS)
        memcpy(w->weights + piece.span.offset, message->payload, message->payload_bytes);
    else if (w->optimizer)
        memcpy(psr_optimizer_slot(w->optimizer, piece.section - PSR_SECTION_SLOT(0)) + piece.span.offset,
               message->payload, message->payload_bytes);
    return PSR_OK;
}

/* ---- steps ---- */

static psr_err begin_step(worker *w)
{
    cluster *c = w->process.in;
    w->last = w->step > w->stop_at || w->step == c->options.first_step + c->options.steps;
    if (w->last) {
        w->activity = ACTIVITY_DRAIN;
        return PSR_OK;
    }
    w->activity = ACTIVITY_FORWARD;
    w->next = 0;
    w->any_begun = true;
    PSR_TRY(w->ops->begin_step(w->engine, w->step));
    if (w->step == c->options.stop_at)
        cluster_stop(c);
    return PSR_OK;
}

static void see_gap(worker *w)
{
    cluster *c = w->process.in;
    uint64_t slowest = UINT64_MAX;
    for (uint32_t r = 0; r < c->n; r++)
        slowest = c->workers[r].step < slowest ? c->workers[r].step : slowest;
    if (w->step - slowest > c->gap)
        c->gap = w->step - slowest;
    if (w->ops->staleness) {
        uint64_t staleness = w->ops->staleness(w->engine);
        c->staleness = staleness > c->staleness ? staleness : c->staleness;
    }
}

/* The bucket's weights are here and nothing of its gradient is lent. */
static psr_err forward(worker *w)
{
    cluster *c = w->process.in;
    const psr_buckets *buckets = c->options.buckets;
    const psr_bucket *range = &buckets->items[forward_bucket(w)];
    for (size_t i = range->offset; i < range->offset + range->length; i++)
        w->gradients[i] = NAN;
    if (++w->next < buckets->count)
        return PSR_OK;
    see_gap(w);
    /* A backward pass takes buckets in order, but a network with branches need not. */
    for (uint32_t b = 0; b < buckets->count; b++) {
        w->order[b] = b;
        if (b > 0 && cluster_draw(c, 4) == 0) {
            w->order[b] = w->order[b - 1];
            w->order[b - 1] = b;
        }
    }
    w->activity = ACTIVITY_BACKWARD;
    w->next = 0;
    return PSR_OK;
}

static psr_err backward(worker *w)
{
    const cluster_options *o = &w->process.in->options;
    uint32_t b = w->order[w->next++];
    const psr_bucket *range = &o->buckets->items[b];
    for (size_t i = range->offset; i < range->offset + range->length; i++)
        w->gradients[i] = cluster_gradient(w->process.self.rank, w->step, i);
    PSR_TRY(w->ops->ready(w->engine, w->step, b));
    if (w->next < o->buckets->count)
        return PSR_OK;
    w->step++;
    uint64_t every = o->config->checkpoint_every;
    w->activity = every > 0 && w->step % every == 0 ? ACTIVITY_DRAIN : ACTIVITY_BEGIN;
    return PSR_OK;
}

/* ---- checkpoints and the end ---- */

static psr_err drained(worker *w)
{
    w->activity = ACTIVITY_SAVE;
    if (!w->last)
        return PSR_OK;
    w->activity = ACTIVITY_FOLD;
    for (size_t i = 0; i < sizeof w->sum / sizeof w->sum[0]; i++)
        w->sum[i] = (double)cluster_gradient(w->process.self.rank, w->step, i);
    if (!w->collective)
        return PSR_OK;
    const psr_buffer sum = {
        .data = w->sum, .count = sizeof w->sum / sizeof w->sum[0], .type = PSR_TYPE_FLOAT64};
    return psr_collective_start(w->collective, psr_collective_fold(w->collective), &sum);
}

static psr_err folded(worker *w)
{
    for (size_t i = 0; i < sizeof w->sum / sizeof w->sum[0]; i++) {
        double want = (double)cluster_gradient(0, w->step, i);
        for (uint32_t r = 1; r < w->process.in->n; r++)
            want += (double)cluster_gradient(r, w->step, i);
        assert_memory_equal(&want, &w->sum[i], sizeof want);
    }
    w->activity = ACTIVITY_SAVE;
    return PSR_OK;
}

static psr_err send_section(worker *w, uint32_t section, const float *values)
{
    size_t length = w->process.in->options.layout->length, most = 100;
    for (size_t at = 0; at < length; at += most) {
        size_t count = length - at < most ? length - at : most;
        psr_head head = psr_msg_checkpoint_head(
            &(psr_msg_piece){.steps = w->step, .section = section, .span = {at, count}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, values + at, count);
        PSR_TRY(psr_member_tell(w->process.member, &head, payload.data, payload.bytes));
    }
    return PSR_OK;
}

/* Worker 0 sends what the shards do not hold. */
static psr_err save(worker *w)
{
    const cluster *c = w->process.in;
    if (w->process.self.rank == 0 && w->step > c->options.first_step && w->last_saved != w->step) {
        w->last_saved = w->step;
        PSR_TRY(send_section(w, PSR_SECTION_WEIGHTS, w->weights));
        for (uint32_t i = 0; w->optimizer && i < c->slot_count; i++)
            PSR_TRY(send_section(w, PSR_SECTION_SLOT(i), psr_optimizer_slot(w->optimizer, i)));
    }
    w->activity = ACTIVITY_BEGIN;
    if (!w->last)
        return PSR_OK;
    w->activity = ACTIVITY_BYE;
    w->process.done = true;
    return tell(w, psr_msg_done_head(&(psr_msg_done){.steps = w->step}));
}

static psr_err leave(worker *w)
{
    w->process.state = PROCESS_LEFT;
    return PSR_OK;
}

psr_err worker_compute(worker *w)
{
    w->compute_us = NEVER;
    w->counter++;
    switch (w->activity) {
    case ACTIVITY_JOIN:
        break;
    case ACTIVITY_RESTORE:
    case ACTIVITY_SPREAD:
        return spread_next(w);
    case ACTIVITY_START:
        w->activity = ACTIVITY_BEGIN;
        break;
    case ACTIVITY_BEGIN:
        return begin_step(w);
    case ACTIVITY_FORWARD:
        return forward(w);
    case ACTIVITY_BACKWARD:
        return backward(w);
    case ACTIVITY_DRAIN:
        return drained(w);
    case ACTIVITY_FOLD:
        return folded(w);
    case ACTIVITY_SAVE:
        return save(w);
    case ACTIVITY_BYE:
        return leave(w);
    }
    return PSR_OK;
}

/* ---- messages ---- */

/* As the exchange thread does. */
static psr_err hold(worker *w)
{
    if (w->process.done)
        return PSR_OK;
    w->held = true;
    return tell(w, psr_msg_held_head(last_begun(w)));
}

static psr_err take_scheduler_message(worker *w, const psr_message *message)
{
    switch (message->head.type) {
    case PSR_MSG_START:
        w->started = true;
        return PSR_OK;
    case PSR_MSG_HOLD:
        return hold(w);
    case PSR_MSG_STOP_AT:
        w->held = false;
        return psr_msg_stop_at_read(message, &w->stop_at);
    case PSR_MSG_RESTORE:
        return take_restored(w, message);
    case PSR_MSG_SAVED:
        return psr_msg_saved_read(message, &w->saved);
    case PSR_MSG_BYE:
        w->bye = true;
        return PSR_OK;
    default:
        fail_msg("the scheduler sent a worker a message of type %d", (int)message->head.type);
        return PSR_OK;
    }
}

psr_err worker_message(worker *w, psr_message **message)
{
    psr_err err = PSR_OK;
    if ((*message)->from.role == PSR_ROLE_SCHEDULER) {
        err = take_scheduler_message(w, *message);
        psr_message_free(message);
    } else if ((*message)->head.type == PSR_MSG_GATHER || (*message)->head.type == PSR_MSG_SPREAD) {
        err = psr_collective_message(w->collective, message);
    } else {
        err = w->ops->message(w->engine, message);
    }
    assert_null(*message);
    return err;
}
