/* How a run ends: all steps taken, told to stop, a member lost or failed. */
#include "ps/scheduler/scheduler_private.h"

#include "base/printable.h"
#include "comm/comm.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the end itself ---- */

static void end_run(psr_scheduler *scheduler, psr_err status, const char *line)
{
    if (scheduler->state == PSR_SCHEDULER_ENDED)
        return;
    bool in_order = status == PSR_OK || (status == PSR_ERR_CANCELLED && scheduler->last_asked);
    scheduler->state = PSR_SCHEDULER_ENDED;
    /* The run is over either way: a member that cannot be told is one that is gone. */
    psr_head last_word = {.type = in_order ? PSR_MSG_BYE : PSR_MSG_ABORT};
    psr_err told = psr_scheduler_send_all(scheduler, last_word, line);
    (void)told;
    scheduler->events.ended(scheduler->events.context, status, line);
}

void psr_scheduler_fail(psr_scheduler *scheduler, psr_err status, const char *line)
{
    end_run(scheduler, status, line);
}

void psr_scheduler_fail_detail(psr_scheduler *scheduler, psr_err status)
{
    char line[PSR_SCHEDULER_LINE_MAX];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    end_run(scheduler, status, line);
}

static psr_err stop_all(psr_scheduler *scheduler);

/* ---- the last step ---- */

static bool is_done(const psr_scheduler_member *member)
{
    return member->done;
}

static bool has_left_nothing_out(const psr_scheduler_member *member)
{
    return !member->left_out;
}

static void end_when_written(psr_scheduler *scheduler)
{
    uint64_t steps = scheduler->members[scheduler->roster.shards].steps;
    bool written = scheduler->last_checkpointed == steps || steps == scheduler->first_step;
    if (!scheduler->last_asked || !written)
        return;
    uint64_t total = scheduler->members[scheduler->roster.shards].facts.total_steps;
    char line[PSR_SCHEDULER_LINE_MAX];
    if (scheduler->stopping && steps == total && !psr_scheduler_all(scheduler, has_left_nothing_out)) {
        snprintf(line, sizeof line,
                 "stopped in the evaluation after the last step, as told; all %" PRIu64
                 " steps are in the checkpoint",
                 total);
        end_run(scheduler, PSR_ERR_CANCELLED, line);
        return;
    }
    if (scheduler->stopping && steps < total) {
        snprintf(line, sizeof line,
                 "stopped after step %" PRIu64 " of %" PRIu64 ", as told; its checkpoint is written", steps,
                 total);
        end_run(scheduler, PSR_ERR_CANCELLED, line);
        return;
    }
    snprintf(line, sizeof line, "%" PRIu64 " steps done", steps);
    end_run(scheduler, PSR_OK, line);
}

/* All must have ended after the same step. */
static psr_err check_steps(const psr_scheduler *scheduler)
{
    uint64_t steps = scheduler->members[scheduler->roster.shards].steps;
    uint64_t total = scheduler->members[scheduler->roster.shards].facts.total_steps;
    for (uint32_t i = 0; i < scheduler->member_count; i++) {
        /* A shard that owns no bucket was done with all steps from the start, and knows of no stop. */
        bool owns_nothing = i < scheduler->roster.shards && scheduler->members[i].steps == total;
        if (scheduler->members[i].steps != steps && !owns_nothing) {
            char name[PSR_HOST_MAX + 32];
            psr_scheduler_name(&scheduler->members[i], name, sizeof name);
            return psr_fail(PSR_ERR_PROTOCOL, "%s is done after %" PRIu64 " steps, worker 0 after %" PRIu64,
                            name, scheduler->members[i].steps, steps);
        }
    }
    return PSR_OK;
}

/* A worker's figures, or what a shard carried. */
static psr_err take_figures(const psr_scheduler *scheduler, psr_peer from, const psr_message *message)
{
    const psr_scheduler_events *events = &scheduler->events;
    psr_traffic traffic;
    if (message->payload_bytes == 0)
        return PSR_OK;
    if (from.role == PSR_ROLE_SHARD &&
        psr_traffic_from_json(psr_scheduler_payload_of(message), &traffic) != PSR_OK) {
        char detail[PSR_SCHEDULER_LINE_MAX];
        snprintf(detail, sizeof detail, "%s", psr_err_detail());
        return psr_violation(message, "%s", detail);
    }
    if (!psr_is_printable(message->payload, message->payload_bytes))
        return psr_violation(message, "its payload holds control characters");
    if (from.role == PSR_ROLE_SHARD)
        events->carried(events->context, from.rank, &traffic);
    else
        events->done(events->context, from.rank, message->payload, message->payload_bytes);
    return PSR_OK;
}

psr_err psr_scheduler_take_done(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message)
{
    psr_msg_done says;
    PSR_TRY(psr_msg_done_read(message, &says));
    if (says.steps > scheduler->members[scheduler->roster.shards].facts.total_steps)
        return psr_violation(message, "the run has %" PRIu64 " steps",
                             scheduler->members[scheduler->roster.shards].facts.total_steps);
    PSR_TRY(take_figures(scheduler, member->entry.peer, message));
    member->done = true;
    member->left_out = says.left_out;
    member->steps = says.steps;
    psr_liveness_done(scheduler->liveness, member->entry.peer);
    if (scheduler->state == PSR_SCHEDULER_HOLDING && member->entry.peer.role == PSR_ROLE_WORKER) {
        /* HOLD has crossed its DONE: it has taken all steps, so all others shall. */
        member->held = true;
        member->last_step = member->steps > 0 ? member->steps - 1 : 0;
        PSR_TRY(stop_all(scheduler));
    }
    if (!psr_scheduler_all(scheduler, is_done))
        return PSR_OK;
    PSR_TRY(check_steps(scheduler));
    uint64_t steps = scheduler->members[scheduler->roster.shards].steps;
    scheduler->last_asked = true;
    if (steps > scheduler->first_step) /* else it is the one that the run was resumed from */
        PSR_TRY(scheduler->events.last_checkpoint(scheduler->events.context, steps));
    end_when_written(scheduler);
    return PSR_OK;
}

/* false: one cannot be told, and the run has ended with that. */
static bool tell_workers(psr_scheduler *scheduler, psr_head head)
{
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++) {
        psr_peer worker = scheduler->members[scheduler->roster.shards + r].entry.peer;
        if (psr_scheduler_send(scheduler, worker, head, NULL) != PSR_OK) {
            psr_scheduler_fail_detail(scheduler, PSR_ERR_PEER);
            return false;
        }
    }
    return true;
}

void psr_scheduler_checkpointed(psr_scheduler *scheduler, uint64_t step, int64_t now_ms)
{
    (void)now_ms;
    if (scheduler->state == PSR_SCHEDULER_ENDED)
        return;
    scheduler->last_checkpointed = step;
    if (tell_workers(scheduler, psr_msg_saved_head(step)))
        end_when_written(scheduler);
}

/* ---- told to stop ---- */

void psr_scheduler_stop(psr_scheduler *scheduler, int64_t now_ms)
{
    (void)now_ms;
    if (scheduler->state == PSR_SCHEDULER_JOINING || scheduler->state == PSR_SCHEDULER_WELCOMED) {
        end_run(scheduler, PSR_ERR_CANCELLED, "stopped before the first step, as told; nothing to resume");
        return;
    }
    if (scheduler->state != PSR_SCHEDULER_RUNNING || scheduler->stopping)
        return;
    scheduler->stopping = true;
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++)
        if (scheduler->members[scheduler->roster.shards + r].done)
            return; /* it is ending already: the others have the same steps to take */
    scheduler->state = PSR_SCHEDULER_HOLDING;
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++)
        scheduler->members[scheduler->roster.shards + r].held = false;
    (void)tell_workers(scheduler, (psr_head){.type = PSR_MSG_HOLD});
}

/* All workers take the last step that any of them has begun: then all have the same number, and nobody waits
 * for a push that never comes. */
static psr_err stop_all(psr_scheduler *scheduler)
{
    uint64_t last = 0;
    for (uint32_t r = 0; r < scheduler->roster.worker_processes; r++) {
        const psr_scheduler_member *worker = &scheduler->members[scheduler->roster.shards + r];
        if (!worker->held)
            return PSR_OK;
        last = worker->last_step > last ? worker->last_step : last;
    }
    scheduler->stop_step = last;
    scheduler->stop_told = true;
    scheduler->state = PSR_SCHEDULER_RUNNING;
    psr_scheduler_say(scheduler, "stopping after step %" PRIu64, last + 1);
    return psr_scheduler_send_all(scheduler, psr_msg_stop_at_head(last), NULL);
}

psr_err psr_scheduler_take_held(psr_scheduler *scheduler, psr_scheduler_member *member,
                                const psr_message *message)
{
    if (scheduler->state != PSR_SCHEDULER_HOLDING || member->entry.peer.role != PSR_ROLE_WORKER ||
        member->held)
        return psr_violation(message, "nobody told it to hold");
    uint64_t last_step;
    PSR_TRY(psr_msg_held_read(message, &last_step));
    if (last_step >= member->facts.total_steps)
        return psr_violation(message, "the run has %" PRIu64 " steps", member->facts.total_steps);
    member->held = true;
    member->last_step = last_step;
    return stop_all(scheduler);
}

/* ---- members that fail or vanish ---- */

psr_err psr_scheduler_take_failed(const psr_scheduler_member *member, const psr_message *message)
{
    char name[PSR_HOST_MAX + 32];
    psr_scheduler_name(member, name, sizeof name);
    return psr_fail(psr_msg_failed_status(message), "%s: %.*s", name,
                    (int)(message->payload_bytes < 700 ? message->payload_bytes : 700),
                    message->payload_bytes ? (const char *)message->payload : "");
}

/* Whether lost names this member; NULL: the launcher or an agent was lost. */
static bool is_lost(const psr_scheduler_member *member, const psr_peer *lost)
{
    return lost && psr_peer_equal(member->entry.peer, *lost);
}

/* ALIVE with a flag asks for PROGRESS at once: what a line says of the others should not be as old as their
 * last report. */
static void ask_others(psr_scheduler *scheduler)
{
    for (uint32_t i = 0; i < scheduler->member_count; i++) {
        psr_scheduler_member *member = &scheduler->members[i];
        psr_head head = psr_msg_alive_head(true);
        bool can_answer = member->joined && !member->done && !is_lost(member, scheduler->lost);
        member->asked = can_answer && scheduler->events.send(scheduler->events.context, member->entry.peer,
                                                             &head, NULL) == PSR_OK;
    }
}

static bool has_answered(const psr_scheduler_member *member)
{
    return !member->asked;
}

/* The run ends with lost_line and what the others are doing, which they have wait_ms to say. */
static void begin_losing(psr_scheduler *scheduler, psr_err status, int64_t now_ms, int64_t wait_ms)
{
    scheduler->losing = true;
    scheduler->lost_status = status;
    scheduler->lose_at_ms = now_ms + wait_ms;
    ask_others(scheduler);
    psr_scheduler_check_losing(scheduler, now_ms);
}

void psr_scheduler_lost(psr_scheduler *scheduler, psr_peer peer, const char *host, bool by_itself,
                        const char *how, int64_t now_ms)
{
    psr_scheduler_member *member = psr_scheduler_find(scheduler, peer);
    if (!member || scheduler->state == PSR_SCHEDULER_ENDED || scheduler->losing)
        return;
    psr_scheduler_member named = *member;
    if (!member->joined && host)
        snprintf(named.entry.host, sizeof named.entry.host, "%s", host);
    char name[PSR_HOST_MAX + 32];
    psr_scheduler_name(&named, name, sizeof name);
    snprintf(scheduler->lost_line, sizeof scheduler->lost_line, "%s was lost: %.200s", name, how);
    scheduler->lost = &member->entry.peer;
    /* Who exits by itself has told why, unless it could not join. */
    scheduler->awaits_words = member->joined && by_itself;
    begin_losing(scheduler, PSR_ERR_PEER, now_ms,
                 scheduler->awaits_words ? PSR_LAST_WORDS_MS : PSR_ANSWER_MS);
}

/* Launcher or agent: no member, but the run is not to go on without. */
static void lose_outsider(psr_scheduler *scheduler, const char *who, const char *host, psr_err status,
                          const char *how, int64_t now_ms)
{
    if (scheduler->state == PSR_SCHEDULER_ENDED || scheduler->losing)
        return;
    snprintf(scheduler->lost_line, sizeof scheduler->lost_line, "%s on %s: %.200s", who, host, how);
    scheduler->lost = NULL;
    scheduler->awaits_words = false;
    begin_losing(scheduler, status, now_ms, PSR_ANSWER_MS);
}

void psr_scheduler_launcher_lost(psr_scheduler *scheduler, psr_err status, const char *how, int64_t now_ms)
{
    lose_outsider(scheduler, "launcher", scheduler->host, status, how, now_ms);
}

void psr_scheduler_agent_lost(psr_scheduler *scheduler, const char *host, const char *how, int64_t now_ms)
{
    lose_outsider(scheduler, "agent", host, PSR_ERR_TIMEOUT, how, now_ms);
}

void psr_scheduler_check_losing(psr_scheduler *scheduler, int64_t now_ms)
{
    if (!scheduler->losing)
        return;
    if (now_ms < scheduler->lose_at_ms &&
        (scheduler->awaits_words || !psr_scheduler_all(scheduler, has_answered)))
        return;
    char others[512], line[PSR_SCHEDULER_LINE_MAX];
    psr_liveness_describe(scheduler->liveness, scheduler->lost, others, sizeof others);
    if (!others[0] && !scheduler->lost)
        snprintf(others, sizeof others, "the run was at its start");
    snprintf(line, sizeof line, "%s%s%s", scheduler->lost_line, others[0] ? "; " : "", others);
    end_run(scheduler, scheduler->lost_status, line);
}
