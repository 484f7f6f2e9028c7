#include "comm/node/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CIRCLE_MS = 250, /* for the others of a circle to say in which call they wait */
    SILENT_MS = 500, /* who is called silent has been so for that long at least */
    WINDOW = 8,
    SLICE_FLOATS = 64 << 10
};

/* ---- sending ---- */

void psr_node_seat_send(psr_node_coordinator *c, uint32_t rank, psr_head head, const void *data, size_t bytes)
{
    const psr_payload payload = {.data = data, .bytes = bytes};
    psr_err err = c->options.send(c->options.context, (psr_peer){PSR_ROLE_WORKER, rank}, &head,
                                  bytes > 0 ? &payload : NULL);
    (void)err;
}

bool psr_node_seat_is_here(const psr_node_seat *s)
{
    return s->state == PSR_NODE_SEAT_JOINED || s->state == PSR_NODE_SEAT_AGREES;
}

static void send_to_all(psr_node_coordinator *c, psr_head head, const void *data, size_t bytes)
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

static void say_verdict(psr_node_coordinator *c, const psr_msg_failure *verdict, const char *line)
{
    keep_verdict(c, verdict->status, line);
    send_to_all(c, psr_msg_verdict_head(verdict), line, strlen(line));
}

/* Everything has failed, and there is no going on. */
static void fail_all(psr_node_coordinator *c, psr_err status, uint32_t rank, const char *line)
{
    if (c->state == PSR_NODE_COORDINATOR_FAILED)
        return;
    bool joining = c->state == PSR_NODE_COORDINATOR_JOINING;
    const psr_msg_failure verdict = {
        .status = status, .scope = PSR_SCOPE_ALL, .rank = rank, .other = PSR_RANK_ANY};
    c->state = PSR_NODE_COORDINATOR_FAILED;
    psr_node_shrinking_free_all(c);
    if (!joining) {
        say_verdict(c, &verdict, line);
        return;
    }
    keep_verdict(c, status, line);
    /* Who has no WELCOME yet hears ABORT alone. */
    send_to_all(c, (psr_head){.type = PSR_MSG_ABORT}, c->line, strlen(c->line));
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (psr_node_seat_is_here(&c->seats[r]))
            c->seats[r].state = PSR_NODE_SEAT_GIVEN_UP; /* its channel stays, for the ABORT to leave */
}

/* It is out, and hears so too, if it lives. */
static void lose(psr_node_coordinator *c, uint32_t rank, psr_err status, const char *line)
{
    psr_node_seat *s = &c->seats[rank];
    if (c->state != PSR_NODE_COORDINATOR_RUNNING) {
        fail_all(c, status, rank, line);
        if (psr_node_seat_is_here(s)) {
            s->state = PSR_NODE_SEAT_GIVEN_UP;
            c->options.cut(c->options.context, s->entry.peer);
        }
        return;
    }
    if (!psr_node_seat_is_here(s))
        return;
    say_verdict(
        c, &(psr_msg_failure){.status = status, .scope = PSR_SCOPE_LOST, .rank = rank, .other = PSR_RANK_ANY},
        line);
    s->state = PSR_NODE_SEAT_GIVEN_UP;
    s->awaited_end = true;
    c->options.retire(c->options.context, s->entry.peer);
    psr_node_shrinking_without(c, rank);
    cut_at_end(c);
}

/* Groups have failed. */
static void judge(psr_node_coordinator *c, const psr_msg_failure *verdict, const char *line)
{
    psr_msg_failure said = *verdict;
    said.within_ms = 0;
    say_verdict(c, &said, line);
    if (said.scope != PSR_SCOPE_GROUP)
        return;
    psr_node_judged *kept = &c->judged[c->judged_count++ % PSR_NODE_JUDGED_KEPT];
    kept->verdict = said;
    snprintf(kept->line, sizeof kept->line, "%s", line);
}

/* It has failed before, and who does not know yet is told: it had not opened the group then. */
static bool was_judged(psr_node_coordinator *c, const psr_msg_failure *found, uint32_t rank)
{
    uint64_t kept = c->judged_count < PSR_NODE_JUDGED_KEPT ? c->judged_count : PSR_NODE_JUDGED_KEPT;
    for (uint64_t i = 0; found->scope == PSR_SCOPE_GROUP && i < kept; i++) {
        const psr_node_judged *j = &c->judged[i];
        if (j->verdict.epoch != found->epoch || j->verdict.group != found->group)
            continue;
        psr_node_seat_send(c, rank, psr_msg_verdict_head(&j->verdict), j->line, strlen(j->line));
        return true;
    }
    return false;
}

/* Who breaks the protocol is out. What the scheduler itself cannot do ends everything. */
static void judge_detail(psr_node_coordinator *c, psr_err err, uint32_t rank)
{
    char line[PSR_NODE_SEAT_LINE_BYTES];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    if (c->state == PSR_NODE_COORDINATOR_RUNNING && err != PSR_ERR_NOMEM && rank < c->options.ranks)
        lose(c, rank, err, line);
    else
        fail_all(c, err, rank, line);
}

void psr_node_coordinator_fail(psr_node_coordinator *coordinator, psr_err err, uint32_t rank)
{
    char line[PSR_NODE_SEAT_LINE_BYTES];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    fail_all(coordinator, err, rank, line);
}

void psr_node_coordinator_lose(psr_node_coordinator *coordinator, uint32_t rank, const char *line)
{
    lose(coordinator, rank, PSR_ERR_PEER, line);
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

/* ---- joining ---- */

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

/* It comes to what has failed before: it hears why. */
static psr_err turn_away(psr_node_coordinator *c, uint32_t rank, const psr_join *join)
{
    c->seats[rank].state = PSR_NODE_SEAT_GIVEN_UP;
    PSR_TRY(c->options.connect(c->options.context, (psr_peer){PSR_ROLE_WORKER, rank}, join->endpoint));
    psr_node_seat_send(c, rank, (psr_head){.type = PSR_MSG_ABORT}, c->line, strlen(c->line));
    return PSR_OK;
}

/* All have begun: only who was here before and is gone can say JOIN again. The others go on without it. */
static psr_err come_late(psr_node_coordinator *c, const psr_message *message, const psr_join *join)
{
    uint32_t rank = message->from.rank;
    char line[PSR_NODE_SEAT_LINE_BYTES];
    if (message->from.role != PSR_ROLE_WORKER || rank >= c->options.ranks ||
        psr_node_seat_is_here(&c->seats[rank]))
        return PSR_OK;
    snprintf(line, sizeof line, "rank %" PRIu32 " was here before, and the others go on without it", rank);
    PSR_TRY(c->options.connect(c->options.context, message->from, join->endpoint));
    psr_node_seat_send(c, rank, (psr_head){.type = PSR_MSG_ABORT}, line, strlen(line));
    return PSR_OK;
}

static psr_err take_join(psr_node_coordinator *c, const psr_message *message, int64_t present_ms)
{
    psr_join join;
    PSR_TRY(psr_join_from_json((psr_bytes){message->payload, message->payload_bytes}, &join));
    if (c->state == PSR_NODE_COORDINATOR_RUNNING)
        return come_late(c, message, &join);
    uint32_t rank = seat_for(c, message);
    if (rank >= c->options.ranks)
        return psr_fail(PSR_ERR_USAGE,
                        "a process on %s wants to join as rank %" PRId64
                        ", which there is not, or not twice: there are %" PRIu32 " ranks",
                        join.host, message->from.rank == PSR_RANK_ANY ? -1 : (int64_t)message->from.rank,
                        c->options.ranks);
    if (c->state == PSR_NODE_COORDINATOR_FAILED)
        return turn_away(c, rank, &join);
    if (strcmp(join.version, PSR_VERSION) != 0)
        return psr_fail(PSR_ERR_VERSION,
                        "rank %" PRIu32 " on %s is psring %s, the scheduler on %s is psring %s", rank,
                        join.host, join.version, c->options.host, PSR_VERSION);
    psr_node_seat *s = &c->seats[rank];
    s->entry.peer = (psr_peer){PSR_ROLE_WORKER, rank};
    memcpy(s->entry.host, join.host, sizeof s->entry.host);
    memcpy(s->entry.endpoint, join.endpoint, sizeof s->entry.endpoint);
    PSR_TRY(c->options.connect(c->options.context, s->entry.peer, s->entry.endpoint));
    s->state = PSR_NODE_SEAT_JOINED;
    s->heard_ms = s->moved_ms = present_ms;
    s->circle_ms = INT64_MIN / 2;
    c->joined++;
    return send_place(c, rank);
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
        send_to_all(c, (psr_head){.type = PSR_MSG_WELCOME}, payload, size);
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
        send_to_all(c, psr_msg_verdict_head(&(psr_msg_failure){.rank = PSR_RANK_ANY, .other = PSR_RANK_ANY}),
                    NULL, 0);
        return PSR_OK;
    }
    char line[PSR_NODE_SEAT_LINE_BYTES], a[PSR_NODE_SEAT_NAME_BYTES], b[PSR_NODE_SEAT_NAME_BYTES];
    psr_node_seat_name(c, 0, a);
    psr_node_seat_name(c, other, b);
    snprintf(line, sizeof line,
             "%s and %s do not agree: the bytes under \"agree\", or the numbers of shards, differ", a, b);
    fail_all(c, PSR_ERR_USAGE, other, line);
    return PSR_OK;
}

static psr_err take_facts(psr_node_coordinator *c, psr_node_seat *s, const psr_message *message)
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

/* ---- findings ---- */

uint32_t psr_node_seat_end_of_waiting(const psr_node_coordinator *c, uint32_t rank)
{
    for (uint32_t hops = 0; hops <= c->options.ranks; hops++) {
        const psr_node_seat *s = &c->seats[rank];
        psr_peer awaited = s->progress.waits_for;
        if (!psr_node_seat_is_here(s) || psr_node_shrinking_awaits(c, rank, &awaited.rank)) {
            if (!psr_node_seat_is_here(s))
                return rank;
        } else if (!s->progress.waits || awaited.role != PSR_ROLE_WORKER ||
                   awaited.rank >= c->options.ranks) {
            return rank;
        }
        rank = awaited.rank;
    }
    return c->options.ranks;
}

/* Reports come every tenth of a second, however short a call's deadline is. */
static bool is_silent(const psr_node_seat *s, int64_t within_ms, int64_t present_ms)
{
    int64_t silent_ms = within_ms / 2 > SILENT_MS ? within_ms / 2 : SILENT_MS;
    return present_ms - s->heard_ms >= silent_ms;
}

psr_err psr_node_seat_describe(const psr_node_coordinator *c, uint32_t rank, int64_t within_ms,
                               int64_t present_ms, char line[PSR_NODE_SEAT_LINE_BYTES])
{
    const psr_node_seat *s = &c->seats[rank];
    char who[PSR_NODE_SEAT_NAME_BYTES], step[48] = "";
    psr_node_seat_name(c, rank, who);
    if (!psr_node_seat_is_here(s)) {
        snprintf(line, PSR_NODE_SEAT_LINE_BYTES, "%s has left", who);
        return PSR_ERR_PEER;
    }
    if (is_silent(s, within_ms, present_ms)) {
        snprintf(line, PSR_NODE_SEAT_LINE_BYTES, "%s: no sign of life for %.1f s", who,
                 (double)(present_ms - s->heard_ms) / 1000);
        return PSR_ERR_PEER;
    }
    if (s->progress.step > 0)
        snprintf(step, sizeof step, " in step %" PRIu64, s->progress.step);
    snprintf(line, PSR_NODE_SEAT_LINE_BYTES, "%s: alive, but no progress for %.1f s%s", who,
             (double)(present_ms - s->moved_ms) / 1000, step);
    return PSR_ERR_TIMEOUT;
}

static void answer_wait_on(psr_node_coordinator *c, uint32_t rank, int64_t for_ms)
{
    const psr_msg_failure none = {.rank = PSR_RANK_ANY, .other = PSR_RANK_ANY, .within_ms = (uint64_t)for_ms};
    psr_node_seat_send(c, rank, psr_msg_verdict_head(&none), NULL, 0);
}

/* Anybody's number: times are added to it. */
static int64_t within_ms_of(const psr_msg_failure *found)
{
    const int64_t most = INT64_MAX / 4;
    return found->within_ms < (uint64_t)most ? (int64_t)found->within_ms : most;
}

/* A shard has no call of its own that asks: what it waits for is a push. false: it is none. */
static bool lacks_push(const psr_node_seat *s)
{
    return s->progress.waits && s->progress.phase == PSR_PHASE_PUSH;
}

/* Why this one waits, for a circle's line. "": it has not asked. */
static void say_why(const psr_node_coordinator *c, uint32_t rank, char said[PSR_NODE_SEAT_SAID_BYTES])
{
    const psr_node_seat *s = &c->seats[rank];
    char who[PSR_NODE_SEAT_NAME_BYTES], other[PSR_NODE_SEAT_NAME_BYTES];
    snprintf(said, PSR_NODE_SEAT_SAID_BYTES, "%s", s->said);
    if (!lacks_push(s))
        return;
    psr_node_seat_name(c, rank, who);
    psr_node_seat_name(c, s->progress.waits_for.rank, other);
    snprintf(said, PSR_NODE_SEAT_SAID_BYTES, "%s, a shard, waits for a push of %s", who, other);
}

/* What the asker says, and what the others say who wait for each other; those who have not asked soon after are left out. Whose push a
 * shard lacks is to blame: only that rank could have done otherwise. */
static void take_circle(psr_node_coordinator *c, uint32_t asker, const psr_msg_failure *found,
                        const char *said, int64_t present_ms)
{
    char line[PSR_NODE_SEAT_LINE_BYTES], why[PSR_NODE_SEAT_SAID_BYTES];
    psr_msg_failure verdict = *found;
    bool all_asked = true;
    /* Once in a wait, whatever it reports meanwhile: or who reports and asks would wait without end. */
    bool again = present_ms - c->seats[asker].circle_ms < within_ms_of(found) + 4 * CIRCLE_MS;
    size_t used = (size_t)snprintf(line, sizeof line, "%s", said);
    snprintf(c->seats[asker].said, sizeof c->seats[asker].said, "%s", said);
    uint32_t rank = found->rank;
    for (uint32_t hops = 0; hops < c->options.ranks && rank != asker; hops++) {
        const psr_node_seat *s = &c->seats[rank];
        say_why(c, rank, why);
        bool has_asked = why[0] != '\0';
        if (has_asked && strstr(line, why) != NULL) /* a circle that the asker is not in, once round */
            break;
        all_asked = all_asked && has_asked;
        if (lacks_push(s))
            verdict.rank = s->progress.waits_for.rank;
        if (has_asked && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, "; %s", why);
        if (!psr_node_shrinking_awaits(c, rank, &rank))
            rank = s->progress.waits_for.rank;
        if (rank >= c->options.ranks)
            break;
    }
    if (!all_asked && !again) {
        c->seats[asker].circle_ms = present_ms;
        answer_wait_on(c, asker, CIRCLE_MS);
        return;
    }
    if (used < sizeof line)
        snprintf(line + used, sizeof line - used, ": ranks wait for each other in a circle");
    judge(c, &verdict, line);
}

/* A rank has waited in vain. */
static void take_timeout(psr_node_coordinator *c, uint32_t asker, const psr_msg_failure *found,
                         const char *said, int64_t present_ms)
{
    uint32_t end = psr_node_seat_end_of_waiting(c, found->rank);
    char line[PSR_NODE_SEAT_LINE_BYTES];
    psr_msg_failure verdict = *found;
    int64_t within_ms = within_ms_of(found);
    if (end >= c->options.ranks) {
        take_circle(c, asker, found, said, present_ms);
        return;
    }
    const psr_node_seat *s = &c->seats[end];
    if (end != asker && psr_node_seat_is_here(s) && present_ms - s->moved_ms < within_ms &&
        !is_silent(s, within_ms, present_ms)) {
        answer_wait_on(c, asker, s->moved_ms + within_ms - present_ms);
        return;
    }
    verdict.rank = end;
    verdict.status = psr_node_seat_describe(c, end, within_ms, present_ms, line);
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "; %s", said);
    judge(c, &verdict, line);
}

static void text_of(const psr_message *message, char line[PSR_NODE_SEAT_SAID_BYTES])
{
    size_t bytes = message->payload_bytes < PSR_NODE_SEAT_SAID_BYTES - 1 ? message->payload_bytes
                                                                         : PSR_NODE_SEAT_SAID_BYTES - 1;
    if (bytes > 0)
        memcpy(line, message->payload, bytes);
    line[bytes] = '\0';
}

static psr_err take_finding(psr_node_coordinator *c, uint32_t rank, const psr_message *message,
                            int64_t present_ms)
{
    psr_msg_failure found;
    char said[PSR_NODE_SEAT_SAID_BYTES];
    PSR_TRY(psr_msg_failure_read(message, &found));
    text_of(message, said);
    bool known = found.rank < c->options.ranks;
    if (c->state != PSR_NODE_COORDINATOR_RUNNING || was_judged(c, &found, rank))
        return PSR_OK;
    if (found.scope > PSR_SCOPE_RANK) { /* of itself alone */
        lose(c, rank, PSR_ERR_PEER, said);
        return PSR_OK;
    }
    if (found.scope == PSR_SCOPE_RANK && !known)
        return psr_violation(message, "there is no rank %" PRIu32, found.rank);
    if (found.status == PSR_ERR_TIMEOUT && known && found.within_ms > 0) {
        take_timeout(c, rank, &found, said, present_ms);
        return PSR_OK;
    }
    /* What failed at one rank is for the others its failure. */
    if (found.status != PSR_ERR_MISMATCH && found.status != PSR_ERR_PROTOCOL &&
        found.status != PSR_ERR_CANCELLED && !(found.status == PSR_ERR_TIMEOUT && found.within_ms == 0))
        found.status = PSR_ERR_PEER;
    if (!known)
        found.rank = rank;
    judge(c, &found, said);
    return PSR_OK;
}

/* Its last words: its loop has ended. */
static void take_failed(psr_node_coordinator *c, uint32_t rank, const psr_message *message)
{
    char said[PSR_NODE_SEAT_SAID_BYTES], line[PSR_NODE_SEAT_LINE_BYTES], who[PSR_NODE_SEAT_NAME_BYTES];
    text_of(message, said);
    psr_node_seat_name(c, rank, who);
    snprintf(line, sizeof line, "%s failed: %s", who, said);
    lose(c, rank, PSR_ERR_PEER, line);
}

/* ---- messages ---- */

static psr_err take_progress(psr_node_coordinator *c, uint32_t rank, const psr_message *message,
                             int64_t present_ms)
{
    psr_node_seat *s = &c->seats[rank];
    psr_msg_progress says;
    PSR_TRY(psr_msg_progress_read(message, &says));
    if (!s->reported || says.counter != s->progress.counter || says.waits != s->progress.waits ||
        (says.waits && !psr_peer_equal(says.waits_for, s->progress.waits_for)))
        s->moved_ms = present_ms;
    if (!says.waits || !psr_peer_equal(says.waits_for, s->progress.waits_for))
        s->said[0] = '\0';
    s->reported = true;
    s->progress = says;
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
        return take_join(c, message, present_ms);
    if (message->from.role != PSR_ROLE_WORKER || rank >= c->options.ranks ||
        !psr_node_seat_is_here(&c->seats[rank]))
        return PSR_OK;
    c->seats[rank].heard_ms = present_ms;
    switch (message->head.type) {
    case PSR_MSG_FACTS:
        return c->state == PSR_NODE_COORDINATOR_JOINING ? take_facts(c, &c->seats[rank], message) : PSR_OK;
    case PSR_MSG_PROGRESS:
        return take_progress(c, rank, message, present_ms);
    case PSR_MSG_FINDING:
        return take_finding(c, rank, message, present_ms);
    case PSR_MSG_SHRINK:
        return c->state == PSR_NODE_COORDINATOR_RUNNING
                   ? psr_node_shrinking_take(c, rank, message, present_ms)
                   : PSR_OK;
    case PSR_MSG_FAILED:
        take_failed(c, rank, message);
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

static void list_missing(const psr_node_coordinator *c, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t r = 0; r < c->options.ranks && used < size; r++)
        if (c->seats[r].state == PSR_NODE_SEAT_EMPTY)
            used += (size_t)snprintf(text + used, size - used, "%s%" PRIu32, used > 0 ? ", " : "", r);
}

static void check_joining(psr_node_coordinator *c, int64_t present_ms)
{
    char missing[256], line[PSR_NODE_SEAT_LINE_BYTES];
    if (present_ms < c->join_until_ms || c->joined == c->options.ranks)
        return;
    list_missing(c, missing, sizeof missing);
    snprintf(line, sizeof line, "of %" PRIu32 " ranks these did not join within %.1f s: %s", c->options.ranks,
             (double)c->options.join_deadline_ms / 1000, missing);
    fail_all(c, PSR_ERR_TIMEOUT, PSR_RANK_ANY, line);
    for (uint32_t r = 0; r < c->options.ranks; r++)
        if (c->seats[r].state == PSR_NODE_SEAT_EMPTY)
            c->seats[r].state = PSR_NODE_SEAT_GIVEN_UP;
}

static void check_silent(psr_node_coordinator *c, uint32_t rank, int64_t present_ms)
{
    psr_node_seat *s = &c->seats[rank];
    int64_t silent_ms = present_ms - s->heard_ms;
    char line[PSR_NODE_SEAT_LINE_BYTES], who[PSR_NODE_SEAT_NAME_BYTES];
    psr_node_seat_name(c, rank, who);
    snprintf(line, sizeof line, "%s: no sign of life for %.1f s", who, (double)silent_ms / 1000);
    lose(c, rank, PSR_ERR_PEER, line);
}

void psr_node_coordinator_tick(psr_node_coordinator *coordinator, int64_t now_ms, int64_t *ret_next_ms)
{
    psr_node_coordinator *c = coordinator;
    int64_t present_ms = psr_presence_clock_ms(&c->presence, now_ms),
            patience_ms = c->options.deadline_ms * 3 / 4;
    int64_t left_ms = psr_presence_clock_every_ms(&c->presence);
    check_joining(c, present_ms);
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
