#include "worker/exchange_private.h"

#include "base/arena.h"
#include "base/fault.h"
#include "comm/comm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the compute thread waits for ---- */

bool psr_exchange_has_bucket(psr_exchange *exchange, uint32_t bucket, uint64_t steps)
{
    return atomic_load(&exchange->landed[bucket]) >= steps &&
           (exchange->ops->lent == NULL || exchange->ops->lent(exchange->engine, bucket) == 0);
}

bool psr_exchange_has_all(psr_exchange *exchange, uint64_t steps)
{
    for (uint32_t b = 0; b < exchange->options.buckets->count; b++) {
        if (!psr_exchange_has_bucket(exchange, b, steps))
            return false;
    }
    return true;
}

bool psr_exchange_operations_ended(psr_exchange *exchange)
{
    return atomic_load(&exchange->operations_ended) == exchange->operations_begun;
}

bool psr_exchange_waits(const psr_exchange *exchange, bool collective, psr_peer *ret_peer, uint64_t *ret_step,
                        uint32_t *ret_bucket)
{
    const psr_engine_ops *ops = exchange->ops;
    psr_waiting waiting;
    /* Before the thread has taken a collective up, there is nothing yet to wait for. */
    if (collective ? !psr_collective_waits(exchange->collective, &waiting)
                   : ops->waits == NULL || !ops->waits(exchange->engine, &waiting, ret_bucket))
        return false;
    *ret_peer = waiting.peer;
    if (!collective)
        *ret_step = waiting.round;
    return true;
}

/* An engine that plays all ranks is on this thread. */
static psr_err tell_engine(psr_exchange *exchange, const psr_command *command)
{
    if (!exchange->ops->plays_all)
        return psr_session_command(exchange->session, command);
    PSR_TRY(psr_session_failure(exchange->session));
    return psr_exchange_take(exchange, command);
}

/* The weights after so many steps: of one bucket, or of all. */
static psr_err wait_for_weights(psr_exchange *exchange, psr_wait wait, uint32_t bucket, uint64_t steps)
{
    atomic_store(&exchange->session->wanted_bucket, bucket);
    atomic_store(&exchange->session->wanted_steps, steps);
    return psr_session_wait(exchange->session, wait, exchange->ops->waits_in);
}

/* ---- life ---- */

static void wake(void *context)
{
    psr_transport_wake(((psr_exchange *)context)->session->options.transport);
}

static psr_err open_engine(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    const psr_engine_env env = {
        .config = o->config,
        .layout = o->layout,
        .buckets = o->buckets,
        .plan = o->plan,
        .rank = o->rank,
        .first_step = o->session->options.first_step,
        .total_steps = o->session->options.total_steps,
        .weights = exchange->weights,
        .gradients = exchange->gradients,
        .in_place = o->weights_in_place,
        .residuals = exchange->residuals,
        .optimizer = exchange->optimizer,
        .outbox = psr_exchange_outbox(exchange),
        .context = exchange,
        .landed = psr_exchange_landed,
        .wake = wake,
    };
    return exchange->ops->open(&env, &exchange->engine);
}

static psr_err open_residuals(psr_exchange *exchange)
{
    const uint32_t count = psr_exchange_plays(exchange);
    exchange->residuals = calloc(count, sizeof *exchange->residuals);
    if (exchange->residuals == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for what %u ranks owe", count);
    for (uint32_t i = 0; i < count; i++)
        PSR_TRY(psr_arena_new(exchange->options.layout->length, &exchange->residuals[i]));
    return PSR_OK;
}

static psr_err open_parts(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    size_t length = o->layout->length;
    uint32_t buckets = o->buckets->count;

    if (o->weights == NULL)
        PSR_TRY(psr_arena_new(length, &exchange->own_weights));
    exchange->weights = exchange->own_weights != NULL ? exchange->own_weights : o->weights;
    exchange->landed = calloc(buckets, sizeof *exchange->landed);
    if (exchange->landed == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the counters of %u buckets", buckets);
    for (uint32_t b = 0; b < buckets; b++)
        atomic_init(&exchange->landed[b], o->session->options.first_step);

    if (!exchange->ops->shards_update)
        PSR_TRY(psr_optimizer_new(o->config, o->layout, &exchange->optimizer));
    if (exchange->ops->gradients == NULL && o->gradients == NULL)
        PSR_TRY(psr_arena_new(length, &exchange->own_gradients));
    exchange->gradients = exchange->own_gradients != NULL ? exchange->own_gradients : o->gradients;
    if (psr_plan_has_residual(o->plan))
        PSR_TRY(open_residuals(exchange));
    if (psr_exchange_plays(exchange) < o->plan->ranks) {
        /* The largest is a broadcast of the arena. A network has fewer statistics than parameters: as doubles
         * they take less than twice the arena; figures, names and the like fit in what is added. */
        const size_t bytes_max = 2 * length * sizeof(float) + ((size_t)1 << 20);
        PSR_TRY(psr_collective_new(o->rank, o->plan->ranks, o->config->slice_bytes, bytes_max,
                                   psr_loop_outbox(o->session->loop), &exchange->collective));
    }
    return open_engine(exchange);
}

uint32_t psr_exchange_commands_max(const psr_buckets *buckets)
{
    return 2 * buckets->count + 64;
}

psr_err psr_exchange_new(const psr_exchange_options *options, psr_exchange **ret_exchange)
{
    psr_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an exchange");
    exchange->options = *options;
    exchange->session = options->session;
    exchange->ops = options->engine;
    psr_err err = open_parts(exchange);
    if (err != PSR_OK) {
        psr_exchange_free(exchange);
        return err;
    }
    exchange->session->exchange = exchange;
    psr_exchange_register(exchange);
    *ret_exchange = exchange;
    return PSR_OK;
}

void psr_exchange_free(psr_exchange *exchange)
{
    if (exchange == NULL)
        return;
    exchange->session->exchange = NULL;
    if (exchange->engine != NULL)
        exchange->ops->close(exchange->engine);
    psr_collective_free(exchange->collective);
    psr_optimizer_free(exchange->optimizer);
    psr_arena_free(exchange->own_weights, exchange->options.layout->length);
    psr_arena_free(exchange->own_gradients, exchange->options.layout->length);
    for (uint32_t i = 0; exchange->residuals != NULL && i < psr_exchange_plays(exchange); i++)
        psr_arena_free(exchange->residuals[i], exchange->options.layout->length);
    free(exchange->residuals);
    free(exchange->landed);
    free(exchange->collected);
    free(exchange);
}

/* ---- a step ---- */

psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step)
{
    PSR_TRY(psr_session_may_begin(exchange->session, step->step));
    exchange->step = *step;
    exchange->reported = 0;
    return tell_engine(exchange, &(psr_command){.kind = PSR_COMMAND_BEGIN, .step = step->step});
}

psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket)
{
    uint64_t steps = exchange->step.step;
    PSR_TRY(psr_session_failure(exchange->session));
    if (psr_exchange_has_bucket(exchange, bucket, steps))
        return PSR_OK;
    return wait_for_weights(exchange, PSR_WAIT_BUCKET, bucket, steps);
}

/* Padding is no parameter: nobody computes a gradient of it, and no checkpoint has it. What 1bit makes of its zeros must not come back
 * in the next step as a gradient, or as something owed. */
static void clear_padding(psr_exchange *exchange, uint32_t bucket)
{
    const psr_layout *layout = exchange->options.layout;
    const psr_bucket *b = &exchange->options.buckets->items[bucket];
    float *gradients = psr_exchange_gradients(exchange);
    float *residual = psr_exchange_residual(exchange, exchange->step.rank - exchange->options.rank);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        size_t begin = tensor->offset + tensor->count;
        size_t end = t + 1 < layout->tensor_count ? tensor[1].offset : layout->length;
        begin = begin > b->offset ? begin : b->offset;
        end = end < b->offset + b->length ? end : b->offset + b->length;
        for (size_t i = begin; i < end; i++)
            gradients[i] = residual[i] = 0;
    }
}

psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket)
{
    exchange->reported++;
    if (exchange->residuals != NULL)
        clear_padding(exchange, bucket);
    if (exchange->ops->ready == NULL)
        return psr_session_failure(exchange->session);
    return tell_engine(
        exchange, &(psr_command){.kind = PSR_COMMAND_READY, .step = exchange->step.step, .bucket = bucket});
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
    if (exchange->ops->end_step == NULL)
        return psr_session_failure(exchange->session);
    return tell_engine(
        exchange,
        &(psr_command){.kind = PSR_COMMAND_END, .step = exchange->step.step, .rank = exchange->step.rank});
}

psr_err psr_exchange_drain(psr_exchange *exchange)
{
    PSR_TRY(psr_session_failure(exchange->session));
    return wait_for_weights(exchange, PSR_WAIT_ALL, 0, psr_session_steps_begun(exchange->session));
}

/* ---- collectives ---- */

/* In place: memory of the exchange's own, which outlives the transport (comm/operations/collective.h). */
static psr_err run_collective(psr_exchange *exchange, psr_operation *operation, psr_buffer buffer)
{
    exchange->operations_begun++;
    PSR_TRY(psr_session_command(
        exchange->session,
        &(psr_command){.kind = PSR_COMMAND_COLLECTIVE, .operation = operation, .buffer = buffer}));
    psr_fault_point("barrier", exchange->step.step);
    return psr_session_wait(exchange->session, PSR_WAIT_COLLECTIVE, PSR_PHASE_BARRIER);
}

/* Of a caller's values, which are its own again when this returns. After a failure the exchange thread may still write what the collective
 * works on, and libzmq's send from it: so that is a copy, and stays until the exchange is freed. */
static psr_err run_on_copy(psr_exchange *exchange, psr_operation *operation, psr_buffer buffer)
{
    const size_t bytes = buffer.count * psr_type_bytes(buffer.type);
    void *values = buffer.data;
    assert(exchange->collected == NULL);
    buffer.data = malloc(bytes > 0 ? bytes : 1);
    if (buffer.data == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of a collective", bytes);
    memcpy(buffer.data, values, bytes);
    exchange->collected = buffer.data;
    PSR_TRY(run_collective(exchange, operation, buffer));
    memcpy(values, buffer.data, bytes);
    free(buffer.data);
    exchange->collected = NULL;
    return PSR_OK;
}

/* values become their sum over all workers. */
static psr_err fold(psr_exchange *exchange, double *values, size_t count)
{
    PSR_TRY(psr_session_failure(exchange->session));
    if (exchange->collective == NULL)
        return PSR_OK;
    return run_on_copy(exchange, psr_collective_fold(exchange->collective),
                       (psr_buffer){.data = values, .count = count, .type = PSR_TYPE_FLOAT64});
}

psr_err psr_exchange_drain_all(psr_exchange *exchange)
{
    double one = 1;
    PSR_TRY(psr_exchange_drain(exchange));
    return fold(exchange, &one, 1);
}

psr_err psr_exchange_average(psr_exchange *exchange, double *rows, size_t width)
{
    for (uint32_t r = 1; r < psr_exchange_plays(exchange); r++) {
        for (size_t i = 0; i < width; i++)
            rows[i] = rows[i] + rows[r * width + i];
    }
    PSR_TRY(fold(exchange, rows, width));
    double weight = rows[width - 1];
    for (size_t i = 0; i + 1 < width; i++)
        rows[i] = weight > 0 ? rows[i] / weight : NAN;
    return PSR_OK;
}

static psr_buffer bytes_of(void *bytes, size_t size)
{
    return (psr_buffer){.data = bytes, .count = size, .type = PSR_TYPE_UINT8};
}

psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size)
{
    PSR_TRY(psr_session_failure(exchange->session));
    if (exchange->collective == NULL)
        return PSR_OK;
    return run_on_copy(exchange, psr_collective_broadcast(exchange->collective), bytes_of(bytes, size));
}

/* One of the exchange's own. */
static psr_err broadcast_arena(psr_exchange *exchange, float *arena)
{
    const size_t size = exchange->options.layout->length * sizeof *arena;
    PSR_TRY(psr_session_failure(exchange->session));
    if (exchange->collective == NULL)
        return PSR_OK;
    return run_collective(exchange, psr_collective_broadcast(exchange->collective), bytes_of(arena, size));
}

/* ---- state in and out ---- */

static psr_err send_by_session(void *session, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    return psr_session_send(session, to, head, payload->data, payload->bytes);
}

/* Of an optimizer's state that all were given, who holds a part of the buckets needs no more. */
static void drop_what_others_hold(const psr_exchange *exchange, float *arena)
{
    const psr_plan *plan = exchange->options.plan;
    psr_span run;
    for (uint32_t b = plan->bucket_count;
         (run = psr_plan_next_run(plan, exchange->options.rank, false, &b)).count > 0;)
        psr_arena_drop(arena, exchange->options.layout->length, run);
}

psr_err psr_exchange_install(psr_exchange *exchange, uint32_t state, float *arena)
{
    bool workers_use_it = state == 0 || psr_exchange_updates_here(exchange);
    assert(!workers_use_it ||
           arena == (state == 0 ? exchange->weights : psr_exchange_slot(exchange, state - 1)));
    if (workers_use_it)
        PSR_TRY(broadcast_arena(exchange, arena));
    if (state > 0 && exchange->ops->workers_hold)
        drop_what_others_hold(exchange, arena);
    const psr_exchange_options *o = &exchange->options;
    const psr_outbox outbox = {.context = exchange->session, .send = send_by_session};
    if (exchange->ops->shards_update && o->rank == 0)
        PSR_TRY(psr_table_write(o->plan, &outbox, o->session->options.first_step, state, arena));
    if (state == 0 && exchange->ops->installed != NULL)
        return exchange->ops->installed(exchange->engine, o->session->options.first_step > 0);
    return PSR_OK;
}

/* ---- small things ---- */

const float *psr_exchange_weights(psr_exchange *exchange)
{
    return exchange->weights;
}

float *psr_exchange_first_weights(psr_exchange *exchange)
{
    return exchange->weights;
}

const float *psr_exchange_saved_weights(psr_exchange *exchange)
{
    return exchange->ops->saved != NULL ? exchange->ops->saved(exchange->engine) : exchange->weights;
}

float *psr_exchange_gradients(psr_exchange *exchange)
{
    return exchange->ops->gradients != NULL ? exchange->ops->gradients(exchange->engine, exchange->step.rank)
                                            : exchange->gradients;
}

float *psr_exchange_residual(psr_exchange *exchange, uint32_t i)
{
    return exchange->residuals != NULL ? exchange->residuals[i] : NULL;
}

uint32_t psr_exchange_plays(const psr_exchange *exchange)
{
    return exchange->ops->plays_all ? exchange->options.plan->ranks : 1;
}

bool psr_exchange_updates_here(const psr_exchange *exchange)
{
    return !exchange->ops->shards_update;
}

bool psr_exchange_saves_state(const psr_exchange *exchange, uint32_t bucket)
{
    const psr_exchange_options *o = &exchange->options;
    if (exchange->ops->workers_hold)
        return psr_plan_home(o->plan, bucket).rank == o->rank;
    return psr_exchange_updates_here(exchange) && o->rank == 0;
}

uint32_t psr_exchange_slot_count(psr_exchange *exchange)
{
    return exchange->optimizer != NULL ? psr_optimizer_slot_count(exchange->optimizer) : 0;
}

float *psr_exchange_slot(psr_exchange *exchange, uint32_t slot)
{
    return psr_optimizer_slot(exchange->optimizer, slot);
}

void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures)
{
    uint64_t sent = atomic_load(&exchange->bytes_sent), received = atomic_load(&exchange->bytes_received);
    uint64_t gradients = atomic_load(&exchange->gradient_bytes),
             as_float32 = atomic_load(&exchange->gradient_float32_bytes);
    uint64_t lent = atomic_load(&exchange->bytes_lent);
    *ret_figures = (psr_exchange_figures){
        .wait_s = exchange->session->wait_s,
        .exchange_s = (double)atomic_load(&exchange->exchange_ns) * 1e-9,
        .bytes_sent = sent - exchange->bytes_sent_told,
        .bytes_received = received - exchange->bytes_received_told,
        .gradient_bytes = gradients - exchange->gradient_bytes_told,
        .gradient_float32_bytes = as_float32 - exchange->gradient_float32_bytes_told,
        .bytes_lent = lent - exchange->bytes_lent_told,
        .staleness = atomic_exchange(&exchange->staleness, 0),
    };
    exchange->session->wait_s = 0;
    exchange->bytes_sent_told = sent;
    exchange->bytes_received_told = received;
    exchange->gradient_bytes_told = gradients;
    exchange->gradient_float32_bytes_told = as_float32;
    exchange->bytes_lent_told = lent;
}
