/* Which steps a worker may begin. The scheduler holds the workers back (HOLD) while it decides what
 * becomes of the run. Each answers with the last step that it has begun. Then the scheduler names
 * the last step of all (STOP_AT), or a view with other members and its first step (VIEW). So no
 * worker begins a step that another does not take. */
#include "worker/session_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/members/member.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

/* Whether the step must wait for a decision. With the mutex held. */
static bool holds_back(const psr_session *session, uint64_t step)
{
    const uint64_t next = session->planned_step;
    return session->held || (session->ends_here && session->stop_at == UINT64_MAX) ||
           (next != 0 && step >= next && step <= session->stop_at);
}

bool psr_session_is_held_back(psr_session *session)
{
    pthread_mutex_lock(&session->mutex);
    bool held = holds_back(session, session->asked);
    pthread_mutex_unlock(&session->mutex);
    return held;
}

/* ---- what the scheduler says: on the loop's thread ---- */

psr_err psr_session_take_hold(void *context, psr_message **message)
{
    psr_session *session = context;
    bool change;
    PSR_TRY(psr_msg_hold_read(*message, &change));
    pthread_mutex_lock(&session->mutex);
    /* no step is left to hold back, and after DONE nothing more is due */
    bool crossed = session->said_done;
    session->held = session->held || !crossed;
    session->held_for_change = change;
    /* Before its first step a worker promises that step: so all workers take at least one step, and
     * the run has a last one to name. (A run resumed after its last step has none to promise.) */
    const psr_session_options *o = &session->options;
    uint64_t first = o->first_step < o->total_steps ? o->first_step : o->total_steps - 1;
    uint64_t last = session->any_begun ? session->begun : first;
    pthread_mutex_unlock(&session->mutex);
    if (crossed)
        return PSR_OK;
    psr_log(PSR_LOG_INFO, "told to hold: the run is being %s", change ? "changed" : "stopped");
    psr_head head = psr_msg_held_head(last);
    return psr_member_tell(session->options.member, &head, NULL, 0);
}

psr_err psr_session_take_stop_at(void *context, psr_message **message)
{
    psr_session *session = context;
    uint64_t step;
    PSR_TRY(psr_msg_stop_at_read(*message, &step));
    pthread_mutex_lock(&session->mutex);
    session->stop_at = step;
    session->held = false;
    pthread_mutex_unlock(&session->mutex);
    psr_loop_changed(session->loop);
    return PSR_OK;
}

/* Checks that the scheduler sends a possible view: the next epoch, from a step on that was not
 * begun. */
static psr_err check_view(const psr_session *session, const psr_message *message,
                          const psr_view *view)
{
    const psr_view *first = session->options.view;
    if (view->epoch != session->newest_epoch + 1)
        return psr_violation(message, "it is of epoch %u after epoch %u", view->epoch,
                             session->newest_epoch);
    if (session->any_begun && view->first_step <= session->begun)
        return psr_violation(message, "it begins with wire step %llu, and %llu has begun",
                             (unsigned long long)view->first_step,
                             (unsigned long long)session->begun);
    if (first == NULL)
        return PSR_OK;
    if (view->plan.bucket_count != first->plan.bucket_count ||
        view->plan.ranks != first->plan.ranks)
        return psr_violation(message, "it has other buckets or ranks than the first view");
    for (uint32_t b = 0; b < first->plan.bucket_count; b++) {
        const psr_span one = view->plan.buckets[b].span, other = first->plan.buckets[b].span;
        if (one.offset != other.offset || one.count != other.count)
            return psr_violation(message, "its bucket %u is another than the first view's", b);
    }
    return PSR_OK;
}

psr_err psr_session_take_view(void *context, psr_message **message)
{
    psr_session *session = context;
    const psr_view *view = NULL;
    PSR_TRY(psr_view_read(*message, &view));
    const uint32_t epoch = view->epoch;
    const unsigned long long first = view->first_step + 1;
    const uint64_t planned = view->next_step;
    pthread_mutex_lock(&session->mutex);
    psr_err err = check_view(session, *message, view);
    if (err == PSR_OK && !psr_view_queue_put(&session->views, view))
        err = psr_violation(*message, "too many views wait to begin");
    if (err == PSR_OK) {
        session->newest_epoch = epoch;
        session->planned_step = planned;
        session->held = false;
    }
    pthread_mutex_unlock(&session->mutex);
    if (err != PSR_OK) {
        psr_view_release(view);
        return err;
    }
    psr_log(PSR_LOG_INFO, "told of a change epoch=%u from step=%llu", epoch, first);
    psr_loop_changed(session->loop);
    return PSR_OK;
}

/* ---- the compute thread's steps ---- */

/* Whether the step may be taken; it is promised then (a HOLD is answered with it). false: steps are
 * held back, and nothing is decided. */
static bool decide(psr_session *session, uint64_t step, psr_err *ret_err)
{
    pthread_mutex_lock(&session->mutex);
    session->asked = step;
    bool again = session->any_begun && session->begun == step,
         decided = again || !holds_back(session, step);
    if (decided && !again && step > session->stop_at) {
        *ret_err = psr_fail(PSR_ERR_CANCELLED, "the run was stopped after step %llu",
                            (unsigned long long)session->stop_at + 1);
    } else if (decided) {
        session->begun = step;
        session->any_begun = true;
    }
    pthread_mutex_unlock(&session->mutex);
    return decided;
}

psr_err psr_session_may_begin(psr_session *session, uint64_t step)
{
    psr_err err = PSR_OK;
    PSR_TRY(psr_session_failure(session));
    session->asked_s = psr_clock_s();
    while (!decide(session, step, &err))
        PSR_TRY(psr_session_wait_for(session, PSR_WAIT_HOLD));
    if (err == PSR_OK)
        session->step = step;
    return err;
}

const psr_view *psr_session_view_at(psr_session *session, uint64_t step)
{
    pthread_mutex_lock(&session->mutex);
    const psr_view *view = psr_view_queue_first(&session->views);
    if (view != NULL)
        view = view->first_step == step ? psr_view_queue_take(&session->views) : NULL;
    pthread_mutex_unlock(&session->mutex);
    if (view == NULL)
        return NULL;
    psr_view_release(session->given);
    session->given = view;
    return view;
}

void psr_session_ends_here(psr_session *session)
{
    pthread_mutex_lock(&session->mutex);
    session->ends_here = true;
    pthread_mutex_unlock(&session->mutex);
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
    bool stops = (session->held && !session->held_for_change) || session->stop_at < steps;
    pthread_mutex_unlock(&session->mutex);
    return stops;
}
