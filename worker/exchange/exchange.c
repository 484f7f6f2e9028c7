#include "worker/exchange/exchange_private.h"

#include "base/arrays/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "comm/buffer.h"
#include "comm/collectives/call.h"
#include "comm/loop.h"
#include "comm/reduce.h"
#include "comm/tables/table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* For operations of all workers. */
enum {
    WINDOW = 4, /* slices on their way from one rank to another */
    /* up to this size a copy takes less time than to hear that the loan has ended */
    COPIED_BYTES = 16 * 1024,
};

/* ---- what the compute thread waits for ---- */

bool psr_exchange_has_bucket(psr_exchange *exchange, uint32_t bucket, uint64_t steps)
{
    return atomic_load(&exchange->landed[bucket]) >= steps &&
           psr_binding_lent(exchange->binding, bucket) == 0;
}

bool psr_exchange_has_all(psr_exchange *exchange, uint64_t steps)
{
    for (uint32_t b = 0; b < exchange->options.buckets->count; b++) {
        if (!exchange->options.buckets->items[b].frozen &&
            !psr_exchange_has_bucket(exchange, b, steps))
            return false;
    }
    return true;
}

bool psr_exchange_has_norm(psr_exchange *exchange, uint64_t steps)
{
    const psr_config *config = exchange->options.config;
    const bool tells_tensors = exchange->options.rank == 0 && psr_config_norms_due(config, steps);
    return (!psr_config_updates_together(config) || atomic_load(&exchange->norm_steps) >= steps) &&
           (!tells_tensors || atomic_load(&exchange->tensor_steps) >= steps);
}

bool psr_exchange_has_fetched(psr_exchange *exchange)
{
    return atomic_load(&exchange->fetches_ended) == exchange->fetches_begun;
}

bool psr_exchange_operations_ended(psr_exchange *exchange)
{
    return atomic_load(&exchange->operations_ended) == exchange->operations_begun &&
           (exchange->request == NULL || psr_request_lent(exchange->request) == 0);
}

bool psr_exchange_fences_passed(psr_exchange *exchange)
{
    return atomic_load(&exchange->fences_passed) == exchange->fenced;
}

bool psr_exchange_waits_for_device(const psr_exchange *exchange, uint64_t *ret_step,
                                   uint32_t *ret_bucket)
{
    return psr_fences_waits(exchange->fences, ret_step, ret_bucket);
}

/* Its end, or that what is lent of it comes back. Before the thread has taken an operation up,
 * there is nothing yet to wait for. */
static bool operation_waits(const psr_exchange *exchange, psr_waiting *ret_waiting)
{
    const psr_request *request = exchange->request;
    if (request == NULL)
        return false;
    return psr_request_waits(request, ret_waiting) ||
           psr_request_lent_to(request, &ret_waiting->peer);
}

bool psr_exchange_is_bound(psr_exchange *exchange)
{
    return atomic_load(&exchange->bound);
}

bool psr_exchange_waits(const psr_exchange *exchange, psr_wait wait, psr_peer *ret_peer,
                        uint64_t *ret_step, uint32_t *ret_bucket)
{
    psr_waiting waiting;
    if (wait == PSR_WAIT_BOUND)
        return psr_handover_waits(&exchange->handover,
                                  (psr_peer){PSR_ROLE_WORKER, exchange->options.rank},
                                  exchange->plan, ret_peer, ret_bucket);
    if (wait == PSR_WAIT_OPERATION ? !operation_waits(exchange, &waiting)
                                   : !psr_binding_waits(exchange->binding, &waiting, ret_bucket))
        return false;
    *ret_peer = waiting.peer;
    if (wait != PSR_WAIT_OPERATION)
        *ret_step = waiting.round;
    return true;
}

/* An engine that computes all ranks runs on this thread. */
static psr_err tell_engine(psr_exchange *exchange, const psr_command *command)
{
    if (!exchange->computes_all_ranks)
        return psr_session_command(exchange->session, command);
    PSR_TRY(psr_session_failure(exchange->session));
    return psr_exchange_take(exchange, command);
}

/* The weights after so many steps: of one bucket, or of all. */
static psr_err wait_for_weights(psr_exchange *exchange, psr_wait wait, uint32_t bucket,
                                uint64_t steps)
{
    atomic_store(&exchange->session->wanted_bucket, bucket);
    atomic_store(&exchange->session->wanted_steps, steps);
    const int64_t before_ns = psr_exchange_tally_busy_ns(&exchange->tally, psr_clock_ns());
    psr_err err =
        psr_session_wait(exchange->session, wait, psr_binding_waits_in(exchange->binding, bucket));
    psr_exchange_tally_exposed(
        &exchange->tally, psr_exchange_tally_busy_ns(&exchange->tally, psr_clock_ns()) - before_ns);
    return err;
}

/* ---- life ---- */

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

/* Pages of shared weights may be this process's alone (psr_shared_arena_keep), and another one
 * would read zeros where they should lie: so they go as a message, of which the group's window
 * bounds how many wait. */
static psr_err send_of_group(void *context, psr_peer to, const psr_head *head,
                             const psr_payload *payload)
{
    const psr_exchange *exchange = context;
    psr_transport *transport = exchange->session->options.transport;
    if (!exchange->options.weights_in_place || payload == NULL || payload->release == NULL)
        return psr_transport_send(transport, to, head, payload);
    const psr_payload copied = {.data = payload->data, .bytes = payload->bytes};
    psr_err err = psr_transport_send(transport, to, head, &copied);
    payload->release(payload->context);
    return err;
}

static size_t waiting_of_group(void *context, psr_peer to)
{
    return psr_transport_waiting(((const psr_exchange *)context)->session->options.transport, to);
}

/* The group of all workers, for the whole run. */
static psr_err open_group(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    const uint32_t ranks = o->plan->ranks;
    psr_peer *members = calloc(ranks, sizeof *members);
    if (members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %u workers", ranks);
    for (uint32_t r = 0; r < ranks; r++)
        members[r] = (psr_peer){PSR_ROLE_WORKER, r};
    size_t slice = o->config->slice_bytes < PSR_PAYLOAD_BYTES_MAX ? o->config->slice_bytes
                                                                  : PSR_PAYLOAD_BYTES_MAX;
    psr_outbox outbox = psr_exchange_outbox(exchange);
    outbox.send = send_of_group;
    outbox.waiting = waiting_of_group;
    const psr_group_options options = {.rank = o->rank,
                                       .ranks = ranks,
                                       .members = members,
                                       .hosts = 1,
                                       .slice_bytes = slice / sizeof(double) * sizeof(double),
                                       .window = WINDOW,
                                       .copied_bytes = COPIED_BYTES,
                                       .outbox = outbox};
    psr_err err = psr_group_new(&options, &exchange->workers);
    free(members);
    return err;
}

static psr_err open_parts(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    size_t length = o->layout->length;
    uint32_t buckets = o->buckets->count;

    PSR_TRY(psr_link_bytes_init(&exchange->links, o->plan->ranks, o->plan->shards));
    if (o->weights == NULL)
        PSR_TRY(psr_arena_new(length, &exchange->own_weights));
    exchange->weights = exchange->own_weights != NULL ? exchange->own_weights : o->weights;
    exchange->landed = calloc(buckets, sizeof *exchange->landed);
    if (exchange->landed == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the counters of %u buckets", buckets);
    if (o->config->tensorboard_norms > 0)
        exchange->tensor_squares =
            calloc(o->layout->tensor_count + 1, sizeof *exchange->tensor_squares);
    if (o->config->tensorboard_norms > 0 && exchange->tensor_squares == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norms of tensors");
    for (uint32_t b = 0; b < buckets; b++)
        atomic_init(&exchange->landed[b], o->session->options.first_step);

    if (!psr_plan_all_go(o->plan, PSR_ROUTE_SHARD))
        PSR_TRY(psr_optimizer_new(o->config, o->layout, &exchange->optimizer));
    if (o->ways->engines[0]->gradients == NULL && o->gradients == NULL)
        PSR_TRY(psr_arena_new(length, &exchange->own_gradients));
    exchange->gradients = exchange->own_gradients != NULL ? exchange->own_gradients : o->gradients;
    if (psr_plan_has_residual(o->plan))
        PSR_TRY(open_residuals(exchange));
    if (psr_exchange_plays(exchange) < o->plan->ranks)
        PSR_TRY(open_group(exchange));
    PSR_TRY(psr_exchange_open_fences(exchange));
    return psr_exchange_bind_first(exchange);
}

uint32_t psr_exchange_commands_max(const psr_buckets *buckets)
{
    return 2 * buckets->count + 64;
}

psr_err psr_exchange_new(const psr_exchange_options *options, psr_exchange **ret_exchange)
{
    if (options->gradients_space != PSR_SPACE_HOST)
        return psr_fail(
            PSR_ERR_UNSUPPORTED,
            "gradients lie in a device's memory, and the exchange reads the host's alone");
    psr_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an exchange");
    exchange->options = *options;
    exchange->session = options->session;
    exchange->ways = *options->ways;
    exchange->plan = options->plan;
    exchange->computes_all_ranks = options->ways->engines[0]->computes_all_ranks;
    psr_exchange_tally_init(&exchange->tally, psr_buckets_trained(options->buckets));
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
    exchange->closing = true;
    psr_binding_free(exchange->binding);
    psr_epoch_gate_free(exchange->gate);
    psr_fences_free(exchange->fences);
    psr_handover_done(&exchange->handover);
    psr_view_release(exchange->view);
    psr_request_free(exchange->request);
    psr_group_free(exchange->workers);
    psr_optimizer_free(exchange->optimizer);
    psr_arena_free(exchange->fetched, exchange->options.layout->length);
    psr_arena_free(exchange->own_weights, exchange->options.layout->length);
    psr_arena_free(exchange->own_gradients, exchange->options.layout->length);
    for (uint32_t i = 0; exchange->residuals != NULL && i < psr_exchange_plays(exchange); i++)
        psr_arena_free(exchange->residuals[i], exchange->options.layout->length);
    free(exchange->residuals);
    psr_link_bytes_done(&exchange->links);
    free(exchange->landed);
    free(exchange->tensor_squares);
    free(exchange->copied);
    free(exchange);
}

/* ---- a step ---- */

/* A view begins with this step. When this worker has drained, everything of the view before is
 * done. */
static psr_err rebind(psr_exchange *exchange, const psr_view *view)
{
    double pause_s = 0;
    PSR_TRY(wait_for_weights(exchange, PSR_WAIT_ALL, 0, view->first_step));
    exchange->next = view;
    atomic_store(&exchange->bound, false);
    PSR_TRY(
        tell_engine(exchange, &(psr_command){.kind = PSR_COMMAND_BIND, .step = view->first_step}));
    psr_fault_point("handover", view->first_step);
    PSR_TRY(psr_session_wait(exchange->session, PSR_WAIT_BOUND, PSR_PHASE_HAND_OVER));
    PSR_TRY(psr_session_bound(exchange->session, view->epoch, &pause_s));
    exchange->pause_s += pause_s;
    return PSR_OK;
}

psr_err psr_exchange_begin_step(psr_exchange *exchange, const psr_step *step)
{
    PSR_TRY(psr_session_may_begin(exchange->session, step->step));
    const psr_view *view = psr_session_view_at(exchange->session, step->step);
    if (view != NULL)
        PSR_TRY(rebind(exchange, view));
    exchange->step = *step;
    exchange->reported = 0;
    return psr_session_failure(exchange->session);
}

psr_err psr_exchange_weights_wanted(psr_exchange *exchange, uint32_t bucket)
{
    uint64_t steps = exchange->step.step;
    PSR_TRY(psr_session_failure(exchange->session));
    if (psr_exchange_has_bucket(exchange, bucket, steps))
        return PSR_OK;
    return wait_for_weights(exchange, PSR_WAIT_BUCKET, bucket, steps);
}

/* Padding is no parameter: nobody computes a gradient of it, and no checkpoint has it. What 1bit
 * makes of its zeros must not come back in the next step as a gradient, or as something owed. */
static void clear_padding(psr_exchange *exchange, uint32_t bucket)
{
    const psr_layout *layout = exchange->options.layout;
    const psr_bucket *b = &exchange->options.buckets->items[bucket];
    float *gradients = psr_exchange_gradients(exchange);
    float *residual = psr_exchange_residual(exchange, exchange->step.rank - exchange->options.rank);
    psr_layout_clear_padding(layout, b->offset, b->length, gradients + b->offset);
    psr_layout_clear_padding(layout, b->offset, b->length, residual + b->offset);
}

psr_err psr_exchange_gradient_ready(psr_exchange *exchange, uint32_t bucket, psr_fence *fence)
{
    exchange->reported++;
    if (exchange->residuals != NULL)
        clear_padding(exchange, bucket);
    const bool takes_steps = psr_binding_takes_steps(exchange->binding);
    if (takes_steps && fence == NULL)
        return psr_session_failure(exchange->session);
    exchange->fenced += takes_steps;
    return psr_session_command(exchange->session, &(psr_command){.kind = PSR_COMMAND_READY,
                                                                 .step = exchange->step.step,
                                                                 .bucket = bucket,
                                                                 .fence = fence});
}

/* The gradient of a rank without samples. The order of a backward pass: last layers first. */
static psr_err give_zeros(psr_exchange *exchange)
{
    float *gradients = psr_exchange_gradients(exchange);
    for (uint32_t b = 0; b < exchange->options.buckets->count; b++) {
        const psr_bucket *bucket = &exchange->options.buckets->items[b];
        if (bucket->frozen)
            continue;
        PSR_TRY(psr_exchange_weights_wanted(exchange, b));
        memset(gradients + bucket->offset, 0, bucket->length * sizeof *gradients);
        PSR_TRY(psr_exchange_gradient_ready(exchange, b, NULL));
    }
    return PSR_OK;
}

psr_err psr_exchange_end_step(psr_exchange *exchange)
{
    const psr_exchange_options *o = &exchange->options;
    if (exchange->step.batch == 0)
        PSR_TRY(give_zeros(exchange));
    if (exchange->reported != psr_buckets_trained(o->buckets))
        return psr_fail(PSR_ERR_COMPUTE, "step %llu: %u of %u buckets were reported ready",
                        (unsigned long long)exchange->step.step + 1, exchange->reported,
                        psr_buckets_trained(o->buckets));
    if (!psr_binding_takes_steps(exchange->binding))
        return psr_session_failure(exchange->session);
    PSR_TRY(psr_session_wait(exchange->session, PSR_WAIT_FENCES, PSR_PHASE_DEVICE));
    return tell_engine(exchange, &(psr_command){.kind = PSR_COMMAND_END,
                                                .step = exchange->step.step,
                                                .rank = exchange->step.rank});
}

psr_err psr_exchange_drain(psr_exchange *exchange)
{
    PSR_TRY(psr_session_failure(exchange->session));
    return wait_for_weights(exchange, PSR_WAIT_ALL, 0, psr_session_steps_begun(exchange->session));
}

/* ---- operations of all workers ---- */

/* By the algorithm "root", since workers have channels to worker 0 only (worker/exchange/peers.h).
 * In place, in memory of the exchange: after a failure the exchange thread may still write it, and
 * libzmq may send from it. */
static psr_err run_operation(psr_exchange *exchange, const psr_request_options *call)
{
    exchange->called = *call;
    exchange->operations_begun++;
    PSR_TRY(psr_session_command(exchange->session, &(psr_command){.kind = PSR_COMMAND_OPERATION}));
    psr_fault_point("barrier", exchange->step.step);
    return psr_session_wait(exchange->session, PSR_WAIT_OPERATION, PSR_PHASE_BARRIER);
}

/* On a copy of a caller's values, which are its own again when this returns. */
static psr_err run_on_copy(psr_exchange *exchange, psr_request_options call, void *values)
{
    const size_t bytes = call.count * psr_type_bytes(call.type);
    assert(exchange->copied == NULL);
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of %s", bytes,
                        psr_kind_name(call.kind));
    memcpy(copy, values, bytes);
    exchange->copied = call.receive = copy;
    call.send = call.kind == PSR_KIND_ALL_REDUCE ? copy : NULL;
    PSR_TRY(run_operation(exchange, &call));
    memcpy(values, copy, bytes);
    free(copy);
    exchange->copied = NULL;
    return PSR_OK;
}

/* Replaces values by their sum over all workers, in ascending order of rank. */
static psr_err fold(psr_exchange *exchange, double *values, size_t count)
{
    PSR_TRY(psr_session_failure(exchange->session));
    if (exchange->workers == NULL)
        return PSR_OK;
    const psr_request_options call = {.kind = PSR_KIND_ALL_REDUCE,
                                      .algorithm = PSR_ALGORITHM_ROOT,
                                      .type = PSR_TYPE_FLOAT64,
                                      .reduction = PSR_REDUCTION_SUM,
                                      .count = count};
    return run_on_copy(exchange, call, values);
}

psr_err psr_exchange_drain_all(psr_exchange *exchange)
{
    PSR_TRY(psr_exchange_drain(exchange));
    if (exchange->workers == NULL)
        return PSR_OK;
    return run_operation(exchange, &(psr_request_options){.kind = PSR_KIND_BARRIER,
                                                          .algorithm = PSR_ALGORITHM_ROOT});
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

/* What a step waits for, in contrast to sums of metrics. */
static psr_err fold_in_step(psr_exchange *exchange, double *values, size_t count)
{
    const double begun_s = psr_clock_s();
    PSR_TRY(fold(exchange, values, count));
    const double waited_s = psr_clock_s() - begun_s;
    exchange->session->wait_s += waited_s;
    exchange->sums_wait_s += waited_s;
    return PSR_OK;
}

psr_err psr_exchange_sum(psr_exchange *exchange, double *const *rows, uint32_t count, size_t width)
{
    for (uint32_t r = 1; r < count; r++) {
        for (size_t i = 0; i < width; i++)
            rows[0][i] = rows[0][i] + rows[r][i];
    }
    psr_fault_point("norms", exchange->step.step);
    if (exchange->workers != NULL)
        PSR_TRY(fold_in_step(exchange, rows[0], width));
    for (uint32_t r = 1; r < count; r++)
        memcpy(rows[r], rows[0], width * sizeof *rows[0]);
    return PSR_OK;
}

/* Sends bytes of worker 0 to all. */
static psr_request_options broadcast_of(void *bytes, size_t size)
{
    return (psr_request_options){.kind = PSR_KIND_BROADCAST,
                                 .algorithm = PSR_ALGORITHM_ROOT,
                                 .type = PSR_TYPE_UINT8,
                                 .receive = bytes,
                                 .count = size};
}

psr_err psr_exchange_broadcast(psr_exchange *exchange, void *bytes, size_t size)
{
    PSR_TRY(psr_session_failure(exchange->session));
    if (exchange->workers == NULL)
        return PSR_OK;
    return run_on_copy(exchange, broadcast_of(bytes, size), bytes);
}

psr_err psr_exchange_broadcast_arena(psr_exchange *exchange, float *arena)
{
    const size_t size = exchange->options.layout->length * sizeof *arena;
    PSR_TRY(psr_session_failure(exchange->session));
    if (exchange->workers == NULL)
        return PSR_OK;
    const psr_request_options call = broadcast_of(arena, size);
    return run_operation(exchange, &call);
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
    return psr_binding_saved(exchange->binding);
}

const float *psr_exchange_sums(psr_exchange *exchange)
{
    const float *own = psr_binding_sums(exchange->binding);
    return own != NULL ? own : exchange->gradients;
}

float *psr_exchange_gradients(psr_exchange *exchange)
{
    float *own = psr_binding_gradients(exchange->binding, exchange->step.rank);
    return own != NULL ? own : exchange->gradients;
}

float *psr_exchange_residual(psr_exchange *exchange, uint32_t i)
{
    return exchange->residuals != NULL ? exchange->residuals[i] : NULL;
}

uint32_t psr_exchange_plays(const psr_exchange *exchange)
{
    return exchange->computes_all_ranks ? exchange->options.plan->ranks : 1;
}

psr_err psr_exchange_gradient_norm(psr_exchange *exchange, double *ret_norm)
{
    PSR_TRY(wait_for_weights(exchange, PSR_WAIT_NORM, 0, exchange->step.step + 1));
    *ret_norm = atomic_load(&exchange->norm);
    return PSR_OK;
}

psr_err psr_exchange_tensor_squares(psr_exchange *exchange, const double **ret_squares)
{
    PSR_TRY(wait_for_weights(exchange, PSR_WAIT_NORM, 0, exchange->step.step + 1));
    *ret_squares = exchange->tensor_squares;
    return PSR_OK;
}

psr_err psr_exchange_links(const psr_exchange *exchange, char **ret_json)
{
    return psr_link_bytes_to_json(&exchange->links, ret_json);
}

void psr_exchange_take_figures(psr_exchange *exchange, psr_exchange_figures *ret_figures)
{
    psr_transport_counts counts;
    psr_transport_counts_get(exchange->session->options.transport, &counts);
    *ret_figures = (psr_exchange_figures){
        .wait_s = exchange->session->wait_s,
        .bytes_lent = counts.bytes_lent - exchange->bytes_lent_told,
        .staleness = atomic_exchange(&exchange->staleness, 0),
        .sums_wait_s = exchange->sums_wait_s,
        .pause_s = exchange->pause_s,
    };
    psr_exchange_tally_take(&exchange->tally, psr_clock_ns(), ret_figures);
    if (exchange->computes_all_ranks)
        ret_figures->hidden_s = ret_figures->exposed_s = 0;
    exchange->pause_s = exchange->sums_wait_s = 0;
    exchange->session->wait_s = 0;
    exchange->bytes_lent_told = counts.bytes_lent;
}
