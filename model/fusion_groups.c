#include "model/fusion_groups.h"

#include <stdlib.h>

/* Which node each node is computed with: itself, or the last node of its group. */
typedef struct grouping {
    const psr_network *net;
    const uint32_t *readers;
    uint32_t *leader;
} grouping;

static bool is_private_norm(const grouping *g, uint32_t node)
{
    return g->net->nodes[node].op == PSR_OP_BATCHNORM && g->readers[node] == 1;
}

/* The batch norm whose kernel computes `node`, an addition or a ReLU; PSR_NONE when none can. */
static uint32_t norm_behind(const grouping *g, uint32_t node)
{
    const psr_network_node *n = &g->net->nodes[node];
    if (n->op == PSR_OP_RELU) {
        uint32_t from = n->input[0];
        if (is_private_norm(g, from))
            return from;
        return g->net->nodes[from].op == PSR_OP_ADD && g->readers[from] == 1 ? norm_behind(g, from)
                                                                             : PSR_NONE;
    }
    if (n->op != PSR_OP_ADD || n->input[0] == n->input[1])
        return PSR_NONE;
    for (int i = 0; i < 2; i++)
        if (is_private_norm(g, n->input[i]))
            return n->input[i];
    return PSR_NONE;
}

/* Whether the addition's input i is a norm that its kernel computes: one of two that take their
 * statistics in the same way, or the one behind the addition. */
static bool takes_norm(const grouping *g, uint32_t addition, int i)
{
    const psr_network_node *nodes = g->net->nodes;
    const uint32_t input = nodes[addition].input[i], first = norm_behind(g, addition);
    return is_private_norm(g, input) && nodes[input].held == nodes[first].held;
}

/* Everything between `node` and the norms behind it follows `leader`. */
static void lead(const grouping *g, uint32_t node, uint32_t leader)
{
    const psr_network_node *n = &g->net->nodes[node];
    g->leader[node] = leader;
    if (n->op == PSR_OP_RELU) {
        lead(g, n->input[0], leader);
    } else if (n->op == PSR_OP_ADD) {
        for (int i = 0; i < 2; i++)
            if (takes_norm(g, node, i))
                lead(g, n->input[i], leader);
    }
}

static psr_fusion_group make_group(const grouping *g, uint32_t last)
{
    psr_fusion_group group = {.output = last,
                              .match = PSR_NONE,
                              .norm = PSR_NONE,
                              .second_norm = PSR_NONE,
                              .residual = PSR_NONE};
    for (uint32_t node = 0; node <= last; node++)
        if (g->leader[node] == last)
            group.nodes[group.node_count++] = node;
    group.op = g->net->nodes[group.nodes[0]].op;
    if (group.op != PSR_OP_BATCHNORM)
        return group;
    for (uint32_t i = 0; i < group.node_count; i++) {
        const psr_network_node *node = &g->net->nodes[group.nodes[i]];
        if (node->op == PSR_OP_BATCHNORM && group.norm == PSR_NONE)
            group.norm = group.nodes[i];
        else if (node->op == PSR_OP_BATCHNORM)
            group.second_norm = group.nodes[i];
        else if (node->op == PSR_OP_RELU)
            group.relu = true;
        else if (g->leader[node->input[0]] != last)
            group.residual = node->input[0];
        else if (g->leader[node->input[1]] != last)
            group.residual = node->input[1];
    }
    return group;
}

/* The group that gives `value`. */
static psr_fusion_group *maker(psr_fusion_groups *groups, uint32_t value)
{
    for (uint32_t i = 0; i < groups->count; i++)
        if (groups->items[i].output == value)
            return &groups->items[i];
    return NULL;
}

/* The convolution behind `limit` that decides how `value` lies in memory: its maker or, where that
 * gives a value that lies as its input does, the one behind that input. NULL: there is none. */
static psr_fusion_group *layout_giver(const psr_network *net, psr_fusion_groups *groups,
                                      uint32_t value, uint32_t limit)
{
    while (value > limit) {
        psr_fusion_group *group = maker(groups, value);
        if (group == NULL)
            return NULL;
        switch (group->op) {
        case PSR_OP_CONV:
            return group;
        case PSR_OP_BATCHNORM:
            value = net->nodes[group->norm].input[0];
            break;
        case PSR_OP_RELU:
        case PSR_OP_GELU:
        case PSR_OP_GATE:
        case PSR_OP_DROPOUT:
        case PSR_OP_DROPOUT2D:
            value = net->nodes[value].input[0];
            break;
        default:
            return NULL;
        }
    }
    return NULL;
}

/* What is added has to lie in memory alike: the later of the two convolutions, or the only one,
 * follows. */
static void match_layouts(const psr_network *net, psr_fusion_groups *groups,
                          const psr_fusion_group *sum)
{
    uint32_t x = net->nodes[sum->nodes[0]].input[0], r = net->nodes[sum->nodes[0]].input[1];
    if (sum->op == PSR_OP_BATCHNORM)
        r = sum->second_norm != PSR_NONE ? net->nodes[sum->second_norm].input[0] : sum->residual;
    if (r == PSR_NONE)
        return;
    uint32_t later = x > r ? x : r, earlier = x > r ? r : x;
    /* Option A's shortcut has the layout of what it reads. */
    if (net->nodes[later].op == PSR_OP_SHORTCUT_A) {
        later = x;
        earlier = net->nodes[r].input[0];
    }
    psr_fusion_group *group = layout_giver(net, groups, later, earlier);
    if (group != NULL)
        group->match = earlier;
}

psr_err psr_fusion_groups_init(const psr_network *net, psr_fusion_groups *ret_groups)
{
    uint32_t n = net->node_count;
    psr_fusion_groups groups = {.items = calloc(n, sizeof *groups.items),
                                .readers = calloc(n, sizeof(uint32_t))};
    uint32_t *leader = malloc(n * sizeof *leader);
    if (groups.items == NULL || groups.readers == NULL || leader == NULL) {
        free(leader);
        psr_fusion_groups_done(&groups);
        return psr_fail(PSR_ERR_NOMEM, "out of memory for the groups of %s", net->name);
    }
    for (uint32_t node = 0; node < n; node++) {
        leader[node] = node;
        for (int i = 0; i < 2; i++)
            if (net->nodes[node].input[i] != PSR_NONE)
                groups.readers[net->nodes[node].input[i]]++;
    }
    /* In order, so that a ReLU takes over what the addition before it has led. */
    grouping g = {net, groups.readers, leader};
    for (uint32_t node = 0; node < n; node++)
        if (norm_behind(&g, node) != PSR_NONE)
            lead(&g, node, node);
    for (uint32_t node = 0; node < n; node++)
        if (leader[node] == node)
            groups.items[groups.count++] = make_group(&g, node);
    for (uint32_t i = 0; i < groups.count; i++)
        if (groups.items[i].op == PSR_OP_BATCHNORM || groups.items[i].op == PSR_OP_ADD)
            match_layouts(net, &groups, &groups.items[i]);
    free(leader);
    *ret_groups = groups;
    return PSR_OK;
}

void psr_fusion_groups_done(psr_fusion_groups *groups)
{
    free(groups->items);
    free(groups->readers);
    *groups = (psr_fusion_groups){0};
}
