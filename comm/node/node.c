#include "comm/node/node_private.h"

#include "base/clock.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_AGAIN_MS = 50 /* after a deadline that did not become a question */ };

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

/* ---- orders ---- */

void psr_node_take(psr_node *node, psr_node_order order, void *object, int64_t now_ms)
{
    node->moves++;
    psr_node_request *r = object;
    switch (order) {
    case PSR_NODE_OPEN_GROUP:
        psr_node_group_open(node, object, now_ms);
        return;
    case PSR_NODE_CLOSE_GROUP:
        psr_node_group_close(node, object);
        return;
    case PSR_NODE_MAKE:
    case PSR_NODE_START:
        if (r->previous == NULL && r->group->first != r)
            psr_node_request_add(r);
        if (order == PSR_NODE_START)
            psr_node_request_start(node, r, now_ms);
        else if (r->group->state != PSR_NODE_BROKEN) {
            psr_err err = psr_node_request_make(r);
            if (err != PSR_OK)
                psr_node_request_fail_alone(r, err);
        }
        return;
    case PSR_NODE_FREE:
        if (r->previous == NULL && r->group->first != r)
            psr_node_request_add(r);
        psr_node_request_drop(r);
        return;
    case PSR_NODE_FIND:
        psr_node_find(node, object, now_ms);
        free(object);
        return;
    case PSR_NODE_SHRINK:
        psr_node_shrink_begin(node, object, now_ms);
        return;
    }
}

/* ---- messages ---- */

static psr_failure failure_in(const psr_message *message, const psr_msg_failure *says)
{
    psr_failure failure = {.err = says->status,
                           .scope = says->scope,
                           .epoch = says->epoch,
                           .group = says->group,
                           .rank = says->rank,
                           .other = says->other,
                           .number = says->number};
    size_t bytes = message->payload_bytes < sizeof failure.line ? message->payload_bytes
                                                                : sizeof failure.line - 1;
    if (bytes > 0)
        memcpy(failure.line, message->payload, bytes);
    return failure;
}

static void take_verdict(psr_node *node, const psr_message *message, int64_t now_ms)
{
    psr_msg_failure says;
    const psr_msg_limits limits = psr_node_limits(node);
    psr_err err = psr_msg_failure_read(message, &limits, &says);
    if (err != PSR_OK) {
        psr_node_fail(node, err, PSR_RANK_ANY);
        return;
    }
    if (says.status == PSR_OK) {
        atomic_store(&node->begun, true);
        if (node->asked != NULL)
            node->asked->wait_on_until_ms =
                psr_presence_clock_ms(&node->presence, now_ms) +
                (says.within_ms < (uint64_t)node->asked->deadline_ms ? (int64_t)says.within_ms
                                                                     : node->asked->deadline_ms);
        node->asked = NULL;
        node->options.changed(node->options.context);
        return;
    }
    const psr_failure failure = failure_in(message, &says);
    psr_node_apply(node, &failure);
}

static void take_of_rank(psr_node *node, psr_message **message, int64_t now_ms)
{
    psr_message_type type = (*message)->head.type;
    psr_err err = PSR_OK;
    uint32_t from = (*message)->from.rank;
    if (node->broken || (*message)->from.role != PSR_ROLE_WORKER || from >= node->ranks ||
        node->out[from] != NULL)
        return;
    node->heard[from]++;
    if (type != PSR_MSG_VALUES && type != PSR_MSG_CREDIT && type != PSR_MSG_AHEAD &&
        type != PSR_MSG_LISTEN && type != PSR_MSG_OFFER && !psr_node_table_is_message(type)) {
        err = psr_violation(
            *message,
            "a rank says VALUES, CREDIT, AHEAD, LISTEN, OFFER and a table's words to another");
    } else {
        psr_tag tag = psr_msg_tag(*message);
        psr_node_group *g = psr_node_group_of(node, tag.epoch, tag.group);
        if (g != NULL) {
            psr_node_group_take(node, g, message, now_ms);
            return;
        }
        err = psr_node_keep_early(node, message);
    }
    if (err != PSR_OK) {
        const psr_failure failure = psr_node_violation_of(err, from);
        psr_node_find(node, &failure, now_ms);
    }
}

void psr_node_message(psr_node *node, psr_message **message, int64_t now_ms)
{
    if (!psr_peer_equal((*message)->from, coordinator))
        take_of_rank(node, message, now_ms);
    else if ((*message)->head.type == PSR_MSG_VERDICT)
        take_verdict(node, *message, now_ms);
    else if ((*message)->head.type == PSR_MSG_LEFT)
        psr_node_left_take(node, *message, now_ms);
    else if ((*message)->head.type == PSR_MSG_SHRUNK)
        psr_node_shrink_take(node, *message, now_ms);
    psr_message_free(message);
}

/* ---- time ---- */

/* How much present time a request has left. *ret_last_ms: since when it waits for that rank. */
static int64_t left_ms(const psr_node_request *r, int64_t present_ms, psr_waiting *ret_waiting,
                       int64_t *ret_last_ms)
{
    int64_t last_ms = r->since_ms;
    if (psr_node_request_waits_for_any(r)) {
        ret_waiting->peer.rank = PSR_RANK_ANY;
        for (uint32_t i = 0; i < r->group->count; i++)
            if (r->group->heard_ms[r->group->ranks[i]] > last_ms)
                last_ms = r->group->heard_ms[r->group->ranks[i]];
    } else if (psr_node_request_waits(r, ret_waiting)) {
        if (r->group->heard_ms[ret_waiting->peer.rank] > last_ms)
            last_ms = r->group->heard_ms[ret_waiting->peer.rank];
    } else {
        ret_waiting->peer.rank = r->group->node->options.rank;
    }
    *ret_last_ms = last_ms;
    int64_t until_ms = last_ms > INT64_MAX - r->deadline_ms ? INT64_MAX : last_ms + r->deadline_ms;
    if (until_ms < r->wait_on_until_ms)
        until_ms = r->wait_on_until_ms;
    return until_ms == INT64_MAX ? INT64_MAX : until_ms - present_ms;
}

/* "any of ranks 0, 2, 3": the ranks of its group that are not out. */
static void name_any(const psr_node_request *r, char *text, size_t size)
{
    const psr_node *node = r->group->node;
    size_t used = (size_t)snprintf(text, size, "any of ranks"), named = 0;
    for (uint32_t i = 0; i < r->group->count && used < size; i++)
        if (node->out[r->group->ranks[i]] == NULL)
            used += (size_t)snprintf(text + used, size - used, "%s %" PRIu32,
                                     named++ > 0 ? "," : "", r->group->ranks[i]);
    if (used >= size)
        memcpy(text + size - sizeof ", ..", ", ..", sizeof ", ..");
}

static void pass_deadline(psr_node *node, psr_node_request *r, uint32_t awaited, int64_t waited_ms)
{
    char operation[2 * PSR_NODE_NAME_BYTES], self[PSR_HOST_MAX + 32], other[PSR_HOST_MAX + 32];
    psr_node_request_describe(r, operation, sizeof operation);
    psr_node_name_rank(node, node->options.rank, self, sizeof self);
    if (awaited == PSR_RANK_ANY)
        name_any(r, other, sizeof other);
    else
        psr_node_name_rank(node, awaited, other, sizeof other);
    psr_failure failure = {.err = PSR_ERR_TIMEOUT,
                           .scope = PSR_SCOPE_GROUP,
                           .epoch = r->group->epoch,
                           .group = r->group->id,
                           .rank = awaited,
                           .other = PSR_RANK_ANY,
                           .number = r->number};
    snprintf(failure.line, sizeof failure.line, "%s has waited for %s for %.1f s %s%s", self, other,
             (double)waited_ms / 1000, r->owed ? "to give back what it was lent in " : "in ",
             operation);
    r->group->overdue = r->owed;
    psr_node_tell(node, &failure, r->deadline_ms);
    if (node->options.alone)
        psr_node_apply(node, &failure);
    else
        node->asked = r;
    node->complained_of = node->asked;
}

/* The first deadline that has passed becomes a question to the coordinator. A deadline is looked at
 * only when it may have passed, not with every message. Returns how long until the next one may
 * pass. */
static int64_t look_at_deadlines(psr_node *node, int64_t present_ms)
{
    psr_node_request *r;
    while ((r = psr_node_due_first(node)) != NULL && r->due_ms <= present_ms) {
        psr_waiting waiting = {0};
        int64_t last_ms = 0, left = LOOK_AGAIN_MS;
        if (r->owed && (psr_node_request_lent(r) == 0 || r->group->state == PSR_NODE_BROKEN)) {
            psr_node_request_paid(r);
            continue;
        }
        if (r->group->state == PSR_NODE_WHOLE)
            left = left_ms(r, present_ms, &waiting, &last_ms);
        if (left <= 0) {
            pass_deadline(node, r, waiting.peer.rank, present_ms - last_ms);
            return INT64_MAX;
        }
        psr_node_due_move(node, r, left < INT64_MAX - present_ms ? present_ms + left : INT64_MAX);
    }
    return r == NULL || r->due_ms == INT64_MAX ? INT64_MAX : r->due_ms - present_ms;
}

void psr_node_tick(psr_node *node, int64_t now_ms, int64_t *ret_next_ms)
{
    *ret_next_ms = INT64_MAX;
    int64_t present_ms = psr_presence_clock_ms(&node->presence, now_ms);
    int64_t soonest_ms = psr_node_failure_tick(node, now_ms, present_ms);
    const int64_t look_ms = psr_node_left_tick(node, now_ms);
    soonest_ms = look_ms < soonest_ms ? look_ms : soonest_ms;
    if (node->asked != NULL && node->asked->owed && psr_node_request_lent(node->asked) == 0)
        psr_node_request_paid(node->asked);
    if (node->asked == NULL) {
        int64_t left_ms = look_at_deadlines(node, present_ms);
        soonest_ms = left_ms < soonest_ms ? left_ms : soonest_ms;
    }
    if (soonest_ms == INT64_MAX)
        return;
    int64_t every_ms = psr_presence_clock_every_ms(&node->presence);
    *ret_next_ms = now_ms + (soonest_ms < every_ms ? soonest_ms : every_ms);
}

/* ---- what it reports ---- */

/* The oldest request of the group that others may be told of. NULL: there is none. */
static const psr_node_request *oldest_of(const psr_node_group *g)
{
    const psr_node_request *oldest = NULL;
    for (const psr_request *r = NULL;
         oldest == NULL && (r = psr_group_next(g->group, r)) != NULL;) {
        const psr_node_request *owner = psr_request_owner(r);
        oldest = owner->open_ended ? NULL : owner;
    }
    for (const psr_node_request *r = g->table != NULL ? g->first : NULL; r != NULL; r = r->next)
        if (r->of_table && r->under_way && (oldest == NULL || r->since_ms < oldest->since_ms))
            oldest = r;
    return oldest;
}

/* A rank that has what was lent in a request which has ended, well or with its group. */
static bool waits_for_loans(const psr_node *node, psr_peer *ret_peer)
{
    const psr_node_request *owed = psr_node_due_first(node);
    if (owed != NULL && owed->owed)
        return psr_node_request_lent_to(owed, ret_peer);
    for (const psr_node_group *g = node->failing > 0 ? node->groups : NULL; g != NULL; g = g->next)
        for (const psr_node_request *r = g->state == PSR_NODE_BROKEN ? g->first : NULL; r != NULL;
             r = r->next)
            if (psr_node_request_lent_to(r, ret_peer))
                return true;
    return false;
}

/* Whom this rank waits for: for the sake of ranks that wait for its tables, otherwise in the oldest
 * request under way of any group, otherwise until what it has lent is back. */
static bool waits(const psr_node *node, psr_waiting *ret_waiting, psr_phase *ret_phase)
{
    const psr_node_request *oldest = NULL;
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        if (g->table != NULL && psr_node_table_waits(g->table, ret_waiting)) {
            *ret_phase = PSR_PHASE_PUSH;
            return true;
        }
    for (psr_node_group *g = node->groups; g != NULL; g = g->next) {
        const psr_node_request *r = g->state == PSR_NODE_WHOLE ? oldest_of(g) : NULL;
        if (r != NULL && (oldest == NULL || r->since_ms < oldest->since_ms))
            oldest = r;
    }
    if (oldest == NULL)
        return waits_for_loans(node, &ret_waiting->peer);
    if (psr_node_request_waits_for_any(oldest)) { /* waiting for itself means waiting for any */
        ret_waiting->peer = (psr_peer){PSR_ROLE_WORKER, node->options.rank};
        return true;
    }
    return psr_node_request_waits(oldest, ret_waiting);
}

bool psr_node_busy(const psr_node *node)
{
    if (node->under_way > 0 || node->shrink != NULL)
        return true;
    for (const psr_node_group *g = node->failing > 0 ? node->groups : NULL; g != NULL; g = g->next)
        if (g->state == PSR_NODE_FOUND || (g->state == PSR_NODE_BROKEN && g->cut_ms != INT64_MAX))
            return true;
    return false;
}

size_t psr_node_waiting_max(const psr_node *node)
{
    /* Slices, with a credit for each, and in rings those that others inject and this rank passes
     * on. An operation may be done here before the others have read its messages, so as many may
     * have ended meanwhile as ever were under way. */
    size_t most =
        PSR_NODE_WAITING_LEAST + node->under_way_most * 2 * (PSR_NODE_WINDOW + 1) * node->ranks;
    for (const psr_node_group *g = node->tables > 0 ? node->groups : NULL; g != NULL; g = g->next)
        most += g->table != NULL ? psr_node_table_waiting_max(g->table) : 0;
    return most;
}

void psr_node_report(const psr_node *node, psr_msg_progress *progress)
{
    psr_waiting waiting = {0};
    progress->phase = PSR_PHASE_FORWARD;
    progress->step = atomic_load_explicit(&node->step, memory_order_relaxed);
    progress->counter = node->moves + atomic_load_explicit(&node->steps_told, memory_order_relaxed);
    progress->waits = waits(node, &waiting, &progress->phase);
    progress->waits_for = waiting.peer;
}

void psr_node_progress(psr_node *node, uint64_t step)
{
    atomic_store_explicit(&node->step, step, memory_order_relaxed);
    atomic_fetch_add_explicit(&node->steps_told, 1, memory_order_relaxed);
}

/* ---- [owner] ---- */

bool psr_node_begun(const psr_node *node)
{
    return atomic_load(&node->begun);
}

/* ---- life ---- */

psr_err psr_node_new(const psr_node_options *options, int64_t now_ms, psr_node **ret_node)
{
    const uint32_t ranks = options->view->member_count;
    psr_node *node = calloc(1, sizeof *node);
    if (node != NULL) {
        node->out = calloc(ranks, sizeof *node->out);
        node->opened = calloc(ranks, sizeof *node->opened);
        node->heard = calloc(ranks, sizeof *node->heard);
        node->last = malloc(ranks * sizeof *node->last);
    }
    if (node == NULL || node->out == NULL || node->opened == NULL || node->heard == NULL ||
        node->last == NULL) {
        psr_node_free(node);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    }
    for (uint32_t r = 0; r < ranks; r++)
        node->last[r] = PSR_NODE_HERE;
    node->options = *options;
    node->ranks = ranks;
    node->presence = psr_presence_clock_for(now_ms, options->deadline_ms);
    atomic_store(&node->begun, options->alone);
    *ret_node = node;
    return PSR_OK;
}

void psr_node_free(psr_node *node)
{
    if (node == NULL)
        return;
    while (node->groups != NULL)
        psr_node_group_drop(node->groups);
    psr_node_forget_groups(node);
    for (uint32_t r = 0; r < node->ranks; r++)
        free(node->out[r]);
    free(node->out);
    free(node->opened);
    free(node->heard);
    free(node->last);
    free(node->due);
    free(node);
}
