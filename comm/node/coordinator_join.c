/* The coordinator of a communicator until all may begin: seats, facts that must be alike, and who never came. */
#include "comm/node/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 8, SLICE_FLOATS = 64 << 10 };

/* ---- JOIN ---- */

static psr_err send_place(psr_node_coordinator *c, uint32_t rank)
{
    const psr_place place = {.rank = rank, .ranks = c->options.ranks, .deadline_ms = c->options.deadline_ms};
    void *payload = NULL;
    size_t size = 0;
    PSR_TRY(psr_place_write(&place, (psr_bytes){0}, &payload, &size));
    psr_node_seat_send(c, rank, (psr_head){.type = PSR_MSG_CONFIG}, payload, size);
    free(payload);
    return PSR_OK;
}

/* The one that is asked for, or the first that is free; ranks: none. */
static uint32_t seat_for(const psr_node_coordinator *c, const psr_message *message)
{
    uint32_t rank = message->from.rank;
    if (message->from.role != PSR_ROLE_WORKER)
        return c->options.ranks;
    if (rank != PSR_RANK_ANY)
        return rank < c->options.ranks && c->seats[rank].state == PSR_NODE_SEAT_EMPTY ? rank
                                                                                      : c->options.ranks;
    for (rank = 0; rank < c->options.ranks && c->seats[rank].state != PSR_NODE_SEAT_EMPTY; rank++)
        ;
    return rank;
}

/* It comes to what has failed before, and hears why. rank: its seat; ranks: none. */
static void turn_away(psr_node_coordinator *c, const psr_message *message, uint32_t rank)
{
    if (rank < c->options.ranks)
        c->seats[rank].state = PSR_NODE_SEAT_GIVEN_UP;
    c->options.refuse(c->options.context, message, PSR_ERR_PEER, c->line);
}

/* The others go on without it. */
static void refuse_without_place(const psr_node_coordinator *c, const psr_message *message,
                                 const psr_join *join)
{
    const char *role = psr_role_name(message->from.role);
    char who[32], line[PSR_NODE_SEAT_LINE_BYTES];
    if (message->from.rank == PSR_RANK_ANY)
        snprintf(who, sizeof who, "a %s", role);
    else
        snprintf(who, sizeof who, "%s %" PRIu32, role, message->from.rank);
    snprintf(line, sizeof line,
             "%s on %s (process %" PRId64 ") wants to join and has no place: there are %" PRIu32
             " ranks, each once",
             who, join->host, join->pid, c->options.ranks);
    c->options.refuse(c->options.context, message, PSR_ERR_DENIED, line);
}

static bool is_of_one_here(const psr_node_coordinator *c, const psr_message *message)
{
    return message->from.role == PSR_ROLE_WORKER && message->from.rank < c->options.ranks &&
           psr_node_seat_is_here(&c->seats[message->from.rank]);
}

/* All have begun, and go on without it, also where it was here before. */
static void refuse_late(const psr_node_coordinator *c, const psr_message *message, const psr_join *join)
{
    uint32_t rank = message->from.rank;
    char line[PSR_NODE_SEAT_LINE_BYTES];
    if (message->from.role != PSR_ROLE_WORKER || rank >= c->options.ranks || is_of_one_here(c, message)) {
        refuse_without_place(c, message, join);
        return;
    }
    snprintf(line, sizeof line, "rank %" PRIu32 " was here before, and the others go on without it", rank);
    c->options.refuse(c->options.context, message, PSR_ERR_PEER, line);
}

static psr_err check_version(const psr_node_coordinator *c, const psr_message *message, uint32_t rank,
                             const psr_join *join)
{
    char who[32];
    snprintf(who, sizeof who, "rank %" PRIu32, rank);
    psr_err err = psr_join_check_version(join, who, c->options.host);
    if (err != PSR_OK)
        c->options.refuse(c->options.context, message, err, psr_err_detail());
    return err;
}

static psr_err take_seat(psr_node_coordinator *c, const psr_message *message, uint32_t rank,
                         const psr_join *join, int64_t present_ms)
{
    PSR_TRY(check_version(c, message, rank, join));
    psr_node_seat *s = &c->seats[rank];
    s->entry.peer = (psr_peer){PSR_ROLE_WORKER, rank};
    memcpy(s->entry.host, join->host, sizeof s->entry.host);
    memcpy(s->entry.endpoint, join->endpoint, sizeof s->entry.endpoint);
    s->entry.memory = join->memory;
    PSR_TRY(
        psr_join_blame(message, c->options.connect(c->options.context, s->entry.peer, s->entry.endpoint)));
    s->state = PSR_NODE_SEAT_JOINED;
    s->heard_ms = s->moved_ms = present_ms;
    s->circle_ms = INT64_MIN / 2;
    c->joined++;
    return send_place(c, rank);
}

psr_err psr_node_joining_take(psr_node_coordinator *c, const psr_message *message, int64_t present_ms)
{
    psr_join join;
    uint32_t rank = seat_for(c, message);
    if (c->state == PSR_NODE_COORDINATOR_FAILED) {
        turn_away(c, message, rank);
        return PSR_OK;
    }
    psr_err err = psr_join_read(message, &join);
    if (err != PSR_OK && c->state == PSR_NODE_COORDINATOR_RUNNING && !is_of_one_here(c, message)) {
        c->options.refuse(c->options.context, message, err, psr_err_detail());
        return PSR_OK;
    }
    PSR_TRY(err);
    if (c->state == PSR_NODE_COORDINATOR_RUNNING)
        refuse_late(c, message, &join);
    else if (rank >= c->options.ranks)
        refuse_without_place(c, message, &join);
    else
        return take_seat(c, message, rank, &join, present_ms);
    return PSR_OK;
}

static psr_err welcome_all(psr_node_coordinator *c)
{
    const psr_plan_options limits = {
        .route = PSR_ROUTE_NONE, .ranks = c->options.ranks, .slice_floats = SLICE_FLOATS, .window = WINDOW};
    psr_view view = {.member_count = c->options.ranks};
    void *payload = NULL;
    size_t size = 0;
    view.members = calloc(c->options.ranks, sizeof *view.members);
    if (view.members == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " members", c->options.ranks);
    for (uint32_t r = 0; r < c->options.ranks; r++)
        view.members[r] = c->seats[r].entry;
    psr_err err = psr_plan_of(&limits, NULL, 0, &view.plan);
    if (err == PSR_OK)
        err = psr_welcome_write(&view, (psr_bytes){0}, &payload, &size);
    if (err == PSR_OK)
        psr_node_seats_send(c, (psr_head){.type = PSR_MSG_WELCOME}, payload, size);
    free(payload);
    psr_view_done(&view);
    return err;
}

/* Whose facts differ from rank 0's; ranks: nobody's. */
static uint32_t who_differs(const psr_node_coordinator *c)
{
    const psr_node_seat *first = &c->seats[0];
    for (uint32_t r = 1; r < c->options.ranks; r++)
        if (c->seats[r].facts_size != first->facts_size ||
            (first->facts_size > 0 && memcmp(c->seats[r].facts, first->facts, first->facts_size) != 0))
            return r;
    return c->options.ranks;
}

static psr_err begin(psr_node_coordinator *c)
{
    PSR_TRY(welcome_all(c));
    c->state = PSR_NODE_COORDINATOR_RUNNING;
    uint32_t other = who_differs(c);
    if (other == c->options.ranks) {
        psr_node_seats_send(
            c, psr_msg_verdict_head(&(psr_msg_failure){.rank = PSR_RANK_ANY, .other = PSR_RANK_ANY}), NULL,
            0);
        return PSR_OK;
    }
    char line[PSR_NODE_SEAT_LINE_BYTES], a[PSR_NODE_SEAT_NAME_BYTES], b[PSR_NODE_SEAT_NAME_BYTES];
    psr_node_seat_name(c, 0, a);
    psr_node_seat_name(c, other, b);
    snprintf(line, sizeof line,
             "%s and %s do not agree: the bytes under \"agree\", or the numbers of shards, differ", a, b);
    psr_node_seats_fail(c, PSR_ERR_USAGE, other, line);
    return PSR_OK;
}

psr_err psr_node_joining_take_facts(psr_node_coordinator *c, psr_node_seat *s, const psr_message *message)
{
    if (s->state != PSR_NODE_SEAT_JOINED)
        return psr_violation(message, "it has told its facts before");
    if (message->payload_bytes > PSR_NODE_FACTS_MAX)
        return psr_violation(message, "of facts %u bytes are the most", PSR_NODE_FACTS_MAX);
    s->facts = message->payload_bytes > 0 ? malloc(message->payload_bytes) : NULL;
    if (message->payload_bytes > 0 && s->facts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of facts", message->payload_bytes);
    if (s->facts != NULL)
        memcpy(s->facts, message->payload, message->payload_bytes);
    s->facts_size = message->payload_bytes;
    s->state = PSR_NODE_SEAT_AGREES;
    return ++c->agreeing == c->options.ranks ? begin(c) : PSR_OK;
}

/* ---- who never came ---- */

static void list_missing(const psr_node_coordinator *c, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t r = 0; r < c->options.ranks && used < size; r++)
        if (c->seats[r].state == PSR_NODE_SEAT_EMPTY)
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu32, used > 0 ? ", " : "", r);
}

void psr_node_joining_check(psr_node_coordinator *c, int64_t present_ms)
{
    char missing[256], line[PSR_NODE_SEAT_LINE_BYTES];
    if (present_ms < c->join_until_ms || c->joined == c->options.ranks)
        return;
    list_missing(c, missing, sizeof missing);
    snprintf(line, sizeof line, "of %" PRIu32 " ranks these did not join within %.1f s: %s", c->options.ranks,
             (double)c->options.join_deadline_ms / 1000, missing);
    psr_node_seats_fail(c, PSR_ERR_TIMEOUT, PSR_RANK_ANY, line);
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (c->seats[r].state == PSR_NODE_SEAT_EMPTY)
            c->seats[r].state = PSR_NODE_SEAT_GIVEN_UP;
}
