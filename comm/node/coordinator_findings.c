/* What ranks find: who has waited in vain, for whom, and what of that is to be told to all. */
#include "comm/node/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    CIRCLE_MS = 250, /* for the others of a circle to say in which call they wait */
    SILENT_MS = 500, /* who is called silent has been so for that long at least */
};

/* ---- verdicts on groups ---- */

/* Groups have failed. */
static void judge(psr_node_coordinator *c, const psr_msg_failure *verdict, const char *line)
{
    psr_msg_failure said = *verdict;
    said.within_ms = 0;
    psr_node_seats_verdict(c, &said, line);
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

/* ---- findings ---- */

static bool waits_for_a_rank(const psr_node_seat *s)
{
    return s->progress.waits && s->progress.waits_for.role == PSR_ROLE_WORKER;
}

/* Whom a rank that is here waits for. false: for nobody, or for itself. */
static bool awaits(const psr_node_coordinator *c, uint32_t rank, uint32_t *ret_rank)
{
    const psr_node_seat *s = &c->seats[rank];
    if (!psr_node_seat_is_here(s))
        return false;
    if (psr_node_shrinking_awaits(c, rank, ret_rank))
        return true;
    if (!waits_for_a_rank(s) || s->progress.waits_for.rank == rank)
        return false;
    *ret_rank = s->progress.waits_for.rank;
    return true;
}

uint32_t psr_node_seat_end_of_waiting(const psr_node_coordinator *c, uint32_t rank)
{
    for (uint32_t hops = 0; hops <= c->options.ranks; hops++)
        if (!awaits(c, rank, &rank))
            return rank;
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

/* A shard has no call of its own that asks: what it waits for is a push. false: it is none. */
static bool lacks_push(const psr_node_seat *s)
{
    return waits_for_a_rank(s) && s->progress.phase == PSR_PHASE_PUSH;
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
    bool again = present_ms - c->seats[asker].circle_ms < (int64_t)found->within_ms + 4 * CIRCLE_MS;
    size_t used = (size_t)snprintf(line, sizeof line, "%s", said);
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
        if (!awaits(c, rank, &rank))
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
    int64_t within_ms = (int64_t)found->within_ms;
    snprintf(c->seats[asker].said, sizeof c->seats[asker].said, "%s", said);
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

psr_err psr_node_finding_take(psr_node_coordinator *c, uint32_t rank, const psr_message *message,
                              int64_t present_ms)
{
    psr_msg_failure found;
    char said[PSR_NODE_SEAT_SAID_BYTES];
    const psr_msg_limits limits = psr_node_seats_limits(c);
    PSR_TRY(psr_msg_failure_read(message, &limits, &found));
    text_of(message, said);
    if (found.status == PSR_OK) { /* what it said that it waits in has ended */
        c->seats[rank].said[0] = '\0';
        return PSR_OK;
    }
    bool known = found.rank != PSR_RANK_ANY;
    if (c->state != PSR_NODE_COORDINATOR_RUNNING || was_judged(c, &found, rank))
        return PSR_OK;
    if (found.scope > PSR_SCOPE_RANK) { /* of itself alone */
        psr_node_seat_lose(c, rank, PSR_ERR_PEER, said);
        return PSR_OK;
    }
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
void psr_node_finding_take_failed(psr_node_coordinator *c, uint32_t rank, const psr_message *message)
{
    char said[PSR_NODE_SEAT_SAID_BYTES], line[PSR_NODE_SEAT_LINE_BYTES], who[PSR_NODE_SEAT_NAME_BYTES];
    text_of(message, said);
    psr_node_seat_name(c, rank, who);
    snprintf(line, sizeof line, "%s failed: %s", who, said);
    psr_node_seat_lose(c, rank, PSR_ERR_PEER, line);
}
