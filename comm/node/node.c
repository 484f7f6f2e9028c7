#include "comm/node/node_private.h"

#include "base/clock.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        else if (node->state != PSR_NODE_BROKEN) {
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
    }
}

/* ---- messages ---- */

static psr_failure failure_in(const psr_message *message, const psr_msg_failure *says)
{
    psr_failure failure = {
        .err = says->status, .rank = says->rank, .other = says->other, .number = says->number};
    size_t bytes =
        message->payload_bytes < sizeof failure.line ? message->payload_bytes : sizeof failure.line - 1;
    if (bytes > 0)
        memcpy(failure.line, message->payload, bytes);
    return failure;
}

static void take_verdict(psr_node *node, const psr_message *message, int64_t now_ms)
{
    psr_msg_failure says;
    psr_err err = psr_msg_failure_read(message, &says);
    if (err != PSR_OK) {
        psr_node_fail(node, err, now_ms);
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
    psr_failure failure = failure_in(message, &says);
    psr_node_break(node, &failure);
}

static psr_err keep_early(psr_node *node, psr_message **message)
{
    uint32_t id = psr_msg_group(*message);
    if (psr_node_was_closed(node, id))
        return PSR_OK;
    if (psr_early_full(node->early) || psr_node_table_is_message((*message)->head.type) ||
        (*message)->payload_bytes > 0)
        return psr_violation(*message, "this group is not open here");
    psr_early_put(node->early, 0, message);
    return PSR_OK;
}

static void take_of_rank(psr_node *node, psr_message **message, int64_t now_ms)
{
    psr_message_type type = (*message)->head.type;
    psr_err err = PSR_OK;
    if (node->state != PSR_NODE_WHOLE)
        return;
    if (type != PSR_MSG_VALUES && type != PSR_MSG_CREDIT && type != PSR_MSG_AHEAD &&
        !psr_node_table_is_message(type)) {
        err = psr_violation(*message, "a rank says VALUES, CREDIT, AHEAD and a table's words to another");
    } else {
        psr_node_group *g = psr_node_group_of(node, psr_msg_group(*message));
        if (g != NULL) {
            psr_node_group_take(node, g, message, now_ms);
            return;
        }
        err = keep_early(node, message);
    }
    if (err != PSR_OK) {
        psr_failure failure = psr_node_failure_of_detail(err, (*message)->from.rank, PSR_RANK_ANY, 0);
        psr_node_find(node, &failure, now_ms);
    }
}

void psr_node_message(psr_node *node, psr_message **message, int64_t now_ms)
{
    if (!psr_peer_equal((*message)->from, coordinator))
        take_of_rank(node, message, now_ms);
    else if ((*message)->head.type == PSR_MSG_VERDICT)
        take_verdict(node, *message, now_ms);
    psr_message_free(message);
}

/* ---- time ---- */

/* How much present time a request has left. ret_last_ms: since when it waits for that rank. */
static int64_t left_ms(const psr_node_request *r, int64_t present_ms, psr_waiting *ret_waiting,
                       int64_t *ret_last_ms)
{
    int64_t last_ms = r->since_ms;
    if (psr_node_request_waits(r, ret_waiting)) {
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

static void pass_deadline(psr_node *node, psr_node_request *r, uint32_t awaited, int64_t waited_ms)
{
    char operation[2 * PSR_NODE_NAME_BYTES], self[PSR_HOST_MAX + 32], other[PSR_HOST_MAX + 32];
    psr_node_request_describe(r, operation, sizeof operation);
    psr_node_name_rank(node, node->options.rank, self, sizeof self);
    psr_node_name_rank(node, awaited, other, sizeof other);
    psr_failure failure = {
        .err = PSR_ERR_TIMEOUT, .rank = awaited, .other = PSR_RANK_ANY, .number = r->number};
    snprintf(failure.line, sizeof failure.line, "%s has waited for %s for %.1f s in %s", self, other,
             (double)waited_ms / 1000, operation);
    psr_node_tell(node, &failure, r->deadline_ms);
    if (node->options.alone)
        psr_node_break(node, &failure);
    else
        node->asked = r;
}

static int64_t check_deadlines(psr_node *node, int64_t present_ms)
{
    int64_t soonest_ms = INT64_MAX;
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        for (psr_node_request *r = g->first; r != NULL; r = r->next) {
            psr_waiting waiting = {0};
            if (!r->under_way)
                continue;
            int64_t last_ms = 0, left = left_ms(r, present_ms, &waiting, &last_ms);
            if (left <= 0) {
                pass_deadline(node, r, waiting.peer.rank, present_ms - last_ms);
                return INT64_MAX;
            }
            soonest_ms = left < soonest_ms ? left : soonest_ms;
        }
    return soonest_ms;
}

void psr_node_tick(psr_node *node, int64_t now_ms, int64_t *ret_next_ms)
{
    *ret_next_ms = INT64_MAX;
    int64_t present_ms = psr_presence_clock_ms(&node->presence, now_ms);
    if (node->state == PSR_NODE_FOUND && now_ms >= node->give_up_ms)
        psr_node_break(node, &node->found);
    if (node->state == PSR_NODE_FOUND)
        *ret_next_ms = node->give_up_ms;
    if (node->state != PSR_NODE_WHOLE || node->asked != NULL)
        return;
    int64_t soonest_ms = check_deadlines(node, present_ms);
    if (soonest_ms == INT64_MAX)
        return;
    int64_t look_ms = psr_presence_clock_every_ms(&node->presence);
    *ret_next_ms = now_ms + (soonest_ms < look_ms ? soonest_ms : look_ms);
}

/* ---- what it reports ---- */

/* Whom this rank waits for: for those who wait for its tables, else in the oldest of what is under way, of any group. */
static bool waits(const psr_node *node, psr_waiting *ret_waiting, psr_phase *ret_phase)
{
    const psr_node_request *oldest = NULL;
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        if (g->table != NULL && psr_node_table_waits(g->table, ret_waiting)) {
            *ret_phase = PSR_PHASE_PUSH;
            return true;
        }
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        for (psr_node_request *r = g->first; r != NULL; r = r->next)
            if (r->under_way && !r->unasked && (oldest == NULL || r->since_ms < oldest->since_ms))
                oldest = r;
    return oldest != NULL && psr_node_request_waits(oldest, ret_waiting);
}

bool psr_node_busy(const psr_node *node)
{
    for (const psr_node_group *g = node->groups; g != NULL; g = g->next)
        for (const psr_node_request *r = g->first; r != NULL; r = r->next)
            if (r->under_way)
                return true;
    return node->state == PSR_NODE_FOUND;
}

void psr_node_report(const psr_node *node, psr_msg_progress *progress)
{
    psr_waiting waiting = {0};
    progress->phase = PSR_PHASE_FORWARD;
    progress->step = atomic_load_explicit(&node->step, memory_order_relaxed);
    progress->counter = node->moves + atomic_load_explicit(&node->steps_told, memory_order_relaxed);
    progress->waits = node->state == PSR_NODE_WHOLE && waits(node, &waiting, &progress->phase);
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
    psr_early *early = NULL;
    PSR_TRY(psr_early_new(1, (size_t)PSR_NODE_EARLY_MAX * options->view->member_count, &early));
    psr_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        psr_early_free(early);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a communicator");
    }
    node->options = *options;
    node->ranks = options->view->member_count;
    node->early = early;
    node->presence = psr_presence_clock_for(now_ms, options->deadline_ms);
    atomic_store(&node->begun, options->alone);
    *ret_node = node;
    return PSR_OK;
}

void psr_node_free(psr_node *node)
{
    if (node == NULL)
        return;
    while (node->groups != NULL) {
        psr_node_group *g = node->groups;
        node->groups = g->next;
        psr_node_group_drop(g);
    }
    psr_early_free(node->early);
    free(node->closed);
    free(node);
}
