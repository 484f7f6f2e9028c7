#include "ps/scheduler/scheduler_private.h"

#include "comm/wire/messages.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- what all parts use ---- */

psr_scheduler_member *psr_scheduler_find(const psr_scheduler *scheduler, psr_peer member)
{
    return &scheduler
                ->members[member.role == PSR_ROLE_SHARD ? member.rank
                                                        : scheduler->roster.shards + member.rank];
}

psr_scheduler_member *psr_scheduler_worker(const psr_scheduler *scheduler, uint32_t rank)
{
    return &scheduler->members[scheduler->roster.shards + rank];
}

psr_bytes psr_scheduler_payload_of(const psr_message *message)
{
    return (psr_bytes){message->payload, message->payload_bytes};
}

/* ---- messages while the run is on ---- */

/* The limit on steps comes from worker 0's facts, which are those of all workers. No step begins
 * before worker 0 has sent them. Until a worker has checked it, a checkpoint may be of a later step
 * than the run's last one. */
static void limit_steps(void *context, psr_msg_limits *limits)
{
    const psr_scheduler *scheduler = context;
    const psr_facts *facts = &psr_scheduler_worker(context, 0)->facts;
    limits->steps =
        facts->total_steps > scheduler->first_step ? facts->total_steps : scheduler->first_step;
    limits->samples = facts->test_count;
    limits->epoch = scheduler->view_count > 0 ? scheduler->view_count - 1 : 0;
}

static void take_progress(void *context, psr_peer from, const psr_msg_progress *says)
{
    const psr_scheduler *scheduler = context;
    if (says->evaluates && from.role == PSR_ROLE_WORKER &&
        psr_coordinator_running(scheduler->coordinator))
        scheduler->events.evaluating(scheduler->events.context, from.rank, says->step + 1,
                                     says->counted);
}

static psr_err take_message(void *context, const psr_message *message)
{
    psr_scheduler *scheduler = context;
    psr_scheduler_member *member = psr_scheduler_find(scheduler, message->from);
    if (message->head.type == PSR_MSG_CHECKPOINT)
        return psr_scheduler_take_checkpoint(scheduler, member, message);
    PSR_TRY(psr_coordinator_check_text(scheduler->coordinator, message));
    switch (message->head.type) {
    case PSR_MSG_METRICS:
        return psr_scheduler_take_metrics(scheduler, message);
    case PSR_MSG_CLOCK:
        return psr_scheduler_take_clock(scheduler, member, message);
    case PSR_MSG_TRACE:
        return psr_scheduler_take_trace(scheduler, member, message);
    case PSR_MSG_HELD:
        return psr_scheduler_take_held(scheduler, member, message);
    case PSR_MSG_BOUND:
        return psr_scheduler_take_bound(scheduler, member, message);
    case PSR_MSG_DONE:
        return psr_scheduler_take_done(scheduler, member, message);
    default:
        return psr_violation(message, "that is not due while the run is on");
    }
}

/* ---- life ---- */

static psr_err open_coordinator(psr_scheduler *scheduler, const char *host, int64_t now_ms)
{
    const psr_scheduler_events *events = &scheduler->events;
    const psr_coordinator_options options = {
        .ways = events->ways,
        .events = {.context = events->context,
                   .joined = events->joined,
                   .say = events->say,
                   .ended = events->ended},
        .user = {.context = scheduler,
                 .given = psr_scheduler_given,
                 .facts = psr_scheduler_take_facts,
                 .agree = psr_scheduler_agree,
                 .begin = psr_scheduler_begin,
                 .agreed = psr_scheduler_agreed,
                 .welcomed = psr_scheduler_welcomed,
                 .ready = psr_scheduler_take_ready,
                 .started = psr_scheduler_started,
                 .limit = limit_steps,
                 .progress = take_progress,
                 .message = take_message},
        .host = host,
        .workers = scheduler->roster.worker_processes,
        .shards = scheduler->roster.shards,
        .ranks = scheduler->roster.ranks,
        .deadline_ms = (int64_t)(scheduler->config.deadline_s * 1000),
    };
    return psr_coordinator_new(&options, now_ms, &scheduler->coordinator);
}

static psr_err make_members(psr_scheduler *scheduler)
{
    const psr_roster *roster = &scheduler->roster;
    scheduler->member_count = roster->shards + roster->worker_processes;
    scheduler->members = calloc(scheduler->member_count, sizeof *scheduler->members);
    scheduler->metrics_told = calloc(roster->ranks, sizeof *scheduler->metrics_told);
    if (scheduler->members == NULL || scheduler->metrics_told == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members",
                        scheduler->member_count);
    for (uint32_t s = 0; s < roster->shards; s++)
        scheduler->members[s].peer = (psr_peer){PSR_ROLE_SHARD, s};
    for (uint32_t r = 0; r < roster->worker_processes; r++)
        psr_scheduler_worker(scheduler, r)->peer = (psr_peer){PSR_ROLE_WORKER, r};
    return PSR_OK;
}

psr_err psr_scheduler_new(const psr_config *config, const psr_scheduler_events *events,
                          const char *host, int64_t now_ms, psr_scheduler **ret_scheduler)
{
    psr_scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (scheduler == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a scheduler");
    scheduler->config = *config;
    scheduler->roster = psr_roster_of(config);
    scheduler->events = *events;
    psr_err err = make_members(scheduler);
    if (err == PSR_OK)
        err = open_coordinator(scheduler, host, now_ms);
    if (err != PSR_OK) {
        psr_scheduler_free(scheduler);
        return err;
    }
    *ret_scheduler = scheduler;
    return PSR_OK;
}

void psr_scheduler_free(psr_scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    psr_scheduler_free_views(scheduler);
    psr_coordinator_free(scheduler->coordinator);
    free(scheduler->members);
    free(scheduler->metrics_told);
    free(scheduler);
}

psr_coordinator *psr_scheduler_coordinator(psr_scheduler *scheduler)
{
    return scheduler->coordinator;
}
