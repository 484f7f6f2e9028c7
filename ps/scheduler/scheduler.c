#include "ps/scheduler/scheduler_private.h"

#include "comm/comm.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

psr_err psr_scheduler_new(const psr_config *config, const psr_scheduler_events *events, const char *host,
                          int64_t now_ms, psr_scheduler **ret_scheduler)
{
    psr_scheduler *scheduler = calloc(1, sizeof *scheduler);
    if (!scheduler)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a scheduler");
    scheduler->config = *config;
    scheduler->events = *events;
    snprintf(scheduler->host, sizeof scheduler->host, "%s", host);
    scheduler->roster = psr_roster_of(config);
    scheduler->member_count = scheduler->roster.shards + scheduler->roster.worker_processes;
    scheduler->deadline_ms = (int64_t)(config->deadline_s * 1000);
    scheduler->come_up_by_ms =
        now_ms + (scheduler->deadline_ms > PSR_COME_UP_MS ? scheduler->deadline_ms : PSR_COME_UP_MS);
    scheduler->slow_check_ms = now_ms + scheduler->deadline_ms / 4;
    scheduler->members = calloc(scheduler->member_count, sizeof *scheduler->members);
    psr_err err = scheduler->members
                      ? psr_liveness_new(scheduler->deadline_ms, now_ms, &scheduler->liveness)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", scheduler->member_count);
    if (err != PSR_OK) {
        psr_scheduler_free(scheduler);
        return err;
    }
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        scheduler->members[i].entry.peer = i < scheduler->roster.shards
                                               ? (psr_peer){PSR_ROLE_SHARD, i}
                                               : (psr_peer){PSR_ROLE_WORKER, i - scheduler->roster.shards};
    *ret_scheduler = scheduler;
    return PSR_OK;
}

void psr_scheduler_free(psr_scheduler *scheduler)
{
    if (!scheduler)
        return;
    psr_liveness_free(scheduler->liveness);
    free(scheduler->members);
    psr_view_done(&scheduler->view);
    free(scheduler->metrics_told);
    free(scheduler);
}

bool psr_scheduler_ended(const psr_scheduler *scheduler)
{
    return scheduler->state == PSR_SCHEDULER_ENDED;
}

/* ---- what all parts use ---- */

psr_scheduler_member *psr_scheduler_find(psr_scheduler *scheduler, psr_peer peer)
{
    if (peer.role == PSR_ROLE_SHARD && peer.rank < scheduler->roster.shards)
        return &scheduler->members[peer.rank];
    if (peer.role == PSR_ROLE_WORKER && peer.rank < scheduler->roster.worker_processes)
        return &scheduler->members[scheduler->roster.shards + peer.rank];
    return NULL;
}

bool psr_scheduler_has(psr_scheduler *scheduler, psr_peer peer)
{
    return psr_scheduler_find(scheduler, peer) != NULL;
}

bool psr_scheduler_all(const psr_scheduler *scheduler, bool (*is)(const psr_scheduler_member *))
{
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        if (!is(&scheduler->members[i]))
            return false;
    return true;
}

void psr_scheduler_name(const psr_scheduler_member *member, char *text, size_t size)
{
    snprintf(text, size, "%s %" PRIu32 "%s%s", psr_role_name(member->entry.peer.role),
             member->entry.peer.rank, member->entry.host[0] ? " on " : "", member->entry.host);
}

void psr_scheduler_say(psr_scheduler *scheduler, const char *format, ...)
{
    char line[PSR_SCHEDULER_LINE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    scheduler->events.say(scheduler->events.context, line);
}

psr_bytes psr_scheduler_payload_of(const psr_message *message)
{
    return (psr_bytes){message->payload, message->payload_bytes};
}

psr_err psr_scheduler_send_bytes(psr_scheduler *scheduler, psr_peer to, psr_head head, psr_bytes bytes)
{
    psr_payload payload = {.data = bytes.data, .bytes = bytes.size};
    return scheduler->events.send(scheduler->events.context, to, &head, payload.bytes ? &payload : NULL);
}

psr_err psr_scheduler_send(psr_scheduler *scheduler, psr_peer to, psr_head head, const char *text)
{
    return psr_scheduler_send_bytes(scheduler, to, head, (psr_bytes){text, text ? strlen(text) : 0});
}

psr_err psr_scheduler_send_all(psr_scheduler *scheduler, psr_head head, const char *text)
{
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        if (scheduler->members[i].joined)
            PSR_TRY(psr_scheduler_send(scheduler, scheduler->members[i].entry.peer, head, text));
    return PSR_OK;
}

/* ---- messages while the run is on ---- */

static bool is_running(const psr_scheduler *scheduler)
{
    return scheduler->state == PSR_SCHEDULER_RUNNING || scheduler->state == PSR_SCHEDULER_HOLDING;
}

static psr_err take_progress(psr_scheduler *scheduler, psr_scheduler_member *member,
                             const psr_message *message, int64_t now_ms)
{
    psr_msg_progress says;
    PSR_TRY(psr_msg_progress_read(message, &says));
    if (says.counted > member->facts.test_count)
        return psr_violation(message, "it has counted %" PRIu64 " samples of %" PRIu32, says.counted,
                             member->facts.test_count);
    if (!member->done)
        psr_liveness_progress(scheduler->liveness, member->entry.peer, &says, now_ms);
    if (says.evaluates && member->entry.peer.role == PSR_ROLE_WORKER && is_running(scheduler))
        scheduler->events.evaluating(scheduler->events.context, member->entry.peer.rank, says.step + 1,
                                     says.counted);
    member->asked = false;
    psr_scheduler_check_losing(scheduler, now_ms);
    return psr_scheduler_send(scheduler, member->entry.peer, psr_msg_alive_head(false), NULL);
}

static psr_err take_running(psr_scheduler *scheduler, psr_scheduler_member *member,
                            const psr_message *message)
{
    switch (message->head.type) {
    case PSR_MSG_METRICS:
        return psr_scheduler_take_metrics(scheduler, message);
    case PSR_MSG_CHECKPOINT:
        return psr_scheduler_take_checkpoint(scheduler, member, message);
    case PSR_MSG_HELD:
        return psr_scheduler_take_held(scheduler, member, message);
    case PSR_MSG_DONE:
        return psr_scheduler_take_done(scheduler, member, message);
    default:
        return psr_violation(message, "that is not due while the run is on");
    }
}

static psr_err take(psr_scheduler *scheduler, psr_scheduler_member *member, const psr_message *message,
                    int64_t now_ms)
{
    psr_liveness_heard(scheduler->liveness, member->entry.peer, now_ms);
    if (message->head.type == PSR_MSG_PROGRESS)
        return take_progress(scheduler, member, message, now_ms);
    if (member->done)
        return psr_violation(message, "it has said DONE before");
    if (message->head.type == PSR_MSG_FACTS)
        return psr_scheduler_take_facts(scheduler, member, message);
    if (message->head.type == PSR_MSG_READY)
        return psr_scheduler_take_ready(scheduler, member, message);
    if (!is_running(scheduler))
        return psr_violation(message, "that is not due before START");
    return take_running(scheduler, member, message);
}

/* Texts are parsed into objects many times their size. */
static psr_err check_size(const psr_message *message)
{
    bool floats = message->head.type == PSR_MSG_CHECKPOINT;
    if (!floats && message->payload_bytes > PSR_SCHEDULER_TEXT_MAX)
        return psr_violation(message, "its payload has %zu bytes, more than %u", message->payload_bytes,
                             PSR_SCHEDULER_TEXT_MAX);
    return PSR_OK;
}

/* A violation's line names the host of who has joined. */
static psr_err on_its_host(const psr_scheduler_member *member, psr_err err)
{
    if (err == PSR_ERR_PROTOCOL && member && member->entry.host[0])
        return psr_fail_context(err, "on %s", member->entry.host);
    return err;
}

void psr_scheduler_message(psr_scheduler *scheduler, const psr_message *message, int64_t now_ms)
{
    if (scheduler->state == PSR_SCHEDULER_ENDED)
        return;
    psr_scheduler_member *member = psr_scheduler_find(scheduler, message->from);
    psr_err err = check_size(message);
    if (err != PSR_OK) {
        err = on_its_host(member, err);
    } else if (message->head.type == PSR_MSG_JOIN) {
        err = psr_scheduler_take_join(scheduler, message, now_ms);
    } else if (!member || !member->joined) {
        psr_scheduler_say(scheduler, "%s %" PRIu32 " sent %s and has not joined: dropped",
                          psr_role_name(message->from.role), message->from.rank,
                          psr_message_name(message->head.type));
        return;
    } else if (message->head.type == PSR_MSG_FAILED) {
        err = psr_scheduler_take_failed(member, message);
    } else {
        err = take(scheduler, member, message, now_ms);
        err = on_its_host(member, err);
    }
    if (err != PSR_OK)
        psr_scheduler_fail_detail(scheduler, err);
}

/* ---- time ---- */

static void check_liveness(psr_scheduler *scheduler, int64_t now_ms)
{
    psr_peer peer;
    char line[PSR_SCHEDULER_LINE_MAX];
    if (psr_liveness_check(scheduler->liveness, now_ms, &peer, line, sizeof line))
        psr_scheduler_fail(scheduler, PSR_ERR_TIMEOUT, line);
}

static void check_slow(psr_scheduler *scheduler, int64_t now_ms)
{
    if (now_ms < scheduler->slow_check_ms)
        return;
    psr_peer peer;
    int64_t waited_ms;
    scheduler->slow_check_ms = now_ms + scheduler->deadline_ms / 4;
    if (!psr_liveness_slowest(scheduler->liveness, now_ms, scheduler->deadline_ms / 4, &peer, &waited_ms))
        return;
    const psr_scheduler_member *member = psr_scheduler_find(scheduler, peer);
    if (!member)
        return;
    char name[PSR_HOST_MAX + 32];
    psr_scheduler_name(member, name, sizeof name);
    psr_scheduler_say(scheduler, "%s is slow: others have waited %.1f s for it", name,
                      (double)waited_ms / 1000);
    scheduler->slow_check_ms = now_ms + scheduler->deadline_ms; /* say so once a while */
}

void psr_scheduler_writing(psr_scheduler *scheduler, int64_t now_ms)
{
    psr_liveness_scheduler_works(scheduler->liveness, now_ms);
}

void psr_scheduler_tick(psr_scheduler *scheduler, int64_t now_ms)
{
    if (scheduler->state == PSR_SCHEDULER_JOINING || scheduler->state == PSR_SCHEDULER_WELCOMED)
        psr_liveness_scheduler_works(scheduler->liveness, now_ms);
    if (scheduler->state != PSR_SCHEDULER_ENDED)
        psr_scheduler_check_losing(scheduler, now_ms);
    if (scheduler->state == PSR_SCHEDULER_JOINING)
        psr_scheduler_check_joining(scheduler, now_ms);
    if (scheduler->state != PSR_SCHEDULER_ENDED)
        check_liveness(scheduler, now_ms);
    if (scheduler->state != PSR_SCHEDULER_ENDED)
        check_slow(scheduler, now_ms);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t psr_scheduler_next_tick(const psr_scheduler *scheduler)
{
    if (scheduler->state == PSR_SCHEDULER_ENDED)
        return INT64_MAX;
    int64_t next = earlier(psr_liveness_next(scheduler->liveness), scheduler->slow_check_ms);
    if (scheduler->losing)
        next = earlier(next, scheduler->lose_at_ms);
    if (scheduler->state == PSR_SCHEDULER_JOINING)
        next = earlier(next, scheduler->come_up_by_ms);
    return next;
}
