/* The groups of a node: which are open, and to which a message belongs. */
#include "comm/node/node_private.h"

#include "comm/collectives/algorithm_choice.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE_BYTES = 256 << 10,
    /* between hosts few bytes have smaller slices, so that more of them follow one another */
    LINK_SLICE_BYTES = 32 << 10,
    /* through shared memory slices are larger, since the cost is per message */
    SHARED_SLICE_BYTES = 1 << 20,
    /* up to this size a copy takes less time than to hear that the loan has ended */
    COPIED_BYTES = 16 << 10,
};

/* ---- which groups there are ---- */

static psr_queue_key key_of(uint32_t epoch, uint32_t id)
{
    return (psr_queue_key){epoch, id};
}

psr_node_group *psr_node_group_of(psr_node *node, uint32_t epoch, uint32_t id)
{
    return PSR_QUEUED_OF(psr_queues_first(&node->open_by_id, key_of(epoch, id)), psr_node_group,
                         by_id);
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
    psr_err err =
        of_table ? psr_node_table_message(g, message) : psr_group_message(g->group, message);
    if (err != PSR_OK) {
        bool both = err == PSR_ERR_MISMATCH;
        uint32_t blamed = of_table && err != PSR_ERR_PROTOCOL ? node->options.rank : from;
        psr_failure failure = psr_node_failure_of_detail(
            g, err, blamed, both ? node->options.rank : PSR_RANK_ANY, both ? g->calls : 0);
        psr_node_find(node, &failure, now_ms);
        return;
    }
    psr_node_group_end_done(g, now_ms);
}

/* ---- groups that are not open ---- */

/* A group's id contains its first rank, and the number that this rank gave it. */
static bool was_opened(const psr_node *node, psr_tag tag)
{
    return tag.epoch <= node->epoch &&
           tag.group / node->ranks <= node->opened[tag.group % node->ranks];
}

/* A group begins with a barrier. No rank passes it or sends anything else in the group before all
 * have entered. */
static bool begins_group(const psr_message *message)
{
    psr_msg_values says;
    return message->head.type == PSR_MSG_VALUES && message->payload_bytes == 0 &&
           psr_msg_values_read(message, &says) == PSR_OK && says.tag.slot == 0 &&
           says.tag.round == 1 && psr_call_is_barrier(&says.call);
}

psr_err psr_node_keep_early(psr_node *node, psr_message **message)
{
    psr_tag tag = psr_msg_tag(*message);
    /* The others may have the group that this rank asked for, before it is told. */
    bool newer = node->shrink != NULL && tag.epoch > node->epoch;
    size_t most = newer ? PSR_NODE_NEWER_MAX : PSR_NODE_EARLY_MAX;
    if (psr_queues_first(&node->closed_by_id, key_of(tag.epoch, tag.group)) != NULL)
        return PSR_OK;
    if (!newer && !begins_group(*message) && was_opened(node, tag))
        return PSR_OK; /* it was closed */
    /* Others may have a group that is made without waiting, before this rank has it. */
    most += node->under_way;
    if (node->early_count >= most * node->ranks || (!newer && !begins_group(*message)))
        return psr_violation(*message, "this group is not open here");
    psr_node_early *early = malloc(sizeof *early);
    if (early == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message of a group that is not open yet");
    *early = (psr_node_early){.next = node->early, .message = *message};
    if (early->next != NULL)
        early->next->previous = early;
    node->early = early;
    node->early_count++;
    psr_queues_add(&node->early_by_id, &early->by_id, key_of(tag.epoch, tag.group));
    *message = NULL;
    return PSR_OK;
}

/* The message is the caller's. Frees early. */
static psr_message *unkeep(psr_node *node, psr_node_early *early)
{
    psr_message *message = early->message;
    psr_queues_remove(&node->early_by_id, &early->by_id);
    *(early->previous != NULL ? &early->previous->next : &node->early) = early->next;
    if (early->next != NULL)
        early->next->previous = early->previous;
    node->early_count--;
    free(early);
    return message;
}

void psr_node_forget_groups(psr_node *node)
{
    while (node->early != NULL) {
        psr_message *message = unkeep(node, node->early);
        psr_message_free(&message);
    }
    for (psr_node_closed *c = node->closed, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    psr_queues_done(&node->early_by_id);
    psr_queues_done(&node->closed_by_id);
    psr_queues_done(&node->open_by_id);
}

/* ---- opening and closing ---- */

void psr_node_group_open(psr_node *node, psr_node_group *g, int64_t now_ms)
{
    const psr_queue_key key = key_of(g->epoch, g->id);
    uint32_t *opened = &node->opened[g->id % node->ranks];
    g->next = node->groups;
    if (g->next != NULL)
        g->next->previous = g;
    node->groups = g;
    node->tables += g->table != NULL;
    psr_queues_add(&node->open_by_id, &g->by_id, key);
    *opened = g->id / node->ranks > *opened ? g->id / node->ranks : *opened;
    psr_node_group_inherit(g);
    for (psr_node_early *e; (e = PSR_QUEUED_OF(psr_queues_first(&node->early_by_id, key),
                                               psr_node_early, by_id)) != NULL;) {
        psr_message *m = unkeep(node, e);
        psr_node_group_take(node, g, &m, now_ms);
        psr_message_free(&m);
    }
}

void psr_node_group_drop(psr_node_group *g)
{
    psr_node *node = g->node;
    while (g->first != NULL)
        psr_node_request_drop(g->first);
    *(g->previous != NULL ? &g->previous->next : &node->groups) = g->next;
    if (g->next != NULL)
        g->next->previous = g->previous;
    psr_queues_remove(&node->open_by_id, &g->by_id);
    node->failing -= g->state != PSR_NODE_WHOLE;
    node->tables -= g->table != NULL;
    psr_node_group_free(g);
}

/* After a group has begun, no message can come that looks as if the group began now. */
void psr_node_group_close(psr_node *node, psr_node_group *g)
{
    for (psr_node_group *t = node->tables > 0 ? node->groups : NULL; t != NULL; t = t->next)
        if (t->opener == g)
            t->opener = NULL;
    psr_node_closed *c = atomic_load(&g->begun) || g->table != NULL ? NULL : calloc(1, sizeof *c);
    if (c != NULL) { /* without memory for it a late message of the group is kept in vain */
        c->next = node->closed;
        node->closed = c;
        psr_queues_add(&node->closed_by_id, &c->by_id, key_of(g->epoch, g->id));
    }
    psr_node_group_drop(g);
}

/* ---- [owner] ---- */

/* Where they are; a host is known by its first rank. NOMEM. */
static psr_err find_hosts(const psr_node *node, const uint32_t *ranks, uint32_t count,
                          psr_rank_hosts *ret_hosts)
{
    uint32_t *host_of = malloc(count * sizeof *host_of);
    if (host_of == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of %" PRIu32 " ranks", count);
    for (uint32_t i = 0; i < count; i++) {
        const psr_view_member *a =
            psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[i]});
        host_of[i] = i;
        for (uint32_t k = 0; k < i && host_of[i] == i; k++) {
            const psr_view_member *b =
                psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[k]});
            if (strcmp(a->host, b->host) == 0)
                host_of[i] = host_of[k];
        }
    }
    *ret_hosts = psr_rank_hosts_of(host_of, count);
    free(host_of);
    return PSR_OK;
}

/* As the view says, which is the same for all of them. */
static bool share_memory(const psr_node *node, const uint32_t *ranks, uint32_t count)
{
    const psr_view_member *first =
        psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, ranks[0]});
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
    psr_rank_hosts hosts;
    psr_err err = find_hosts(node, ranks, g->count, &hosts);
    if (err != PSR_OK) {
        free(members);
        return err;
    }
    const bool shares_memory = share_memory(node, ranks, g->count);
    const psr_group_options options = {
        .epoch = g->epoch,
        .id = g->id,
        .rank = g->rank,
        .ranks = g->count,
        .members = members,
        .hosts = hosts.hosts,
        .most_on_one = hosts.most_on_one,
        .hops = hosts.hops,
        .slice_bytes = hosts.hosts > 1 ? LINK_SLICE_BYTES : SLICE_BYTES,
        .largest_slice_bytes = shares_memory ? SHARED_SLICE_BYTES : SLICE_BYTES,
        .shares_memory = shares_memory,
        .window = PSR_NODE_WINDOW,
        .copied_bytes = COPIED_BYTES,
        .outbox = node->options.outbox};
    err = psr_group_new(&options, &g->group);
    free(members);
    return err;
}

psr_err psr_node_group_new(psr_node *node, uint32_t epoch, uint32_t id, const uint32_t *ranks,
                           uint32_t count, psr_node_group **ret_group)
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

void psr_node_group_opened_by(psr_node_group *table, psr_node_group *opener)
{
    table->opener = opener;
}

void psr_node_group_begins(psr_node_group *group)
{
    atomic_store(&group->begun, true);
}

bool *psr_node_group_told(psr_node_group *group)
{
    return &group->told;
}
