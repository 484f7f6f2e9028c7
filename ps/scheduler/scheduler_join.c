/* The scheduler until START: ranks, facts that must agree, the roster, and who never came. */
#include "ps/scheduler/scheduler_private.h"

#include "base/printable.h"
#include "net/violation.h"
#include "ps/shard_start.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JOIN ---- */

/* The rank that the joiner asks for, or the lowest free one of its role. NULL: there is none. */
static psr_scheduler_member *seat_for(psr_scheduler *scheduler, psr_peer wanted)
{
    if (wanted.rank != PSR_RANK_ANY)
        return psr_scheduler_find(scheduler, wanted);
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        if (scheduler->members[i].entry.peer.role == wanted.role && !scheduler->members[i].joined)
            return &scheduler->members[i];
    return NULL;
}

static psr_err check_version(const psr_scheduler *scheduler, const psr_peer peer, const psr_join *join)
{
    if (strcmp(join->version, PSR_VERSION) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_VERSION,
                    "%s %" PRIu32
                    " on %s is psring %s, the scheduler on %s is psring %s: install one version on all hosts",
                    psr_role_name(peer.role), peer.rank, join->host, join->version, scheduler->host,
                    PSR_VERSION);
}

static psr_err send_config(psr_scheduler *scheduler, const psr_scheduler_member *member)
{
    const psr_place place = {.rank = member->entry.peer.rank,
                             .ranks = scheduler->roster.ranks,
                             .deadline_ms = scheduler->deadline_ms};
    char *given = NULL;
    void *payload = NULL;
    size_t size = 0;
    PSR_TRY(member->entry.peer.role == PSR_ROLE_SHARD
                ? psr_config_to_json_for_shards(&scheduler->config, &given)
                : psr_config_to_json(&scheduler->config, &given));
    psr_err err = psr_place_write(&place, (psr_bytes){given, strlen(given)}, &payload, &size);
    free(given);
    if (err == PSR_OK)
        err = psr_scheduler_send_bytes(scheduler, member->entry.peer, (psr_head){.type = PSR_MSG_CONFIG},
                                       (psr_bytes){payload, size});
    free(payload);
    return err;
}

psr_err psr_scheduler_take_join(psr_scheduler *scheduler, const psr_message *message, int64_t now_ms)
{
    psr_join join;
    psr_err err = psr_join_from_json(psr_scheduler_payload_of(message), &join);
    if (err != PSR_OK) {
        char detail[PSR_SCHEDULER_LINE_MAX];
        snprintf(detail, sizeof detail, "%s", psr_err_detail());
        return psr_violation(message, "%s", detail);
    }
    psr_scheduler_member *member = seat_for(scheduler, message->from);
    if (!member || member->joined || scheduler->state != PSR_SCHEDULER_JOINING) {
        psr_scheduler_say(scheduler,
                          "a %s on %s (process %" PRId64
                          ") wants to join and has no place: the run has %" PRIu32 " workers and %" PRIu32
                          " shards, each once",
                          psr_role_name(message->from.role), join.host, join.pid,
                          scheduler->roster.worker_processes, scheduler->roster.shards);
        return PSR_OK;
    }
    PSR_TRY(check_version(scheduler, member->entry.peer, &join));
    memcpy(member->entry.host, join.host, sizeof member->entry.host);
    memcpy(member->entry.endpoint, join.endpoint, sizeof member->entry.endpoint);
    PSR_TRY(scheduler->events.connect(scheduler->events.context, member->entry.peer, member->entry.endpoint));
    member->joined = true;
    scheduler->joined_count++;
    PSR_TRY(psr_liveness_add(scheduler->liveness, member->entry.peer, member->entry.host, now_ms));
    int64_t patience_ms = scheduler->deadline_ms > PSR_COME_UP_MS ? scheduler->deadline_ms : PSR_COME_UP_MS;
    scheduler->come_up_by_ms = now_ms + patience_ms;
    scheduler->events.joined(scheduler->events.context, &member->entry, scheduler->joined_count,
                             scheduler->member_count);
    return send_config(scheduler, member);
}

/* ---- FACTS and WELCOME ---- */

static bool has_told_facts(const psr_scheduler_member *member)
{
    return member->joined && member->told_facts;
}

static psr_err check_agreement(psr_scheduler *scheduler)
{
    const psr_scheduler_member *workers = scheduler->members + scheduler->roster.shards;
    for (uint32_t r = 1; r < scheduler->roster.worker_processes; r++) {
        char who[PSR_HOST_MAX + 32], first[PSR_HOST_MAX + 32];
        psr_scheduler_name(&workers[r], who, sizeof who);
        psr_scheduler_name(&workers[0], first, sizeof first);
        PSR_TRY(psr_facts_agree(&workers[r].facts, who, &workers[0].facts, first));
    }
    return PSR_OK;
}

static psr_err list_members(psr_scheduler *scheduler)
{
    psr_view *view = &scheduler->view;
    view->members = calloc(scheduler->member_count, sizeof *view->members);
    if (!view->members)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", scheduler->member_count);
    view->member_count = scheduler->member_count;
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        view->members[i] = scheduler->members[i].entry;
    return PSR_OK;
}

/* Learns where the run begins and by which plan. */
static psr_err begin_run(psr_scheduler *scheduler, const psr_facts *facts)
{
    psr_beginning beginning = {0};
    char *members_json = NULL;
    PSR_TRY(psr_view_members_to_json(&scheduler->view, &members_json));
    psr_err err = scheduler->events.begin(scheduler->events.context, &scheduler->config, facts, members_json,
                                          &beginning);
    free(members_json);
    if (err != PSR_OK)
        return err;
    scheduler->view.plan = beginning.plan;
    scheduler->layout = beginning.layout;
    scheduler->metrics_told = calloc(psr_view_workers(&scheduler->view), sizeof *scheduler->metrics_told);
    if (!scheduler->metrics_told)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", psr_view_workers(&scheduler->view));
    scheduler->first_step = beginning.first_step;
    for (uint32_t i = 0; i < scheduler->member_count; i++)
        scheduler->members[i].saving = scheduler->members[i].saving_before = scheduler->first_step;
    for (uint32_t r = 0; r < psr_view_workers(&scheduler->view); r++)
        scheduler->metrics_told[r] = scheduler->first_step;
    return PSR_OK;
}

/* What is agreed on, for a worker or for a shard. */
static psr_err write_start(const psr_scheduler *scheduler, psr_role role, char **ret_json)
{
    uint64_t first_step = scheduler->first_step;
    uint64_t total_steps = scheduler->members[scheduler->roster.shards].facts.total_steps;
    const psr_worker_start worker = {.first_step = first_step, .total_steps = total_steps};
    const psr_shard_start shard = {
        .first_step = first_step, .total_steps = total_steps, .layout = *scheduler->layout};
    return role == PSR_ROLE_WORKER ? psr_worker_start_to_json(&worker, ret_json)
                                   : psr_shard_start_to_json(&shard, ret_json);
}

static psr_err welcome_role(psr_scheduler *scheduler, psr_role role)
{
    char *agreed = NULL;
    void *payload = NULL;
    size_t size = 0;
    PSR_TRY(write_start(scheduler, role, &agreed));
    psr_err err = psr_welcome_write(&scheduler->view, (psr_bytes){agreed, strlen(agreed)}, &payload, &size);
    free(agreed);
    for (uint32_t i = 0; i < scheduler->member_count && err == PSR_OK; i++)
        if (scheduler->members[i].entry.peer.role == role)
            err = psr_scheduler_send_bytes(scheduler, scheduler->members[i].entry.peer,
                                           (psr_head){.type = PSR_MSG_WELCOME}, (psr_bytes){payload, size});
    free(payload);
    return err;
}

static psr_err welcome_all(psr_scheduler *scheduler)
{
    PSR_TRY(list_members(scheduler));
    PSR_TRY(begin_run(scheduler, &scheduler->members[scheduler->roster.shards].facts));
    PSR_TRY(welcome_role(scheduler, PSR_ROLE_SHARD));
    PSR_TRY(welcome_role(scheduler, PSR_ROLE_WORKER));
    return scheduler->first_step > 0 ? scheduler->events.restore(scheduler->events.context) : PSR_OK;
}

psr_err psr_scheduler_take_facts(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message)
{
    if (scheduler->state != PSR_SCHEDULER_JOINING || member->told_facts)
        return psr_violation(message, "it has told its facts before");
    if (member->entry.peer.role == PSR_ROLE_WORKER &&
        psr_facts_from_json(psr_scheduler_payload_of(message), &member->facts) != PSR_OK) {
        char detail[PSR_SCHEDULER_LINE_MAX];
        snprintf(detail, sizeof detail, "%s", psr_err_detail());
        return psr_violation(message, "%s", detail);
    }
    member->told_facts = true;
    if (!psr_scheduler_all(scheduler, has_told_facts))
        return PSR_OK;
    PSR_TRY(check_agreement(scheduler));
    scheduler->state = PSR_SCHEDULER_WELCOMED;
    return welcome_all(scheduler);
}

/* ---- READY and START ---- */

static bool is_ready(const psr_scheduler_member *member)
{
    return member->ready;
}

/* Rank 0's READY: {"algorithms": "..."}. */
static psr_err read_algorithms(psr_scheduler *scheduler, const psr_message *message)
{
    if (message->payload_bytes == 0)
        return PSR_OK;
    psr_err err = PSR_OK;
    cJSON *object = cJSON_ParseWithLength(message->payload, message->payload_bytes);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "algorithms"));
    psr_config config;
    psr_config_defaults(&config);
    if (!text || psr_config_set(&config, "algorithms", text) != PSR_OK)
        err = psr_violation(message, "what it calls its algorithms are none");
    else
        strcpy(scheduler->algorithms, text);
    cJSON_Delete(object);
    return err;
}

psr_err psr_scheduler_take_ready(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message)
{
    if (scheduler->state != PSR_SCHEDULER_WELCOMED || member->ready)
        return psr_violation(message, "that is due once, after WELCOME");
    if (member->entry.peer.role == PSR_ROLE_WORKER && member->entry.peer.rank == 0)
        PSR_TRY(read_algorithms(scheduler, message));
    member->ready = true;
    if (!psr_scheduler_all(scheduler, is_ready))
        return PSR_OK;
    scheduler->state = PSR_SCHEDULER_RUNNING;
    PSR_TRY(psr_scheduler_send_all(scheduler, (psr_head){.type = PSR_MSG_START}, NULL));
    return scheduler->events.started(scheduler->events.context, scheduler->algorithms);
}

/* ---- who never came ---- */

/* Appends "worker 1, worker 2 on b" of those that did or did not come. */
static void list(const psr_scheduler *scheduler, bool joined, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < scheduler->member_count && used < size; i++) {
        if (scheduler->members[i].joined != joined)
            continue;
        char name[PSR_HOST_MAX + 32];
        psr_scheduler_name(&scheduler->members[i], name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

void psr_scheduler_check_joining(psr_scheduler *scheduler, int64_t now_ms)
{
    if (now_ms < scheduler->come_up_by_ms || scheduler->joined_count == scheduler->member_count)
        return; /* who is here and tells no facts is liveness' to find */
    char missing[400], here[400], line[PSR_SCHEDULER_LINE_MAX];
    list(scheduler, false, missing, sizeof missing);
    list(scheduler, true, here, sizeof here);
    snprintf(line, sizeof line, "%s never came up; %s%s", missing,
             here[0] ? "those that did: " : "nobody did", here);
    psr_scheduler_fail(scheduler, PSR_ERR_TIMEOUT, line);
}
