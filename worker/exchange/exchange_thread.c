/* What an exchange does on the exchange thread, which comm/loop.h runs: the binding's engines and
 * the operations of all workers, driven by the compute thread's commands and by messages of shards
 * and workers. */
#include "worker/exchange/exchange_private.h"

#include "base/fault.h"
#include "comm/loop.h"
#include "comm/wire/messages.h"

#include <string.h>

/* ---- the observer ---- */

static void see(void *context, const psr_observed *observed)
{
    psr_exchange *exchange = context;
    psr_exchange_tally_see(&exchange->tally, observed);
    psr_link_bytes_see(&exchange->links, observed);
    const psr_observer *more = exchange->options.observer;
    if (more != NULL)
        more->see(more->context, observed);
}

static void tell(const psr_exchange *exchange, psr_observed_kind kind, uint64_t step,
                 uint32_t bucket)
{
    psr_observed observed = {.kind = kind,
                             .bucket = bucket,
                             .step = step,
                             .route = exchange->plan->buckets[bucket].route};
    if (kind == PSR_OBSERVED_BEGIN && observed.route == PSR_ROUTE_RING)
        observed.ring_floats = psr_plan_ring_sends(exchange->plan, bucket, exchange->options.rank);
    psr_loop_tell(exchange->session->loop, &observed);
}

/* ---- engines ---- */

/* The compute thread takes the staleness with an exchange, so the larger is kept with a compare. */
void psr_exchange_stale(void *context, uint64_t steps)
{
    psr_exchange *exchange = context;
    uint64_t before = atomic_load(&exchange->staleness);
    while (steps > before && !atomic_compare_exchange_weak(&exchange->staleness, &before, steps))
        ;
}

void psr_exchange_clipped(void *context, uint64_t step, double norm)
{
    psr_exchange *exchange = context;
    atomic_store(&exchange->norm, norm);
    atomic_store(&exchange->norm_steps, step + 1);
    psr_loop_changed(exchange->session->loop);
}

void psr_exchange_normed(void *context, uint64_t step, const double *squares)
{
    psr_exchange *exchange = context;
    memcpy(exchange->tensor_squares, squares,
           exchange->options.layout->tensor_count * sizeof *squares);
    atomic_store(&exchange->tensor_steps, step + 1);
    psr_loop_changed(exchange->session->loop);
}

psr_err psr_exchange_landed(void *context, uint64_t step, uint32_t bucket)
{
    psr_exchange *exchange = context;
    tell(exchange, PSR_OBSERVED_LANDED, step, bucket);
    atomic_store(&exchange->landed[bucket], step + 1);
    psr_loop_changed(exchange->session->loop);
    return PSR_OK;
}

psr_err psr_exchange_fetched(void *context, uint32_t bucket)
{
    psr_exchange *exchange = context;
    (void)bucket;
    atomic_fetch_add(&exchange->fetches_ended, 1);
    psr_loop_changed(exchange->session->loop);
    return PSR_OK;
}

static psr_err send_of_engine(void *context, psr_peer to, const psr_head *head,
                              const psr_payload *payload)
{
    psr_exchange *exchange = context;
    const psr_head said = psr_msg_in_epoch(*head, psr_epoch_gate_epoch(exchange->gate));
    PSR_TRY(psr_transport_send(exchange->session->options.transport, to, &said, payload));
    if (head->type == PSR_MSG_PUSH && to.role == PSR_ROLE_SHARD)
        psr_fault_point("push", psr_msg_step(head));
    return PSR_OK;
}

static void lent_to_engine_returned(void *context)
{
    psr_exchange *exchange = context;
    if (!exchange->closing)
        psr_loop_changed(exchange->session->loop);
}

static bool lends_to(void *context, psr_peer to)
{
    return psr_transport_lends_to(((psr_exchange *)context)->session->options.transport, to);
}

static void tell_of_engine(void *context, const psr_observed *observed)
{
    psr_loop_tell(((psr_exchange *)context)->session->loop, observed);
}

psr_outbox psr_exchange_outbox(psr_exchange *exchange)
{
    return (psr_outbox){.context = exchange,
                        .send = send_of_engine,
                        .returned = lent_to_engine_returned,
                        .lends_to = lends_to,
                        .tell = tell_of_engine};
}

static void see_operation(psr_exchange *exchange)
{
    if (exchange->operations_taken > atomic_load(&exchange->operations_ended) &&
        psr_request_done(exchange->request)) {
        atomic_store(&exchange->operations_ended, exchange->operations_taken);
        psr_loop_changed(exchange->session->loop);
    }
}

/* All workers run the same program: one whose operation differs from this one's breaks the
 * protocol. */
static psr_err as_violation(psr_err err)
{
    return err == PSR_ERR_MISMATCH ? psr_fail(PSR_ERR_PROTOCOL, "%s", psr_err_detail()) : err;
}

/* The one before has ended, and nothing of it is lent. */
static psr_err begin_operation(psr_exchange *exchange)
{
    psr_request_free(exchange->request);
    exchange->request = NULL;
    PSR_TRY(psr_request_new(exchange->workers, &exchange->called, &exchange->request));
    exchange->operations_taken++;
    PSR_TRY(as_violation(psr_request_start(exchange->request)));
    see_operation(exchange);
    return PSR_OK;
}

/* ---- gradients that a device is still writing ---- */

/* The gradient may be read. */
static psr_err start_bucket(void *context, uint32_t bucket, uint64_t step)
{
    psr_exchange *exchange = context;
    atomic_fetch_add_explicit(&exchange->session->counter, 1, memory_order_relaxed);
    if (!psr_binding_takes_steps(exchange->binding)) {
        tell(exchange, PSR_OBSERVED_BEGIN, step, bucket);
        return as_violation(psr_binding_ready(exchange->binding, step, bucket));
    }
    /* Its engine is the compute thread's, which waits for this. */
    atomic_fetch_add(&exchange->fences_passed, 1);
    psr_loop_changed(exchange->session->loop);
    return PSR_OK;
}

static void fence_passed(void *context)
{
    psr_transport_wake(((psr_exchange *)context)->session->options.transport);
}

psr_err psr_exchange_open_fences(psr_exchange *exchange)
{
    const psr_fences_options options = {.slots = exchange->options.buckets->count,
                                        .context = exchange,
                                        .start = start_bucket,
                                        .wake = fence_passed};
    return psr_fences_new(&options, &exchange->fences);
}

/* ---- commands ---- */

/* An engine that takes whole steps takes all buckets at once: with the first rank's that this
 * process plays. */
static psr_err end_step(psr_exchange *exchange, uint64_t step, uint32_t rank)
{
    if (psr_binding_takes_steps(exchange->binding) && rank == exchange->options.rank)
        for (uint32_t b = 0; b < exchange->options.buckets->count; b++)
            if (!exchange->options.buckets->items[b].frozen)
                tell(exchange, PSR_OBSERVED_BEGIN, step, b);
    return psr_binding_end_step(exchange->binding, step, rank);
}

psr_err psr_exchange_take(void *context, const psr_command *command)
{
    psr_exchange *exchange = context;
    uint64_t step = command->step;
    switch ((psr_exchange_commands)command->kind) {
    case PSR_COMMAND_READY:
        return psr_fences_start(exchange->fences, command->bucket, step, command->fence);
    case PSR_COMMAND_END:
        return end_step(exchange, step, command->rank);
    case PSR_COMMAND_OPERATION:
        return begin_operation(exchange);
    case PSR_COMMAND_FETCH:
        return psr_binding_fetch(exchange->binding, command->bucket, step, command->rank,
                                 command->object);
    case PSR_COMMAND_BIND:
        return psr_exchange_bind_next(exchange);
    case PSR_COMMAND_TRACE_BEGIN:
    case PSR_COMMAND_TRACE_END:
        return psr_session_take_trace(exchange->session, command->kind == PSR_COMMAND_TRACE_BEGIN);
    }
    return PSR_OK;
}

psr_err psr_exchange_woken(void *context)
{
    psr_exchange *exchange = context;
    PSR_TRY(psr_fences_look(exchange->fences));
    return psr_binding_woken(exchange->binding);
}

void psr_exchange_stop(psr_exchange *exchange)
{
    psr_fences_stop(exchange->fences);
    psr_binding_stop(exchange->binding);
}

/* ---- messages ---- */

/* One of the present view, or that has waited for it. */
static psr_err take_due(psr_exchange *exchange, psr_message **message)
{
    const psr_message_type type = (*message)->head.type;
    const uint64_t step = psr_msg_step(&(*message)->head);
    if (type == PSR_MSG_STATE)
        return psr_exchange_take_state(exchange, message);
    if (type == PSR_MSG_NORM)
        return as_violation(psr_binding_message(exchange->binding, message));
    if ((*message)->from.role == PSR_ROLE_WORKER)
        psr_fault_point("ring", step);
    else if (type != PSR_MSG_INIT) /* INIT shows what this worker has already: that is no pull */
        psr_fault_point("pull", step);
    return as_violation(psr_binding_message(exchange->binding, message));
}

psr_err psr_exchange_take_waiting(psr_exchange *exchange)
{
    psr_err err = PSR_OK;
    for (psr_message *message;
         err == PSR_OK && (message = psr_epoch_gate_next(exchange->gate)) != NULL;)
        err = take_due(exchange, &message);
    return err;
}

static psr_err take_of_bucket(void *context, psr_message **message)
{
    psr_exchange *exchange = context;
    PSR_TRY(psr_epoch_gate_pass(exchange->gate, message));
    return *message != NULL ? take_due(exchange, message) : PSR_OK;
}

static psr_err take_of_workers(void *context, psr_message **message)
{
    psr_exchange *exchange = context;
    PSR_TRY(as_violation(psr_group_message(exchange->workers, message)));
    see_operation(exchange);
    return PSR_OK;
}

static psr_err take_values(void *context, psr_message **message)
{
    return psr_msg_is_of_bucket(&(*message)->head) ? take_of_bucket(context, message)
                                                   : take_of_workers(context, message);
}

static void register_buckets(psr_exchange *exchange, psr_loop *loop)
{
    static const psr_message_type of_shard[] = {PSR_MSG_INIT, PSR_MSG_WEIGHTS, PSR_MSG_ACK,
                                                PSR_MSG_STATE, PSR_MSG_NORM};
    static const psr_message_type of_worker[] = {PSR_MSG_PUSH, PSR_MSG_WEIGHTS, PSR_MSG_ACK,
                                                 PSR_MSG_RING, PSR_MSG_STATE,   PSR_MSG_NORM,
                                                 PSR_MSG_ASK,  PSR_MSG_INIT};
    for (size_t i = 0; i < sizeof of_shard / sizeof of_shard[0]; i++)
        psr_loop_route(loop, PSR_ROLE_SHARD, of_shard[i], exchange, take_of_bucket);
    for (size_t i = 0; i < sizeof of_worker / sizeof of_worker[0]; i++)
        psr_loop_route(loop, PSR_ROLE_WORKER, of_worker[i], exchange, take_of_bucket);
}

void psr_exchange_register(psr_exchange *exchange)
{
    psr_loop *loop = exchange->session->loop;
    psr_loop_attach(loop, exchange);
    const psr_observer *more = exchange->options.observer;
    psr_loop_observe(loop, &(psr_observer){exchange, see, .work = more != NULL && more->work});
    register_buckets(exchange, loop);
    if (exchange->workers != NULL) {
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_VALUES, exchange, take_values);
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_CREDIT, exchange, take_of_workers);
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_AHEAD, exchange, take_of_workers);
    }
}
