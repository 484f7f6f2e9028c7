#include "comm/loop.h"

#include "base/clock.h"
#include "base/thread.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LINE_MAX_BYTES = 1024,
    TYPES_MAX = 128,
    HELD_MS = 10, /* between two looks whether a scheduler has read what waits for it: nothing tells */
};

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

typedef struct route {
    psr_role from;
    void *context;
    psr_err (*take)(void *context, psr_message **message); /* NULL: nobody registered */
} route;

struct psr_loop {
    psr_loop_options options;
    psr_command_queue *commands;
    route routes[TYPES_MAX]; /* [message type] */

    pthread_t thread;
    bool thread_runs;
    _Atomic bool quit;

    pthread_mutex_t mutex;
    pthread_cond_t condition;
    _Atomic bool waiting;         /* the other thread, for a change */
    _Atomic int status;           /* psr_err: for good */
    char failure[LINE_MAX_BYTES]; /* status' line; written once, before status */
};

/* ---- waiting ---- */

void psr_loop_changed(psr_loop *loop)
{
    /* The fence pairs with the one in psr_loop_wait: either the waiter sees what was written before this call, or
     * this call sees that somebody waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&loop->waiting, memory_order_relaxed))
        return;
    if (loop->options.waiter != NULL) {
        loop->options.waiter->changed(loop->options.waiter->context);
        return;
    }
    pthread_mutex_lock(&loop->mutex);
    pthread_cond_broadcast(&loop->condition);
    pthread_mutex_unlock(&loop->mutex);
}

void psr_loop_fail(psr_loop *loop, psr_err status, const char *line)
{
    pthread_mutex_lock(&loop->mutex);
    if (atomic_load(&loop->status) == PSR_OK) {
        snprintf(loop->failure, sizeof loop->failure, "%s", line);
        atomic_store(&loop->status, (int)status);
    }
    pthread_cond_broadcast(&loop->condition);
    pthread_mutex_unlock(&loop->mutex);
    psr_transport_wake(loop->options.transport);
}

psr_err psr_loop_failure(const psr_loop *loop)
{
    psr_err status = (psr_err)atomic_load(&loop->status);
    /* The line was complete before the status was set, and never changes after. */
    return status == PSR_OK ? PSR_OK : psr_fail(status, "%s", loop->failure);
}

/* As psr_loop_wait. */
static psr_err wait_without_thread(psr_loop *loop, bool (*reached)(void *context), void *context)
{
    const psr_loop_waiter *waiter = loop->options.waiter;
    atomic_store(&loop->waiting, true);
    while (atomic_load(&loop->status) == PSR_OK && !reached(context))
        waiter->pause(waiter->context);
    atomic_store(&loop->waiting, false);
    return psr_loop_failure(loop);
}

psr_err psr_loop_wait(psr_loop *loop, bool (*reached)(void *context), void *context)
{
    if (loop->options.waiter != NULL)
        return wait_without_thread(loop, reached, context);
    pthread_mutex_lock(&loop->mutex);
    atomic_store_explicit(&loop->waiting, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(&loop->status) == PSR_OK && !reached(context))
        pthread_cond_wait(&loop->condition, &loop->mutex);
    atomic_store_explicit(&loop->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&loop->mutex);
    return psr_loop_failure(loop);
}

psr_err psr_loop_pause(psr_loop *loop, double seconds)
{
    if (loop->options.waiter != NULL) {
        loop->options.waiter->pass(loop->options.waiter->context, seconds);
        return psr_loop_failure(loop);
    }
    struct timespec until = psr_clock_after_ns((int64_t)(seconds * 1e9));
    pthread_mutex_lock(&loop->mutex);
    while (atomic_load(&loop->status) == PSR_OK &&
           pthread_cond_timedwait(&loop->condition, &loop->mutex, &until) == 0)
        ;
    pthread_mutex_unlock(&loop->mutex);
    return psr_loop_failure(loop);
}

/* ---- commands ---- */

bool psr_loop_submit(psr_loop *loop, const psr_command *command)
{
    if (!psr_command_push(loop->commands, command))
        return false;
    psr_transport_wake(loop->options.transport);
    return true;
}

bool psr_loop_room(const psr_loop *loop)
{
    return psr_command_room(loop->commands);
}

static psr_err send_owned(psr_loop *loop, const psr_command *command)
{
    psr_transport *transport = loop->options.transport;
    if (command->size == 0) {
        free(command->data);
        return psr_transport_send(transport, command->to, &command->head, NULL);
    }
    const psr_payload payload = {command->data, command->size, free, command->data};
    return psr_transport_send(transport, command->to, &command->head, &payload);
}

/* Metrics and checkpoints go there, and the other thread makes no more of them than it reads. */
static bool holds_commands(const psr_loop *loop)
{
    return psr_transport_waiting(loop->options.transport, scheduler) >= PSR_MEMBER_WAITING_MAX;
}

static psr_err take_commands(psr_loop *loop)
{
    psr_command command;
    bool any = false;
    while (!holds_commands(loop) && psr_command_pop(loop->commands, &command)) {
        any = true;
        PSR_TRY(command.kind == PSR_COMMAND_SEND ? send_owned(loop, &command)
                                                 : loop->options.command(loop->options.context, &command));
    }
    if (any)
        psr_loop_changed(loop); /* there is room again */
    return PSR_OK;
}

/* ---- messages ---- */

void psr_loop_route(psr_loop *loop, psr_role from, psr_message_type type, void *context,
                    psr_err (*take)(void *context, psr_message **message))
{
    assert((unsigned)type < TYPES_MAX && loop->routes[type].take == NULL);
    loop->routes[type] = (route){from, context, take};
}

static psr_err take_message(psr_loop *loop, psr_message *message)
{
    const psr_loop_options *o = &loop->options;
    unsigned type = (unsigned)message->head.type;
    const route *r = type < TYPES_MAX ? &loop->routes[type] : NULL;
    bool registered = r != NULL && r->take != NULL && r->from == message->from.role;
    psr_err err = registered ? r->take(r->context, &message) : o->message(o->context, &message);
    psr_message_free(&message);
    return err;
}

static psr_err send_on_transport(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    return psr_transport_send(((psr_loop *)context)->options.transport, to, head, payload);
}

static void something_returned(void *context)
{
    psr_loop_changed(context);
}

static bool transport_lends_to(void *context, psr_peer to)
{
    return psr_transport_lends_to(((psr_loop *)context)->options.transport, to);
}

static size_t waiting_on_transport(void *context, psr_peer to)
{
    return psr_transport_waiting(((psr_loop *)context)->options.transport, to);
}

psr_outbox psr_loop_outbox(psr_loop *loop)
{
    return (psr_outbox){loop, send_on_transport, something_returned, transport_lends_to,
                        waiting_on_transport};
}

/* ---- the loop ---- */

/* *ret_timeout_ms: until it wants to hear of the time again; -1: never. */
static psr_err tick_owner(const psr_loop *loop, int *ret_timeout_ms)
{
    const psr_loop_options *o = &loop->options;
    if (o->tick == NULL)
        return PSR_OK;
    int64_t now_ms = psr_clock_ms(), next_ms = INT64_MAX;
    PSR_TRY(o->tick(o->context, now_ms, &next_ms));
    int64_t left_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    *ret_timeout_ms = next_ms == INT64_MAX ? -1 : left_ms < INT_MAX ? (int)left_ms : INT_MAX;
    return PSR_OK;
}

static psr_err turn(psr_loop *loop)
{
    const psr_loop_options *o = &loop->options;
    PSR_TRY(take_commands(loop));
    if (o->turned != NULL)
        o->turned(o->context);
    int timeout_ms = -1;
    PSR_TRY(tick_owner(loop, &timeout_ms));
    if (holds_commands(loop) && (timeout_ms < 0 || timeout_ms > HELD_MS))
        timeout_ms = HELD_MS;
    psr_message *message = NULL;
    psr_err err = psr_member_recv(o->member, timeout_ms, &message);
    if (err == PSR_OK)
        return take_message(loop, message);
    if (err == PSR_ERR_CANCELLED)
        return o->woken != NULL ? o->woken(o->context) : PSR_OK;
    if (err == PSR_ERR_TIMEOUT && timeout_ms >= 0)
        return PSR_OK;
    return o->failed != NULL ? o->failed(o->context, err) : err;
}

psr_err psr_loop_take(psr_loop *loop, int64_t now_ms, bool *ret_any)
{
    const psr_loop_options *o = &loop->options;
    psr_message *message = psr_member_early(o->member);
    psr_err err = PSR_OK;
    *ret_any = true;
    if (message == NULL) {
        err = psr_transport_recv(o->transport, 0, &message);
        if (err == PSR_ERR_TIMEOUT) {
            *ret_any = false;
            return PSR_OK;
        }
        if (err == PSR_ERR_CANCELLED)
            return o->woken != NULL ? o->woken(o->context) : PSR_OK;
        if (err == PSR_OK)
            err = psr_member_message(o->member, &message, now_ms);
    }
    return err == PSR_OK && message != NULL ? take_message(loop, message) : err;
}

/* What another thread has handed over. */
static psr_err take_over(psr_loop *loop)
{
    PSR_TRY(psr_loop_failure(loop));
    PSR_TRY(take_commands(loop));
    if (loop->options.turned != NULL)
        loop->options.turned(loop->options.context);
    return PSR_OK;
}

static psr_err pass_time(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms)
{
    int64_t own_next_ms = INT64_MAX;
    if (loop->options.tick != NULL)
        PSR_TRY(loop->options.tick(loop->options.context, now_ms, &own_next_ms));
    PSR_TRY(psr_member_tick(loop->options.member, now_ms, ret_next_ms));
    if (own_next_ms < *ret_next_ms)
        *ret_next_ms = own_next_ms;
    if (holds_commands(loop) && now_ms + HELD_MS < *ret_next_ms)
        *ret_next_ms = now_ms + HELD_MS;
    return PSR_OK;
}

psr_err psr_loop_pass(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms)
{
    PSR_TRY(take_over(loop));
    return pass_time(loop, now_ms, ret_next_ms);
}

psr_err psr_loop_step(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms)
{
    for (bool any = true; any;) {
        PSR_TRY(take_over(loop));
        PSR_TRY(psr_loop_take(loop, now_ms, &any));
    }
    return pass_time(loop, now_ms, ret_next_ms);
}

psr_err psr_loop_run(psr_loop *loop)
{
    psr_err err = PSR_OK;
    while (err == PSR_OK && !atomic_load(&loop->quit) && atomic_load(&loop->status) == PSR_OK)
        err = turn(loop);
    return err;
}

static void *run_thread(void *context)
{
    psr_loop *loop = context;
    psr_err err = psr_loop_run(loop);
    if (err != PSR_OK)
        psr_loop_fail(loop, err, psr_err_detail());
    psr_err status = (psr_err)atomic_load(&loop->status);
    if (status != PSR_OK)
        psr_member_failed(loop->options.member, status, loop->failure);
    return NULL;
}

psr_err psr_loop_start(psr_loop *loop)
{
    PSR_TRY(psr_thread_start("psr-progress", run_thread, loop, &loop->thread));
    loop->thread_runs = true;
    return PSR_OK;
}

void psr_loop_quit(psr_loop *loop)
{
    atomic_store(&loop->quit, true);
    psr_transport_wake(loop->options.transport);
}

void psr_loop_stop(psr_loop *loop)
{
    if (loop == NULL || !loop->thread_runs)
        return;
    psr_loop_quit(loop);
    pthread_join(loop->thread, NULL);
    loop->thread_runs = false;
}

/* ---- life ---- */

psr_err psr_loop_new(const psr_loop_options *options, psr_loop **ret_loop)
{
    psr_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a progress loop");
    loop->options = *options;
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    psr_err err = psr_command_queue_new(options->commands_max, &loop->commands);
    if (err != PSR_OK) {
        psr_loop_free(loop);
        return err;
    }
    *ret_loop = loop;
    return PSR_OK;
}

void psr_loop_free(psr_loop *loop)
{
    if (loop == NULL)
        return;
    assert(!loop->thread_runs);
    psr_command_queue_free(loop->commands);
    pthread_cond_destroy(&loop->condition);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
}
