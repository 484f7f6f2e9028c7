/* How the living ranks of a group get a new group of themselves. Only the coordinator says who
 * lives. When all living ranks have asked, each gets the same list and opens the group before it
 * looks at anything else. So no rank can have the group while the call of another fails. */
#include "comm/node/node_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

static void end(psr_node *node, psr_node_shrink *s)
{
    if (node->shrink == s)
        node->shrink = NULL;
    atomic_store_explicit(&s->ended, true, memory_order_release);
    node->options.changed(node->options.context);
}

static void fail(psr_node *node, psr_node_shrink *s, const psr_failure *failure)
{
    s->failure = *failure;
    end(node, s);
}

void psr_node_shrink_fail(psr_node *node, const psr_failure *failure)
{
    if (node->shrink != NULL)
        fail(node, node->shrink, failure);
}

static psr_err ask(const psr_node *node, const psr_node_shrink *s)
{
    const psr_node_group *g = s->of;
    const psr_head head = psr_msg_shrink_head(&(psr_msg_shrink){
        .epoch = g->epoch, .group = g->id, .within_ms = (uint64_t)s->deadline_ms});
    uint8_t *bytes = malloc(sizeof(uint32_t) * g->count);
    if (bytes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a list of ranks");
    psr_msg_rank_list_write(g->ranks, g->count, bytes);
    const psr_payload payload = {.data = bytes, .bytes = sizeof(uint32_t) * g->count};
    const psr_outbox *outbox = &node->options.outbox;
    psr_err err = outbox->send(outbox->context, coordinator, &head, &payload);
    free(bytes);
    return err;
}

static psr_err open_new(psr_node *node, psr_node_shrink *s, uint32_t epoch, const uint32_t *ranks,
                        uint32_t count, int64_t now_ms)
{
    psr_node_group *group = NULL;
    PSR_TRY(psr_node_group_new(node, epoch, 0, ranks, count, &group));
    node->epoch = epoch;
    psr_node_group_open(node, group, now_ms);
    s->group = group;
    return PSR_OK;
}

void psr_node_shrink_begin(psr_node *node, psr_node_shrink *shrink, int64_t now_ms)
{
    if (node->broken) {
        fail(node, shrink, &node->failure);
        return;
    }
    psr_err err = PSR_OK;
    if (node->options.alone)
        err = open_new(node, shrink, node->epoch + 1, &node->options.rank, 1, now_ms);
    else
        err = ask(node, shrink);
    if (err != PSR_OK) {
        psr_failure failure =
            psr_node_failure_of_detail(shrink->of, err, node->options.rank, PSR_RANK_ANY, 0);
        fail(node, shrink, &failure);
    } else if (node->options.alone) {
        end(node, shrink);
    } else {
        node->shrink = shrink;
    }
}

static bool has_self(const psr_node *node, const uint32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] == node->options.rank)
            return true;
    return false;
}

static psr_failure failure_in(const psr_message *message, const psr_msg_shrunk *says)
{
    psr_failure failure = {.err = says->status,
                           .scope = PSR_SCOPE_GROUP,
                           .epoch = says->epoch,
                           .group = says->group,
                           .rank = says->rank,
                           .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line, "%.*s", (int)message->payload_bytes,
             (const char *)message->payload);
    return failure;
}

static psr_err take(psr_node *node, const psr_message *message, int64_t now_ms)
{
    psr_node_shrink *s = node->shrink;
    psr_msg_shrunk says;
    uint32_t *ranks = NULL, count = 0;
    const psr_msg_limits limits = psr_node_limits(node);
    PSR_TRY(psr_msg_shrunk_read(message, &limits, &says));
    if (s == NULL || says.epoch != s->of->epoch || says.group != s->of->id)
        return psr_fail(PSR_ERR_PROTOCOL, "the scheduler sent SHRUNK, which nobody here asked for");
    if (says.status != PSR_OK) {
        const psr_failure failure = failure_in(message, &says);
        fail(node, s, &failure);
        return PSR_OK;
    }
    PSR_TRY(psr_msg_rank_list_read(message, node->ranks, &ranks, &count));
    psr_err err =
        says.new_epoch > node->epoch && has_self(node, ranks, count)
            ? open_new(node, s, says.new_epoch, ranks, count, now_ms)
            : psr_fail(PSR_ERR_PROTOCOL, "the scheduler sent SHRUNK, which does not fit this rank");
    free(ranks);
    if (err == PSR_OK)
        end(node, s);
    return err;
}

/* The others have the group: a rank that cannot have it is lost to them. */
void psr_node_shrink_take(psr_node *node, const psr_message *message, int64_t now_ms)
{
    psr_err err = take(node, message, now_ms);
    if (err == PSR_OK)
        return;
    psr_failure failure = {
        .err = err, .scope = PSR_SCOPE_LOST, .rank = node->options.rank, .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
    psr_node_find(node, &failure, now_ms);
}

/* ---- [owner] ---- */

psr_err psr_node_shrink_new(psr_node_group *group, int64_t deadline_ms,
                            psr_node_shrink **ret_shrink)
{
    psr_node_shrink *s = calloc(1, sizeof *s);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a smaller group");
    s->of = group;
    s->deadline_ms = deadline_ms;
    *ret_shrink = s;
    return PSR_OK;
}

void psr_node_shrink_free(psr_node_shrink *shrink)
{
    free(shrink);
}

bool psr_node_shrink_ended(const psr_node_shrink *shrink)
{
    return atomic_load_explicit(&shrink->ended, memory_order_acquire);
}

psr_err psr_node_shrink_result(const psr_node_shrink *shrink, psr_node_group **ret_group)
{
    if (shrink->group == NULL)
        return psr_fail(shrink->failure.err, "%s", shrink->failure.line);
    *ret_group = shrink->group;
    return PSR_OK;
}
