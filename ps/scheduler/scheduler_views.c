/* Changes of mode: which views are issued, and when.
 *
 * The view of epoch 0 comes with WELCOME. At START all members get the view of the next stretch
 * that --mode plans. When all have begun that view (BOUND), they get the next one. So at most one
 * view waits for its first step, unless a change by hand comes. No member begins the first step of
 * a planned stretch before that stretch's view has come (psr_view.next_step).
 *
 * A change by hand: the scheduler sends HOLD to the workers, and all answer HELD. Then it sends a
 * VIEW, whose first step is the first one that no worker has begun; the VIEW ends the hold. It
 * replaces a view that has not begun. The changes that --mode had planned for later steps are
 * dropped. */
#include "ps/scheduler/scheduler_private.h"

#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the views that were issued ---- */

/* The newest view whose first step is not after this one. NULL: before START. */
static const psr_issued_view *issued_at(const psr_scheduler *s, uint64_t step)
{
    for (uint32_t i = s->view_count; i-- > 0;)
        if (i == 0 || s->views[i].view->first_step <= step)
            return &s->views[i];
    return NULL;
}

const psr_plan *psr_scheduler_plan_at(const psr_scheduler *s, uint64_t step)
{
    const psr_issued_view *issued = issued_at(s, step);
    return issued != NULL ? &issued->view->plan : &psr_coordinator_view(s->coordinator)->plan;
}

static psr_err add_view(psr_scheduler *s, psr_mode mode, const psr_view *view)
{
    if (s->view_count == s->view_room) {
        const uint32_t room = s->view_room > 0 ? 2 * s->view_room : 4;
        psr_issued_view *grown = realloc(s->views, room * sizeof *grown);
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a view");
        s->views = grown;
        s->view_room = room;
    }
    s->views[s->view_count++] = (psr_issued_view){.mode = mode, .view = view};
    return PSR_OK;
}

void psr_scheduler_free_views(psr_scheduler *s)
{
    for (uint32_t i = 1; i < s->view_count; i++)
        psr_view_release(s->views[i].view);
    free(s->views);
    s->views = NULL;
    s->view_count = s->view_room = 0;
}

/* ---- issuing one ---- */

static psr_err make_view(const psr_scheduler *s, psr_mode mode, uint64_t first_step,
                         psr_view *ret_view)
{
    const psr_view *first = s->views[0].view;
    psr_view view = {.epoch = s->view_count,
                     .first_step = first_step,
                     .next_step = psr_config_next_stretch(&s->config, first_step),
                     .member_count = first->member_count};
    view.members = malloc(first->member_count * sizeof *view.members);
    if (view.members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the members of a view");
    memcpy(view.members, first->members, first->member_count * sizeof *view.members);
    psr_err err = s->events.plan(s->events.context, mode, &view.plan);
    if (err != PSR_OK) {
        psr_view_done(&view);
        return err;
    }
    *ret_view = view;
    return PSR_OK;
}

static psr_err send_view(psr_scheduler *s, const psr_view *view)
{
    char *json = NULL;
    PSR_TRY(psr_view_to_json(view, &json));
    const psr_head head = psr_msg_view_head(&(psr_msg_view){view->epoch, view->first_step});
    psr_err err = psr_coordinator_send_all(s->coordinator, head, (psr_bytes){json, strlen(json)});
    free(json);
    return err;
}

static psr_err issue(psr_scheduler *s, psr_mode mode, uint64_t first_step)
{
    psr_view made;
    const psr_view *view = NULL;
    PSR_TRY(make_view(s, mode, first_step, &made));
    PSR_TRY(psr_view_keep(&made, &view));
    psr_err err = add_view(s, mode, view);
    if (err != PSR_OK) {
        psr_view_release(view);
        return err;
    }
    PSR_TRY(send_view(s, view));
    const psr_mode_change change = {mode, first_step, 0};
    return s->events.change_decided(s->events.context, &change, &s->config);
}

static bool all_stand_on(const psr_scheduler *s, uint32_t epoch)
{
    for (uint32_t i = 0; i < s->member_count; i++)
        if (s->members[i].bound < epoch)
            return false;
    return true;
}

/* Sends the view of the stretch after the last one that was sent, when all have begun that. Not
 * while workers are held: a view would let them go on. */
static psr_err issue_next(psr_scheduler *s)
{
    const uint64_t last = s->views[s->view_count - 1].view->first_step;
    const uint64_t next = psr_config_next_stretch(&s->config, last);
    const uint64_t total = psr_scheduler_worker(s, 0)->facts.total_steps;
    if (next == 0 || next >= total || s->stopping || s->holding ||
        !all_stand_on(s, s->view_count - 1))
        return PSR_OK;
    return issue(s, psr_config_mode_at(&s->config, next), next);
}

psr_err psr_scheduler_begin_views(psr_scheduler *s)
{
    s->started_ms = psr_coordinator_now_ms(s->coordinator);
    PSR_TRY(add_view(s, psr_config_mode_at(&s->config, s->first_step),
                     psr_coordinator_view(s->coordinator)));
    return issue_next(s);
}

/* ---- BOUND ---- */

/* All have begun the last view. */
static psr_err settle(psr_scheduler *s)
{
    const psr_issued_view *last = &s->views[s->view_count - 1];
    const psr_mode_change change = {last->mode, last->view->first_step,
                                    (double)last->pause_us * 1e-6};
    s->events.change_happened(s->events.context, &change);
    if (s->changing && s->changing_epoch == last->view->epoch) {
        char line[128];
        snprintf(line, sizeof line, "%s from step %" PRIu64 " on, after a pause of %.3f s",
                 psr_mode_name(last->mode), change.first_step + 1, change.pause_s);
        s->changing = false;
        s->changing_epoch = 0;
        s->events.change_answered(s->events.context, PSR_OK, line);
    }
    return issue_next(s);
}

/* No pause is longer than the run has been on by this process's own clock. A worker that tells a
 * longer one changes what people read of this change, and nothing else. */
static uint64_t pause_of(const psr_scheduler *s, const psr_msg_bound *says)
{
    const int64_t on_ms = psr_coordinator_now_ms(s->coordinator) - s->started_ms + 1;
    const uint64_t most_us = 1000 * (uint64_t)on_ms;
    return says->pause_us < most_us ? says->pause_us : most_us;
}

psr_err psr_scheduler_take_bound(psr_scheduler *s, psr_scheduler_member *member,
                                 const psr_message *message)
{
    psr_msg_bound says;
    const psr_msg_limits limits = psr_coordinator_limits(s->coordinator);
    PSR_TRY(psr_msg_bound_read(message, &limits, &says));
    if (says.epoch <= member->bound)
        return psr_violation(message, "it has said so for epoch %" PRIu32 " before", member->bound);
    member->bound = says.epoch;
    psr_issued_view *issued = &s->views[says.epoch];
    const uint64_t pause_us = pause_of(s, &says);
    issued->pause_us = pause_us > issued->pause_us ? pause_us : issued->pause_us;
    return says.epoch == s->view_count - 1 && all_stand_on(s, says.epoch) ? settle(s) : PSR_OK;
}

/* ---- by hand ---- */

static uint64_t completed(const psr_scheduler *s)
{
    uint64_t steps = UINT64_MAX;
    for (uint32_t r = 0; r < s->roster.ranks; r++)
        steps = s->metrics_told[r] < steps ? s->metrics_told[r] : steps;
    return steps;
}

/* The newest view that all members have begun. */
static const psr_issued_view *settled(const psr_scheduler *s)
{
    uint32_t epoch = s->view_count - 1;
    while (epoch > 0 && !all_stand_on(s, epoch))
        epoch--;
    return &s->views[epoch];
}

psr_mode_state psr_scheduler_mode(const psr_scheduler *s)
{
    const uint64_t total = psr_scheduler_worker(s, 0)->facts.total_steps, steps = completed(s);
    /* BOUND may arrive before the lines of metrics of the steps before it. */
    const uint64_t begun = settled(s)->view->first_step;
    const uint64_t at_least = steps > begun ? steps : begun;
    const uint64_t now = at_least < total || total == 0 ? at_least : total - 1;
    psr_mode_state state = {.mode = psr_config_mode_at(&s->config, now),
                            .first_step = s->first_step,
                            .steps = steps,
                            .total = total,
                            .next_step = psr_config_next_stretch(&s->config, now),
                            .changing = s->changing};
    const psr_issued_view *issued = issued_at(s, now);
    if (issued != NULL)
        state.first_step = issued->view->first_step;
    if (state.next_step >= total)
        state.next_step = 0;
    if (state.next_step > 0)
        state.next_mode = psr_config_mode_at(&s->config, state.next_step);
    return state;
}

void psr_scheduler_drop_change(psr_scheduler *s, psr_err status, const char *why)
{
    if (!s->changing)
        return;
    s->changing = false;
    s->changing_epoch = 0;
    s->events.change_answered(s->events.context, status, why);
}

psr_err psr_scheduler_change(psr_scheduler *s, psr_mode mode)
{
    if (!psr_coordinator_running(s->coordinator))
        return psr_fail(PSR_ERR_USAGE, "the run %s",
                        psr_coordinator_ended(s->coordinator) ? "has ended" : "has not begun yet");
    PSR_TRY(psr_config_may_change(&s->config, mode));
    if (s->stopping)
        return psr_fail(PSR_ERR_USAGE, "the run is being stopped");
    if (s->changing)
        return psr_fail(PSR_ERR_USAGE,
                        "a change to %s is under way; ask again when it has happened",
                        psr_mode_name(s->wanted));
    if (psr_scheduler_one_is_done(s))
        return psr_fail(PSR_ERR_USAGE, "the run takes no further step");
    const psr_mode_state now = psr_scheduler_mode(s);
    if (now.mode == mode)
        return psr_fail(PSR_ERR_USAGE, "the run is in mode %s already, from step %" PRIu64 " on",
                        psr_mode_name(mode), now.first_step + 1);
    /* An impossible plan would end the run later, so it is refused here. */
    psr_config would = s->config;
    psr_plan plan;
    PSR_TRY(psr_config_change_mode(&would, now.total, mode));
    PSR_TRY(s->events.plan(s->events.context, mode, &plan));
    psr_plan_done(&plan);
    s->changing = true;
    s->changing_epoch = 0;
    s->wanted = mode;
    char line[96];
    snprintf(line, sizeof line, "told to change to %s", psr_mode_name(mode));
    s->events.say(s->events.context, line);
    psr_scheduler_hold(s, true);
    return PSR_OK;
}

/* Nothing changes, and the workers go on up to the run's last step. */
static psr_err go_on(psr_scheduler *s, const char *why)
{
    const uint64_t total = psr_scheduler_worker(s, 0)->facts.total_steps;
    psr_scheduler_drop_change(s, PSR_ERR_USAGE, why);
    PSR_TRY(psr_coordinator_send_role(s->coordinator, PSR_ROLE_WORKER,
                                      psr_msg_stop_at_head(total - 1), (psr_bytes){NULL, 0}));
    return issue_next(s);
}

psr_err psr_scheduler_decide_change(psr_scheduler *s, uint64_t last)
{
    const uint64_t total = psr_scheduler_worker(s, 0)->facts.total_steps, first = last + 1;
    char line[96];
    if (first >= total)
        return go_on(s, "the run's last step has begun");
    if (psr_config_mode_at(&s->config, last) == s->wanted) {
        snprintf(line, sizeof line, "the run is in mode %s already", psr_mode_name(s->wanted));
        return go_on(s, line);
    }
    PSR_TRY(psr_config_change_mode(&s->config, first, s->wanted));
    s->changing_epoch = s->view_count;
    snprintf(line, sizeof line, "%s from step %" PRIu64 " on", psr_mode_name(s->wanted), first + 1);
    s->events.say(s->events.context, line);
    return issue(s, s->wanted, first);
}
