#include "worker/exchange_private.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "comm/slices.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- waiting ---- */

void psr_exchange_changed(psr_exchange *exchange)
{
    /* The fence pairs with the one in wait_for: either the waiter sees what was written before this call, or
     * this call sees that somebody waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&exchange->wait, memory_order_relaxed) == PSR_WAIT_NOTHING)
        return;
    pthread_mutex_lock(&exchange->mutex);
    pthread_cond_broadcast(&exchange->condition);
    pthread_mutex_unlock(&exchange->mutex);
}

void psr_exchange_set_failed(psr_exchange *exchange, psr_err status, const char *line)
{
    pthread_mutex_lock(&exchange->mutex);
    if (atomic_load(&exchange->status) == PSR_OK) {
        snprintf(exchange->failure, sizeof exchange->failure, "%s", line);
        atomic_store(&exchange->status, (int)status);
    }
    pthread_cond_broadcast(&exchange->condition);
    pthread_mutex_unlock(&exchange->mutex);
}

static psr_err failure(psr_exchange *exchange)
{
    psr_err status = (psr_err)atomic_load(&exchange->status);
    /* The line was complete before the status was set, and never changes after. */
    return status == PSR_OK ? PSR_OK : psr_fail(status, "%s", exchange->failure);
}

static bool bucket_here(psr_exchange *exchange, uint32_t bucket, uint64_t steps)
{
    return atomic_load(&exchange->landed[bucket]) >= steps &&
           exchange->ops->lent(exchange->engine, bucket) == 0;
}

static bool satisfied(psr_exchange *exchange, psr_wait wait)
{
    uint64_t steps = atomic_load_explicit(&exchange->wanted_steps, memory_order_relaxed);
    switch (wait) {
    case PSR_WAIT_NOTHING:
        return true;
    case PSR_WAIT_BUCKET:
        return bucket_here(exchange, atomic_load_explicit(&exchange->wanted_bucket, memory_order_relaxed),
                           steps);
    case PSR_WAIT_ALL:
        for (uint32_t b = 0; b < exchange->options.buckets->count; b++) {
            if (!bucket_here(exchange, b, steps))
                return false;
        }
        return true;
    case PSR_WAIT_COLLECTIVE:
        return atomic_load(&exchange->operations_ended) == exchange->operations_begun;
    case PSR_WAIT_ROOM:
        return psr_command_room(exchange->queue);
    case PSR_WAIT_RESTORE:
        return exchange->restored != NULL;
    case PSR_WAIT_START:
        return atomic_load(&exchange->started);
    case PSR_WAIT_HOLD:
        return !exchange->held;
    case PSR_WAIT_SAVED:
        return atomic_load(&exchange->saved_steps) >= steps;
    case PSR_WAIT_BYE:
        return atomic_load(&exchange->bye);
    }
    return true;
}

/* What metrics count as waiting for the exchange: for weights, not for a barrier between steps. */
static bool counts_as_waiting(psr_wait wait)
{
    return wait == PSR_WAIT_BUCKET || wait == PSR_WAIT_ALL || wait == PSR_WAIT_ROOM;
}

/* Call with the mutex held. */
static psr_err wait_locked(psr_exchange *exchange, psr_wait wait)
{
    double begin_s = psr_clock_s();
    atomic_store_explicit(&exchange->wait, (int)wait, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(&exchange->status) == PSR_OK && !satisfied(exchange, wait))
        pthread_cond_wait(&exchange->condition, &exchange->mutex);
    atomic_store(&exchange->wait, PSR_WAIT_NOTHING);
    if (counts_as_waiting(wait))
        exchange->wait_s += psr_clock_s() - begin_s;
    atomic_fetch_add_explicit(&exchange->counter, 1, memory_order_relaxed);
    return failure(exchange);
}

static psr_err wait_for(psr_exchange *exchange, psr_wait wait)
{
    PSR_TRY(failure(exchange));
    pthread_mutex_lock(&exchange->mutex);
    psr_err err = satisfied(exchange, wait) ? PSR_OK : wait_locked(exchange, wait);
    pthread_mutex_unlock(&exchange->mutex);
    return err;
}

/* As wait_for, while the phase says so in reports. */
static psr_err wait_in_phase(psr_exchange *exchange, psr_wait wait, psr_phase phase)
{
    int before = atomic_exchange(&exchange->phase, (int)phase);
    psr_err err = wait_for(exchange, wait);
    atomic_store(&exchange->phase, before);
    return err;
}

/* A SEND command's data is consumed, on failure too. */
static psr_err command(psr_exchange *exchange, const psr_command *command)
{
    psr_err err = failure(exchange);
    while (err == PSR_OK && !psr_command_push(exchange->queue, command))
        err = wait_for(exchange, PSR_WAIT_ROOM);
    if (err == PSR_OK)
        psr_transport_wake(exchange->options.transport);
    else if (command->kind == PSR_COMMAND_SEND)
        free(command->data);
    return err;
}

/* Copies bytes (0 allowed) into a message to a peer. */
static psr_err send_copy(psr_exchange *exchange, psr_peer to, const psr_head *head, const void *data,
                         size_t bytes)
{
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", bytes);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    return command(exchange, &(psr_command){PSR_COMMAND_SEND, to, *head, copy, bytes});
}

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

static psr_err tell(psr_exchange *exchange, const psr_head *head, const char *text)
{
    return send_copy(exchange, scheduler, head, text, text != NULL ? strlen(text) : 0);
}

/* ---- life ---- */

static psr_err open_engine(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    if (o->engine != NULL)
        exchange->ops = o->engine;
    else if (!o->config->exchange)
        exchange->ops = &psr_engine_none;
    else if (o->config->mode == PSR_MODE_PS)
        exchange->ops = &psr_engine_ps;
    else
        exchange->ops = &psr_engine_ring;
    const psr_engine_env env = {
        .config = o->config,
        .layout = o->layout,
        .buckets = o->buckets,
        .rank = o->rank,
        .total_steps = o->total_steps,
        .weights = exchange->weights,
        .gradients = exchange->gradients,
        .optimizer = exchange->optimizer,
        .outbox = {exchange, psr_exchange_send},
        .context = exchange,
        .landed = psr_exchange_landed,
    };
    return exchange->ops->open(&env, &exchange->engine);
}

static psr_err assign_shards(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    exchange->owner = calloc(o->buckets->count, sizeof *exchange->owner);
    if (exchange->owner == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the owners of %u buckets", o->buckets->count);
    return psr_buckets_assign(o->layout, o->buckets, o->config->shards,
                              o->config->optimizer == PSR_OPTIMIZER_LARS, exchange->owner);
}

static psr_err open_parts(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    size_t length = o->layout->length;
    uint32_t buckets = o->buckets->count;

    PSR_TRY(psr_arena_new(length, &exchange->weights));
    exchange->landed = calloc(buckets, sizeof *exchange->landed);
    if (exchange->landed == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the counters of %u buckets", buckets);
    for (uint32_t b = 0; b < buckets; b++)
        atomic_init(&exchange->landed[b], o->first_step);
    /* A step's commands, those of the step before that may still be there, and some for metrics. */
    PSR_TRY(psr_command_queue_new(2 * buckets + 64, &exchange->queue));

    if (o->config->mode == PSR_MODE_PS)
        PSR_TRY(assign_shards(exchange));
    else
        PSR_TRY(psr_optimizer_new(o->config, o->layout, &exchange->optimizer));
    if (o->config->mode == PSR_MODE_LOCAL)
        return psr_local_new(o->config, o->layout, o->buckets, exchange->weights, exchange->optimizer,
                             &exchange->local);

    PSR_TRY(psr_arena_new(length, &exchange->gradients));
    if (o->config->workers > 1) {
        const psr_outbox outbox = {exchange, psr_exchange_send};
        PSR_TRY(psr_collective_new(o->rank, o->config->workers, o->config->slice_bytes, outbox,
                                   &exchange->collective));
    }
    return open_engine(exchange);
}

psr_err psr_exchange_new(const psr_exchange_options *options, psr_exchange **ret_exchange)
{
    psr_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an exchange");
    exchange->options = *options;
    exchange->stop_at = UINT64_MAX;
    exchange->restored_end = &exchange->restored;
    pthread_mutex_init(&exchange->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&exchange->condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    psr_err err = open_parts(exchange);
    if (err != PSR_OK) {
        psr_exchange_free(exchange);
        return err;
    }
    *ret_exchange = exchange;
    return PSR_OK;
}

psr_err psr_exchange_start(psr_exchange *exchange)
{
    int error = pthread_create(&exchange->thread, NULL, psr_exchange_thread, exchange);
    if (error != 0)
        return psr_fail(PSR_ERR_IO, "cannot start the exchange thread: %s", strerror(error));
    exchange->thread_runs = true;
    return PSR_OK;
}

void psr_exchange_stop(psr_exchange *exchange)
{
    if (exchange == NULL || !exchange->thread_runs)
        return;
    atomic_store(&exchange->quit, true);
    psr_transport_wake(exchange->options.transport);
    pthread_join(exchange->thread, NULL);
    exchange->thread_runs = false;
}

void psr_exchange_free(psr_exchange *exchange)
{
    if (exchange == NULL)
        return;
    assert(!exchange->thread_runs);
    if (exchange->engine != NULL)
        exchange->ops->close(exchange->engine);
    psr_collective_free(exchange->collective);
    psr_local_free(exchange->local);
    psr_optimizer_free(exchange->optimizer);
    psr_command_queue_free(exchange->queue);
    while (exchange->restored != NULL) {
        psr_restored *next = exchange->restored->next;
        psr_message_free(&exchange->restored->message);
        free(exchange->restored);
        exchange->restored = next;
    }
    psr_arena_free(exchange->weights, exchange->options.layout->length);
    psr_arena_free(exchange->gradients, exchange->options.layout->length);
    free(exchange->landed);
    free(exchange->owner);
    pthread_cond_destroy(&exchange->condition);
    pthread_mutex_destroy(&exchange->mutex);
    free(exchange);
}

psr_err psr_exchange_ready(psr_exchange *exchange, const char *json)
{
    PSR_TRY(tell(exchange, &(psr_head){.type = PSR_MSG_READY}, json));
    return wait_in_phase(exchange, PSR_WAIT_START, PSR_PHASE_BARRIER);
}

psr_err psr_exchange_done(psr_exchange *exchange, uint64_t steps, bool left_out, const char *json)
{
    PSR_TRY(tell(exchange, &(psr_head){.type = PSR_MSG_DONE, .step = steps, .flags = left_out}, json));
    return wait_in_phase(exchange, PSR_WAIT_BYE, PSR_PHASE_SHUTDOWN);
}

void psr_exchange_fail(psr_exchange *exchange, psr_err status)
{
    psr_exchange_set_failed(exchange, status, psr_err_detail());
    psr_transport_wake(exchange->options.transport);
}

/* ---- a step ---- */

psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step)
{
    PSR_TRY(failure(exchange));
    pthread_mutex_lock(&exchange->mutex);
    psr_err err = PSR_OK;
    bool another_turn =
        exchange->any_begun && exchange->begun == step->step; /* local: the next rank of a step */
    if (!another_turn) {
        if (exchange->held)
            err = wait_locked(exchange, PSR_WAIT_HOLD);
        if (err == PSR_OK && step->step > exchange->stop_at)
            err = psr_fail(PSR_ERR_CANCELLED, "the run was stopped after step %llu",
                           (unsigned long long)exchange->stop_at + 1);
        if (err == PSR_OK) {
            exchange->begun = step->step;
            exchange->any_begun = true;
        }
    }
    pthread_mutex_unlock(&exchange->mutex);
    PSR_TRY(err);

    exchange->step = *step;
    exchange->reported = 0;
    if (exchange->local != NULL)
        return PSR_OK;
    return command(exchange, &(psr_command){.kind = PSR_COMMAND_BEGIN, .head = {.step = step->step}});
}

psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket)
{
    PSR_TRY(failure(exchange));
    if (exchange->local != NULL || bucket_here(exchange, bucket, exchange->step.step))
        return PSR_OK;
    atomic_store(&exchange->wanted_bucket, bucket);
    atomic_store(&exchange->wanted_steps, exchange->step.step);
    return wait_in_phase(exchange, PSR_WAIT_BUCKET,
                         exchange->options.config->mode == PSR_MODE_PS ? PSR_PHASE_PULL : PSR_PHASE_RING);
}

psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket)
{
    exchange->reported++;
    if (exchange->local != NULL)
        return failure(exchange);
    return command(exchange, &(psr_command){.kind = PSR_COMMAND_READY,
                                            .head = {.step = exchange->step.step, .bucket = bucket}});
}

/* The gradient of a rank without samples. The order of a backward pass: last layers first. */
static psr_err give_zeros(psr_exchange *exchange)
{
    float *gradients = psr_exchange_gradients(exchange);
    for (uint32_t b = 0; b < exchange->options.buckets->count; b++) {
        const psr_bucket *bucket = &exchange->options.buckets->items[b];
        PSR_TRY(psr_exchange_weights_wanted(exchange, b));
        memset(gradients + bucket->offset, 0, bucket->length * sizeof *gradients);
        PSR_TRY(psr_exchange_gradient_ready(exchange, b));
    }
    return PSR_OK;
}

psr_err psr_exchange_end_step(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    if (exchange->step.batch == 0)
        PSR_TRY(give_zeros(exchange));
    if (exchange->reported != o->buckets->count)
        return psr_fail(PSR_ERR_COMPUTE, "step %llu: %u of %u buckets were reported ready",
                        (unsigned long long)exchange->step.step + 1, exchange->reported, o->buckets->count);
    if (exchange->local != NULL && exchange->step.rank + 1 == o->config->workers) {
        int64_t begin_ns = psr_clock_ns();
        PSR_TRY(psr_local_update(exchange->local, exchange->step.step, o->total_steps));
        atomic_store(&exchange->exchange_ns, psr_clock_ns() - begin_ns);
    }
    return failure(exchange);
}

uint64_t psr_exchange_last_step(psr_exchange *exchange)
{
    pthread_mutex_lock(&exchange->mutex);
    uint64_t last = exchange->stop_at;
    pthread_mutex_unlock(&exchange->mutex);
    return last;
}

bool psr_exchange_stops_after(psr_exchange *exchange, uint64_t steps)
{
    pthread_mutex_lock(&exchange->mutex);
    bool stops = exchange->held || exchange->stop_at < steps;
    pthread_mutex_unlock(&exchange->mutex);
    return stops;
}

psr_err psr_exchange_drain(psr_exchange *exchange)
{
    PSR_TRY(failure(exchange));
    pthread_mutex_lock(&exchange->mutex);
    uint64_t steps = exchange->any_begun ? exchange->begun + 1 : exchange->options.first_step;
    pthread_mutex_unlock(&exchange->mutex);
    if (exchange->local != NULL)
        return PSR_OK;
    atomic_store(&exchange->wanted_bucket, 0);
    atomic_store(&exchange->wanted_steps, steps);
    return wait_in_phase(exchange, PSR_WAIT_ALL,
                         exchange->options.config->mode == PSR_MODE_PS ? PSR_PHASE_PULL : PSR_PHASE_RING);
}

/* ---- collectives ---- */

static psr_err collective(psr_exchange *exchange, psr_command_kind kind, void *data, size_t size)
{
    PSR_TRY(failure(exchange));
    if (exchange->collective == NULL)
        return PSR_OK;
    exchange->operations_begun++;
    PSR_TRY(command(exchange, &(psr_command){.kind = kind, .data = data, .size = size}));
    psr_fault_point("barrier", exchange->step.step);
    return wait_in_phase(exchange, PSR_WAIT_COLLECTIVE, PSR_PHASE_BARRIER);
}

psr_err psr_exchange_sum(psr_exchange *exchange, double *values, size_t count)
{
    return collective(exchange, PSR_COMMAND_FOLD, values, count);
}

psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size)
{
    return collective(exchange, PSR_COMMAND_BROADCAST, bytes, size);
}

/* ---- state in and out ---- */

psr_err psr_exchange_init_shards(psr_exchange *exchange, uint32_t what, const float *arena)
{
    const psr_exchange_options *o = &exchange->options;
    if (exchange->owner == NULL)
        return PSR_OK;
    size_t slice = psr_slice_floats(o->config);
    for (uint32_t b = 0; b < o->buckets->count; b++) {
        const psr_bucket *bucket = &o->buckets->items[b];
        for (size_t at = 0; at < bucket->length; at += slice) {
            size_t count = bucket->length - at < slice ? bucket->length - at : slice;
            const psr_head head = {.type = PSR_MSG_INIT,
                                   .step = o->first_step,
                                   .bucket = b,
                                   .flags = what,
                                   .offset = bucket->offset + at,
                                   .count = count};
            PSR_TRY(send_copy(exchange, (psr_peer){PSR_ROLE_SHARD, exchange->owner[b]}, &head,
                              arena + head.offset, count * sizeof *arena));
        }
    }
    return PSR_OK;
}

psr_err psr_exchange_restored(psr_exchange *exchange, psr_message **ret_message)
{
    PSR_TRY(wait_for(exchange, PSR_WAIT_RESTORE));
    pthread_mutex_lock(&exchange->mutex);
    psr_restored *first = exchange->restored;
    exchange->restored = first->next;
    if (exchange->restored == NULL)
        exchange->restored_end = &exchange->restored;
    pthread_mutex_unlock(&exchange->mutex);
    *ret_message = first->message;
    free(first);
    return PSR_OK;
}

psr_err psr_exchange_metrics(psr_exchange *exchange, const char *json)
{
    return tell(exchange, &(psr_head){.type = PSR_MSG_METRICS, .step = exchange->step.step}, json);
}

psr_err psr_exchange_await_saved(psr_exchange *exchange, uint64_t steps)
{
    atomic_store(&exchange->wanted_steps, steps);
    return wait_in_phase(exchange, PSR_WAIT_SAVED, PSR_PHASE_CHECKPOINT);
}

#define CHECKPOINT_PIECE (PSR_PAYLOAD_BYTES_MAX / sizeof(float))

psr_err psr_exchange_checkpoint(psr_exchange *exchange, uint64_t step, uint32_t section, const float *data,
                                size_t count)
{
    for (size_t at = 0; at < count; at += CHECKPOINT_PIECE) {
        size_t piece = count - at < CHECKPOINT_PIECE ? count - at : CHECKPOINT_PIECE;
        const psr_head head = {
            .type = PSR_MSG_CHECKPOINT, .step = step, .bucket = section, .offset = at, .count = piece};
        PSR_TRY(send_copy(exchange, scheduler, &head, data + at, piece * sizeof *data));
    }
    return PSR_OK;
}

/* ---- small things ---- */

float *psr_exchange_weights(psr_exchange *exchange)
{
    return exchange->weights;
}

float *psr_exchange_gradients(psr_exchange *exchange)
{
    return exchange->local != NULL ? psr_local_gradients(exchange->local, exchange->step.rank)
                                   : exchange->gradients;
}

void psr_exchange_progress(psr_exchange *exchange, int phase)
{
    atomic_store_explicit(&exchange->phase, phase, memory_order_relaxed);
    atomic_fetch_add_explicit(&exchange->counter, 1, memory_order_relaxed);
    psr_fault_point(psr_phase_name((psr_phase)phase), exchange->step.step);
}

void psr_exchange_evaluating(psr_exchange *exchange, uint64_t samples)
{
    atomic_store_explicit(&exchange->evaluating, samples + 1, memory_order_relaxed);
}

void psr_exchange_evaluated(psr_exchange *exchange)
{
    atomic_store_explicit(&exchange->evaluating, 0, memory_order_relaxed);
}

psr_err psr_exchange_pause(psr_exchange *exchange, double seconds)
{
    struct timespec until = psr_clock_after_ns((int64_t)(seconds * 1e9));
    pthread_mutex_lock(&exchange->mutex);
    while (atomic_load(&exchange->status) == PSR_OK &&
           pthread_cond_timedwait(&exchange->condition, &exchange->mutex, &until) == 0)
        ;
    pthread_mutex_unlock(&exchange->mutex);
    return failure(exchange);
}

uint32_t psr_exchange_slot_count(psr_exchange *exchange)
{
    return exchange->optimizer != NULL ? psr_optimizer_slot_count(exchange->optimizer) : 0;
}

const char *psr_exchange_slot_name(psr_exchange *exchange, uint32_t slot)
{
    return psr_optimizer_slot_name(exchange->optimizer, slot);
}

float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot)
{
    return psr_optimizer_slot(exchange->optimizer, slot);
}

void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures)
{
    uint64_t sent = atomic_load(&exchange->bytes_sent), received = atomic_load(&exchange->bytes_received);
    *ret_figures = (psr_exchange_figures){
        .wait_s = exchange->wait_s,
        .exchange_s = (double)atomic_load(&exchange->exchange_ns) * 1e-9,
        .bytes_sent = sent - exchange->bytes_sent_told,
        .bytes_received = received - exchange->bytes_received_told,
        .staleness = atomic_exchange(&exchange->staleness, 0),
    };
    exchange->wait_s = 0;
    exchange->bytes_sent_told = sent;
    exchange->bytes_received_told = received;
}
