/* The groups of a node: which are open, and which message is whose. */
#include "comm/node/node_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE_BYTES = 256 << 10,
    SHARED_SLICE_BYTES = 1 << 20, /* through shared memory: what a message costs is the most of it there */
    COPIED_BYTES = 16 << 10,      /* a copy of those takes less time than to hear that they have left */
};

/* ---- which there are ---- */

psr_node_group *psr_node_group_of(const psr_node *node, uint32_t epoch, uint32_t id)
{
    for (psr_node_group *g = node->groups; g != NULL; g = g->next)
        if (g->epoch == epoch && g->id == id)
            return g;
    return NULL;
}

bool psr_node_was_closed(const psr_node *node, uint32_t epoch, uint32_t id)
{
    for (size_t i = 0; i < node->closed_count; i++)
        if (node->closed[i].epoch == epoch && node->closed[i].id == id)
            return true;
    return false;
}

bool psr_node_group_has(const psr_node_group *group, uint32_t rank)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->ranks[i] == rank)
            return true;
    return false;
}

void psr_node_group_take(psr_node *node, psr_node_group *g, psr_message **message, int64_t now_ms)
{
    uint32_t from = (*message)->from.rank;
    if (g->state != PSR_NODE_WHOLE)
        return;
    if ((*message)->from.role == PSR_ROLE_WORKER && from < node->ranks)
        g->heard_ms[from] = psr_presence_clock_ms(&node->presence, now_ms);
    bool of_table = psr_node_table_is_message((*message)->head.type);
    psr_err err = of_table ? psr_node_table_message(g, message) : psr_group_message(g->group, message);
    if (err != PSR_OK) {
        bool both = err == PSR_ERR_MISMATCH;
        uint32_t blamed = of_table && err != PSR_ERR_PROTOCOL ? node->options.rank : from;
        psr_failure failure = psr_node_failure_of_detail(
            g, err, blamed, both ? node->options.rank : PSR_RANK_ANY, both ? g->calls : 0);
        psr_node_find(node, &failure, now_ms);
        return;
    }
    psr_node_group_end_what_is_done(g);
}

void psr_node_group_open(psr_node *node, psr_node_group *g, int64_t now_ms)
{
    g->next = node->groups;
    node->groups = g;
    psr_node_group_inherit(g);
    psr_early *before = NULL;
    psr_err err = psr_early_new(1, PSR_EARLY_UNBOUNDED, &before);
    if (err != PSR_OK) {
        psr_node_fail(node, err, now_ms);
        return;
    }
    psr_early *all = node->early;
    node->early = before;
    for (psr_message *m; (m = psr_early_take(all, 0)) != NULL;) {
        psr_tag tag = psr_msg_tag(m);
        if (tag.epoch != g->epoch || tag.group != g->id) {
            psr_early_put(node->early, 0, &m);
            continue;
        }
        node->early_count--;
        psr_node_group_take(node, g, &m, now_ms);
        psr_message_free(&m);
    }
    psr_early_free(all);
}

void psr_node_group_drop(psr_node_group *g)
{
    while (g->first != NULL)
        psr_node_request_drop(g->first);
    psr_node_group_free(g);
}

void psr_node_group_close(psr_node *node, psr_node_group *g)
{
    psr_node_group **at = &node->groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    if (node->closed_count == node->closed_capacity) {
        size_t larger = node->closed_capacity > 0 ? 2 * node->closed_capacity : 16;
        psr_node_closed *grown = realloc(node->closed, larger * sizeof *grown);
        if (grown != NULL) {
            node->closed = grown;
            node->closed_capacity = larger;
        }
    }
    /* Without memory for it a late message of the group waits for it in vain. */
    if (node->closed_count < node->closed_capacity)
        node->closed[node->closed_count++] = (psr_node_closed){g->epoch, g->id};
    psr_node_group_drop(g);
}

/* ---- [owner] ---- */

static uint32_t hosts_of(const psr_node *node, const uint32_t *ranks, uint32_t count)
{
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < count; i++) {
        const psr_view_member *a = psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[i]});
        bool seen = false;
        for (uint32_t k = 0; k < i && !seen; k++) {
            const psr_view_member *b =
                psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[k]});
            seen = strcmp(a->host, b->host) == 0;
        }
        hosts += !seen;
    }
    return hosts;
}

/* As the view has it, which is the same for all of them. */
static bool share_memory(const psr_node *node, const uint32_t *ranks, uint32_t count)
{
    const psr_view_member *first = psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[0]});
    for (uint32_t i = 0; i < count; i++) {
        const psr_view_member *other =
            psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[i]});
        if (!psr_memory_place_is_shared(&first->memory, &other->memory))
            return false;
    }
    return true;
}

static psr_err make_group(psr_node_group *g, const uint32_t *ranks)
{
    psr_node *node = g->node;
    psr_peer *members = calloc(g->count, sizeof *members);
    g->ranks = calloc(g->count, sizeof *g->ranks);
    g->heard_ms = malloc(node->ranks * sizeof *g->heard_ms);
    if (members == NULL || g->ranks == NULL || g->heard_ms == NULL) {
        free(members);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %" PRIu32 " ranks", g->count);
    }
    for (uint32_t r = 0; r < node->ranks; r++)
        g->heard_ms[r] = INT64_MIN;
    for (uint32_t i = 0; i < g->count; i++) {
        g->ranks[i] = ranks[i];
        members[i] = (psr_peer){PSR_ROLE_WORKER, ranks[i]};
        if (ranks[i] == node->options.rank)
            g->rank = i;
    }
    const psr_group_options options = {.epoch = g->epoch,
                                       .id = g->id,
                                       .rank = g->rank,
                                       .ranks = g->count,
                                       .members = members,
                                       .hosts = hosts_of(node, ranks, g->count),
                                       .slice_bytes = SLICE_BYTES,
                                       .largest_slice_bytes =
                                           share_memory(node, ranks, g->count) ? SHARED_SLICE_BYTES : 0,
                                       .window = PSR_NODE_WINDOW,
                                       .copied_bytes = COPIED_BYTES,
                                       .outbox = node->options.outbox};
    psr_err err = psr_group_new(&options, &g->group);
    free(members);
    return err;
}

psr_err psr_node_group_new(psr_node *node, uint32_t epoch, uint32_t id, const uint32_t *ranks, uint32_t count,
                           psr_node_group **ret_group)
{
    psr_node_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group");
    *g = (psr_node_group){.node = node, .epoch = epoch, .id = id, .count = count};
    psr_err err = make_group(g, ranks);
    if (err != PSR_OK) {
        psr_node_group_free(g);
        return err;
    }
    *ret_group = g;
    return PSR_OK;
}

void psr_node_group_free(psr_node_group *group)
{
    if (group == NULL)
        return;
    psr_node_table_free(group->table);
    psr_group_free(group->group);
    free(group->ranks);
    free(group->heard_ms);
    free(group);
}

uint32_t psr_node_group_id(const psr_node_group *group)
{
    return group->id;
}

uint32_t psr_node_group_rank(const psr_node_group *group)
{
    return group->rank;
}

uint32_t psr_node_group_size(const psr_node_group *group)
{
    return group->count;
}

const uint32_t *psr_node_group_ranks(const psr_node_group *group)
{
    return group->ranks;
}

uint32_t psr_node_group_epoch(const psr_node_group *group)
{
    return group->epoch;
}

void psr_node_group_made_of(psr_node_group *group, const psr_node_group *of)
{
    group->of = of;
}

void psr_node_group_begins(psr_node_group *group)
{
    atomic_store(&group->begun, true);
}

bool *psr_node_group_told(psr_node_group *group)
{
    return &group->told;
}
