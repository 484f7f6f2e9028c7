/* How groups of a node break: by what is found here, and by what the coordinator says. */
#include "comm/node/node_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRACE_MS = 1000 /* how long to wait for the coordinator's verdict on a finding */ };

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

psr_msg_limits psr_node_limits(const psr_node *node)
{
    return (psr_msg_limits){.workers = node->ranks, .epoch = UINT32_MAX};
}

void psr_node_name_rank(const psr_node *node, uint32_t rank, char *text, size_t size)
{
    const psr_view_member *member =
        psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, rank});
    if (member != NULL)
        snprintf(text, size, "rank %" PRIu32 " on %s", rank, member->host);
    else
        snprintf(text, size, "rank %" PRIu32, rank);
}

/* ---- breaking ---- */

static void break_group(psr_node_group *group, const psr_failure *failure);

/* If some ranks failed to make a group, others may have it: it fails on all of them. */
static void break_derived_groups(const psr_node_group *group)
{
    for (psr_node_group *g = group->node->groups; g != NULL; g = g->next) {
        if (g->of != group || atomic_load(&g->begun) || g->state == PSR_NODE_BROKEN)
            continue;
        psr_failure failure = group->failure;
        failure.scope = PSR_SCOPE_GROUP;
        failure.epoch = g->epoch;
        failure.group = g->id;
        failure.number = 0;
        psr_node_tell(g->node, &failure, 0);
        break_group(g, &failure);
    }
}

/* A table and the group that opened it fail together. The table's shards are not in that group, and
 * are told about the table. */
static void break_with_its_tables(const psr_node_group *group)
{
    for (psr_node_group *g = group->node->groups; g != NULL; g = g->next) {
        const bool table = g->opener == group;
        if ((!table && group->opener != g) || g->state == PSR_NODE_BROKEN)
            continue;
        psr_failure failure = group->failure;
        if (table && failure.scope == PSR_SCOPE_GROUP) {
            failure.epoch = g->epoch;
            failure.group = g->id;
            psr_node_tell(g->node, &failure, 0);
        }
        break_group(g, &failure);
    }
}

static void break_group(psr_node_group *group, const psr_failure *failure)
{
    if (group->state == PSR_NODE_BROKEN)
        return;
    group->node->failing += group->state == PSR_NODE_WHOLE;
    group->state = PSR_NODE_BROKEN;
    group->failure = *failure;
    group->cut_ms = INT64_MIN;
    atomic_store_explicit(&group->broken, true, memory_order_release);
    if (group->table != NULL)
        psr_node_table_break(group->table);
    for (psr_node_request *r = group->first; r != NULL; r = r->next)
        if (atomic_load(&r->state) == PSR_NODE_REQUEST_UNDER_WAY)
            psr_node_request_end(r, &group->failure);
    break_derived_groups(group);
    break_with_its_tables(group);
    group->node->options.changed(group->node->options.context);
}

static void cut(psr_node *node, uint32_t rank)
{
    if (rank != node->options.rank)
        node->options.cut(node->options.context, (psr_peer){PSR_ROLE_WORKER, rank});
}

/* Breaks everything for good: all requests under way fail. */
static void break_node(psr_node *node, const psr_failure *failure)
{
    if (node->broken)
        return;
    node->failure = *failure;
    atomic_store_explicit(&node->broken, true, memory_order_release);
    for (uint32_t r = 0; r < node->ranks; r++)
        cut(node, r);
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        break_group(g, failure);
    psr_node_shrink_fail(node, failure);
    node->options.changed(node->options.context);
}

static void break_groups_of(psr_node *node, const psr_failure *failure)
{
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        if (psr_node_group_has(g, failure->rank))
            break_group(g, failure);
}

/* For good: groups with that rank that are made later are broken too. */
static void lose(psr_node *node, const psr_failure *failure)
{
    if (failure->rank == node->options.rank) {
        break_node(node, failure);
        return;
    }
    psr_failure **out = &node->out[failure->rank];
    if (*out != NULL)
        return;
    *out = malloc(sizeof **out);
    if (*out == NULL) {
        break_node(node, failure);
        return;
    }
    **out = *failure;
    cut(node, failure->rank);
    node->options.retire(node->options.context, (psr_peer){PSR_ROLE_WORKER, failure->rank});
    break_groups_of(node, failure);
}

void psr_node_apply(psr_node *node, const psr_failure *failure)
{
    psr_node_group *g = NULL;
    switch (failure->scope) {
    case PSR_SCOPE_GROUP:
        g = psr_node_group_of(node, failure->epoch, failure->group);
        if (g != NULL)
            break_group(g, failure);
        return;
    case PSR_SCOPE_RANK:
        break_groups_of(node, failure);
        return;
    case PSR_SCOPE_LOST:
        lose(node, failure);
        return;
    case PSR_SCOPE_ALL:
    case PSR_SCOPES:
        break_node(node, failure);
        return;
    }
}

void psr_node_group_inherit(psr_node_group *group)
{
    const psr_node *node = group->node;
    if (node->broken)
        break_group(group, &node->failure);
    if (group->of != NULL && group->of->state == PSR_NODE_BROKEN)
        break_group(group, &group->of->failure);
    if (group->opener != NULL && group->opener->state == PSR_NODE_BROKEN)
        break_group(group, &group->opener->failure);
    for (uint32_t i = 0; i < group->count; i++)
        if (node->out[group->ranks[i]] != NULL)
            break_group(group, node->out[group->ranks[i]]);
}

/* ---- finding ---- */

void psr_node_tell(const psr_node *node, const psr_failure *f, int64_t within_ms)
{
    if (node->options.alone)
        return;
    psr_head head = psr_msg_finding_head(&(psr_msg_failure){.status = f->err,
                                                            .scope = f->scope,
                                                            .epoch = f->epoch,
                                                            .group = f->group,
                                                            .rank = f->rank,
                                                            .other = f->other,
                                                            .number = f->number,
                                                            .within_ms = (uint64_t)within_ms});
    const psr_payload line = {.data = f->line, .bytes = strlen(f->line)};
    const psr_outbox *outbox = &node->options.outbox;
    psr_err told = outbox->send(outbox->context, coordinator, &head, line.bytes > 0 ? &line : NULL);
    (void)told; /* a rank that cannot be told will miss this one */
}

/* All ranks shall have one line: two ranks that see a failure both report it, and the coordinator
 * chooses. A failure that only this rank sees needs no verdict. */
void psr_node_find(psr_node *node, const psr_failure *failure, int64_t now_ms)
{
    psr_node_group *g = psr_node_group_of(node, failure->epoch, failure->group);
    bool of_group = failure->scope == PSR_SCOPE_GROUP;
    if (node->broken || (of_group && (g == NULL || g->state != PSR_NODE_WHOLE)))
        return;
    psr_node_tell(node, failure, 0);
    if (node->options.alone || !of_group || failure->err != PSR_ERR_MISMATCH) {
        psr_node_apply(node, failure);
        return;
    }
    g->state = PSR_NODE_FOUND;
    node->failing++;
    g->found = *failure;
    int64_t grace_ms =
        node->options.deadline_ms / 4 < GRACE_MS ? node->options.deadline_ms / 4 : GRACE_MS;
    g->give_up_ms = now_ms + grace_ms;
}

psr_failure psr_node_failure_of_detail(const psr_node_group *group, psr_err err, uint32_t rank,
                                       uint32_t other, uint64_t number)
{
    psr_failure failure = {.err = err,
                           .scope = PSR_SCOPE_GROUP,
                           .epoch = group->epoch,
                           .group = group->id,
                           .rank = rank,
                           .other = other,
                           .number = number};
    snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
    return failure;
}

psr_failure psr_node_violation_of(psr_err err, uint32_t rank)
{
    psr_failure failure = {
        .err = err, .scope = PSR_SCOPE_RANK, .rank = rank, .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
    return failure;
}

void psr_node_fail(psr_node *node, psr_err err, uint32_t rank)
{
    psr_failure failure = {.err = err, .scope = PSR_SCOPE_ALL, .rank = rank, .other = PSR_RANK_ANY};
    snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
    break_node(node, &failure);
}

/* ---- time ---- */

static bool is_lent(const psr_node_group *group)
{
    for (const psr_node_request *r = group->first; r != NULL; r = r->next)
        if (psr_node_request_lent(r) > 0)
            return true;
    return false;
}

/* Memory that a broken group has lent comes back when the other ranks have received it. Living
 * ranks do receive; the channel to a rank that cannot be reached is cut, or the request's owner
 * would wait for ever. Returns how long until then. */
static int64_t take_back(psr_node_group *g, int64_t present_ms)
{
    psr_node *node = g->node;
    if (g->cut_ms == INT64_MIN)
        g->cut_ms = g->overdue ? present_ms : present_ms + node->options.deadline_ms;
    if (g->cut_ms == INT64_MAX || !is_lent(g)) {
        g->cut_ms = INT64_MAX;
        return INT64_MAX;
    }
    if (present_ms < g->cut_ms)
        return g->cut_ms - present_ms;
    g->cut_ms = INT64_MAX;
    for (uint32_t i = 0; i < g->count; i++)
        cut(node, g->ranks[i]);
    return INT64_MAX;
}

int64_t psr_node_failure_tick(psr_node *node, int64_t now_ms, int64_t present_ms)
{
    int64_t soonest_ms = INT64_MAX;
    for (psr_node_group *g = node->failing > 0 ? node->groups : NULL; g != NULL; g = g->next) {
        int64_t left_ms = INT64_MAX;
        if (g->state == PSR_NODE_FOUND && now_ms >= g->give_up_ms)
            psr_node_apply(node, &g->found);
        if (g->state == PSR_NODE_FOUND)
            left_ms = g->give_up_ms - now_ms;
        else if (g->state == PSR_NODE_BROKEN)
            left_ms = take_back(g, present_ms);
        soonest_ms = left_ms < soonest_ms ? left_ms : soonest_ms;
    }
    return soonest_ms;
}

/* ---- [owner] ---- */

const psr_failure *psr_node_failure(const psr_node *node)
{
    return atomic_load_explicit(&node->broken, memory_order_acquire) ? &node->failure : NULL;
}

const psr_failure *psr_node_group_failure(const psr_node_group *group)
{
    return atomic_load_explicit(&group->broken, memory_order_acquire) ? &group->failure : NULL;
}
