/* The exchange thread: owns transport and member, drives the engine and the collectives. It sleeps in
 * psr_member_recv alone, from which a message, a wake of the compute thread or the member's own timer brings
 * it back. */
#include "worker/exchange_private.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "net/violation.h"

#include <stdlib.h>
#include <string.h>

/* ---- out ---- */

/* A lent payload on its way. Its return may be what the compute thread waits for, and comes on a thread of
 * libzmq's. */
typedef struct loan {
    psr_exchange *exchange;
    void (*release)(void *context);
    void *context;
} loan;

static void end_loan(void *context)
{
    loan ended = *(loan *)context;
    free(context);
    ended.release(ended.context);
    psr_exchange_changed(ended.exchange);
}

psr_err psr_exchange_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_exchange *exchange = context;
    if (payload == NULL || payload->release == NULL)
        return psr_transport_send(exchange->options.transport, to, head, payload);
    loan *begun = malloc(sizeof *begun);
    if (begun == NULL) {
        payload->release(payload->context);
        return psr_fail(PSR_ERR_NOMEM, "no memory to lend a slice");
    }
    *begun = (loan){exchange, payload->release, payload->context};
    const psr_payload lent = {payload->data, payload->bytes, end_loan, begun};
    PSR_TRY(psr_transport_send(exchange->options.transport, to, head, &lent));
    if (head->type == PSR_MSG_PUSH)
        psr_fault_point("push", head->step);
    return PSR_OK;
}

psr_err psr_exchange_landed(void *context, uint64_t step, uint32_t bucket)
{
    psr_exchange *exchange = context;
    if (++exchange->landed_count[step & 1] == exchange->options.buckets->count)
        atomic_store(&exchange->exchange_ns, psr_clock_ns() - exchange->first_ready_ns[step & 1]);
    atomic_store(&exchange->landed[bucket], step + 1);
    psr_exchange_changed(exchange);
    return PSR_OK;
}

/* ---- in: from the compute thread ---- */

static void see_collective(psr_exchange *exchange)
{
    if (exchange->operations_taken > atomic_load(&exchange->operations_ended) &&
        psr_collective_finished(exchange->collective)) {
        atomic_store(&exchange->operations_ended, exchange->operations_taken);
        psr_exchange_changed(exchange);
    }
}

static psr_err say_ready(psr_exchange *exchange, const psr_command *command)
{
    /* Text was copied without its end. */
    char *json = command->size > 0 ? strndup(command->data, command->size) : NULL;
    free(command->data);
    psr_err err = psr_member_ready(exchange->options.member, json);
    free(json);
    return err;
}

static psr_err send_owned(psr_exchange *exchange, const psr_command *command)
{
    if (command->head.type == PSR_MSG_READY)
        return say_ready(exchange, command);
    exchange->told_done = exchange->told_done || command->head.type == PSR_MSG_DONE;
    if (command->size == 0) {
        free(command->data);
        return psr_transport_send(exchange->options.transport, command->to, &command->head, NULL);
    }
    const psr_payload payload = {command->data, command->size, free, command->data};
    return psr_transport_send(exchange->options.transport, command->to, &command->head, &payload);
}

static psr_err take_command(psr_exchange *exchange, const psr_command *command)
{
    uint64_t step = command->head.step;
    switch (command->kind) {
    case PSR_COMMAND_BEGIN:
        exchange->landed_count[step & 1] = 0;
        exchange->first_ready_ns[step & 1] = 0;
        return exchange->ops->begin_step(exchange->engine, step);
    case PSR_COMMAND_READY:
        if (exchange->first_ready_ns[step & 1] == 0)
            exchange->first_ready_ns[step & 1] = psr_clock_ns();
        return exchange->ops->ready(exchange->engine, step, command->head.bucket);
    case PSR_COMMAND_FOLD:
        exchange->operations_taken++;
        PSR_TRY(psr_collective_fold(exchange->collective, command->data, command->size));
        see_collective(exchange);
        return PSR_OK;
    case PSR_COMMAND_BROADCAST:
        exchange->operations_taken++;
        PSR_TRY(psr_collective_broadcast(exchange->collective, command->data, command->size));
        see_collective(exchange);
        return PSR_OK;
    case PSR_COMMAND_SEND:
        return send_owned(exchange, command);
    }
    return PSR_OK;
}

static psr_err take_commands(psr_exchange *exchange)
{
    psr_command command;
    bool any = false;
    while (psr_command_pop(exchange->queue, &command)) {
        any = true;
        PSR_TRY(take_command(exchange, &command));
    }
    if (any)
        psr_exchange_changed(exchange); /* the compute thread may wait for room */
    return PSR_OK;
}

/* ---- in: from other processes ---- */

static psr_err hold(psr_exchange *exchange)
{
    if (exchange->told_done) /* the two crossed: there is no step left to hold back, and after DONE nothing
                                more is due */
        return PSR_OK;
    pthread_mutex_lock(&exchange->mutex);
    exchange->held = true;
    /* Before its first step a worker promises that one: everybody then takes at least one step, and the
     * run has a last one to name. (Resumed behind the last step there is none to promise.) */
    const psr_exchange_options *o = &exchange->options;
    uint64_t first = o->first_step < o->total_steps ? o->first_step : o->total_steps - 1;
    uint64_t last = exchange->any_begun ? exchange->begun : first;
    pthread_mutex_unlock(&exchange->mutex);
    psr_log(PSR_LOG_INFO, "told to hold: the run is being stopped");
    return psr_member_tell(exchange->options.member, &(psr_head){.type = PSR_MSG_HELD, .step = last}, NULL,
                           0);
}

static void stop_at(psr_exchange *exchange, uint64_t step)
{
    pthread_mutex_lock(&exchange->mutex);
    exchange->stop_at = step;
    exchange->held = false;
    pthread_mutex_unlock(&exchange->mutex);
    psr_exchange_changed(exchange);
}

static psr_err keep_restored(psr_exchange *exchange, psr_message **message)
{
    psr_restored *restored = calloc(1, sizeof *restored);
    if (restored == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a piece of the checkpoint");
    restored->message = *message;
    *message = NULL;
    pthread_mutex_lock(&exchange->mutex);
    *exchange->restored_end = restored;
    exchange->restored_end = &restored->next;
    pthread_mutex_unlock(&exchange->mutex);
    psr_exchange_changed(exchange);
    return PSR_OK;
}

static psr_err refuse(const psr_message *message)
{
    return psr_violation(message, "a worker in this mode does not take that");
}

static psr_err take_scheduler_message(psr_exchange *exchange, psr_message **message)
{
    switch ((*message)->head.type) {
    case PSR_MSG_START:
        atomic_store(&exchange->started, true);
        psr_exchange_changed(exchange);
        return PSR_OK;
    case PSR_MSG_HOLD:
        return hold(exchange);
    case PSR_MSG_STOP_AT:
        stop_at(exchange, (*message)->head.step);
        return PSR_OK;
    case PSR_MSG_RESTORE:
        return keep_restored(exchange, message);
    case PSR_MSG_SAVED:
        atomic_store(&exchange->saved_steps, (*message)->head.step);
        psr_exchange_changed(exchange);
        return PSR_OK;
    case PSR_MSG_BYE:
        atomic_store(&exchange->bye, true);
        psr_exchange_changed(exchange);
        return PSR_OK;
    default:
        return refuse(*message);
    }
}

static psr_err take_peer_message(psr_exchange *exchange, psr_message **message)
{
    psr_role role = (*message)->from.role;
    switch ((*message)->head.type) {
    case PSR_MSG_WEIGHTS:
    case PSR_MSG_ACK:
        if (role != PSR_ROLE_SHARD || exchange->engine == NULL)
            return refuse(*message);
        psr_fault_point("pull", (*message)->head.step);
        return exchange->ops->message(exchange->engine, message);
    case PSR_MSG_RING:
        if (role != PSR_ROLE_WORKER || exchange->engine == NULL)
            return refuse(*message);
        psr_fault_point("ring", (*message)->head.step);
        return exchange->ops->message(exchange->engine, message);
    case PSR_MSG_GATHER:
    case PSR_MSG_SPREAD:
        if (role != PSR_ROLE_WORKER || exchange->collective == NULL)
            return refuse(*message);
        PSR_TRY(psr_collective_message(exchange->collective, message));
        see_collective(exchange);
        return PSR_OK;
    default:
        return refuse(*message);
    }
}

static psr_err take_message(psr_exchange *exchange, psr_message *message)
{
    psr_err err = message->from.role == PSR_ROLE_SCHEDULER ? take_scheduler_message(exchange, &message)
                                                           : take_peer_message(exchange, &message);
    psr_message_free(&message);
    return err;
}

/* ---- the loop ---- */

static void publish(psr_exchange *exchange)
{
    psr_transport_counts counts;
    psr_transport_counts_get(exchange->options.transport, &counts);
    atomic_store_explicit(&exchange->bytes_sent, counts.bytes_sent, memory_order_relaxed);
    atomic_store_explicit(&exchange->bytes_received, counts.bytes_received, memory_order_relaxed);
    if (exchange->engine == NULL || exchange->ops->staleness == NULL)
        return;
    uint64_t staleness = exchange->ops->staleness(exchange->engine);
    /* The compute thread takes it with an exchange, so keep the larger with a compare. */
    uint64_t before = atomic_load(&exchange->staleness);
    while (staleness > before && !atomic_compare_exchange_weak(&exchange->staleness, &before, staleness))
        ;
}

static psr_err turn(psr_exchange *exchange)
{
    PSR_TRY(take_commands(exchange));
    publish(exchange);
    psr_message *message = NULL;
    psr_err err = psr_member_recv(exchange->options.member, -1, &message);
    if (err == PSR_ERR_CANCELLED) /* woken: there are commands, or it is time to leave */
        return PSR_OK;
    return err == PSR_OK ? take_message(exchange, message) : err;
}

void *psr_exchange_thread(void *context)
{
    psr_exchange *exchange = context;
    psr_err err = PSR_OK;
    while (err == PSR_OK && !atomic_load(&exchange->quit) && atomic_load(&exchange->status) == PSR_OK)
        err = turn(exchange);
    if (err != PSR_OK)
        psr_exchange_set_failed(exchange, err, psr_err_detail());
    psr_err status = (psr_err)atomic_load(&exchange->status);
    if (status != PSR_OK)
        psr_member_failed(exchange->options.member, status, exchange->failure);
    return NULL;
}

/* ---- reports ---- */

static bool waits_for(psr_exchange *exchange, psr_peer *ret_peer, uint64_t *ret_step, uint32_t *ret_bucket)
{
    switch ((psr_wait)atomic_load(&exchange->wait)) {
    case PSR_WAIT_BUCKET:
    case PSR_WAIT_ALL:
        return exchange->ops->waits(exchange->engine, ret_peer, ret_step, ret_bucket);
    case PSR_WAIT_COLLECTIVE:
        /* Before the thread has taken the operation up, there is nothing yet to wait for. */
        if (psr_collective_finished(exchange->collective))
            return false;
        *ret_peer = (psr_peer){PSR_ROLE_WORKER, psr_collective_waits(exchange->collective)};
        return true;
    case PSR_WAIT_RESTORE:
    case PSR_WAIT_START:
    case PSR_WAIT_HOLD:
    case PSR_WAIT_SAVED:
    case PSR_WAIT_BYE:
        *ret_peer = (psr_peer){PSR_ROLE_SCHEDULER, 0};
        return true;
    case PSR_WAIT_NOTHING:
    case PSR_WAIT_ROOM:
        return false;
    }
    return false;
}

void psr_exchange_report(psr_exchange *exchange, psr_head *head)
{
    pthread_mutex_lock(&exchange->mutex);
    head->step = exchange->any_begun ? exchange->begun : exchange->options.first_step;
    pthread_mutex_unlock(&exchange->mutex);
    head->bucket = atomic_load(&exchange->wanted_bucket);
    head->flags = (uint32_t)atomic_load(&exchange->phase);
    head->aux = atomic_load(&exchange->counter);
    head->count = atomic_load_explicit(&exchange->evaluating, memory_order_relaxed);
    head->offset = UINT64_MAX;
    psr_peer peer;
    if (waits_for(exchange, &peer, &head->step, &head->bucket))
        head->offset = psr_peer_pack(peer);
}
