#include "worker/exchange_private.h"

#include "base/clock.h"
#include "base/fault.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- waiting ---- */

void psr_session_changed(psr_session *session)
{
    /* The fence pairs with the one in wait_locked: either the waiter sees what was written before this call, or
     * this call sees that somebody waits. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&session->wait, memory_order_relaxed) == PSR_WAIT_NOTHING)
        return;
    pthread_mutex_lock(&session->mutex);
    pthread_cond_broadcast(&session->condition);
    pthread_mutex_unlock(&session->mutex);
}

void psr_session_set_failed(psr_session *session, psr_err status, const char *line)
{
    pthread_mutex_lock(&session->mutex);
    if (atomic_load(&session->status) == PSR_OK) {
        snprintf(session->failure, sizeof session->failure, "%s", line);
        atomic_store(&session->status, (int)status);
    }
    pthread_cond_broadcast(&session->condition);
    pthread_mutex_unlock(&session->mutex);
}

psr_err psr_session_failure(psr_session *session)
{
    psr_err status = (psr_err)atomic_load(&session->status);
    /* The line was complete before the status was set, and never changes after. */
    return status == PSR_OK ? PSR_OK : psr_fail(status, "%s", session->failure);
}

static bool satisfied(psr_session *session, psr_wait wait)
{
    uint64_t steps = atomic_load_explicit(&session->wanted_steps, memory_order_relaxed);
    switch (wait) {
    case PSR_WAIT_NOTHING:
        return true;
    case PSR_WAIT_BUCKET:
        return psr_exchange_has_bucket(
            session->exchange, atomic_load_explicit(&session->wanted_bucket, memory_order_relaxed), steps);
    case PSR_WAIT_ALL:
        return psr_exchange_has_all(session->exchange, steps);
    case PSR_WAIT_COLLECTIVE:
        return psr_exchange_operations_ended(session->exchange);
    case PSR_WAIT_ROOM:
        return psr_command_room(session->queue);
    case PSR_WAIT_RESTORE:
        return psr_early_any(session->restored, 0);
    case PSR_WAIT_START:
        return atomic_load(&session->started);
    case PSR_WAIT_HOLD:
        return !session->held;
    case PSR_WAIT_SAVED:
        return atomic_load(&session->saved_steps) >= steps;
    case PSR_WAIT_BYE:
        return atomic_load(&session->bye);
    }
    return true;
}

/* What metrics count as waiting for the exchange: for weights, not for a barrier between steps. */
static bool counts_as_waiting(psr_wait wait)
{
    return wait == PSR_WAIT_BUCKET || wait == PSR_WAIT_ALL || wait == PSR_WAIT_ROOM;
}

/* Call with the mutex held. */
static psr_err wait_locked(psr_session *session, psr_wait wait)
{
    double begin_s = psr_clock_s();
    atomic_store_explicit(&session->wait, (int)wait, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load(&session->status) == PSR_OK && !satisfied(session, wait))
        pthread_cond_wait(&session->condition, &session->mutex);
    atomic_store(&session->wait, PSR_WAIT_NOTHING);
    if (counts_as_waiting(wait))
        session->wait_s += psr_clock_s() - begin_s;
    atomic_fetch_add_explicit(&session->counter, 1, memory_order_relaxed);
    return psr_session_failure(session);
}

static psr_err wait_for(psr_session *session, psr_wait wait)
{
    PSR_TRY(psr_session_failure(session));
    pthread_mutex_lock(&session->mutex);
    psr_err err = satisfied(session, wait) ? PSR_OK : wait_locked(session, wait);
    pthread_mutex_unlock(&session->mutex);
    return err;
}

psr_err psr_session_wait(psr_session *session, psr_wait wait, psr_phase phase)
{
    int before = atomic_exchange(&session->phase, (int)phase);
    psr_err err = wait_for(session, wait);
    atomic_store(&session->phase, before);
    return err;
}

/* ---- to the thread ---- */

psr_err psr_session_command(psr_session *session, const psr_command *command)
{
    psr_err err = psr_session_failure(session);
    while (err == PSR_OK && !psr_command_push(session->queue, command))
        err = wait_for(session, PSR_WAIT_ROOM);
    if (err == PSR_OK)
        psr_transport_wake(session->options.transport);
    else if (command->kind == PSR_COMMAND_SEND)
        free(command->data);
    return err;
}

psr_err psr_session_send(psr_session *session, psr_peer to, const psr_head *head, const void *data,
                         size_t bytes)
{
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", bytes);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    return psr_session_command(session, &(psr_command){PSR_COMMAND_SEND, to, *head, copy, bytes});
}

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

static psr_err tell(psr_session *session, const psr_head *head, const char *text)
{
    return psr_session_send(session, scheduler, head, text, text != NULL ? strlen(text) : 0);
}

/* ---- life ---- */

psr_err psr_session_new(const psr_session_options *options, psr_session **ret_session)
{
    psr_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a session");
    session->options = *options;
    session->stop_at = UINT64_MAX;
    pthread_mutex_init(&session->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&session->condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    psr_err err = psr_command_queue_new(options->commands_max, &session->queue);
    if (err == PSR_OK)
        err = psr_early_new(1, PSR_EARLY_UNBOUNDED, &session->restored);
    if (err != PSR_OK) {
        psr_session_free(session);
        return err;
    }
    *ret_session = session;
    return PSR_OK;
}

psr_err psr_session_start(psr_session *session)
{
    assert(session->exchange != NULL);
    int error = pthread_create(&session->thread, NULL, psr_session_thread, session);
    if (error != 0)
        return psr_fail(PSR_ERR_IO, "cannot start the exchange thread: %s", strerror(error));
    session->thread_runs = true;
    return PSR_OK;
}

void psr_session_stop(psr_session *session)
{
    if (session == NULL || !session->thread_runs)
        return;
    atomic_store(&session->quit, true);
    psr_transport_wake(session->options.transport);
    pthread_join(session->thread, NULL);
    session->thread_runs = false;
}

void psr_session_free(psr_session *session)
{
    if (session == NULL)
        return;
    assert(!session->thread_runs);
    psr_command_queue_free(session->queue);
    psr_early_free(session->restored);
    pthread_cond_destroy(&session->condition);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

/* ---- from one end to the other ---- */

psr_err psr_session_restored(psr_session *session, psr_message **ret_message)
{
    PSR_TRY(wait_for(session, PSR_WAIT_RESTORE));
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
    return tell(session, &(psr_head){.type = PSR_MSG_METRICS, .step = session->step}, json);
}

#define CHECKPOINT_PIECE (PSR_PAYLOAD_BYTES_MAX / sizeof(float))

psr_err psr_session_checkpoint(psr_session *session, uint64_t steps, uint32_t section, const float *data,
                               size_t count)
{
    for (size_t at = 0; at < count; at += CHECKPOINT_PIECE) {
        size_t piece = count - at < CHECKPOINT_PIECE ? count - at : CHECKPOINT_PIECE;
        const psr_head head = {
            .type = PSR_MSG_CHECKPOINT, .step = steps, .bucket = section, .offset = at, .count = piece};
        PSR_TRY(psr_session_send(session, scheduler, &head, data + at, piece * sizeof *data));
    }
    return PSR_OK;
}

psr_err psr_session_await_saved(psr_session *session, uint64_t steps)
{
    atomic_store(&session->wanted_steps, steps);
    return psr_session_wait(session, PSR_WAIT_SAVED, PSR_PHASE_CHECKPOINT);
}

psr_err psr_session_done(psr_session *session, uint64_t steps, bool left_out, const char *json)
{
    PSR_TRY(tell(session, &(psr_head){.type = PSR_MSG_DONE, .step = steps, .flags = left_out}, json));
    return psr_session_wait(session, PSR_WAIT_BYE, PSR_PHASE_SHUTDOWN);
}

void psr_session_fail(psr_session *session, psr_err status)
{
    psr_session_set_failed(session, status, psr_err_detail());
    psr_transport_wake(session->options.transport);
}

/* ---- hold and stop ---- */

psr_err psr_session_may_begin(psr_session *session, uint64_t step)
{
    PSR_TRY(psr_session_failure(session));
    pthread_mutex_lock(&session->mutex);
    psr_err err = PSR_OK;
    if (!session->any_begun || session->begun != step) {
        if (session->held)
            err = wait_locked(session, PSR_WAIT_HOLD);
        if (err == PSR_OK && step > session->stop_at)
            err = psr_fail(PSR_ERR_CANCELLED, "the run was stopped after step %llu",
                           (unsigned long long)session->stop_at + 1);
        if (err == PSR_OK) {
            session->begun = step;
            session->any_begun = true;
        }
    }
    pthread_mutex_unlock(&session->mutex);
    if (err == PSR_OK)
        session->step = step;
    return err;
}

uint64_t psr_session_last_step(psr_session *session)
{
    pthread_mutex_lock(&session->mutex);
    uint64_t last = session->stop_at;
    pthread_mutex_unlock(&session->mutex);
    return last;
}

uint64_t psr_session_steps_begun(psr_session *session)
{
    pthread_mutex_lock(&session->mutex);
    uint64_t steps = session->any_begun ? session->begun + 1 : session->options.first_step;
    pthread_mutex_unlock(&session->mutex);
    return steps;
}

bool psr_session_stops_after(psr_session *session, uint64_t steps)
{
    pthread_mutex_lock(&session->mutex);
    bool stops = session->held || session->stop_at < steps;
    pthread_mutex_unlock(&session->mutex);
    return stops;
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

static bool waits_for(psr_session *session, psr_peer *ret_peer, uint64_t *ret_step, uint32_t *ret_bucket)
{
    psr_wait wait = (psr_wait)atomic_load(&session->wait);
    switch (wait) {
    case PSR_WAIT_BUCKET:
    case PSR_WAIT_ALL:
    case PSR_WAIT_COLLECTIVE:
        return psr_exchange_waits(session->exchange, wait == PSR_WAIT_COLLECTIVE, ret_peer, ret_step,
                                  ret_bucket);
    case PSR_WAIT_RESTORE:
    case PSR_WAIT_START:
    case PSR_WAIT_HOLD:
    case PSR_WAIT_SAVED:
    case PSR_WAIT_BYE:
        *ret_peer = scheduler;
        return true;
    case PSR_WAIT_NOTHING:
    case PSR_WAIT_ROOM:
        return false;
    }
    return false;
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
    progress->waits = waits_for(session, &progress->waits_for, &progress->step, &progress->bucket);
}

psr_err psr_session_pause(psr_session *session, double seconds)
{
    struct timespec until = psr_clock_after_ns((int64_t)(seconds * 1e9));
    pthread_mutex_lock(&session->mutex);
    while (atomic_load(&session->status) == PSR_OK &&
           pthread_cond_timedwait(&session->condition, &session->mutex, &until) == 0)
        ;
    pthread_mutex_unlock(&session->mutex);
    return psr_session_failure(session);
}
