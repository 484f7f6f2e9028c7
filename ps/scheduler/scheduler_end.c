/* How training ends: all steps taken, or told to stop. */
#include "ps/scheduler/scheduler_private.h"

#include "base/text/printable.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>

static psr_err end_when_all_hold(psr_scheduler *scheduler);

/* ---- the last step ---- */

static bool one_has_left_out(const psr_scheduler *scheduler)
{
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        if (scheduler->members[i].left_out)
            return true;
    return false;
}

static void end_when_written(psr_scheduler *scheduler)
{
    uint64_t steps = psr_scheduler_worker(scheduler, 0)->steps;
    bool written = scheduler->last_checkpointed == steps || steps == scheduler->first_step;
    if (!scheduler->last_asked || !written)
        return;
    uint64_t total = psr_scheduler_worker(scheduler, 0)->facts.total_steps;
    char line[PSR_SCHEDULER_LINE_MAX];
    if (scheduler->target_met && steps < total) {
        snprintf(line, sizeof line,
                 "test accuracy %.4f after step %" PRIu64 " reaches the %g of --target-accuracy",
                 scheduler->accuracy, scheduler->accuracy_step, scheduler->config.target_accuracy);
        psr_coordinator_end(scheduler->coordinator, PSR_OK, line);
        return;
    }
    if (scheduler->time_is_up && steps < total) {
        snprintf(line, sizeof line, "%" PRIu64 " steps done in the %g s of --seconds", steps,
                 scheduler->config.seconds);
        psr_coordinator_end(scheduler->coordinator, PSR_OK, line);
        return;
    }
    if (scheduler->stopping && steps == total && one_has_left_out(scheduler)) {
        snprintf(line, sizeof line,
                 "stopped in the evaluation after the last step, as told; all %" PRIu64
                 " steps are in the checkpoint",
                 total);
        psr_coordinator_end(scheduler->coordinator, PSR_ERR_CANCELLED, line);
        return;
    }
    if (scheduler->stopping && steps < total) {
        snprintf(line, sizeof line,
                 "stopped after step %" PRIu64 " of %" PRIu64
                 ", as told; its checkpoint is written",
                 steps, total);
        psr_coordinator_end(scheduler->coordinator, PSR_ERR_CANCELLED, line);
        return;
    }
    snprintf(line, sizeof line, "%" PRIu64 " steps done", steps);
    psr_coordinator_end(scheduler->coordinator, PSR_OK, line);
}

/* All must have ended after the same step. */
static psr_err check_steps(const psr_scheduler *scheduler)
{
    uint64_t steps = psr_scheduler_worker(scheduler, 0)->steps;
    uint64_t total = psr_scheduler_worker(scheduler, 0)->facts.total_steps;
    for (uint32_t i = 0; i < scheduler->member_count; i++) {
        /* A shard that holds no bucket was done with all steps from the start, and is told of no
         * stop. */
        bool owns_nothing = i < scheduler->roster.shards && scheduler->members[i].steps == total;
        if (scheduler->members[i].steps != steps && !owns_nothing) {
            char name[PSR_MEMBER_NAME_MAX];
            psr_coordinator_name(scheduler->coordinator, scheduler->members[i].peer, name);
            return psr_fail(PSR_ERR_PROTOCOL,
                            "%s is done after %" PRIu64 " steps, worker 0 after %" PRIu64, name,
                            scheduler->members[i].steps, steps);
        }
    }
    return PSR_OK;
}

/* Takes a worker's figures, and the hash of its last weights. */
static psr_err take_outcome(psr_scheduler *scheduler, psr_peer worker, uint64_t steps,
                            const psr_message *message)
{
    const psr_scheduler_events *events = &scheduler->events;
    cJSON *outcome = cJSON_ParseWithLength(message->payload, message->payload_bytes);
    psr_err err =
        cJSON_IsObject(outcome) ? PSR_OK : psr_violation(message, "its payload is no JSON object");
    if (err == PSR_OK) {
        events->done(events->context, worker.rank, message->payload, message->payload_bytes);
        err = psr_scheduler_compare_hash(scheduler, worker, steps, outcome);
    }
    cJSON_Delete(outcome);
    return err;
}

/* What a shard carried. */
static psr_err take_traffic(const psr_scheduler *scheduler, psr_peer shard,
                            const psr_message *message)
{
    psr_traffic traffic;
    if (psr_traffic_from_json(psr_scheduler_payload_of(message), &traffic) != PSR_OK) {
        char detail[PSR_SCHEDULER_LINE_MAX];
        snprintf(detail, sizeof detail, "%s", psr_err_detail());
        return psr_violation(message, "%s", detail);
    }
    scheduler->events.carried(scheduler->events.context, shard.rank, &traffic);
    return PSR_OK;
}

static psr_err take_figures(psr_scheduler *scheduler, psr_peer from, uint64_t steps,
                            const psr_message *message)
{
    if (message->payload_bytes == 0)
        return PSR_OK;
    if (!psr_is_printable(message->payload, message->payload_bytes))
        return psr_violation(message, "its payload holds control characters");
    return from.role == PSR_ROLE_SHARD ? take_traffic(scheduler, from, message)
                                       : take_outcome(scheduler, from, steps, message);
}

static bool is_idle(const psr_plan *plan, uint32_t shard)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (psr_peer_equal(psr_plan_home(plan, b), (psr_peer){PSR_ROLE_SHARD, shard}))
            return false;
    return true;
}

/* All workers are done after the last step. A shard that had no part in it waits for another view,
 * and is told that there is none. */
static psr_err end_idle_shards(psr_scheduler *scheduler)
{
    const uint64_t total = psr_scheduler_worker(scheduler, 0)->facts.total_steps;
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++) {
        const psr_scheduler_member *worker = psr_scheduler_worker(scheduler, r);
        if (!psr_coordinator_is_done(scheduler->coordinator, worker->peer) ||
            worker->steps != total)
            return PSR_OK;
    }
    const psr_plan *plan = psr_scheduler_plan_at(scheduler, total > 0 ? total - 1 : 0);
    for (uint32_t s = 0; s < scheduler->roster.shards; s++)
        if (!psr_coordinator_is_done(scheduler->coordinator, scheduler->members[s].peer) &&
            is_idle(plan, s))
            return total > 0 ? psr_coordinator_send_role(scheduler->coordinator, PSR_ROLE_SHARD,
                                                         psr_msg_stop_at_head(total - 1),
                                                         (psr_bytes){NULL, 0})
                             : PSR_OK;
    return PSR_OK;
}

psr_err psr_scheduler_take_done(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message)
{
    psr_msg_done says;
    const psr_msg_limits limits = psr_coordinator_limits(scheduler->coordinator);
    PSR_TRY(psr_msg_done_read(message, &limits, &says));
    PSR_TRY(take_figures(scheduler, member->peer, says.steps, message));
    psr_coordinator_set_done(scheduler->coordinator, member->peer);
    member->left_out = says.left_out;
    member->steps = says.steps;
    if (scheduler->holding && member->peer.role == PSR_ROLE_WORKER) {
        /* HOLD and the worker's DONE have crossed. That worker has taken all steps, so the others
         * must take them too. */
        member->helds = scheduler->holds;
        member->last_step = member->steps > 0 ? member->steps - 1 : 0;
        PSR_TRY(end_when_all_hold(scheduler));
    }
    PSR_TRY(end_idle_shards(scheduler));
    if (!psr_coordinator_all_done(scheduler->coordinator))
        return PSR_OK;
    PSR_TRY(check_steps(scheduler));
    uint64_t steps = psr_scheduler_worker(scheduler, 0)->steps;
    scheduler->last_asked = true;
    /* otherwise it is the checkpoint from which the run was resumed */
    if (steps > scheduler->first_step)
        PSR_TRY(scheduler->events.last_checkpoint(scheduler->events.context, steps));
    end_when_written(scheduler);
    return PSR_OK;
}

/* false: a worker cannot be told, and so the run has ended. */
static bool tell_workers(psr_scheduler *scheduler, psr_head head)
{
    if (psr_coordinator_send_role(scheduler->coordinator, PSR_ROLE_WORKER, head,
                                  (psr_bytes){NULL, 0}) == PSR_OK)
        return true;
    psr_coordinator_end(scheduler->coordinator, PSR_ERR_PEER, NULL);
    return false;
}

void psr_scheduler_checkpointed(psr_scheduler *scheduler, uint64_t step)
{
    if (psr_coordinator_ended(scheduler->coordinator))
        return;
    scheduler->last_checkpointed = step;
    if (tell_workers(scheduler, psr_msg_saved_head(step)))
        end_when_written(scheduler);
}

/* ---- told to stop ---- */

/* The worker is ending already, so the others take the same steps. */
bool psr_scheduler_one_is_done(const psr_scheduler *scheduler)
{
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++)
        if (psr_coordinator_is_done(scheduler->coordinator,
                                    psr_scheduler_worker(scheduler, r)->peer))
            return true;
    return false;
}

void psr_scheduler_stop(psr_scheduler *scheduler)
{
    psr_coordinator *coordinator = scheduler->coordinator;
    if (psr_coordinator_ended(coordinator) || scheduler->stopping)
        return;
    if (!psr_coordinator_running(coordinator)) {
        psr_coordinator_end(coordinator, PSR_ERR_CANCELLED,
                            "stopped before the first step, as told; nothing to resume");
        return;
    }
    scheduler->stopping = true;
    if (!scheduler->changing_epoch)
        psr_scheduler_drop_change(scheduler, PSR_ERR_CANCELLED, "the run is being stopped");
    if (!psr_scheduler_one_is_done(scheduler))
        psr_scheduler_hold(scheduler, false);
}

void psr_scheduler_hold(psr_scheduler *scheduler, bool change)
{
    scheduler->holding = true;
    scheduler->holds++;
    (void)tell_workers(scheduler, psr_msg_hold_head(change));
}

/* All workers take the last step that any of them has begun. So all have the same number of steps,
 * and nobody waits for a push that never comes. */
static psr_err stop_all(psr_scheduler *scheduler, uint64_t last)
{
    const psr_issued_view *newest = &scheduler->views[scheduler->view_count - 1];
    if (newest->view->first_step > last)
        psr_scheduler_drop_change(scheduler, PSR_ERR_CANCELLED, "the run is being stopped");
    scheduler->stop_step = last;
    scheduler->stop_told = true;
    char line[64];
    snprintf(line, sizeof line, "stopping after step %" PRIu64, last + 1);
    scheduler->events.say(scheduler->events.context, line);
    return psr_coordinator_send_all(scheduler->coordinator, psr_msg_stop_at_head(last),
                                    (psr_bytes){NULL, 0});
}

static psr_err end_when_all_hold(psr_scheduler *scheduler)
{
    uint64_t last = 0;
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++) {
        const psr_scheduler_member *worker = psr_scheduler_worker(scheduler, r);
        if (worker->helds < scheduler->holds)
            return PSR_OK;
        last = worker->last_step > last ? worker->last_step : last;
    }
    scheduler->holding = false;
    return scheduler->stopping ? stop_all(scheduler, last)
                               : psr_scheduler_decide_change(scheduler, last);
}

psr_err psr_scheduler_take_held(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message)
{
    if (!scheduler->holding || member->peer.role != PSR_ROLE_WORKER ||
        member->helds == scheduler->holds)
        return psr_violation(message, "it was not told to hold");
    uint64_t last_step;
    const psr_msg_limits limits = psr_coordinator_limits(scheduler->coordinator);
    PSR_TRY(psr_msg_held_read(message, &limits, &last_step));
    member->helds++;
    member->last_step = last_step;
    return end_when_all_hold(scheduler);
}
