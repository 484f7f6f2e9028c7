#include "comm/members/member.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/members/membership.h"
#include "comm/members/unreached.h"
#include "net/sharing/share_wire.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_DEADLINE_MS 30000 /* until CONFIG gives the run's */
#define JOIN_AGAIN_MS 500

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

struct psr_member {
    psr_member_options options;
    psr_membership *membership;
    psr_peer self;
    uint32_t ranks; /* of the run, from CONFIG on; 0: before */
    int64_t deadline_ms;
    psr_view view;
    void *agreed; /* owned; bytes of the user */
    size_t agreed_size;
    char name[PSR_HOST_MAX + 32];
};

/* ---- what the membership asks for ---- */

static psr_err send_to_scheduler(void *context, const psr_head *head, const psr_payload *payload)
{
    const psr_member *member = context;
    psr_transport *transport = member->options.transport;
    /* Messages that already wait for a slow scheduler tell it that this member lives. */
    if (head->type == PSR_MSG_PROGRESS &&
        psr_transport_waiting(transport, scheduler) >= PSR_MEMBER_WAITING_MAX)
        return PSR_OK;
    return psr_transport_send(transport, scheduler, head, payload);
}

static psr_err take_place(psr_member *member, const psr_place *place)
{
    if (place->rank == member->self.rank)
        return PSR_OK;
    member->self.rank = place->rank;
    return psr_transport_rename(member->options.transport, member->self);
}

static psr_err take_config(void *context, psr_bytes payload, int64_t *ret_deadline_ms,
                           void **ret_facts, size_t *ret_facts_size)
{
    psr_member *member = context;
    psr_place place;
    psr_bytes given;
    psr_err err = psr_place_read(payload, &place, &given);
    if (err == PSR_OK && member->self.role == PSR_ROLE_WORKER && place.rank >= place.ranks)
        err = psr_fail(PSR_ERR_FORMAT, "rank %" PRIu32 " of %" PRIu32 " ranks", place.rank,
                       place.ranks);
    if (err != PSR_OK)
        return psr_fail_context(err, "the scheduler's CONFIG");
    member->ranks = place.ranks;
    member->deadline_ms = place.deadline_ms;
    PSR_TRY(take_place(member, &place));
    err = member->options.configured(member->options.context, &place, given, ret_facts,
                                     ret_facts_size);
    if (err != PSR_OK) {
        psr_member_failed(member, err, psr_err_detail());
        return err;
    }
    *ret_deadline_ms = place.deadline_ms;
    return PSR_OK;
}

static psr_err keep_agreed(psr_member *member, psr_bytes agreed)
{
    if (agreed.size == 0)
        return PSR_OK;
    member->agreed = malloc(agreed.size);
    if (member->agreed == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of a message", agreed.size);
    memcpy(member->agreed, agreed.data, agreed.size);
    member->agreed_size = agreed.size;
    return PSR_OK;
}

static psr_err take_welcome(void *context, psr_bytes payload, size_t *ret_members)
{
    psr_member *member = context;
    psr_bytes agreed;
    psr_err err = psr_welcome_read(payload, &member->view, &agreed);
    if (err != PSR_OK)
        return psr_fail_context(err, "the scheduler's WELCOME");
    if (psr_view_workers(&member->view) != member->ranks)
        return psr_fail(PSR_ERR_FORMAT,
                        "the scheduler's WELCOME: its plan is of %" PRIu32
                        " ranks, and CONFIG said %" PRIu32,
                        psr_view_workers(&member->view), member->ranks);
    *ret_members = member->view.member_count;
    return keep_agreed(member, agreed);
}

static void report(void *context, psr_msg_progress *progress)
{
    const psr_member *member = context;
    if (member->options.report != NULL)
        member->options.report(member->options.context, progress);
}

/* ---- beginning and end ---- */

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
    if (member->options.shares_memory)
        PSR_TRY(
            psr_memory_place_of(psr_transport_share_path(member->options.transport), &join.memory));
    char *json = NULL;
    PSR_TRY(psr_join_to_json(&join, &json));
    psr_err err = psr_membership_join(member->membership, json);
    free(json);
    return err;
}

static psr_err open_membership(psr_member *member, int64_t now_ms)
{
    const psr_provision *provision = member->options.provision;
    const psr_membership_options options = {.scheduler = provision->scheduler,
                                            .deadline_ms = member->options.first_deadline_ms > 0
                                                               ? member->options.first_deadline_ms
                                                               : FIRST_DEADLINE_MS,
                                            .context = member,
                                            .send = send_to_scheduler,
                                            .configured = take_config,
                                            .facts_later = member->options.facts != NULL,
                                            .welcomed = take_welcome,
                                            .report = report};
    PSR_TRY(psr_membership_new(&options, now_ms, &member->membership));
    PSR_TRY(psr_transport_connect(member->options.transport, scheduler, provision->scheduler,
                                  psr_keys_of(&provision->keys, scheduler)));
    return say_join(member);
}

psr_err psr_member_open(const psr_member_options *options, int64_t now_ms, psr_member **ret_member)
{
    psr_member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to join a run");
    member->options = *options;
    member->self = options->provision->self;
    psr_err err = open_membership(member, now_ms);
    if (err != PSR_OK) {
        psr_member_free(member);
        return err;
    }
    *ret_member = member;
    return PSR_OK;
}

void psr_member_free(psr_member *member)
{
    if (member == NULL)
        return;
    psr_membership_free(member->membership);
    psr_view_done(&member->view);
    free(member->agreed);
    free(member);
}

/* ---- driven by its caller ---- */

psr_err psr_member_message(psr_member *member, psr_message **message, int64_t now_ms)
{
    return psr_membership_message(member->membership, message, now_ms);
}

bool psr_member_joined(const psr_member *member)
{
    return psr_membership_joined(member->membership);
}

psr_message *psr_member_early(psr_member *member)
{
    return psr_membership_early(member->membership);
}

/* Adds to a failure why the scheduler may never have answered. */
static psr_err explain_silence(psr_member *member, psr_err err)
{
    char line[512], why[512] = "";
    snprintf(line, sizeof line, "%s", psr_err_detail());
    psr_unanswered_describe(member->options.provision->scheduler,
                            psr_transport_endpoint(member->options.transport), why, sizeof why);
    return psr_fail(err, "%s%s%s", line, why[0] != '\0' ? ": " : "", why);
}

static psr_err check_ways(psr_member *member)
{
    psr_unreached unreached;
    char line[768];
    if (member->ranks == 0 ||
        !psr_transport_unreached(member->options.transport,
                                 psr_unreached_patience_ms(member->deadline_ms), &unreached))
        return PSR_OK;
    psr_unreached_describe(&unreached, psr_member_name(member, unreached.peer), line, sizeof line);
    return psr_fail(PSR_ERR_PEER, "%s", line);
}

/* What goes slowly is told, and goes on. */
static psr_err check_sealing(psr_member *member)
{
    psr_unsealed u;
    if (member->ranks == 0 ||
        !psr_transport_unsealed(member->options.transport,
                                psr_unreached_patience_ms(member->deadline_ms), &u))
        return PSR_OK;
    const psr_head head = psr_msg_unsealed_head(
        &(psr_msg_unsealed){.peer = u.peer, .port = u.port, .waited_ms = (uint64_t)u.for_ms});
    return send_to_scheduler(member, &head, NULL);
}

psr_err psr_member_tick(psr_member *member, int64_t now_ms, int64_t *ret_next_ms)
{
    psr_err err = psr_membership_tick(member->membership, now_ms, ret_next_ms);
    if (err == PSR_ERR_PEER && member->ranks == 0)
        return explain_silence(member, err);
    PSR_TRY(err);
    PSR_TRY(check_sealing(member));
    return check_ways(member);
}

int64_t psr_member_silent_ms(const psr_member *member)
{
    return psr_membership_silent_ms(member->membership);
}

/* ---- driven by the clock ---- */

/* Waits once, until end_ms at most. *ret_message is NULL when nothing is left for the caller. */
static psr_err turn(psr_member *member, int64_t end_ms, psr_message **ret_message)
{
    int64_t now_ms = psr_clock_ms(), next_ms = 0;
    PSR_TRY(psr_member_tick(member, now_ms, &next_ms));
    int64_t until_ms = next_ms < end_ms ? next_ms : end_ms;
    int64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    psr_message *message = NULL;
    psr_err err = psr_transport_recv(member->options.transport,
                                     wait_ms < INT_MAX ? (int)wait_ms : INT_MAX, &message);
    if (err == PSR_ERR_TIMEOUT && psr_clock_ms() < end_ms)
        err = PSR_OK;
    else if (err == PSR_OK)
        err = psr_member_message(member, &message, psr_clock_ms());
    *ret_message = message;
    return err;
}

psr_err psr_member_recv(psr_member *member, int timeout_ms, psr_message **ret_message)
{
    psr_message *message = psr_member_early(member);
    int64_t end_ms = timeout_ms < 0 ? INT64_MAX : psr_clock_ms() + timeout_ms;
    while (message == NULL)
        PSR_TRY(turn(member, end_ms, &message));
    *ret_message = message;
    return PSR_OK;
}

/* Sends the facts that were not known when CONFIG came. */
static psr_err tell_facts(psr_member *member)
{
    void *facts = NULL;
    size_t size = 0;
    bool known = false;
    if (!psr_membership_owes_facts(member->membership))
        return PSR_OK;
    psr_err err = member->options.facts(member->options.context, &known, &facts, &size);
    if (err != PSR_OK) {
        psr_member_failed(member, err, psr_err_detail());
        return err;
    }
    if (known)
        err = psr_membership_facts(member->membership, (psr_bytes){facts, size});
    free(facts);
    return err;
}

static psr_err await_welcome(psr_member *member)
{
    while (!psr_member_joined(member)) {
        psr_message *none = NULL; /* until then all messages are the membership's */
        psr_err err = turn(member, INT64_MAX, &none);
        if (err == PSR_ERR_CANCELLED)
            err = member->options.interrupted != NULL
                      ? member->options.interrupted(member->options.context)
                      : PSR_OK;
        PSR_TRY(err);
        PSR_TRY(tell_facts(member));
    }
    return PSR_OK;
}

psr_err psr_member_join(const psr_member_options *options, psr_member **ret_member)
{
    psr_member *member = NULL;
    PSR_TRY(psr_member_open(options, psr_clock_ms(), &member));
    psr_err err = await_welcome(member);
    if (err != PSR_OK) {
        psr_member_free(member);
        return err;
    }
    *ret_member = member;
    return PSR_OK;
}

/* Half a second, in which the scheduler may say the same again; less if the transport is woken. */
static void wait_a_moment(psr_transport *transport)
{
    const int64_t end_ms = psr_clock_ms() + JOIN_AGAIN_MS;
    psr_err err = PSR_OK;
    for (int64_t left_ms = JOIN_AGAIN_MS; left_ms > 0 && err == PSR_OK;
         left_ms = end_ms - psr_clock_ms()) {
        psr_message *message = NULL;
        err = psr_transport_recv(transport, (int)left_ms, &message);
        psr_message_free(&message);
    }
}

/* PEER: the former attempt has ended. DENIED: it has not ended yet. */
bool psr_member_joins_again(const psr_provision *provision, psr_transport *transport, psr_err err,
                            int64_t began_ms, bool *said)
{
    const int64_t left_ms = began_ms + provision->patience_ms - psr_clock_ms();
    if ((err != PSR_ERR_PEER && err != PSR_ERR_DENIED) || left_ms <= 0 || transport == NULL)
        return false;
    if (!*said)
        psr_log(PSR_LOG_INFO,
                "%s; as this process is started again, that may be the former attempt's: it tries "
                "for another %.0f s",
                psr_err_detail(), (double)left_ms / 1000);
    *said = true;
    wait_a_moment(transport);
    return true;
}

/* ---- telling ---- */

psr_err psr_member_tell(psr_member *member, const psr_head *head, const void *payload, size_t bytes)
{
    psr_payload copied = {.data = payload, .bytes = bytes};
    return send_to_scheduler(member, head, bytes ? &copied : NULL);
}

void psr_member_failed(psr_member *member, psr_err status, const char *line)
{
    psr_head head = psr_msg_failed_head(status);
    /* line may be psr_err_detail() itself, which a failure to send would overwrite. */
    char text[1024];
    snprintf(text, sizeof text, "%s", line);
    psr_err told = psr_member_tell(member, &head, text, strlen(text));
    (void)told; /* the process ends with the same line in its own log */
}

/* ---- what it knows ---- */

psr_peer psr_member_self(const psr_member *member)
{
    return member->self;
}

const psr_view *psr_member_view(const psr_member *member)
{
    return &member->view;
}

psr_bytes psr_member_agreed(const psr_member *member)
{
    return (psr_bytes){member->agreed, member->agreed_size};
}

const char *psr_member_name(psr_member *member, psr_peer peer)
{
    const psr_view_member *entry = psr_view_find(&member->view, peer);
    int used = snprintf(member->name, sizeof member->name, "%s", psr_role_name(peer.role));
    if (peer.role != PSR_ROLE_SCHEDULER)
        used += snprintf(member->name + used, sizeof member->name - (size_t)used, " %" PRIu32,
                         peer.rank);
    if (entry != NULL)
        snprintf(member->name + used, sizeof member->name - (size_t)used, " on %s", entry->host);
    return member->name;
}

psr_err psr_member_connect(psr_member *member, psr_peer peer)
{
    const psr_view_member *entry = psr_view_find(&member->view, peer);
    if (entry == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND, "%s %" PRIu32 " is not in the view",
                        psr_role_name(peer.role), peer.rank);
    PSR_TRY(psr_transport_connect(member->options.transport, peer, entry->endpoint,
                                  psr_keys_of(&member->options.provision->keys, peer)));
    const psr_view_member *self = psr_view_find(&member->view, member->self);
    if (self != NULL && psr_memory_place_is_shared(&self->memory, &entry->memory))
        psr_transport_lend_to(member->options.transport, peer, entry->memory.socket);
    return PSR_OK;
}

/* Over ipc, both are in one directory. */
void psr_member_lend_to_scheduler(psr_member *member)
{
    char path[PSR_SHARE_PATH_BYTES];
    if (psr_share_path(member->options.provision->scheduler, path))
        psr_transport_lend_to(member->options.transport, scheduler, path);
}
