/* The exchange thread: owns transport and member, drives the engine and the collectives, and hands the scheduler's messages
 * to the session. It sleeps in
 * psr_member_recv alone, from which a message, a wake of the compute thread or the member's own timer brings
 * it back. */
#include "worker/exchange_private.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/messages.h"
#include "net/violation.h"

#include <stdlib.h>
#include <string.h>

/* ---- out ---- */

psr_err psr_exchange_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_exchange *exchange = context;
    PSR_TRY(psr_transport_send(exchange->session->options.transport, to, head, payload));
    if (head->type == PSR_MSG_PUSH)
        psr_fault_point("push", psr_msg_step(head));
    return PSR_OK;
}

void psr_exchange_returned(void *context)
{
    psr_session_changed(((psr_exchange *)context)->session);
}

psr_err psr_exchange_landed(void *context, uint64_t step, uint32_t bucket)
{
    psr_exchange *exchange = context;
    if (++exchange->landed_count[step & 1] == exchange->options.buckets->count)
        atomic_store(&exchange->exchange_ns, psr_clock_ns() - exchange->first_ready_ns[step & 1]);
    atomic_store(&exchange->landed[bucket], step + 1);
    psr_session_changed(exchange->session);
    return PSR_OK;
}

/* ---- in: from the compute thread ---- */

static void see_collective(psr_exchange *exchange)
{
    if (exchange->operations_taken > atomic_load(&exchange->operations_ended) &&
        psr_collective_finished(exchange->collective)) {
        atomic_store(&exchange->operations_ended, exchange->operations_taken);
        psr_session_changed(exchange->session);
    }
}

static psr_err say_ready(psr_session *session, const psr_command *command)
{
    /* Text was copied without its end. */
    char *json = command->size > 0 ? strndup(command->data, command->size) : NULL;
    free(command->data);
    psr_err err = psr_member_ready(session->options.member, json);
    free(json);
    return err;
}

static psr_err send_owned(psr_session *session, const psr_command *command)
{
    psr_transport *transport = session->options.transport;
    if (command->head.type == PSR_MSG_READY)
        return say_ready(session, command);
    session->told_done = session->told_done || command->head.type == PSR_MSG_DONE;
    if (command->size == 0) {
        free(command->data);
        return psr_transport_send(transport, command->to, &command->head, NULL);
    }
    const psr_payload payload = {command->data, command->size, free, command->data};
    return psr_transport_send(transport, command->to, &command->head, &payload);
}

/* The engine has something to do in this step: the first time is what its exchange is timed from. */
static void engine_busy(psr_exchange *exchange, uint64_t step)
{
    if (exchange->first_ready_ns[step & 1] == 0)
        exchange->first_ready_ns[step & 1] = psr_clock_ns();
}

psr_err psr_exchange_take(psr_exchange *exchange, const psr_command *command)
{
    uint64_t step = command->head.step;
    switch (command->kind) {
    case PSR_COMMAND_BEGIN:
        exchange->landed_count[step & 1] = 0;
        exchange->first_ready_ns[step & 1] = 0;
        return exchange->ops->begin_step(exchange->engine, step);
    case PSR_COMMAND_READY:
        engine_busy(exchange, step);
        return exchange->ops->ready(exchange->engine, step, command->head.bucket);
    case PSR_COMMAND_END:
        engine_busy(exchange, step);
        return exchange->ops->end_step(exchange->engine, step, command->to.rank);
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
        return send_owned(exchange->session, command);
    }
    return PSR_OK;
}

static psr_err take_commands(psr_session *session)
{
    psr_command command;
    bool any = false;
    while (psr_command_pop(session->queue, &command)) {
        any = true;
        PSR_TRY(psr_exchange_take(session->exchange, &command));
    }
    if (any)
        psr_session_changed(session); /* the compute thread may wait for room */
    return PSR_OK;
}

/* ---- in: from other processes ---- */

static psr_err hold(psr_session *session)
{
    if (session->told_done) /* the two crossed: there is no step left to hold back, and after DONE nothing
                                more is due */
        return PSR_OK;
    pthread_mutex_lock(&session->mutex);
    session->held = true;
    /* Before its first step a worker promises that one: everybody then takes at least one step, and the
     * run has a last one to name. (Resumed behind the last step there is none to promise.) */
    const psr_session_options *o = &session->options;
    uint64_t first = o->first_step < o->total_steps ? o->first_step : o->total_steps - 1;
    uint64_t last = session->any_begun ? session->begun : first;
    pthread_mutex_unlock(&session->mutex);
    psr_log(PSR_LOG_INFO, "told to hold: the run is being stopped");
    return psr_member_tell(session->options.member, &(psr_head){.type = PSR_MSG_HELD, .step = last}, NULL, 0);
}

static void stop_at(psr_session *session, uint64_t step)
{
    pthread_mutex_lock(&session->mutex);
    session->stop_at = step;
    session->held = false;
    pthread_mutex_unlock(&session->mutex);
    psr_session_changed(session);
}

static void keep_restored(psr_session *session, psr_message **message)
{
    pthread_mutex_lock(&session->mutex);
    psr_early_put(session->restored, 0, message);
    pthread_mutex_unlock(&session->mutex);
    psr_session_changed(session);
}

static psr_err refuse(const psr_message *message)
{
    return psr_violation(message, "a worker in this mode does not take that");
}

static psr_err take_scheduler_message(psr_session *session, psr_message **message)
{
    switch ((*message)->head.type) {
    case PSR_MSG_START:
        atomic_store(&session->started, true);
        psr_session_changed(session);
        return PSR_OK;
    case PSR_MSG_HOLD:
        return hold(session);
    case PSR_MSG_STOP_AT:
        stop_at(session, (*message)->head.step);
        return PSR_OK;
    case PSR_MSG_RESTORE:
        keep_restored(session, message);
        return PSR_OK;
    case PSR_MSG_SAVED:
        atomic_store(&session->saved_steps, (*message)->head.step);
        psr_session_changed(session);
        return PSR_OK;
    case PSR_MSG_BYE:
        atomic_store(&session->bye, true);
        psr_session_changed(session);
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
        if (role != PSR_ROLE_SHARD)
            return refuse(*message);
        psr_fault_point("pull", psr_msg_step(&(*message)->head));
        return exchange->ops->message(exchange->engine, message);
    case PSR_MSG_RING:
        if (role != PSR_ROLE_WORKER)
            return refuse(*message);
        psr_fault_point("ring", psr_msg_step(&(*message)->head));
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

static psr_err take_message(psr_session *session, psr_message *message)
{
    psr_err err = message->from.role == PSR_ROLE_SCHEDULER ? take_scheduler_message(session, &message)
                                                           : take_peer_message(session->exchange, &message);
    psr_message_free(&message);
    return err;
}

/* ---- the loop ---- */

static void publish(psr_exchange *exchange)
{
    psr_transport_counts counts;
    psr_transport_counts_get(exchange->session->options.transport, &counts);
    atomic_store_explicit(&exchange->bytes_sent, counts.bytes_sent, memory_order_relaxed);
    atomic_store_explicit(&exchange->bytes_received, counts.bytes_received, memory_order_relaxed);
    if (exchange->ops->staleness == NULL)
        return;
    uint64_t staleness = exchange->ops->staleness(exchange->engine);
    /* The compute thread takes it with an exchange, so keep the larger with a compare. */
    uint64_t before = atomic_load(&exchange->staleness);
    while (staleness > before && !atomic_compare_exchange_weak(&exchange->staleness, &before, staleness))
        ;
}

static psr_err turn(psr_session *session)
{
    PSR_TRY(take_commands(session));
    publish(session->exchange);
    psr_message *message = NULL;
    psr_err err = psr_member_recv(session->options.member, -1, &message);
    if (err == PSR_ERR_CANCELLED) /* woken: there are commands, or it is time to leave */
        return PSR_OK;
    return err == PSR_OK ? take_message(session, message) : err;
}

void *psr_session_thread(void *context)
{
    psr_session *session = context;
    psr_err err = PSR_OK;
    while (err == PSR_OK && !atomic_load(&session->quit) && atomic_load(&session->status) == PSR_OK)
        err = turn(session);
    if (err != PSR_OK)
        psr_session_set_failed(session, err, psr_err_detail());
    psr_err status = (psr_err)atomic_load(&session->status);
    if (status != PSR_OK)
        psr_member_failed(session->options.member, status, session->failure);
    return NULL;
}
