#include "comm/loop.h"

#include "base/clock.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MAX_BYTES = 1024,
    TYPES_MAX = 128,
    ROLES = PSR_ROLE_WORKER + 1,
    HELD_MS =
        /* ms between two checks whether a scheduler has read what waits for it, since nothing
         * reports that */
    10,
};

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

typedef struct route {
    void *context;
    psr_err (*take)(void *context, psr_message **message); /* NULL: nobody registered */
} route;

struct psr_loop {
    psr_loop_options options;
    psr_command_queue *commands;
    route routes[ROLES][TYPES_MAX]; /* [sender's role][message type] */
    psr_progress_engine *engine;
    psr_observer observer; /* see NULL: there is none */

    pthread_mutex_t alone_mutex; /* one thread of the owner at a time does the loop's work itself */
    pthread_mutex_t mutex;       /* protects the first failure */
    _Atomic int status;          /* a psr_err; set once */
    char failure[LINE_MAX_BYTES]; /* the line of status; written once, before status */
    bool told;                    /* the scheduler was told of it */
};

/* ---- failures ---- */

void psr_loop_fail(psr_loop *loop, psr_err status, const char *line)
{
    pthread_mutex_lock(&loop->mutex);
    if (atomic_load(&loop->status) == PSR_OK) {
        snprintf(loop->failure, sizeof loop->failure, "%s", line);
        atomic_store(&loop->status, (int)status);
    }
    pthread_mutex_unlock(&loop->mutex);
    psr_loop_changed(loop);
    if (loop->options.transport != NULL)
        psr_transport_wake(loop->options.transport);
}

psr_err psr_loop_failure(const psr_loop *loop)
{
    psr_err status = (psr_err)atomic_load(&loop->status);
    /* The line was complete before the status was set, and never changes after. */
    return status == PSR_OK ? PSR_OK : psr_fail(status, "%s", loop->failure);
}

/* Called by whoever runs the loop, or has ended its thread. */
static void tell_failure(psr_loop *loop)
{
    psr_err status = (psr_err)atomic_load(&loop->status);
    if (status == PSR_OK || loop->told)
        return;
    loop->told = true;
    psr_member_failed(loop->options.member, status, loop->failure);
}

static void engine_failed(void *context, psr_err err)
{
    psr_loop *loop = context;
    psr_loop_fail(loop, err, psr_err_detail());
    if (loop->options.failed != NULL)
        loop->options.failed(loop->options.context, err);
    tell_failure(loop);
}

/* ---- waiting ---- */

void psr_loop_changed(psr_loop *loop)
{
    psr_progress_engine_changed(loop->engine);
}

typedef struct goal {
    const psr_loop *loop;
    bool (*reached)(void *context);
    void *context;
} goal;

static bool is_reached_or_failed(void *context)
{
    const goal *g = context;
    bool failed = g->loop->options.alone == NULL && atomic_load(&g->loop->status) != PSR_OK;
    return failed || g->reached(g->context);
}

bool psr_loop_await(psr_loop *loop, bool drives, bool (*reached)(void *context), void *context,
                    int64_t timeout_ns)
{
    goal g = {loop, reached, context};
    return psr_progress_engine_wait(loop->engine, drives, is_reached_or_failed, &g, timeout_ns);
}

psr_err psr_loop_wait(psr_loop *loop, bool (*reached)(void *context), void *context)
{
    (void)psr_loop_await(loop, false, reached, context, INT64_MAX);
    return psr_loop_failure(loop);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

psr_err psr_loop_pause(psr_loop *loop, double seconds)
{
    (void)psr_loop_await(loop, false, never, NULL, (int64_t)llround(seconds * 1e9));
    return psr_loop_failure(loop);
}

bool psr_loop_over(const psr_loop *loop)
{
    return psr_progress_engine_over(loop->engine);
}

/* ---- commands ---- */

static psr_err take_commands(psr_loop *loop);

/* If nobody runs the loop, the owner takes its own commands, and with moves does the rest too. */
static int64_t take_alone(psr_loop *loop, bool moves)
{
    int64_t next_ms = INT64_MAX;
    pthread_mutex_lock(&loop->alone_mutex);
    psr_err err = take_commands(loop);
    if (err != PSR_OK)
        psr_loop_fail(loop, err, psr_err_detail());
    if (moves)
        next_ms = loop->options.alone(loop->options.context);
    pthread_mutex_unlock(&loop->alone_mutex);
    return next_ms;
}

static bool is_alone(const psr_loop *loop)
{
    return loop->options.alone != NULL && psr_loop_over(loop);
}

bool psr_loop_submit(psr_loop *loop, const psr_command *command)
{
    if (!psr_command_push(loop->commands, command))
        return false;
    if (is_alone(loop))
        (void)take_alone(loop, false);
    else
        psr_progress_engine_submit(loop->engine);
    return true;
}

bool psr_loop_submit_later(psr_loop *loop, const psr_command *command)
{
    return is_alone(loop) ? psr_loop_submit(loop, command)
                          : psr_command_push(loop->commands, command);
}

static int64_t engine_alone(void *context)
{
    return take_alone(context, true);
}

int64_t psr_loop_alone(psr_loop *loop)
{
    return is_alone(loop) ? take_alone(loop, true) : INT64_MAX;
}

void psr_loop_nudge(psr_loop *loop)
{
    psr_progress_engine_submit(loop->engine);
}

void psr_loop_unattended(psr_loop *loop)
{
    psr_progress_engine_unattended(loop->engine);
}

bool psr_loop_room(const psr_loop *loop)
{
    return psr_command_room(loop->commands);
}

static psr_err send_owned(psr_transport *transport, psr_outgoing *message)
{
    const psr_payload payload = {message->payload, message->bytes, psr_outgoing_free, message};
    if (message->bytes > 0)
        return psr_transport_send(transport, message->to, &message->head, &payload);
    psr_err err = psr_transport_send(transport, message->to, &message->head, NULL);
    psr_outgoing_free(message);
    return err;
}

/* Metrics and checkpoints go to the scheduler, so the owner makes no more of them than it reads. */
static bool holds_commands(const psr_loop *loop)
{
    return loop->options.commands_max > 0 &&
           psr_transport_waiting(loop->options.transport, scheduler) >= PSR_MEMBER_WAITING_MAX;
}

static psr_err take_commands(psr_loop *loop)
{
    const psr_loop_options *o = &loop->options;
    psr_command command;
    bool any = false;
    while (!holds_commands(loop) && psr_command_pop(loop->commands, &command)) {
        any = true;
        PSR_TRY(command.kind == PSR_COMMAND_SEND ? send_owned(o->transport, command.object)
                                                 : o->command(o->context, &command));
    }
    if (any && o->commands_max > 0)
        psr_loop_changed(loop); /* there is room again */
    return PSR_OK;
}

/* ---- messages ---- */

void psr_loop_attach(psr_loop *loop, void *context)
{
    loop->options.context = context;
}

void psr_loop_route(psr_loop *loop, psr_role from, psr_message_type type, void *context,
                    psr_err (*take)(void *context, psr_message **message))
{
    assert((unsigned)type < TYPES_MAX && (unsigned)from < ROLES &&
           loop->routes[from][type].take == NULL);
    loop->routes[from][type] = (route){context, take};
}

static psr_err take_message(psr_loop *loop, psr_message *message)
{
    const psr_loop_options *o = &loop->options;
    unsigned type = (unsigned)message->head.type;
    const unsigned role = (unsigned)message->from.role;
    const route *r = type < TYPES_MAX && role < ROLES ? &loop->routes[role][type] : NULL;
    bool registered = r != NULL && r->take != NULL;
    psr_err err = registered ? r->take(r->context, &message) : o->message(o->context, &message);
    psr_message_free(&message);
    psr_loop_tell(loop, &(psr_observed){.kind = PSR_OBSERVED_TAKEN});
    return err;
}

static psr_err send_on_transport(void *context, psr_peer to, const psr_head *head,
                                 const psr_payload *payload)
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

static void tell_by_outbox(void *context, const psr_observed *observed)
{
    psr_loop_tell(context, observed);
}

static size_t waiting_on_transport(void *context, psr_peer to)
{
    return psr_transport_waiting(((psr_loop *)context)->options.transport, to);
}

psr_outbox psr_loop_outbox(psr_loop *loop)
{
    return (psr_outbox){loop,
                        send_on_transport,
                        something_returned,
                        transport_lends_to,
                        waiting_on_transport,
                        tell_by_outbox};
}

/* ---- the observer ---- */

static int64_t clock_of(const psr_loop *loop)
{
    const psr_loop_waiter *waiter = loop->options.waiter;
    return waiter != NULL && waiter->now_ns != NULL ? waiter->now_ns(waiter->context)
                                                    : psr_clock_ns();
}

static void tell_with_stamp(const psr_loop *loop, psr_observed observed)
{
    observed.stamp_ns = clock_of(loop);
    loop->observer.see(loop->observer.context, &observed);
}

static void see_message(void *context, bool sent, psr_peer peer, const psr_head *head, size_t bytes)
{
    const psr_observed_kind kind = sent ? PSR_OBSERVED_OUT : PSR_OBSERVED_IN;
    tell_with_stamp(context, psr_observed_message(kind, peer, head, bytes));
}

static void see_queued(void *context)
{
    tell_with_stamp(context, (psr_observed){.kind = PSR_OBSERVED_SENT});
}

void psr_loop_observe(psr_loop *loop, const psr_observer *observer)
{
    const psr_transport_watcher watcher = {.context = loop,
                                           .seen = see_message,
                                           .queued = observer != NULL && observer->work ? see_queued
                                                                                        : NULL};
    loop->observer = observer != NULL ? *observer : (psr_observer){.see = NULL};
    if (loop->options.transport != NULL)
        psr_transport_watch(loop->options.transport, observer != NULL ? &watcher : NULL);
}

void psr_loop_tell(psr_loop *loop, const psr_observed *observed)
{
    if (loop->observer.see != NULL && (loop->observer.work || observed->kind < PSR_OBSERVED_SENT))
        tell_with_stamp(loop, *observed);
}

/* ---- the loop ---- */

static psr_err take_one(void *context, int64_t now_ms, bool *ret_any)
{
    psr_loop *loop = context;
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

/* Takes what another thread has handed over. */
static psr_err take_over(psr_loop *loop)
{
    PSR_TRY(psr_loop_failure(loop));
    return take_commands(loop);
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

static psr_err pass(void *context, int64_t now_ms, int64_t *ret_next_ms)
{
    psr_loop *loop = context;
    PSR_TRY(take_over(loop));
    return pass_time(loop, now_ms, ret_next_ms);
}

psr_err psr_loop_step(psr_loop *loop, int64_t now_ms, int64_t *ret_next_ms)
{
    for (bool any = true; any;) {
        PSR_TRY(take_over(loop));
        PSR_TRY(take_one(loop, now_ms, &any));
    }
    return pass_time(loop, now_ms, ret_next_ms);
}

psr_err psr_loop_run(psr_loop *loop)
{
    return psr_progress_engine_run(loop->engine);
}

psr_err psr_loop_start(psr_loop *loop)
{
    return psr_progress_engine_start(loop->engine);
}

void psr_loop_quit(psr_loop *loop)
{
    psr_progress_engine_quit(loop->engine);
}

/* The owner's last commands are taken now, if the thread did not take them. */
void psr_loop_stop(psr_loop *loop)
{
    if (loop == NULL || loop->options.transport == NULL)
        return;
    psr_progress_engine_stop(loop->engine);
    /* A rank that stays after its last call, as the one that hosts the scheduler does, would keep
     * the loans of others from ending. */
    psr_transport_give_back(loop->options.transport);
    tell_failure(loop);
    if (is_alone(loop))
        (void)take_alone(loop, false);
}

static bool engine_busy(void *context)
{
    const psr_loop_options *o = &((psr_loop *)context)->options;
    return o->busy(o->context);
}

/* ---- life ---- */

psr_err psr_loop_new(const psr_loop_options *options, psr_loop **ret_loop)
{
    psr_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a progress loop");
    loop->options = *options;
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_mutex_init(&loop->alone_mutex, NULL);
    const psr_progress_engine_options engine = {.transport = options->transport,
                                                .context = loop,
                                                .pass = pass,
                                                .take = take_one,
                                                .failed = engine_failed,
                                                .busy = options->busy != NULL ? engine_busy : NULL,
                                                .alone =
                                                    options->alone != NULL ? engine_alone : NULL,
                                                .waiter = options->waiter};
    psr_err err = psr_command_queue_new(options->commands_max, &loop->commands);
    if (err == PSR_OK)
        err = psr_progress_engine_new(&engine, &loop->engine);
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
    psr_progress_engine_free(loop->engine);
    psr_command_queue_free(loop->commands);
    pthread_mutex_destroy(&loop->alone_mutex);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
}
