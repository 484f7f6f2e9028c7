/* The coordinator until START: seats, facts that must agree, the view, and who never came. */
#include "comm/members/coordinator_private.h"

#include "comm/members/join.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JOIN ---- */

/* The rank that the joiner asks for, or the lowest free one of its role. NULL: there is none. */
static psr_seat *seat_for(psr_coordinator *c, psr_peer wanted)
{
    if (wanted.rank != PSR_RANK_ANY)
        return psr_coordinator_find(c, wanted);
    for (uint32_t i = 0; i < c->seat_count; i++)
        if (c->seats[i].entry.peer.role == wanted.role && !c->seats[i].joined && !c->seats[i].refused)
            return &c->seats[i];
    return NULL;
}

static void refuse(psr_coordinator *c, const psr_message *message, psr_err status, const char *line)
{
    c->options.driver.refuse(c->options.driver.context, message, status, line);
}

static void say_no_place(psr_coordinator *c, const psr_message *message, const psr_join *join)
{
    const char *role = psr_role_name(message->from.role);
    char who[32], line[PSR_COORDINATOR_LINE_MAX];
    if (message->from.rank == PSR_RANK_ANY)
        snprintf(who, sizeof who, "a %s", role);
    else
        snprintf(who, sizeof who, "%s %" PRIu32, role, message->from.rank);
    snprintf(line, sizeof line,
             "%s on %s (process %" PRId64 ") wants to join and has no place: the run has %" PRIu32
             " workers and %" PRIu32 " shards, each once",
             who, join->host, join->pid, c->options.workers, c->options.shards);
    psr_coordinator_say(c, "%s", line);
    refuse(c, message, PSR_ERR_DENIED, line);
}

static psr_err send_config(psr_coordinator *c, psr_peer peer)
{
    const psr_place place = {
        .rank = peer.rank, .ranks = c->options.ranks, .deadline_ms = c->options.deadline_ms};
    void *given = NULL, *payload = NULL;
    size_t given_size = 0, size = 0;
    PSR_TRY(c->options.user.given(c->options.user.context, peer.role, &given, &given_size));
    psr_err err = psr_place_write(&place, (psr_bytes){given, given_size}, &payload, &size);
    free(given);
    if (err == PSR_OK)
        err = psr_coordinator_send(c, peer, (psr_head){.type = PSR_MSG_CONFIG}, (psr_bytes){payload, size});
    free(payload);
    return err;
}

static psr_err take_seat(psr_coordinator *c, psr_seat *seat, const psr_message *message, const psr_join *join,
                         int64_t now_ms)
{
    const psr_coordinator_driver *driver = &c->options.driver;
    memcpy(seat->entry.host, join->host, sizeof seat->entry.host);
    memcpy(seat->entry.endpoint, join->endpoint, sizeof seat->entry.endpoint);
    seat->entry.memory = join->memory;
    PSR_TRY(
        psr_join_blame(message, driver->connect(driver->context, seat->entry.peer, seat->entry.endpoint)));
    seat->joined = true;
    c->joined_count++;
    PSR_TRY(psr_liveness_add(c->liveness, seat->entry.peer, seat->entry.host, now_ms));
    c->come_up_by_ms =
        now_ms + (c->options.deadline_ms > PSR_COME_UP_MS ? c->options.deadline_ms : PSR_COME_UP_MS);
    driver->joined(driver->context, &seat->entry, c->joined_count, c->seat_count);
    return send_config(c, seat->entry.peer);
}

psr_err psr_coordinator_take_join(psr_coordinator *c, const psr_message *message, int64_t now_ms)
{
    psr_join join;
    PSR_TRY(psr_join_read(message, &join));
    psr_seat *seat = seat_for(c, message->from);
    if (!seat || seat->joined || c->state != PSR_COORDINATOR_JOINING) {
        say_no_place(c, message, &join);
        return PSR_OK;
    }
    char who[PSR_MEMBER_NAME_MAX];
    psr_seat_name(seat, who); /* it has no host yet */
    psr_err err = psr_join_check_version(&join, who, c->host);
    if (err != PSR_OK) {
        refuse(c, message, err, psr_err_detail());
        seat->refused = true;
        return err;
    }
    return take_seat(c, seat, message, &join, now_ms);
}

/* ---- after the end ---- */

void psr_coordinator_refuse_late(psr_coordinator *c, const psr_message *message)
{
    char line[PSR_COORDINATOR_LINE_MAX + 32];
    psr_seat *seat = seat_for(c, message->from);
    snprintf(line, sizeof line, "the run has ended: %s", c->end_line);
    refuse(c, message, PSR_ERR_PEER, line);
    if (seat)
        seat->refused = true;
}

bool psr_coordinator_awaits_late(const psr_coordinator *c)
{
    bool failed =
        c->state == PSR_COORDINATOR_ENDED && c->end_status != PSR_OK &&
        c->end_status != PSR_ERR_CANCELLED; /* who is told to stop is told so at once, all of them */
    for (uint32_t i = 0; failed && i < c->seat_count; i++)
        if (!c->seats[i].joined && !c->seats[i].refused)
            return true;
    return false;
}

/* ---- FACTS and WELCOME ---- */

static bool has_told_facts(const psr_seat *seat)
{
    return seat->joined && seat->told_facts;
}

static psr_err check_agreement(psr_coordinator *c)
{
    const psr_seat *workers = c->seats + c->options.shards;
    char name[PSR_MEMBER_NAME_MAX], first[PSR_MEMBER_NAME_MAX];
    for (uint32_t r = 1; r < c->options.workers; r++) {
        psr_seat_name(&workers[r], name);
        psr_seat_name(&workers[0], first);
        PSR_TRY(c->options.user.agree(c->options.user.context, r, name, first));
    }
    return PSR_OK;
}

static psr_err make_view(psr_coordinator *c)
{
    c->view.members = calloc(c->seat_count, sizeof *c->view.members);
    if (!c->view.members)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", c->seat_count);
    c->view.member_count = c->seat_count;
    for (uint32_t i = 0; i < c->seat_count; i++)
        c->view.members[i] = c->seats[i].entry;
    return c->options.user.begin(c->options.user.context, &c->view, &c->view.plan);
}

static psr_err welcome(psr_coordinator *c, psr_role role)
{
    void *agreed = NULL, *payload = NULL;
    size_t agreed_size = 0, size = 0;
    PSR_TRY(c->options.user.agreed(c->options.user.context, role, &agreed, &agreed_size));
    psr_err err = psr_welcome_write(&c->view, (psr_bytes){agreed, agreed_size}, &payload, &size);
    free(agreed);
    if (err == PSR_OK)
        err = psr_coordinator_send_role(c, role, (psr_head){.type = PSR_MSG_WELCOME},
                                        (psr_bytes){payload, size});
    free(payload);
    return err;
}

psr_err psr_coordinator_take_facts(psr_coordinator *c, psr_seat *seat, const psr_message *message)
{
    if (c->state != PSR_COORDINATOR_JOINING || seat->told_facts)
        return psr_violation(message, "it has told its facts before");
    PSR_TRY(c->options.user.facts(c->options.user.context, message));
    seat->told_facts = true;
    if (!psr_coordinator_all(c, has_told_facts))
        return PSR_OK;
    PSR_TRY(check_agreement(c));
    c->state = PSR_COORDINATOR_WELCOMED;
    PSR_TRY(make_view(c));
    if (c->options.shards > 0)
        PSR_TRY(welcome(c, PSR_ROLE_SHARD));
    PSR_TRY(welcome(c, PSR_ROLE_WORKER));
    return c->options.user.welcomed(c->options.user.context);
}

/* ---- READY and START ---- */

static bool is_ready(const psr_seat *seat)
{
    return seat->ready;
}

psr_err psr_coordinator_take_ready(psr_coordinator *c, psr_seat *seat, const psr_message *message)
{
    if (c->state != PSR_COORDINATOR_WELCOMED || seat->ready)
        return psr_violation(message, "that is due once, after WELCOME");
    PSR_TRY(c->options.user.ready(c->options.user.context, message));
    seat->ready = true;
    if (!psr_coordinator_all(c, is_ready))
        return PSR_OK;
    c->state = PSR_COORDINATOR_RUNNING;
    PSR_TRY(psr_coordinator_send_all(c, (psr_head){.type = PSR_MSG_START}, (psr_bytes){NULL, 0}));
    return c->options.user.started(c->options.user.context);
}

/* ---- who never came ---- */

/* "worker 1, worker 2 on b" of those that did or did not come. */
static void list(const psr_coordinator *c, bool joined, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < c->seat_count && used < size; i++) {
        if (c->seats[i].joined != joined)
            continue;
        char name[PSR_MEMBER_NAME_MAX];
        psr_seat_name(&c->seats[i], name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

void psr_coordinator_check_joining(psr_coordinator *c, int64_t now_ms)
{
    if (now_ms < c->come_up_by_ms || c->joined_count == c->seat_count)
        return; /* who is here and tells no facts is liveness' to find */
    char missing[400], here[400], line[PSR_COORDINATOR_LINE_MAX];
    list(c, false, missing, sizeof missing);
    list(c, true, here, sizeof here);
    snprintf(line, sizeof line, "%s never came up; %" PRIu32 " of %" PRIu32 " did%s%s", missing,
             c->joined_count, c->seat_count, here[0] ? ": " : "", here);
    psr_coordinator_end(c, PSR_ERR_TIMEOUT, line);
}
