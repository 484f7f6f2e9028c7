/* What ranks find: which rank waited in vain, for whom, and what all are told of it. */
#include "comm/node/judge_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    CIRCLE_MS = 250, /* how long the others of a circle have to say in which call they wait */
    SILENT_MS = 500, /* a rank is called silent only after this long at least */
};

/* ---- verdicts on groups ---- */

/* Groups have failed. */
static void judge(psr_judge *j, const psr_msg_failure *verdict, const char *line)
{
    psr_msg_failure said = *verdict;
    said.within_ms = 0;
    psr_judge_tell(j, &said, line);
    if (said.scope != PSR_SCOPE_GROUP)
        return;
    psr_judged *kept = &j->judged[j->judged_count++ % PSR_JUDGED_KEPT];
    kept->verdict = said;
    snprintf(kept->line, sizeof kept->line, "%s", line);
}

/* The group has failed before: a rank that does not know yet is told. It had not opened the group
 * then. */
static bool was_judged(psr_judge *j, const psr_msg_failure *found, uint32_t rank)
{
    uint64_t kept = j->judged_count < PSR_JUDGED_KEPT ? j->judged_count : PSR_JUDGED_KEPT;
    for (uint64_t i = 0; found->scope == PSR_SCOPE_GROUP && i < kept; i++) {
        const psr_judged *judged = &j->judged[i];
        if (judged->verdict.epoch != found->epoch || judged->verdict.group != found->group)
            continue;
        psr_judge_send(j, rank, psr_msg_verdict_head(&judged->verdict), judged->line,
                       strlen(judged->line));
        return true;
    }
    return false;
}

/* ---- findings ---- */

static const psr_watched *watched(const psr_judge *j, uint32_t rank)
{
    return psr_liveness_of(j->liveness, psr_judge_peer(rank));
}

/* Reports come every tenth of a second, even if a call's deadline is shorter. */
static bool is_silent(const psr_judge *j, const psr_watched *rank, int64_t within_ms)
{
    int64_t silent_ms = within_ms / 2 > SILENT_MS ? within_ms / 2 : SILENT_MS;
    return j->present_ms - rank->heard_ms >= silent_ms;
}

psr_err psr_judge_describe(const psr_judge *j, const psr_watched *rank, int64_t within_ms,
                           char line[PSR_COORDINATOR_LINE_MAX])
{
    char who[PSR_MEMBER_NAME_MAX], step[48] = "";
    psr_coordinator_name(j->coordinator, rank->peer, who);
    if (rank->gone) {
        snprintf(line, PSR_COORDINATOR_LINE_MAX, "%s has left", who);
        return PSR_ERR_PEER;
    }
    if (is_silent(j, rank, within_ms)) {
        snprintf(line, PSR_COORDINATOR_LINE_MAX, "%s: no sign of life for %.1f s", who,
                 (double)(j->present_ms - rank->heard_ms) / 1000);
        return PSR_ERR_PEER;
    }
    if (rank->says.step > 0)
        snprintf(step, sizeof step, " in step %" PRIu64, rank->says.step);
    snprintf(line, PSR_COORDINATOR_LINE_MAX, "%s: alive, but no progress for %.1f s%s", who,
             (double)(j->present_ms - rank->moved_ms) / 1000, step);
    return PSR_ERR_TIMEOUT;
}

static void answer_wait_on(psr_judge *j, uint32_t rank, int64_t for_ms)
{
    const psr_msg_failure none = {
        .rank = PSR_RANK_ANY, .other = PSR_RANK_ANY, .within_ms = (uint64_t)for_ms};
    psr_judge_send(j, rank, psr_msg_verdict_head(&none), NULL, 0);
}

/* A shard makes no call that could ask; it waits for a push. false: it does not. */
static bool lacks_push(const psr_watched *rank)
{
    return rank->says.waits && rank->says.waits_for.role == PSR_ROLE_WORKER &&
           rank->says.phase == PSR_PHASE_PUSH;
}

/* Why this rank waits, for a circle's line. "": it has not asked. */
static void say_why(const psr_judge *j, const psr_watched *rank, char said[PSR_JUDGE_SAID_BYTES])
{
    char who[PSR_MEMBER_NAME_MAX], other[PSR_MEMBER_NAME_MAX];
    snprintf(said, PSR_JUDGE_SAID_BYTES, "%s", j->ranks[rank->peer.rank].said);
    if (!lacks_push(rank))
        return;
    psr_coordinator_name(j->coordinator, rank->peer, who);
    psr_coordinator_name(j->coordinator, rank->says.waits_for, other);
    snprintf(said, PSR_JUDGE_SAID_BYTES, "%s, a shard, waits for a push of %s", who, other);
}

/* Writes the asker's line, and the lines of the others that wait for each other; ranks that do not
 * ask soon after are left out. If a shard in the circle lacks a push, the rank that should push is
 * to blame: only it could have done otherwise. */
static void take_circle(psr_judge *j, uint32_t asker, const psr_msg_failure *found,
                        const char *said)
{
    char line[PSR_COORDINATOR_LINE_MAX], why[PSR_JUDGE_SAID_BYTES];
    psr_msg_failure verdict = *found;
    bool all_asked = true;
    /* Only once in a wait, whatever the rank reports meanwhile: otherwise a rank that reports and
     * asks would wait for ever. */
    bool again =
        j->present_ms - j->ranks[asker].circle_ms < (int64_t)found->within_ms + 4 * CIRCLE_MS;
    size_t used = (size_t)snprintf(line, sizeof line, "%s", said);
    const psr_watched *rank = watched(j, found->rank);
    for (uint32_t hops = 0; hops < j->options.ranks && rank != NULL && rank->peer.rank != asker;
         hops++) {
        say_why(j, rank, why);
        bool has_asked = why[0] != '\0';
        /* the asker is not in the circle, and the circle is complete */
        if (has_asked && strstr(line, why) != NULL)
            break;
        all_asked = all_asked && has_asked;
        if (lacks_push(rank))
            verdict.rank = rank->says.waits_for.rank;
        if (has_asked && used < sizeof line)
            used += (size_t)snprintf(line + used, sizeof line - used, "; %s", why);
        rank = psr_liveness_awaited(j->liveness, rank);
    }
    if (!all_asked && !again) {
        j->ranks[asker].circle_ms = j->present_ms;
        answer_wait_on(j, asker, CIRCLE_MS);
        return;
    }
    if (used < sizeof line)
        snprintf(line + used, sizeof line - used, ": ranks wait for each other in a circle");
    judge(j, &verdict, line);
}

/* A rank that says that it waits for itself waits for a message of any rank, or in vain. */
static bool waits_for_any(const psr_watched *rank)
{
    return rank->says.waits && psr_peer_equal(rank->says.waits_for, rank->peer);
}

/* Whether another rank makes progress that waits for nobody: a rank that waits for any message may
 * get one from it. *ret_left_ms: for how long to wait for it. */
static bool any_moves(const psr_judge *j, const psr_watched *waits, int64_t within_ms,
                      int64_t *ret_left_ms)
{
    *ret_left_ms = 0;
    for (uint32_t r = 0; r < j->options.ranks; r++) {
        const psr_watched *other = watched(j, r);
        if (other == NULL || other == waits || other->gone || other->says.waits ||
            is_silent(j, other, within_ms))
            continue;
        int64_t left_ms = other->moved_ms + within_ms - j->present_ms;
        *ret_left_ms = left_ms > *ret_left_ms ? left_ms : *ret_left_ms;
    }
    return *ret_left_ms > 0;
}

/* A rank has waited in vain for a message of any rank. */
static void take_timeout_of_any(psr_judge *j, uint32_t asker, const psr_msg_failure *found,
                                const char *said)
{
    int64_t left_ms = 0;
    snprintf(j->ranks[asker].said, sizeof j->ranks[asker].said, "%s", said);
    if (any_moves(j, watched(j, asker), (int64_t)found->within_ms, &left_ms))
        answer_wait_on(j, asker, left_ms);
    else
        judge(j, found, said);
}

/* A rank has waited in vain. */
static void take_timeout(psr_judge *j, uint32_t asker, const psr_msg_failure *found,
                         const char *said)
{
    const psr_watched *end = psr_liveness_end_of_waiting(j->liveness, watched(j, found->rank));
    char line[PSR_COORDINATOR_LINE_MAX];
    psr_msg_failure verdict = *found;
    int64_t within_ms = (int64_t)found->within_ms;
    snprintf(j->ranks[asker].said, sizeof j->ranks[asker].said, "%s", said);
    if (end == NULL) {
        take_circle(j, asker, found, said);
        return;
    }
    if (end->peer.rank != asker && !end->gone && j->present_ms - end->moved_ms < within_ms &&
        !is_silent(j, end, within_ms)) {
        answer_wait_on(j, asker, end->moved_ms + within_ms - j->present_ms);
        return;
    }
    int64_t left_ms = 0;
    if (end->peer.rank != asker && !end->gone && waits_for_any(end) &&
        any_moves(j, end, within_ms, &left_ms)) {
        answer_wait_on(j, asker, left_ms);
        return;
    }
    verdict.rank = end->peer.rank;
    verdict.status = psr_judge_describe(j, end, within_ms, line);
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "; %s", said);
    judge(j, &verdict, line);
}

static void text_of(const psr_message *message, char line[PSR_JUDGE_SAID_BYTES])
{
    size_t bytes = message->payload_bytes < PSR_JUDGE_SAID_BYTES - 1 ? message->payload_bytes
                                                                     : PSR_JUDGE_SAID_BYTES - 1;
    if (bytes > 0)
        memcpy(line, message->payload, bytes);
    line[bytes] = '\0';
}

psr_err psr_judge_take_finding(psr_judge *j, uint32_t rank, const psr_message *message)
{
    psr_msg_failure found;
    char said[PSR_JUDGE_SAID_BYTES];
    const psr_msg_limits limits = psr_coordinator_limits(j->coordinator);
    PSR_TRY(psr_msg_failure_read(message, &limits, &found));
    text_of(message, said);
    if (found.status == PSR_OK) { /* the wait that it reported has ended */
        j->ranks[rank].said[0] = '\0';
        return PSR_OK;
    }
    bool known = found.rank != PSR_RANK_ANY;
    if (!psr_coordinator_running(j->coordinator) || was_judged(j, &found, rank))
        return PSR_OK;
    if (found.scope > PSR_SCOPE_RANK) { /* a rank may report only itself as lost */
        psr_judge_drop(j, rank, PSR_ERR_PEER, said);
        return PSR_OK;
    }
    if (found.status == PSR_ERR_TIMEOUT && known && found.within_ms > 0) {
        take_timeout(j, rank, &found, said);
        return PSR_OK;
    }
    if (found.status == PSR_ERR_TIMEOUT && !known && found.within_ms > 0) {
        take_timeout_of_any(j, rank, &found, said);
        return PSR_OK;
    }
    /* A failure at one rank is a failure of that rank for the others. */
    if (found.status != PSR_ERR_MISMATCH && found.status != PSR_ERR_PROTOCOL &&
        found.status != PSR_ERR_CANCELLED &&
        !(found.status == PSR_ERR_TIMEOUT && found.within_ms == 0))
        found.status = PSR_ERR_PEER;
    if (!known)
        found.rank = rank;
    judge(j, &found, said);
    return PSR_OK;
}
