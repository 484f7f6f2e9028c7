/* Groups of the living: collects the ranks that want one, and answers when no living rank is
 * missing. */
#include "comm/node/judge_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SAID = -1 };

static bool has_said(const psr_shrinking *s, uint32_t i)
{
    return s->since_ms[i] != INT64_MIN;
}

/* The rank's place in the group; NOT_SAID: it is not in the group. */
static int64_t place_of(const psr_shrinking *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->ranks[i] == rank)
            return i;
    return NOT_SAID;
}

/* ---- beginning and end of one ---- */

static void free_one(psr_judge *j, psr_shrinking *s)
{
    psr_shrinking **at = &j->shrinking;
    while (*at != NULL && *at != s)
        at = &(*at)->next;
    if (*at == s)
        *at = s->next;
    free(s->ranks);
    free(s->since_ms);
    free(s->within_ms);
    free(s);
}

void psr_shrinking_free_all(psr_judge *j)
{
    while (j->shrinking != NULL)
        free_one(j, j->shrinking);
}

/* Takes ranks. NULL: no memory. */
static psr_shrinking *begin(psr_judge *j, const psr_msg_shrink *says, uint32_t *ranks,
                            uint32_t count)
{
    psr_shrinking *s = calloc(1, sizeof *s);
    if (s == NULL) {
        free(ranks);
        return NULL;
    }
    *s =
        (psr_shrinking){.epoch = says->epoch, .group = says->group, .count = count, .ranks = ranks};
    s->since_ms = calloc(count, sizeof *s->since_ms);
    s->within_ms = calloc(count, sizeof *s->within_ms);
    if (s->since_ms == NULL || s->within_ms == NULL) {
        free_one(j, s);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        s->since_ms[i] = INT64_MIN;
    s->next = j->shrinking;
    j->shrinking = s;
    return s;
}

/* ---- answers ---- */

/* Answers all living ranks that sent SHRINK, and ends the shrinking. */
static void answer(psr_judge *j, psr_shrinking *s, psr_msg_shrunk *says, const void *data,
                   size_t bytes)
{
    says->epoch = s->epoch;
    says->group = s->group;
    for (uint32_t i = 0; i < s->count; i++)
        if (has_said(s, i) && psr_judge_is_here(j, s->ranks[i]))
            psr_judge_send(j, s->ranks[i], psr_msg_shrunk_head(says), data, bytes);
    free_one(j, s);
}

static void fail(psr_judge *j, psr_shrinking *s, psr_err status, uint32_t rank, const char *line)
{
    answer(j, s, &(psr_msg_shrunk){.status = status, .rank = rank}, line, strlen(line));
}

static void succeed(psr_judge *j, psr_shrinking *s)
{
    uint8_t *bytes = malloc(sizeof(uint32_t) * s->count);
    if (bytes == NULL || j->epoch == UINT32_MAX) {
        free(bytes);
        fail(j, s, PSR_ERR_NOMEM, PSR_RANK_ANY, "the scheduler has no memory for a smaller group");
        return;
    }
    uint32_t living = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (psr_judge_is_here(j, s->ranks[i]))
            psr_msg_rank_list_write(&s->ranks[i], 1, bytes + sizeof(uint32_t) * living++);
    j->verdict = PSR_OK;
    answer(j, s, &(psr_msg_shrunk){.new_epoch = ++j->epoch}, bytes, sizeof(uint32_t) * living);
    free(bytes);
}

/* The first living rank that has not sent SHRINK; the number of ranks: none. */
static uint32_t missing(const psr_judge *j, const psr_shrinking *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (!has_said(s, i) && psr_judge_is_here(j, s->ranks[i]))
            return s->ranks[i];
    return j->options.ranks;
}

static bool anybody(const psr_judge *j, const psr_shrinking *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (has_said(s, i) && psr_judge_is_here(j, s->ranks[i]))
            return true;
    return false;
}

static void settle(psr_judge *j, psr_shrinking *s)
{
    if (!anybody(j, s))
        free_one(j, s);
    else if (missing(j, s) == j->options.ranks)
        succeed(j, s);
}

/* ---- what comes in ---- */

static psr_shrinking *that_waits(const psr_judge *j, uint32_t rank)
{
    for (psr_shrinking *s = j->shrinking; s != NULL; s = s->next) {
        int64_t i = place_of(s, rank);
        if (i != NOT_SAID && has_said(s, (uint32_t)i))
            return s;
    }
    return NULL;
}

/* The shrinking of the same group and the same ranks. A rank that gives other ranks waits by
 * itself, until the others are told that it is missing. */
static psr_shrinking *that_wants(const psr_judge *j, const psr_msg_shrink *says,
                                 const uint32_t *ranks, uint32_t count)
{
    psr_shrinking *s = j->shrinking;
    while (s != NULL && (s->epoch != says->epoch || s->group != says->group || s->count != count ||
                         memcmp(s->ranks, ranks, count * sizeof *ranks) != 0))
        s = s->next;
    return s;
}

psr_err psr_shrinking_take(psr_judge *j, uint32_t rank, const psr_message *message)
{
    psr_msg_shrink says;
    uint32_t *ranks = NULL, count = 0;
    const psr_msg_limits limits = psr_coordinator_limits(j->coordinator);
    PSR_TRY(psr_msg_shrink_read(message, &limits, &says));
    if (that_waits(j, rank) != NULL)
        return psr_violation(message, "it has said so before, and has no answer");
    PSR_TRY(psr_msg_rank_list_read(message, j->options.ranks, &ranks, &count));
    psr_shrinking *s = that_wants(j, &says, ranks, count);
    if (s != NULL)
        free(ranks);
    else
        s = begin(j, &says, ranks, count);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a smaller group");
    int64_t i = place_of(s, rank);
    if (i == NOT_SAID) {
        settle(j, s);
        return psr_violation(message, "it is not in this group");
    }
    s->since_ms[i] = j->present_ms;
    s->within_ms[i] = (int64_t)says.within_ms;
    settle(j, s);
    return PSR_OK;
}

void psr_shrinking_without(psr_judge *j, uint32_t rank)
{
    for (psr_shrinking *s = j->shrinking, *next; s != NULL; s = next) {
        next = s->next;
        if (place_of(s, rank) != NOT_SAID)
            settle(j, s);
    }
}

bool psr_shrinking_awaits(void *context, psr_peer rank, psr_peer *ret_peer)
{
    const psr_judge *j = context;
    const psr_shrinking *s = that_waits(j, rank.rank);
    const uint32_t awaited = s != NULL ? missing(j, s) : j->options.ranks;
    if (awaited == j->options.ranks)
        return false;
    *ret_peer = psr_judge_peer(awaited);
    return true;
}

/* ---- time ---- */

/* end: the end of the chain of waiting for the missing rank; NULL: a circle. */
static void give_up_waiting(psr_judge *j, psr_shrinking *s, uint32_t absent, const psr_watched *end,
                            int64_t waited_ms)
{
    char line[PSR_COORDINATOR_LINE_MAX], who[PSR_MEMBER_NAME_MAX];
    psr_coordinator_name(j->coordinator, psr_judge_peer(absent), who);
    psr_err status = PSR_ERR_TIMEOUT;
    if (end != NULL)
        status = psr_judge_describe(j, end, waited_ms, line);
    else
        snprintf(line, sizeof line, "ranks wait for each other in a circle");
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "; others have waited for %s to shrink for %.1f s",
             who, (double)waited_ms / 1000);
    fail(j, s, status, end != NULL ? end->peer.rank : absent, line);
}

/* Looks at the deadlines of one shrinking, which may end it. Returns the present time of its next
 * deadline. */
static int64_t tick_one(psr_judge *j, psr_shrinking *s)
{
    uint32_t absent = missing(j, s);
    if (absent == j->options.ranks) {
        settle(j, s);
        return INT64_MAX;
    }
    const psr_watched *end = psr_liveness_end_of_waiting(
        j->liveness, psr_liveness_of(j->liveness, psr_judge_peer(absent)));
    int64_t moved_ms = end != NULL ? end->moved_ms : INT64_MIN, soonest_ms = INT64_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!has_said(s, i))
            continue;
        int64_t since_ms = s->since_ms[i] > moved_ms ? s->since_ms[i] : moved_ms;
        int64_t waited_ms = j->present_ms - since_ms;
        if (waited_ms >= s->within_ms[i]) {
            give_up_waiting(j, s, absent, end, waited_ms);
            return INT64_MAX;
        }
        if (since_ms + s->within_ms[i] < soonest_ms) /* within_ms is at most a
                                                        quarter of INT64_MAX */
            soonest_ms = since_ms + s->within_ms[i];
    }
    return soonest_ms;
}

int64_t psr_shrinking_tick(psr_judge *j)
{
    int64_t soonest_ms = INT64_MAX;
    for (psr_shrinking *s = j->shrinking, *next; s != NULL; s = next) {
        next = s->next;
        int64_t due_ms = tick_one(j, s);
        soonest_ms = due_ms < soonest_ms ? due_ms : soonest_ms;
    }
    return soonest_ms;
}
