/* What an exchange does on the exchange thread, which comm/loop.h runs: engine and collectives, driven by the compute thread's
 * commands and by messages of shards and workers. */
#include "worker/exchange_private.h"

#include "base/clock.h"
#include "base/fault.h"
#include "comm/comm.h"

psr_err psr_exchange_landed(void *context, uint64_t step, uint32_t bucket)
{
    psr_exchange *exchange = context;
    if (++exchange->landed_count[step & 1] == exchange->options.buckets->count)
        atomic_store(&exchange->exchange_ns, psr_clock_ns() - exchange->first_ready_ns[step & 1]);
    atomic_store(&exchange->landed[bucket], step + 1);
    psr_loop_changed(exchange->session->loop);
    return PSR_OK;
}

static psr_err send_of_engine(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_exchange *exchange = context;
    if (head->type == PSR_MSG_PUSH || head->type == PSR_MSG_RING) {
        atomic_fetch_add_explicit(&exchange->gradient_bytes, payload->bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&exchange->gradient_float32_bytes, psr_msg_count(head) * sizeof(float),
                                  memory_order_relaxed);
    }
    const psr_outbox outbox = psr_loop_outbox(exchange->session->loop);
    return outbox.send(outbox.context, to, head, payload);
}

static void lent_to_engine_returned(void *context)
{
    const psr_outbox outbox = psr_loop_outbox(((psr_exchange *)context)->session->loop);
    if (outbox.returned != NULL)
        outbox.returned(outbox.context);
}

static bool lends_to(void *context, psr_peer to)
{
    const psr_outbox outbox = psr_loop_outbox(((psr_exchange *)context)->session->loop);
    return outbox.lends_to != NULL && outbox.lends_to(outbox.context, to);
}

psr_outbox psr_exchange_outbox(psr_exchange *exchange)
{
    return (psr_outbox){.context = exchange,
                        .send = send_of_engine,
                        .returned = lent_to_engine_returned,
                        .lends_to = lends_to};
}

static void see_collective(psr_exchange *exchange)
{
    if (exchange->operations_taken > atomic_load(&exchange->operations_ended) &&
        psr_collective_finished(exchange->collective)) {
        atomic_store(&exchange->operations_ended, exchange->operations_taken);
        psr_loop_changed(exchange->session->loop);
    }
}

/* The engine has something to do in this step: the first time is what its exchange is timed from. */
static void engine_busy(psr_exchange *exchange, uint64_t step)
{
    if (exchange->first_ready_ns[step & 1] == 0)
        exchange->first_ready_ns[step & 1] = psr_clock_ns();
}

psr_err psr_exchange_take(psr_exchange *exchange, const psr_command *command)
{
    uint64_t step = command->step;
    switch ((psr_exchange_commands)command->kind) {
    case PSR_COMMAND_BEGIN:
        exchange->landed_count[step & 1] = 0;
        exchange->first_ready_ns[step & 1] = 0;
        return PSR_OK;
    case PSR_COMMAND_READY:
        engine_busy(exchange, step);
        return exchange->ops->ready(exchange->engine, step, command->bucket);
    case PSR_COMMAND_END:
        engine_busy(exchange, step);
        return exchange->ops->end_step(exchange->engine, step, command->rank);
    case PSR_COMMAND_COLLECTIVE:
        exchange->operations_taken++;
        PSR_TRY(psr_collective_start(exchange->collective, command->operation, &command->buffer));
        see_collective(exchange);
        return PSR_OK;
    }
    return PSR_OK;
}

psr_err psr_exchange_woken(psr_exchange *exchange)
{
    return exchange->ops->woken != NULL ? exchange->ops->woken(exchange->engine) : PSR_OK;
}

void psr_exchange_stop(psr_exchange *exchange)
{
    if (exchange->ops->stop != NULL)
        exchange->ops->stop(exchange->engine);
}

/* ---- messages ---- */

static psr_err take_of_shard(void *context, psr_message **message)
{
    psr_exchange *exchange = context;
    psr_fault_point("pull", psr_msg_step(&(*message)->head));
    return exchange->ops->message(exchange->engine, message);
}

/* Of what this worker has already: no pull. */
static psr_err take_first_values(void *context, psr_message **message)
{
    psr_exchange *exchange = context;
    return exchange->ops->message(exchange->engine, message);
}

static psr_err take_of_ring(void *context, psr_message **message)
{
    psr_exchange *exchange = context;
    psr_fault_point("ring", psr_msg_step(&(*message)->head));
    return exchange->ops->message(exchange->engine, message);
}

static psr_err take_of_collective(void *context, psr_message **message)
{
    psr_exchange *exchange = context;
    PSR_TRY(psr_collective_message(exchange->collective, message));
    see_collective(exchange);
    return PSR_OK;
}

static void register_engine(psr_exchange *exchange, psr_loop *loop)
{
    if (exchange->ops->workers_hold) {
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_PUSH, exchange, take_of_ring);
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_WEIGHTS, exchange, take_of_ring);
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_ACK, exchange, take_of_ring);
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_RING, exchange, take_of_ring);
        return;
    }
    psr_loop_route(loop, PSR_ROLE_SHARD, PSR_MSG_INIT, exchange, take_first_values);
    psr_loop_route(loop, PSR_ROLE_SHARD, PSR_MSG_WEIGHTS, exchange, take_of_shard);
    psr_loop_route(loop, PSR_ROLE_SHARD, PSR_MSG_ACK, exchange, take_of_shard);
    psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_RING, exchange, take_of_ring);
}

void psr_exchange_register(psr_exchange *exchange)
{
    psr_loop *loop = exchange->session->loop;
    if (exchange->ops->message != NULL)
        register_engine(exchange, loop);
    if (exchange->collective != NULL) {
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_GATHER, exchange, take_of_collective);
        psr_loop_route(loop, PSR_ROLE_WORKER, PSR_MSG_SPREAD, exchange, take_of_collective);
    }
}

/* ---- figures ---- */

void psr_exchange_publish(psr_exchange *exchange)
{
    psr_transport_counts counts;
    psr_transport_counts_get(exchange->session->options.transport, &counts);
    atomic_store_explicit(&exchange->bytes_sent, counts.bytes_sent, memory_order_relaxed);
    atomic_store_explicit(&exchange->bytes_received, counts.bytes_received, memory_order_relaxed);
    atomic_store_explicit(&exchange->bytes_lent, counts.bytes_lent, memory_order_relaxed);
    if (exchange->ops->staleness == NULL)
        return;
    uint64_t staleness = exchange->ops->staleness(exchange->engine);
    /* The compute thread takes it with an exchange, so keep the larger with a compare. */
    uint64_t before = atomic_load(&exchange->staleness);
    while (staleness > before && !atomic_compare_exchange_weak(&exchange->staleness, &before, staleness))
        ;
}
