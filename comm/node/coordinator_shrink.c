/* Groups of the living: collects who wants one, and answers when nobody who lives is missing. */
#include "comm/node/coordinator_private.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SAID = -1 };

static bool has_said(const psr_node_shrinking *s, uint32_t i)
{
    return s->since_ms[i] != INT64_MIN;
}

/* The rank's place in the group; NOT_SAID: it is not in it. */
static int64_t place_of(const psr_node_shrinking *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->ranks[i] == rank)
            return i;
    return NOT_SAID;
}

/* ---- beginning and end of one ---- */

static void free_one(psr_node_coordinator *c, psr_node_shrinking *s)
{
    psr_node_shrinking **at = &c->shrinking;
    while (*at != NULL && *at != s)
        at = &(*at)->next;
    if (*at == s)
        *at = s->next;
    free(s->ranks);
    free(s->since_ms);
    free(s->within_ms);
    free(s);
}

void psr_node_shrinking_free_all(psr_node_coordinator *coordinator)
{
    while (coordinator->shrinking != NULL)
        free_one(coordinator, coordinator->shrinking);
}

/* Takes ranks. NULL: no memory. */
static psr_node_shrinking *begin(psr_node_coordinator *c, const psr_msg_shrink *says, uint32_t *ranks,
                                 uint32_t count)
{
    psr_node_shrinking *s = calloc(1, sizeof *s);
    if (s == NULL) {
        free(ranks);
        return NULL;
    }
    *s = (psr_node_shrinking){.epoch = says->epoch, .group = says->group, .count = count, .ranks = ranks};
    s->since_ms = calloc(count, sizeof *s->since_ms);
    s->within_ms = calloc(count, sizeof *s->within_ms);
    if (s->since_ms == NULL || s->within_ms == NULL) {
        free_one(c, s);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        s->since_ms[i] = INT64_MIN;
    s->next = c->shrinking;
    c->shrinking = s;
    return s;
}

/* ---- answers ---- */

/* To all who have said SHRINK, and live. It is over. */
static void answer(psr_node_coordinator *c, psr_node_shrinking *s, psr_msg_shrunk *says, const void *data,
                   size_t bytes)
{
    says->epoch = s->epoch;
    says->group = s->group;
    for (uint32_t i = 0; i < s->count; i++)
        if (has_said(s, i) && psr_node_seat_is_here(&c->seats[s->ranks[i]]))
            psr_node_seat_send(c, s->ranks[i], psr_msg_shrunk_head(says), data, bytes);
    free_one(c, s);
}

static void fail(psr_node_coordinator *c, psr_node_shrinking *s, psr_err status, uint32_t rank,
                 const char *line)
{
    answer(c, s, &(psr_msg_shrunk){.status = status, .rank = rank}, line, strlen(line));
}

static void succeed(psr_node_coordinator *c, psr_node_shrinking *s)
{
    uint8_t *bytes = malloc(sizeof(uint32_t) * s->count);
    if (bytes == NULL || c->epoch == UINT32_MAX) {
        free(bytes);
        fail(c, s, PSR_ERR_NOMEM, PSR_RANK_ANY, "the scheduler has no memory for a smaller group");
        return;
    }
    uint32_t living = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (psr_node_seat_is_here(&c->seats[s->ranks[i]]))
            psr_msg_rank_list_write(&s->ranks[i], 1, bytes + sizeof(uint32_t) * living++);
    c->verdict = PSR_OK;
    answer(c, s, &(psr_msg_shrunk){.new_epoch = ++c->epoch}, bytes, sizeof(uint32_t) * living);
    free(bytes);
}

/* The first who lives and has not said so; ranks: nobody. */
static uint32_t missing(const psr_node_coordinator *c, const psr_node_shrinking *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (!has_said(s, i) && psr_node_seat_is_here(&c->seats[s->ranks[i]]))
            return s->ranks[i];
    return c->options.ranks;
}

static bool anybody(const psr_node_coordinator *c, const psr_node_shrinking *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (has_said(s, i) && psr_node_seat_is_here(&c->seats[s->ranks[i]]))
            return true;
    return false;
}

static void settle(psr_node_coordinator *c, psr_node_shrinking *s)
{
    if (!anybody(c, s))
        free_one(c, s);
    else if (missing(c, s) == c->options.ranks)
        succeed(c, s);
}

/* ---- what comes in ---- */

static psr_node_shrinking *that_waits(const psr_node_coordinator *c, uint32_t rank)
{
    for (psr_node_shrinking *s = c->shrinking; s != NULL; s = s->next) {
        int64_t i = place_of(s, rank);
        if (i != NOT_SAID && has_said(s, (uint32_t)i))
            return s;
    }
    return NULL;
}

/* Of the same group and of the same ranks: who says other ranks waits by itself, until those are told that it is missing. */
static psr_node_shrinking *that_wants(const psr_node_coordinator *c, const psr_msg_shrink *says,
                                      const uint32_t *ranks, uint32_t count)
{
    psr_node_shrinking *s = c->shrinking;
    while (s != NULL && (s->epoch != says->epoch || s->group != says->group || s->count != count ||
                         memcmp(s->ranks, ranks, count * sizeof *ranks) != 0))
        s = s->next;
    return s;
}

psr_err psr_node_shrinking_take(psr_node_coordinator *coordinator, uint32_t rank, const psr_message *message,
                                int64_t present_ms)
{
    psr_node_coordinator *c = coordinator;
    psr_msg_shrink says;
    uint32_t *ranks = NULL, count = 0;
    const psr_msg_limits limits = psr_node_seats_limits(c);
    PSR_TRY(psr_msg_shrink_read(message, &limits, &says));
    if (that_waits(c, rank) != NULL)
        return psr_violation(message, "it has said so before, and has no answer");
    PSR_TRY(psr_msg_rank_list_read(message, c->options.ranks, &ranks, &count));
    psr_node_shrinking *s = that_wants(c, &says, ranks, count);
    if (s != NULL)
        free(ranks);
    else
        s = begin(c, &says, ranks, count);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a smaller group");
    int64_t i = place_of(s, rank);
    if (i == NOT_SAID) {
        settle(c, s);
        return psr_violation(message, "it is not in this group");
    }
    s->since_ms[i] = present_ms;
    s->within_ms[i] = (int64_t)says.within_ms;
    settle(c, s);
    return PSR_OK;
}

void psr_node_shrinking_without(psr_node_coordinator *coordinator, uint32_t rank)
{
    for (psr_node_shrinking *s = coordinator->shrinking, *next; s != NULL; s = next) {
        next = s->next;
        if (place_of(s, rank) != NOT_SAID)
            settle(coordinator, s);
    }
}

bool psr_node_shrinking_awaits(const psr_node_coordinator *coordinator, uint32_t rank, uint32_t *ret_rank)
{
    const psr_node_shrinking *s = that_waits(coordinator, rank);
    const uint32_t awaited = s != NULL ? missing(coordinator, s) : coordinator->options.ranks;
    if (awaited == coordinator->options.ranks)
        return false;
    *ret_rank = awaited;
    return true;
}

/* ---- time ---- */

static void give_up_waiting(psr_node_coordinator *c, psr_node_shrinking *s, uint32_t absent, uint32_t end,
                            int64_t waited_ms, int64_t present_ms)
{
    char line[PSR_NODE_SEAT_LINE_BYTES], who[PSR_NODE_SEAT_NAME_BYTES];
    psr_node_seat_name(c, absent, who);
    psr_err status = PSR_ERR_TIMEOUT;
    if (end < c->options.ranks)
        status = psr_node_seat_describe(c, end, waited_ms, present_ms, line);
    else
        snprintf(line, sizeof line, "ranks wait for each other in a circle");
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "; others have waited for %s to shrink for %.1f s", who,
             (double)waited_ms / 1000);
    fail(c, s, status, end < c->options.ranks ? end : absent, line);
}

/* Of one; it may be over then. */
static int64_t tick_one(psr_node_coordinator *c, psr_node_shrinking *s, int64_t present_ms)
{
    uint32_t absent = missing(c, s);
    if (absent == c->options.ranks) {
        settle(c, s);
        return INT64_MAX;
    }
    uint32_t end = psr_node_seat_end_of_waiting(c, absent);
    int64_t moved_ms = end < c->options.ranks ? c->seats[end].moved_ms : INT64_MIN, soonest_ms = INT64_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        if (!has_said(s, i))
            continue;
        int64_t since_ms = s->since_ms[i] > moved_ms ? s->since_ms[i] : moved_ms;
        int64_t waited_ms = present_ms - since_ms;
        if (waited_ms >= s->within_ms[i]) {
            give_up_waiting(c, s, absent, end, waited_ms, present_ms);
            return INT64_MAX;
        }
        if (s->within_ms[i] - waited_ms < soonest_ms)
            soonest_ms = s->within_ms[i] - waited_ms;
    }
    return soonest_ms;
}

int64_t psr_node_shrinking_tick(psr_node_coordinator *coordinator, int64_t present_ms)
{
    int64_t soonest_ms = INT64_MAX;
    for (psr_node_shrinking *s = coordinator->shrinking, *next; s != NULL; s = next) {
        next = s->next;
        int64_t left_ms = tick_one(coordinator, s, present_ms);
        soonest_ms = left_ms < soonest_ms ? left_ms : soonest_ms;
    }
    return soonest_ms;
}
