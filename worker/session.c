#include "worker/exchange/exchange_private.h"

#include "base/arrays/blocks.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "comm/command_queue.h"
#include "comm/loop.h"
#include "comm/operations/early.h"
#include "comm/view/view.h"
#include "comm/view/view_queue.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- waiting ---- */

psr_err psr_session_failure(psr_session *session)
{
    return psr_loop_failure(session->loop);
}

static bool any_restored(psr_session *session)
{
    pthread_mutex_lock(&session->mutex);
    bool any = psr_early_any(session->restored, 0);
    pthread_mutex_unlock(&session->mutex);
    return any;
}

static bool satisfied(psr_session *session, psr_wait wait)
{
    uint64_t steps = atomic_load_explicit(&session->wanted_steps, memory_order_relaxed);
    switch (wait) {
    case PSR_WAIT_NOTHING:
        return true;
    case PSR_WAIT_BUCKET:
        return psr_exchange_has_bucket(
            session->exchange, atomic_load_explicit(&session->wanted_bucket, memory_order_relaxed),
            steps);
    case PSR_WAIT_ALL:
        return psr_exchange_has_all(session->exchange, steps);
    case PSR_WAIT_NORM:
        return psr_exchange_has_norm(session->exchange, steps);
    case PSR_WAIT_OPERATION:
        return psr_exchange_operations_ended(session->exchange);
    case PSR_WAIT_FETCHED:
        return psr_exchange_has_fetched(session->exchange);
    case PSR_WAIT_FENCES:
        return psr_exchange_fences_passed(session->exchange);
    case PSR_WAIT_BOUND:
        return psr_exchange_is_bound(session->exchange);
    case PSR_WAIT_ROOM:
        return psr_loop_room(session->loop);
    case PSR_WAIT_RESTORE:
        return any_restored(session);
    case PSR_WAIT_START:
        return atomic_load(&session->started);
    case PSR_WAIT_HOLD:
        return !psr_session_is_held_back(session);
    case PSR_WAIT_SAVED:
        return atomic_load(&session->saved_steps) >= steps;
    case PSR_WAIT_TRACED:
        return atomic_load(&session->trace_sent);
    case PSR_WAIT_BYE:
        return atomic_load(&session->bye);
    }
    return true;
}

/* Whether metrics count it as waiting for the exchange: waiting for weights counts, a barrier
 * between steps does not. */
static bool counts_as_waiting(psr_wait wait)
{
    return wait == PSR_WAIT_BUCKET || wait == PSR_WAIT_ALL || wait == PSR_WAIT_NORM ||
           wait == PSR_WAIT_ROOM;
}

static bool reached(void *context)
{
    psr_session *session = context;
    return satisfied(session, (psr_wait)atomic_load_explicit(&session->wait, memory_order_relaxed));
}

/* Records the wait. One for weights belongs to the step that gives them. */
static void trace_wait(const psr_session *session, psr_wait wait, int64_t begin_ns, int64_t end_ns)
{
    psr_tracer *tracer = psr_session_tracer(session);
    if (tracer == NULL)
        return;
    const bool bucket = wait == PSR_WAIT_BUCKET;
    const bool all = wait == PSR_WAIT_ALL || wait == PSR_WAIT_NORM;
    const uint64_t step =
        bucket || all ? atomic_load_explicit(&session->wanted_steps, memory_order_relaxed) - 1
                      : session->step;
    psr_tracer_span(tracer,
                    bucket                  ? PSR_TRACE_WAIT_BUCKET
                    : all                   ? PSR_TRACE_WAIT_ALL
                    : wait == PSR_WAIT_ROOM ? PSR_TRACE_WAIT_ROOM
                                            : PSR_TRACE_WAIT_OTHERS,
                    step,
                    bucket ? atomic_load_explicit(&session->wanted_bucket, memory_order_relaxed)
                           : PSR_TRACE_NO_INDEX,
                    0, begin_ns, end_ns);
}

psr_err psr_session_wait_for(psr_session *session, psr_wait wait)
{
    PSR_TRY(psr_session_failure(session));
    if (satisfied(session, wait))
        return PSR_OK;
    const int64_t begin_ns = psr_clock_ns();
    atomic_store(&session->wait, (int)wait);
    psr_err err = psr_loop_wait(session->loop, reached, session);
    atomic_store(&session->wait, PSR_WAIT_NOTHING);
    const int64_t end_ns = psr_clock_ns();
    if (counts_as_waiting(wait))
        session->wait_s += (double)(end_ns - begin_ns) * 1e-9;
    trace_wait(session, wait, begin_ns, end_ns);
    atomic_fetch_add_explicit(&session->counter, 1, memory_order_relaxed);
    return err;
}

psr_err psr_session_wait(psr_session *session, psr_wait wait, psr_phase phase)
{
    int before = atomic_exchange(&session->phase, (int)phase);
    psr_err err = psr_session_wait_for(session, wait);
    atomic_store(&session->phase, before);
    return err;
}

/* ---- to the thread ---- */

psr_err psr_session_command(psr_session *session, const psr_command *command)
{
    psr_err err = psr_session_failure(session);
    while (err == PSR_OK && !psr_loop_submit(session->loop, command))
        err = psr_session_wait_for(session, PSR_WAIT_ROOM);
    if (err != PSR_OK && command->kind == PSR_COMMAND_SEND)
        psr_outgoing_free(command->object);
    return err;
}

psr_err psr_session_send(psr_session *session, psr_peer to, const psr_head *head, const void *data,
                         size_t bytes)
{
    psr_outgoing *message = malloc(sizeof *message + bytes);
    if (message == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", bytes);
    *message = (psr_outgoing){.to = to, .head = *head, .bytes = bytes};
    if (bytes > 0)
        memcpy(message->payload, data, bytes);
    return psr_session_command(session,
                               &(psr_command){.kind = PSR_COMMAND_SEND, .object = message});
}

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

static psr_err tell(psr_session *session, const psr_head *head, const char *text)
{
    return psr_session_send(session, scheduler, head, text, text != NULL ? strlen(text) : 0);
}

/* ---- what the scheduler says: on the loop's thread ---- */

static psr_err take_start(void *context, psr_message **message)
{
    psr_session *session = context;
    (void)message;
    atomic_store(&session->started, true);
    psr_loop_changed(session->loop);
    return PSR_OK;
}

static psr_err take_restored(void *context, psr_message **message)
{
    psr_session *session = context;
    pthread_mutex_lock(&session->mutex);
    psr_early_put(session->restored, 0, message);
    pthread_mutex_unlock(&session->mutex);
    psr_loop_changed(session->loop);
    return PSR_OK;
}

static psr_err take_saved(void *context, psr_message **message)
{
    psr_session *session = context;
    uint64_t steps;
    PSR_TRY(psr_msg_saved_read(*message, &steps));
    atomic_store(&session->saved_steps, steps);
    psr_loop_changed(session->loop);
    return PSR_OK;
}

static psr_err take_bye(void *context, psr_message **message)
{
    psr_session *session = context;
    (void)message;
    atomic_store(&session->bye, true);
    psr_loop_changed(session->loop);
    return PSR_OK;
}

/* ---- traces ---- */

psr_err psr_session_take_trace(psr_session *session, bool begins)
{
    const psr_outbox outbox = psr_loop_outbox(session->loop);
    psr_tracer *tracer = session->options.tracer;
    return begins ? psr_tracer_begin(tracer, &outbox) : psr_tracer_end(tracer, &outbox);
}

static psr_err take_clocked(void *context, psr_message **message)
{
    psr_session *session = context;
    const psr_outbox outbox = psr_loop_outbox(session->loop);
    psr_tracer *tracer = session->options.tracer;
    if (tracer == NULL)
        return psr_violation(*message, "this worker keeps no trace");
    PSR_TRY(psr_tracer_clocked(tracer, *message, &outbox));
    if (psr_tracer_sent(tracer)) {
        atomic_store(&session->trace_sent, true);
        psr_loop_changed(session->loop);
    }
    return PSR_OK;
}

psr_tracer *psr_session_tracer(const psr_session *session)
{
    return session->traces ? session->options.tracer : NULL;
}

psr_err psr_session_trace_step(psr_session *session, uint64_t step)
{
    const psr_tracer *tracer = session->options.tracer;
    if (tracer == NULL || session->traced)
        return PSR_OK;
    if (session->traces && step > psr_tracer_end_step(tracer))
        return psr_session_trace_end(session);
    if (session->traces || !psr_tracer_has(tracer, step))
        return PSR_OK;
    session->traces = true;
    return psr_session_command(session, &(psr_command){.kind = PSR_COMMAND_TRACE_BEGIN});
}

psr_err psr_session_trace_end(psr_session *session)
{
    if (!session->traces)
        return PSR_OK;
    session->traces = false;
    session->traced = true;
    return psr_session_command(session, &(psr_command){.kind = PSR_COMMAND_TRACE_END});
}

static psr_err refuse(void *context, psr_message **message)
{
    (void)context;
    return psr_violation(*message, "a worker in this mode does not take that");
}

static void register_with(psr_session *session, psr_loop *loop)
{
    static const struct {
        psr_message_type type;
        psr_err (*take)(void *context, psr_message **message);
    } said[] = {{PSR_MSG_START, take_start},
                {PSR_MSG_HOLD, psr_session_take_hold},
                {PSR_MSG_STOP_AT, psr_session_take_stop_at},
                {PSR_MSG_RESTORE, take_restored},
                {PSR_MSG_SAVED, take_saved},
                {PSR_MSG_BYE, take_bye},
                {PSR_MSG_VIEW, psr_session_take_view},
                {PSR_MSG_CLOCKED, take_clocked}};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        psr_loop_route(loop, PSR_ROLE_SCHEDULER, said[i].type, session, said[i].take);
}

/* ---- life ---- */

psr_err psr_session_new(const psr_session_options *options, psr_session **ret_session)
{
    psr_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a session");
    session->options = *options;
    session->stop_at = UINT64_MAX;
    if (options->view != NULL) {
        session->newest_epoch = options->view->epoch;
        session->planned_step = options->view->next_step;
    }
    pthread_mutex_init(&session->mutex, NULL);
    const psr_loop_options options_of_loop = {
        .transport = options->transport,
        .member = options->member,
        .commands_max = options->commands_max,
        .command = psr_exchange_take, /* its exchange attaches itself */
        .message = refuse,
        .woken = psr_exchange_woken,
        .waiter = options->waiter,
    };
    psr_err err = psr_loop_new(&options_of_loop, &session->loop);
    if (err == PSR_OK)
        err = psr_early_new(1, PSR_EARLY_UNBOUNDED, &session->restored);
    if (err == PSR_OK)
        err = psr_session_open_pieces(session);
    if (err != PSR_OK) {
        psr_session_free(session);
        return err;
    }
    register_with(session, session->loop);
    *ret_session = session;
    return PSR_OK;
}

psr_err psr_session_start(psr_session *session)
{
    assert(session->exchange != NULL);
    return psr_loop_start(session->loop);
}

psr_err psr_session_step(psr_session *session, int64_t now_ms, int64_t *ret_next_ms)
{
    return psr_loop_step(session->loop, now_ms, ret_next_ms);
}

void psr_session_stop(psr_session *session)
{
    if (session == NULL)
        return;
    psr_loop_stop(session->loop);
    if (session->exchange != NULL)
        psr_exchange_stop(session->exchange);
}

void psr_session_free(psr_session *session)
{
    if (session == NULL)
        return;
    psr_loop_free(session->loop);
    psr_early_free(session->restored);
    psr_blocks_free(session->pieces);
    psr_view_release(session->given);
    psr_view_queue_done(&session->views);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

/* ---- from one end to the other ---- */

psr_err psr_session_restored(psr_session *session, psr_message **ret_message)
{
    PSR_TRY(psr_session_wait_for(session, PSR_WAIT_RESTORE));
    pthread_mutex_lock(&session->mutex);
    *ret_message = psr_early_take(session->restored, 0);
    pthread_mutex_unlock(&session->mutex);
    return PSR_OK;
}

psr_err psr_session_ready(psr_session *session, const char *json)
{
    PSR_TRY(tell(session, &(psr_head){.type = PSR_MSG_READY}, json));
    return psr_session_wait(session, PSR_WAIT_START, PSR_PHASE_BARRIER);
}

psr_err psr_session_metrics(psr_session *session, const char *json)
{
    return tell(session, &(psr_head){.type = PSR_MSG_METRICS}, json);
}

psr_err psr_session_done(psr_session *session, uint64_t steps, bool left_out, const char *json)
{
    if (session->traced)
        PSR_TRY(psr_session_wait(session, PSR_WAIT_TRACED, PSR_PHASE_SHUTDOWN));
    pthread_mutex_lock(&session->mutex);
    session->said_done = true;
    pthread_mutex_unlock(&session->mutex);
    psr_head head = psr_msg_done_head(&(psr_msg_done){steps, left_out});
    PSR_TRY(tell(session, &head, json));
    return psr_session_wait(session, PSR_WAIT_BYE, PSR_PHASE_SHUTDOWN);
}

psr_err psr_session_bound(psr_session *session, uint32_t epoch, double *ret_pause_s)
{
    const double pause_s = psr_clock_s() - session->asked_s;
    const psr_head head = psr_msg_bound_head(&(psr_msg_bound){epoch, (uint64_t)(pause_s * 1e6)});
    psr_log(PSR_LOG_INFO, "changed epoch=%u step=%llu pause_s=%.6f", epoch,
            (unsigned long long)session->step + 1, pause_s);
    *ret_pause_s = pause_s;
    return tell(session, &head, NULL);
}

void psr_session_break(psr_session *session, psr_err status, const char *line)
{
    psr_loop_fail(session->loop, status, line);
}

void psr_session_fail(psr_session *session, psr_err status)
{
    psr_loop_fail(session->loop, status, psr_err_detail());
}

/* ---- reports, and what holds a worker up ---- */

void psr_session_progress(psr_session *session, int phase)
{
    atomic_store_explicit(&session->phase, phase, memory_order_relaxed);
    atomic_fetch_add_explicit(&session->counter, 1, memory_order_relaxed);
    psr_fault_point(psr_phase_name((psr_phase)phase), session->step);
}

void psr_session_evaluating(psr_session *session, uint64_t samples)
{
    atomic_store_explicit(&session->evaluating, samples + 1, memory_order_relaxed);
}

void psr_session_evaluated(psr_session *session)
{
    atomic_store_explicit(&session->evaluating, 0, memory_order_relaxed);
}

static bool waits_for(psr_session *session, psr_peer *ret_peer, uint64_t *ret_step,
                      uint32_t *ret_bucket)
{
    psr_wait wait = (psr_wait)atomic_load(&session->wait);
    switch (wait) {
    case PSR_WAIT_BUCKET:
    case PSR_WAIT_ALL:
    case PSR_WAIT_NORM:
    case PSR_WAIT_OPERATION:
    case PSR_WAIT_FETCHED:
    case PSR_WAIT_BOUND:
        return psr_exchange_waits(session->exchange, wait, ret_peer, ret_step, ret_bucket);
    case PSR_WAIT_RESTORE:
    case PSR_WAIT_START:
    case PSR_WAIT_HOLD:
    case PSR_WAIT_SAVED:
    case PSR_WAIT_TRACED:
    case PSR_WAIT_BYE:
        *ret_peer = scheduler;
        return true;
    case PSR_WAIT_NOTHING:
    case PSR_WAIT_FENCES:
    case PSR_WAIT_ROOM:
        return false;
    }
    return false;
}

/* It waits for its own device, and so for nobody else, whatever others do meanwhile. */
static bool waits_for_device(psr_session *session, uint64_t *ret_step, uint32_t *ret_bucket)
{
    psr_wait wait = (psr_wait)atomic_load(&session->wait);
    return (wait == PSR_WAIT_BUCKET || wait == PSR_WAIT_ALL || wait == PSR_WAIT_NORM ||
            wait == PSR_WAIT_FENCES) &&
           psr_exchange_waits_for_device(session->exchange, ret_step, ret_bucket);
}

void psr_session_report(psr_session *session, psr_msg_progress *progress)
{
    pthread_mutex_lock(&session->mutex);
    progress->step = session->any_begun ? session->begun : session->options.first_step;
    pthread_mutex_unlock(&session->mutex);
    uint64_t evaluating = atomic_load_explicit(&session->evaluating, memory_order_relaxed);
    progress->bucket = atomic_load(&session->wanted_bucket);
    progress->phase = (psr_phase)atomic_load(&session->phase);
    progress->counter = atomic_load(&session->counter);
    progress->evaluates = evaluating > 0;
    progress->counted = evaluating > 0 ? evaluating - 1 : 0;
    if (waits_for_device(session, &progress->step, &progress->bucket))
        progress->phase = PSR_PHASE_DEVICE;
    else
        progress->waits =
            waits_for(session, &progress->waits_for, &progress->step, &progress->bucket);
}

psr_err psr_session_pause(psr_session *session, double seconds)
{
    return psr_loop_pause(session->loop, seconds);
}
