#include "comm/node/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending ---- */

void psr_node_seat_send(psr_node_coordinator *c, uint32_t rank, psr_head head, const void *data, size_t bytes)
{
    const psr_payload payload = {.data = data, .bytes = bytes};
    psr_err err = c->options.send(c->options.context, (psr_peer){PSR_ROLE_WORKER, rank}, &head,
                                  bytes > 0 ? &payload : NULL);
    (void)err;
}

psr_msg_limits psr_node_seats_limits(const psr_node_coordinator *c)
{
    return (psr_msg_limits){.workers = c->options.ranks, .epoch = c->epoch, .steps = UINT64_MAX};
}

bool psr_node_seat_is_here(const psr_node_seat *s)
{
    return s->state == PSR_NODE_SEAT_JOINED || s->state == PSR_NODE_SEAT_AGREES;
}

void psr_node_seats_send(psr_node_coordinator *c, psr_head head, const void *data, size_t bytes)
{
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (psr_node_seat_is_here(&c->seats[r]))
            psr_node_seat_send(c, r, head, data, bytes);
}

void psr_node_seat_name(const psr_node_coordinator *c, uint32_t rank, char text[PSR_NODE_SEAT_NAME_BYTES])
{
    snprintf(text, PSR_NODE_SEAT_NAME_BYTES, "rank %" PRIu32 " on %s", rank, c->seats[rank].entry.host);
}

/* ---- verdicts ---- */

/* The channels to those who were given up while others went on stay, for the verdict to reach who lives after all; at the end nobody
 * waits for that. */
static void cut_at_end(psr_node_coordinator *c)
{
    if (!psr_node_coordinator_over(c))
        return;
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (c->seats[r].awaited_end) {
            c->seats[r].awaited_end = false;
            c->options.cut(c->options.context, c->seats[r].entry.peer);
        }
}

/* The first one tells why: others come of it. */
static void keep_verdict(psr_node_coordinator *c, psr_err status, const char *line)
{
    if (c->verdict != PSR_OK)
        return;
    c->verdict = status;
    snprintf(c->line, sizeof c->line, "%s", line);
}

void psr_node_seats_verdict(psr_node_coordinator *c, const psr_msg_failure *verdict, const char *line)
{
    keep_verdict(c, verdict->status, line);
    psr_node_seats_send(c, psr_msg_verdict_head(verdict), line, strlen(line));
    if (c->options.judged != NULL)
        c->options.judged(c->options.context, verdict, line);
}

/* Everything has failed, and there is no going on. */
void psr_node_seats_fail(psr_node_coordinator *c, psr_err status, uint32_t rank, const char *line)
{
    if (c->state == PSR_NODE_COORDINATOR_FAILED)
        return;
    bool joining = c->state == PSR_NODE_COORDINATOR_JOINING;
    const psr_msg_failure verdict = {
        .status = status, .scope = PSR_SCOPE_ALL, .rank = rank, .other = PSR_RANK_ANY};
    c->state = PSR_NODE_COORDINATOR_FAILED;
    psr_node_shrinking_free_all(c);
    if (!joining) {
        psr_node_seats_verdict(c, &verdict, line);
        return;
    }
    keep_verdict(c, status, line);
    /* Who has no WELCOME yet hears ABORT alone. */
    psr_node_seats_send(c, (psr_head){.type = PSR_MSG_ABORT}, c->line, strlen(c->line));
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (psr_node_seat_is_here(&c->seats[r]))
            c->seats[r].state = PSR_NODE_SEAT_GIVEN_UP; /* its channel stays, for the ABORT to leave */
}

/* It is out, and hears so too, if it lives. */
void psr_node_seat_lose(psr_node_coordinator *c, uint32_t rank, psr_err status, const char *line)
{
    psr_node_seat *s = &c->seats[rank];
    if (c->state != PSR_NODE_COORDINATOR_RUNNING) {
        psr_node_seats_fail(c, status, rank, line);
        if (psr_node_seat_is_here(s)) {
            s->state = PSR_NODE_SEAT_GIVEN_UP;
            c->options.cut(c->options.context, s->entry.peer);
        }
        return;
    }
    if (!psr_node_seat_is_here(s))
        return;
    if (status == PSR_ERR_PROTOCOL)
        c->verdict = PSR_OK; /* seen here, which counts more than what a rank has found before */
    psr_node_seats_verdict(
        c, &(psr_msg_failure){.status = status, .scope = PSR_SCOPE_LOST, .rank = rank, .other = PSR_RANK_ANY},
        line);
    s->state = PSR_NODE_SEAT_GIVEN_UP;
    s->awaited_end = true;
    c->options.retire(c->options.context, s->entry.peer);
    psr_node_shrinking_without(c, rank);
    cut_at_end(c);
}

/* Who breaks the protocol is out. What the scheduler itself cannot do ends everything. */
static void judge_detail(psr_node_coordinator *c, psr_err err, uint32_t rank)
{
    char line[PSR_NODE_SEAT_LINE_BYTES];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    if (c->state == PSR_NODE_COORDINATOR_RUNNING && err != PSR_ERR_NOMEM && rank < c->options.ranks)
        psr_node_seat_lose(c, rank, err, line);
    else
        psr_node_seats_fail(c, err, rank, line);
}

void psr_node_coordinator_fail(psr_node_coordinator *coordinator, psr_err err, uint32_t rank)
{
    char line[PSR_NODE_SEAT_LINE_BYTES];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    psr_node_seats_fail(coordinator, err, rank, line);
}

void psr_node_coordinator_lose(psr_node_coordinator *coordinator, uint32_t rank, const char *line)
{
    psr_node_seat_lose(coordinator, rank, PSR_ERR_PEER, line);
}

bool psr_node_coordinator_over(const psr_node_coordinator *coordinator)
{
    for (uint32_t r = 0; r < coordinator->options.ranks; r++)
        if (psr_node_seat_is_here(&coordinator->seats[r]) ||
            coordinator->seats[r].state == PSR_NODE_SEAT_EMPTY)
            return false;
    return true;
}

bool psr_node_coordinator_has_left(const psr_node_coordinator *coordinator, uint32_t rank)
{
    return coordinator->seats[rank].state == PSR_NODE_SEAT_LEFT;
}

bool psr_node_coordinator_has_joined(const psr_node_coordinator *coordinator, uint32_t rank)
{
    return coordinator->seats[rank].state != PSR_NODE_SEAT_EMPTY;
}

bool psr_node_coordinator_misses(const psr_node_coordinator *coordinator, uint32_t rank)
{
    const psr_node_coordinator *c = coordinator;
    bool may_come = psr_node_seat_is_here(&c->seats[rank]) || c->seats[rank].state == PSR_NODE_SEAT_EMPTY,
         others = false;
    for (uint32_t r = 0; r < c->options.ranks; r++)
        others |= r != rank && psr_node_seat_is_here(&c->seats[r]);
    return c->state != PSR_NODE_COORDINATOR_FAILED && may_come && others;
}

psr_err psr_node_coordinator_verdict(const psr_node_coordinator *coordinator, const char **ret_line)
{
    if (coordinator->verdict != PSR_OK)
        *ret_line = coordinator->line;
    return coordinator->verdict;
}

/* ---- messages ---- */

static size_t waiting_for(const psr_node_coordinator *c, uint32_t rank)
{
    return c->options.waiting != NULL
               ? c->options.waiting(c->options.context, (psr_peer){PSR_ROLE_WORKER, rank})
               : 0;
}

/* What a rank finds others may be told, and what it wants it is told itself. Who goes on while
 * somebody does not read is to blame, and not who may be stopped: that is the deadline's to find. */
static psr_err check_waiting(const psr_node_coordinator *c, const psr_message *message)
{
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (psr_node_seat_is_here(&c->seats[r]) && waiting_for(c, r) >= PSR_NODE_COORDINATOR_WAITING_MAX)
            return psr_violation(message, "%d messages wait for rank %" PRIu32 " already",
                                 PSR_NODE_COORDINATOR_WAITING_MAX, r);
    return PSR_OK;
}

static psr_err take_progress(psr_node_coordinator *c, uint32_t rank, const psr_message *message,
                             int64_t present_ms)
{
    psr_node_seat *s = &c->seats[rank];
    psr_msg_progress says;
    const psr_msg_limits limits = psr_node_seats_limits(c);
    PSR_TRY(psr_msg_progress_read(message, &limits, &says));
    if (!s->reported || says.counter != s->progress.counter || says.waits != s->progress.waits ||
        (says.waits && !psr_peer_equal(says.waits_for, s->progress.waits_for)))
        s->moved_ms = present_ms;
    if (!says.waits || !psr_peer_equal(says.waits_for, s->progress.waits_for))
        s->said[0] = '\0';
    s->reported = true;
    s->progress = says;
    if (waiting_for(c, rank) == 0) /* else that is a sign of life */
        psr_node_seat_send(c, rank, psr_msg_alive_head(false), NULL, 0);
    return PSR_OK;
}

/* Who has left needs nothing more: what others have not sent there yet would hold up their own leaving. */
static void say_bye(psr_node_coordinator *c, uint32_t rank)
{
    const size_t bytes = psr_msg_ranks_bytes(c->options.ranks);
    uint8_t *left = calloc(bytes, 1);
    for (uint32_t r = 0; left != NULL && r < c->options.ranks; r++)
        if (r != rank && !psr_node_seat_is_here(&c->seats[r]))
            psr_msg_ranks_add(left, r);
    psr_node_seat_send(c, rank, (psr_head){.type = PSR_MSG_BYE}, left, left != NULL ? bytes : 0);
    free(left);
}

/* After a failure nobody waits for BYE. */
static void take_done(psr_node_coordinator *c, uint32_t rank)
{
    c->seats[rank].state = PSR_NODE_SEAT_LEFT;
    if (c->state == PSR_NODE_COORDINATOR_FAILED)
        c->options.cut(c->options.context, c->seats[rank].entry.peer);
    else
        say_bye(c, rank);
    psr_node_shrinking_without(c, rank);
    cut_at_end(c);
}

static psr_err take(psr_node_coordinator *c, const psr_message *message, int64_t present_ms)
{
    uint32_t rank = message->from.rank;
    if (message->head.type == PSR_MSG_JOIN)
        return psr_node_joining_take(c, message, present_ms);
    if (message->from.role != PSR_ROLE_WORKER || rank >= c->options.ranks ||
        !psr_node_seat_is_here(&c->seats[rank]))
        return PSR_OK;
    c->seats[rank].heard_ms = present_ms;
    switch (message->head.type) {
    case PSR_MSG_FACTS:
        return c->state == PSR_NODE_COORDINATOR_JOINING
                   ? psr_node_joining_take_facts(c, &c->seats[rank], message)
                   : PSR_OK;
    case PSR_MSG_PROGRESS:
        return take_progress(c, rank, message, present_ms);
    case PSR_MSG_FINDING:
        PSR_TRY(check_waiting(c, message));
        return psr_node_finding_take(c, rank, message, present_ms);
    case PSR_MSG_SHRINK:
        PSR_TRY(check_waiting(c, message));
        return c->state == PSR_NODE_COORDINATOR_RUNNING
                   ? psr_node_shrinking_take(c, rank, message, present_ms)
                   : PSR_OK;
    case PSR_MSG_FAILED:
        psr_node_finding_take_failed(c, rank, message);
        return PSR_OK;
    case PSR_MSG_DONE:
        take_done(c, rank);
        return PSR_OK;
    default:
        return psr_violation(message, "no rank says that to a coordinator");
    }
}

void psr_node_coordinator_message(psr_node_coordinator *coordinator, const psr_message *message,
                                  int64_t now_ms)
{
    psr_err err = take(coordinator, message, psr_presence_clock_ms(&coordinator->presence, now_ms));
    if (err != PSR_OK)
        judge_detail(coordinator, err, message->from.rank);
}

/* ---- time ---- */

static void check_silent(psr_node_coordinator *c, uint32_t rank, int64_t present_ms)
{
    psr_node_seat *s = &c->seats[rank];
    int64_t silent_ms = present_ms - s->heard_ms;
    char line[PSR_NODE_SEAT_LINE_BYTES], who[PSR_NODE_SEAT_NAME_BYTES];
    psr_node_seat_name(c, rank, who);
    snprintf(line, sizeof line, "%s: no sign of life for %.1f s", who, (double)silent_ms / 1000);
    psr_node_seat_lose(c, rank, PSR_ERR_PEER, line);
}

void psr_node_coordinator_tick(psr_node_coordinator *coordinator, int64_t now_ms, int64_t *ret_next_ms)
{
    psr_node_coordinator *c = coordinator;
    int64_t present_ms = psr_presence_clock_ms(&c->presence, now_ms),
            patience_ms = c->options.deadline_ms * 3 / 4;
    int64_t left_ms = psr_presence_clock_every_ms(&c->presence);
    psr_node_joining_check(c, present_ms);
    for (uint32_t r = 0; r < c->options.ranks; r++) {
        psr_node_seat *s = &c->seats[r];
        int64_t quiet_ms = present_ms - s->heard_ms;
        if (psr_node_seat_is_here(s) && quiet_ms >= patience_ms)
            check_silent(c, r, present_ms);
        else if (psr_node_seat_is_here(s) && patience_ms - quiet_ms < left_ms)
            left_ms = patience_ms - quiet_ms;
    }
    int64_t shrinking_ms = psr_node_shrinking_tick(c, present_ms);
    left_ms = shrinking_ms < left_ms ? shrinking_ms : left_ms;
    if (c->joined < c->options.ranks && c->join_until_ms > present_ms &&
        c->join_until_ms - present_ms < left_ms)
        left_ms = c->join_until_ms - present_ms;
    *ret_next_ms = now_ms + left_ms;
}

/* ---- life ---- */

psr_err psr_node_coordinator_new(const psr_node_coordinator_options *options, int64_t now_ms,
                                 psr_node_coordinator **ret_coordinator)
{
    psr_node_coordinator *c = calloc(1, sizeof *c);
    if (c != NULL)
        c->seats = calloc(options->ranks, sizeof *c->seats);
    if (c == NULL || c->seats == NULL) {
        free(c);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", options->ranks);
    }
    c->options = *options;
    c->presence = psr_presence_clock_for(now_ms, options->deadline_ms);
    c->join_until_ms = psr_presence_clock_ms(&c->presence, now_ms) + options->join_deadline_ms;
    *ret_coordinator = c;
    return PSR_OK;
}

void psr_node_coordinator_free(psr_node_coordinator *coordinator)
{
    if (coordinator == NULL)
        return;
    for (uint32_t r = 0; r < coordinator->options.ranks; r++)
        free(coordinator->seats[r].facts);
    psr_node_shrinking_free_all(coordinator);
    free(coordinator->seats);
    free(coordinator);
}
