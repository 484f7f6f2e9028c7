#include "comm/member.h"

#include "base/clock.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is known of a process that stops may be REPORT_EVERY_MS old. Its step and phase are newer: the first
 * CHANGE_BURST changes in a row are told at once, then one every CHANGE_EVERY_MS, and in a large run one in a
 * tenth of a millisecond from all members together. */
#define REPORT_EVERY_MS 100
#define CHANGE_EVERY_MS 10
#define CHANGE_BURST 50

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

/* What others said before this member had its WELCOME: they had theirs. */
typedef struct early {
    psr_message *message;
    struct early *next;
} early;

struct psr_member {
    psr_member_options options;
    psr_peer self;
    psr_config config;
    psr_welcome welcome;
    int64_t deadline_ms, report_every_ms;
    int64_t next_report_ms; /* INT64_MAX until CONFIG has come */
    int64_t next_change_ms; /* from when on a change may be told before next_report_ms */
    int64_t compared_ms;    /* when the place was last held against what was told */
    psr_head told;          /* the last report */
    int64_t heard_ms;       /* of the scheduler */
    int64_t seen_ms;        /* when this thread last looked */
    char name[PSR_HOST_MAX + 32];
    bool joined;
    early *first_early, **last_early;
};

/* ---- reports ---- */

static void set_deadline(psr_member *member, double deadline_s)
{
    member->deadline_ms = (int64_t)(deadline_s * 1000);
    member->report_every_ms =
        member->deadline_ms / 4 < REPORT_EVERY_MS ? member->deadline_ms / 4 : REPORT_EVERY_MS;
    if (member->report_every_ms < 1)
        member->report_every_ms = 1;
}

static psr_head place(const psr_member *member)
{
    psr_head head = {.flags = PSR_PHASE_START, .offset = UINT64_MAX};
    if (member->options.report)
        member->options.report(member->options.context, &head);
    head.type = PSR_MSG_PROGRESS;
    if (!member->joined) /* whatever it is about: it waits to be welcomed, and hangs on nothing else */
        head.offset = psr_peer_pack(scheduler);
    return head;
}

static bool has_changed(const psr_member *member, const psr_head *now)
{
    bool evaluates = now->count > 0, evaluated = member->told.count > 0;
    return now->step != member->told.step || now->flags != member->told.flags || evaluates != evaluated;
}

/* When changes may be told again: a leaky bucket, as a time. */
static void count_change(psr_member *member, int64_t now_ms)
{
    int64_t every_ms = (int64_t)member->welcome.roster_count / 10;
    if (every_ms < CHANGE_EVERY_MS)
        every_ms = CHANGE_EVERY_MS;
    int64_t earliest_ms = now_ms - CHANGE_BURST * every_ms;
    if (member->next_change_ms < earliest_ms)
        member->next_change_ms = earliest_ms;
    member->next_change_ms += every_ms;
}

psr_err psr_member_report(psr_member *member)
{
    psr_head head = place(member);
    int64_t now_ms = psr_clock_ms();
    if (has_changed(member, &head))
        count_change(member, now_ms);
    member->told = head;
    member->next_report_ms = now_ms + member->report_every_ms;
    return psr_transport_send(member->options.transport, scheduler, &head, NULL);
}

/* When to look again whether a report is due, or that it is; INT64_MAX: not before CONFIG. A place costs a walk
 * over all slices: one in a millisecond. */
static int64_t report_due_ms(psr_member *member, int64_t now_ms)
{
    if (member->next_report_ms <= member->next_change_ms || member->next_report_ms == INT64_MAX)
        return member->next_report_ms;
    if (member->compared_ms == now_ms)
        return now_ms + 1;
    member->compared_ms = now_ms;
    psr_head head = place(member);
    return has_changed(member, &head) ? member->next_change_ms : member->next_report_ms;
}

/* Time in which this process was stopped, or its thread was elsewhere, is no silence of the scheduler's: what
 * it said then is still in the inbox. */
static void look(psr_member *member, int64_t now_ms)
{
    int64_t away_ms = now_ms - member->seen_ms;
    if (away_ms > 2 * member->report_every_ms)
        member->heard_ms += away_ms;
    member->seen_ms = now_ms;
}

static psr_err check_scheduler(psr_member *member, int64_t now_ms)
{
    int64_t silent_ms = now_ms - member->heard_ms;
    if (silent_ms <= member->deadline_ms)
        return PSR_OK;
    return psr_fail(PSR_ERR_PEER, "the scheduler at %s: no sign of life for %.1f s",
                    member->options.provision->scheduler, (double)silent_ms / 1000);
}

/* ---- receiving ---- */

/* Takes what is the member's own business. */
static psr_err take_own(psr_member *member, psr_message **message)
{
    if (!psr_peer_equal((*message)->from, scheduler))
        return PSR_OK;
    member->heard_ms = psr_clock_ms();
    psr_err err = PSR_OK;
    if ((*message)->head.type == PSR_MSG_ALIVE && (*message)->head.flags == 1)
        err = psr_member_report(member); /* it asks */
    else if ((*message)->head.type == PSR_MSG_ABORT)
        err = psr_fail(PSR_ERR_PEER, "the run ends: %.*s", (int)(*message)->payload_bytes,
                       (const char *)(*message)->payload);
    else if ((*message)->head.type != PSR_MSG_ALIVE)
        return PSR_OK;
    psr_message_free(message);
    return err;
}

static psr_err keep_early(psr_member *member, psr_message *message)
{
    early *kept = malloc(sizeof *kept);
    if (!kept) {
        psr_message_free(&message);
        return psr_fail(PSR_ERR_NOMEM, "no memory for an early message");
    }
    *kept = (early){.message = message};
    *member->last_early = kept;
    member->last_early = &kept->next;
    return PSR_OK;
}

/* NULL: there is none. */
static psr_message *take_early(psr_member *member)
{
    early *first = member->first_early;
    if (!first)
        return NULL;
    psr_message *message = first->message;
    member->first_early = first->next;
    if (!member->first_early)
        member->last_early = &member->first_early;
    free(first);
    return message;
}

psr_err psr_member_recv(psr_member *member, int timeout_ms, psr_message **ret_message)
{
    if (member->joined && member->first_early) {
        *ret_message = take_early(member);
        return PSR_OK;
    }
    int64_t now_ms = psr_clock_ms();
    int64_t end_ms = timeout_ms < 0 ? INT64_MAX : now_ms + timeout_ms;
    for (;; now_ms = psr_clock_ms()) {
        look(member, now_ms);
        PSR_TRY(check_scheduler(member, now_ms));
        int64_t due_ms = report_due_ms(member, now_ms);
        if (now_ms >= due_ms) {
            PSR_TRY(psr_member_report(member));
            due_ms = member->next_report_ms;
        }
        int64_t wait_ms = member->report_every_ms;
        if (due_ms - now_ms < wait_ms)
            wait_ms = due_ms > now_ms ? due_ms - now_ms : 0;
        if (end_ms - now_ms < wait_ms)
            wait_ms = end_ms > now_ms ? end_ms - now_ms : 0;

        psr_message *message = NULL;
        psr_err err = psr_transport_recv(member->options.transport, (int)wait_ms, &message);
        if (err == PSR_ERR_TIMEOUT && psr_clock_ms() < end_ms)
            continue;
        if (err == PSR_OK)
            err = take_own(member, &message);
        if (err != PSR_OK)
            return err;
        if (message) {
            *ret_message = message;
            return PSR_OK;
        }
    }
}

psr_err psr_member_tell(psr_member *member, const psr_head *head, const void *payload, size_t bytes)
{
    psr_payload copied = {.data = payload, .bytes = bytes};
    return psr_transport_send(member->options.transport, scheduler, head, bytes ? &copied : NULL);
}

static psr_err tell_json(psr_member *member, psr_message_type type, const char *json)
{
    psr_head head = {.type = type};
    return psr_member_tell(member, &head, json, json ? strlen(json) : 0);
}

/* ---- joining ---- */

/* The next message of the scheduler, which must be of that type. */
static psr_err await(psr_member *member, psr_message_type type, psr_message **ret_message)
{
    for (;;) {
        psr_message *message = NULL;
        psr_err err = psr_member_recv(member, -1, &message);
        if (err == PSR_ERR_CANCELLED) {
            if (member->options.interrupted)
                PSR_TRY(member->options.interrupted(member->options.context));
            continue;
        }
        if (err != PSR_OK)
            return err;
        if (!psr_peer_equal(message->from, scheduler)) {
            PSR_TRY(keep_early(member, message));
            continue;
        }
        if (message->head.type == type) {
            *ret_message = message;
            return PSR_OK;
        }
        err = psr_violation(message, "%s is due", psr_message_name(type));
        psr_message_free(&message);
        return err;
    }
}

static psr_err say_join(psr_member *member)
{
    const psr_provision *provision = member->options.provision;
    psr_join join = {.version = PSR_VERSION, .pid = getpid()};
    const char *endpoint = psr_transport_endpoint(member->options.transport);
    if (strlen(endpoint) >= sizeof join.endpoint)
        return psr_fail(PSR_ERR_UNSUPPORTED, "endpoint %s is too long", endpoint);
    strcpy(join.endpoint, endpoint);
    memcpy(join.host, provision->host, sizeof join.host);
    if (join.host[0] == '\0' && gethostname(join.host, sizeof join.host) != 0)
        strcpy(join.host, "localhost");
    join.host[sizeof join.host - 1] = '\0';
    char *json = NULL;
    PSR_TRY(psr_join_to_json(&join, &json));
    psr_err err = tell_json(member, PSR_MSG_JOIN, json);
    free(json);
    return err;
}

static psr_err take_config(psr_member *member)
{
    psr_message *message = NULL;
    PSR_TRY(await(member, PSR_MSG_CONFIG, &message));
    uint32_t rank = 0;
    psr_err err =
        psr_welcome_config_from_json(message->payload, message->payload_bytes, &rank, &member->config);
    psr_message_free(&message);
    if (err != PSR_OK)
        return psr_fail_context(err, "the scheduler's CONFIG");
    if (rank != member->self.rank) {
        member->self.rank = rank;
        PSR_TRY(psr_transport_rename(member->options.transport, member->self));
    }
    set_deadline(member, member->config.deadline_s);
    member->next_report_ms = psr_clock_ms();
    return PSR_OK;
}

static psr_err say_facts(psr_member *member)
{
    if (!member->options.facts)
        return tell_json(member, PSR_MSG_FACTS, NULL);
    psr_facts facts = {0};
    psr_err err = member->options.facts(member->options.context, member->self.rank, &member->config, &facts);
    if (err != PSR_OK) {
        psr_member_failed(member, err, psr_err_detail());
        return err;
    }
    char *json = NULL;
    PSR_TRY(psr_facts_to_json(&facts, &json));
    err = tell_json(member, PSR_MSG_FACTS, json);
    free(json);
    return err;
}

static psr_err take_welcome(psr_member *member)
{
    psr_message *message = NULL;
    PSR_TRY(await(member, PSR_MSG_WELCOME, &message));
    psr_err err = psr_welcome_from_json(message->payload, message->payload_bytes, &member->welcome);
    psr_message_free(&message);
    if (err != PSR_OK)
        return psr_fail_context(err, "the scheduler's WELCOME");
    member->config.bucket_bytes = member->welcome.bucket_bytes;
    return PSR_OK;
}

static psr_err join(psr_member *member)
{
    const psr_provision *provision = member->options.provision;
    PSR_TRY(psr_transport_connect(member->options.transport, scheduler, provision->scheduler,
                                  psr_keys_of(&provision->keys, scheduler)));
    PSR_TRY(say_join(member));
    PSR_TRY(take_config(member));
    PSR_TRY(say_facts(member));
    PSR_TRY(take_welcome(member));
    member->joined = true;
    return PSR_OK;
}

psr_err psr_member_join(const psr_member_options *options, psr_member **ret_member)
{
    psr_member *member = calloc(1, sizeof *member);
    if (!member)
        return psr_fail(PSR_ERR_NOMEM, "no memory to join a run");
    member->last_early = &member->first_early;
    member->options = *options;
    member->self = options->provision->self;
    psr_config_defaults(&member->config);
    set_deadline(member, member->config.deadline_s);
    member->next_report_ms = INT64_MAX;
    member->heard_ms = member->seen_ms = psr_clock_ms();
    psr_err err = join(member);
    if (err != PSR_OK) {
        psr_member_free(member);
        return err;
    }
    *ret_member = member;
    return PSR_OK;
}

void psr_member_free(psr_member *member)
{
    if (!member)
        return;
    for (psr_message *message; (message = take_early(member)) != NULL;)
        psr_message_free(&message);
    free(member->welcome.roster);
    free(member);
}

/* ---- what it knows ---- */

psr_peer psr_member_self(const psr_member *member)
{
    return member->self;
}

const psr_config *psr_member_config(const psr_member *member)
{
    return &member->config;
}

const psr_facts *psr_member_facts(const psr_member *member)
{
    return &member->welcome.facts;
}

const psr_roster_entry *psr_member_roster(const psr_member *member, size_t *ret_count)
{
    *ret_count = member->welcome.roster_count;
    return member->welcome.roster;
}

uint64_t psr_member_first_step(const psr_member *member)
{
    return member->welcome.first_step;
}

static const psr_roster_entry *find_entry(const psr_member *member, psr_peer peer)
{
    for (size_t i = 0; i < member->welcome.roster_count; i++)
        if (psr_peer_equal(member->welcome.roster[i].peer, peer))
            return &member->welcome.roster[i];
    return NULL;
}

const char *psr_member_name(psr_member *member, psr_peer peer)
{
    const psr_roster_entry *entry = find_entry(member, peer);
    int used = snprintf(member->name, sizeof member->name, "%s", psr_role_name(peer.role));
    if (peer.role != PSR_ROLE_SCHEDULER)
        used += snprintf(member->name + used, sizeof member->name - (size_t)used, " %" PRIu32, peer.rank);
    if (entry)
        snprintf(member->name + used, sizeof member->name - (size_t)used, " on %s", entry->host);
    return member->name;
}

/* ---- peers and the end ---- */

psr_err psr_member_connect(psr_member *member, psr_peer peer)
{
    const psr_roster_entry *entry = find_entry(member, peer);
    if (!entry)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s %" PRIu32 " is not on the roster", psr_role_name(peer.role),
                        peer.rank);
    return psr_transport_connect(member->options.transport, peer, entry->endpoint,
                                 psr_keys_of(&member->options.provision->keys, peer));
}

psr_err psr_member_ready(psr_member *member, const char *json)
{
    return tell_json(member, PSR_MSG_READY, json);
}

void psr_member_failed(psr_member *member, psr_err status, const char *line)
{
    psr_head head = {.type = PSR_MSG_FAILED, .flags = (uint32_t)status};
    /* psr_err_detail() may be the line itself, and a failure to send would overwrite it. */
    char text[1024];
    snprintf(text, sizeof text, "%s", line);
    psr_err told = psr_member_tell(member, &head, text, strlen(text));
    (void)told; /* the process ends with the same line in its own log */
}
