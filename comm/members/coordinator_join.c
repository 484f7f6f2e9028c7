/* The coordinator until START: seats, facts that must agree, the view, and members that never
 * came. */
#include "comm/members/coordinator_private.h"

#include "comm/members/join.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JOIN ---- */

/* The seat that the joiner asks for, or the lowest free one of its role. NULL: no such seat is
 * free. */
static psr_seat *seat_for(psr_coordinator *c, psr_peer wanted)
{
    psr_seat *seat = wanted.rank != PSR_RANK_ANY ? psr_coordinator_find(c, wanted) : NULL;
    for (uint32_t i = 0; i < c->seat_count && wanted.rank == PSR_RANK_ANY && seat == NULL; i++)
        if (c->seats[i].entry.peer.role == wanted.role && c->seats[i].state == PSR_SEAT_EMPTY)
            seat = &c->seats[i];
    return seat != NULL && seat->state == PSR_SEAT_EMPTY ? seat : NULL;
}

static void refuse(psr_coordinator *c, const psr_message *message, psr_err status, const char *line)
{
    c->options.ways.refuse(c->options.ways.context, message, status, line);
}

/* The run has ended: the joiner is told why. */
static void refuse_late(psr_coordinator *c, const psr_message *message)
{
    char line[PSR_COORDINATOR_LINE_MAX + 32];
    psr_seat *seat = seat_for(c, message->from);
    snprintf(line, sizeof line, "%s%s",
             c->options.program ? "" : "the run has ended: ", c->end_line);
    if (seat != NULL)
        seat->state = PSR_SEAT_OUT;
    refuse(c, message, PSR_ERR_PEER, line);
}

/* There is no seat for it; the others go on without it. */
static void refuse_without_place(psr_coordinator *c, const psr_message *message,
                                 const psr_join *join)
{
    const char *role = psr_role_name(message->from.role);
    char who[32], places[64], line[PSR_COORDINATOR_LINE_MAX];
    if (message->from.rank == PSR_RANK_ANY)
        snprintf(who, sizeof who, "a %s", role);
    else
        snprintf(who, sizeof who, "%s %" PRIu32, role, message->from.rank);
    if (c->options.program)
        snprintf(places, sizeof places, "there are %" PRIu32 " ranks", c->options.workers);
    else
        snprintf(places, sizeof places, "the run has %" PRIu32 " workers and %" PRIu32 " shards",
                 c->options.workers, c->options.shards);
    snprintf(line, sizeof line,
             "%s on %s (process %" PRId64 ") wants to join and has no place: %s, each once", who,
             join->host, join->pid, places);
    psr_coordinator_say(c, "%s", line);
    refuse(c, message, PSR_ERR_DENIED, line);
}

/* All have begun. They go on without the joiner, even if it was a member before. */
static void refuse_begun(psr_coordinator *c, const psr_message *message, const psr_join *join)
{
    const psr_seat *seat = psr_coordinator_find(c, message->from);
    char line[PSR_COORDINATOR_LINE_MAX];
    if (seat == NULL || seat->state == PSR_SEAT_HERE) {
        refuse_without_place(c, message, join);
        return;
    }
    snprintf(line, sizeof line, "rank %" PRIu32 " was here before, and the others go on without it",
             message->from.rank);
    refuse(c, message, PSR_ERR_PEER, line);
}

static psr_err send_config(psr_coordinator *c, psr_peer peer)
{
    const psr_coordinator_user *user = &c->options.user;
    const psr_place place = {
        .rank = peer.rank, .ranks = c->options.ranks, .deadline_ms = c->options.deadline_ms};
    void *given = NULL, *payload = NULL;
    size_t given_size = 0, size = 0;
    if (user->given != NULL)
        PSR_TRY(user->given(user->context, peer.role, &given, &given_size));
    psr_err err = psr_place_write(&place, (psr_bytes){given, given_size}, &payload, &size);
    free(given);
    if (err == PSR_OK)
        err = psr_coordinator_send(c, peer, (psr_head){.type = PSR_MSG_CONFIG},
                                   (psr_bytes){payload, size});
    free(payload);
    return err;
}

static psr_err take_seat(psr_coordinator *c, psr_seat *seat, const psr_message *message,
                         const psr_join *join, int64_t now_ms)
{
    const psr_coordinator_ways *ways = &c->options.ways;
    memcpy(seat->entry.host, join->host, sizeof seat->entry.host);
    memcpy(seat->entry.endpoint, join->endpoint, sizeof seat->entry.endpoint);
    seat->entry.memory = join->memory;
    PSR_TRY(psr_join_blame(message,
                           ways->connect(ways->context, seat->entry.peer, seat->entry.endpoint)));
    seat->state = PSR_SEAT_HERE;
    seat->joined = true;
    c->joined_count++;
    PSR_TRY(psr_liveness_add(c->liveness, seat->entry.peer, seat->entry.host, now_ms));
    if (c->options.join_deadline_ms == 0)
        c->come_up_by_ms =
            psr_liveness_present_ms(c->liveness, now_ms) +
            (c->options.deadline_ms > PSR_COME_UP_MS ? c->options.deadline_ms : PSR_COME_UP_MS);
    if (c->options.events.joined != NULL)
        c->options.events.joined(c->options.events.context, &seat->entry, c->joined_count,
                                 c->seat_count);
    return send_config(c, seat->entry.peer);
}

/* The joiner has another version: it is told so, and so are all. */
static psr_err check_version(psr_coordinator *c, psr_seat *seat, const psr_message *message,
                             const psr_join *join)
{
    char who[PSR_MEMBER_NAME_MAX];
    psr_coordinator_seat_name(c, seat, who); /* the seat has no host yet */
    psr_err err = psr_join_check_version(join, who, c->host);
    if (err != PSR_OK) {
        refuse(c, message, err, psr_err_detail());
        seat->state = PSR_SEAT_OUT;
    }
    return err;
}

psr_err psr_coordinator_take_join(psr_coordinator *c, const psr_message *message, int64_t now_ms)
{
    psr_join join;
    if (c->state == PSR_COORDINATOR_ENDED) {
        refuse_late(c, message);
        return PSR_OK;
    }
    psr_err err = psr_coordinator_check_text(c, message);
    if (err == PSR_OK)
        err = psr_join_read(message, &join);
    if (err != PSR_OK && psr_coordinator_running(c) && !psr_coordinator_is_here(c, message->from)) {
        refuse(c, message, err, psr_err_detail());
        return PSR_OK;
    }
    PSR_TRY(err);
    psr_seat *seat = seat_for(c, message->from);
    if (psr_coordinator_running(c)) {
        refuse_begun(c, message, &join);
    } else if (seat == NULL || c->state != PSR_COORDINATOR_JOINING) {
        refuse_without_place(c, message, &join);
    } else {
        PSR_TRY(check_version(c, seat, message, &join));
        return take_seat(c, seat, message, &join, now_ms);
    }
    return PSR_OK;
}

/* ---- FACTS and WELCOME ---- */

static bool has_told_facts(const psr_seat *seat)
{
    return seat->told_facts;
}

static psr_err check_agreement(psr_coordinator *c)
{
    const psr_coordinator_user *user = &c->options.user;
    const psr_seat *workers = c->seats + c->options.shards;
    char name[PSR_MEMBER_NAME_MAX], first[PSR_MEMBER_NAME_MAX];
    for (uint32_t r = 1; r < c->options.workers && user->agree != NULL; r++) {
        psr_coordinator_seat_name(c, &workers[r], name);
        psr_coordinator_seat_name(c, &workers[0], first);
        PSR_TRY(user->agree(user->context, r, name, first));
    }
    return PSR_OK;
}

static psr_err make_view(psr_coordinator *c)
{
    c->view.members = calloc(c->seat_count, sizeof *c->view.members);
    if (c->view.members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", c->seat_count);
    c->view.member_count = c->seat_count;
    for (uint32_t i = 0; i < c->seat_count; i++)
        c->view.members[i] = c->seats[i].entry;
    return c->options.user.begin(c->options.user.context, &c->view);
}

static psr_err welcome(psr_coordinator *c, psr_role role)
{
    const psr_coordinator_user *user = &c->options.user;
    void *agreed = NULL, *payload = NULL;
    size_t agreed_size = 0, size = 0;
    if (user->agreed != NULL)
        PSR_TRY(user->agreed(user->context, role, &agreed, &agreed_size));
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
    const psr_coordinator_user *user = &c->options.user;
    if (c->state != PSR_COORDINATOR_JOINING || seat->told_facts)
        return psr_violation(message, "it has told its facts before");
    PSR_TRY(user->facts(user->context, message));
    seat->told_facts = true;
    if (!psr_coordinator_all(c, has_told_facts))
        return PSR_OK;
    PSR_TRY(check_agreement(c));
    c->state = PSR_COORDINATOR_WELCOMED;
    PSR_TRY(make_view(c));
    if (c->options.shards > 0)
        PSR_TRY(welcome(c, PSR_ROLE_SHARD));
    PSR_TRY(welcome(c, PSR_ROLE_WORKER));
    if (user->ready == NULL)
        c->state = PSR_COORDINATOR_RUNNING;
    return user->welcomed != NULL ? user->welcomed(user->context) : PSR_OK;
}

/* ---- READY and START ---- */

static bool is_ready(const psr_seat *seat)
{
    return seat->ready;
}

psr_err psr_coordinator_take_ready(psr_coordinator *c, psr_seat *seat, const psr_message *message)
{
    const psr_coordinator_user *user = &c->options.user;
    if (c->state != PSR_COORDINATOR_WELCOMED || seat->ready)
        return psr_violation(message, "that is due once, after WELCOME");
    PSR_TRY(user->ready(user->context, message));
    seat->ready = true;
    if (!psr_coordinator_all(c, is_ready))
        return PSR_OK;
    c->state = PSR_COORDINATOR_RUNNING;
    PSR_TRY(psr_coordinator_send_all(c, (psr_head){.type = PSR_MSG_START}, (psr_bytes){NULL, 0}));
    return user->started != NULL ? user->started(user->context) : PSR_OK;
}

/* ---- who never came ---- */

/* "worker 1, worker 2 on b": the members that did, or did not, join. The ranks of a program are
 * listed by number. */
static void list(const psr_coordinator *c, bool joined, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < c->seat_count && used < size; i++) {
        if (c->seats[i].joined != joined)
            continue;
        char name[PSR_MEMBER_NAME_MAX];
        if (c->options.program)
            snprintf(name, sizeof name, "%" PRIu32, c->seats[i].entry.peer.rank);
        else
            psr_coordinator_seat_name(c, &c->seats[i], name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", name);
    }
}

void psr_coordinator_check_joining(psr_coordinator *c, int64_t present_ms)
{
    if (present_ms < c->come_up_by_ms || c->joined_count == c->seat_count)
        return; /* a member that is here and sends no facts is liveness' to find */
    char missing[400], here[400], line[PSR_COORDINATOR_LINE_MAX];
    list(c, false, missing, sizeof missing);
    list(c, true, here, sizeof here);
    if (c->options.program)
        snprintf(line, sizeof line, "of %" PRIu32 " ranks these did not join within %.1f s: %s",
                 c->seat_count, (double)c->options.join_deadline_ms / 1000, missing);
    else
        snprintf(line, sizeof line, "%s never came up; %" PRIu32 " of %" PRIu32 " did%s%s", missing,
                 c->joined_count, c->seat_count, here[0] != '\0' ? ": " : "", here);
    psr_coordinator_end(c, PSR_ERR_TIMEOUT, line);
    for (uint32_t i = 0; i < c->seat_count && psr_coordinator_goes_on(c); i++)
        if (c->seats[i].state == PSR_SEAT_EMPTY)
            c->seats[i].state = PSR_SEAT_OUT; /* all can be over without it */
}
