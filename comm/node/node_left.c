/* Ranks that have left in order. What a rank waits for from one of them either is on its way, or
 * never comes, and it need not wait for its deadline to know which:
 *
 *   1. whoever leaves says in DONE how many messages it has sent to each rank;
 *   2. a rank that waits reports for whom. If that one has left, the coordinator says so, once,
 *      with how many messages there are of it (LEFT);
 *   3. when as many have come, an operation that lacks one more fails, and with it its group;
 *   4. the channel to the rank is cut when it is known to have left, so that what was lent to it
 *      comes back: who waits for that, reports it as any other wait.
 *
 * No clock decides: as long as messages are on their way, the operation waits for them. Costs one
 * message for each pair of ranks of which one waits for the other after it has left. */
#include "comm/node/node_private.h"

#include <inttypes.h>
#include <stdio.h>

enum { EVERY_MS = 100 /* once a rank has left: how often it is looked for who waits for it */ };

/* Whether the group waits for a message of that rank; *ret_what: in what. */
static bool lacks(const psr_node_group *g, uint32_t rank, uint64_t *ret_number, char *what,
                  size_t size)
{
    psr_waiting waiting = {0};
    *ret_number = 0;
    if (g->table != NULL && psr_node_table_waits(g->table, &waiting) && waiting.peer.rank == rank) {
        snprintf(what, size, "to push into a table");
        return true;
    }
    for (const psr_node_request *r = g->first; r != NULL; r = r->next) {
        if (!r->under_way || r->open_ended || r->of_table || r->next_step != NULL ||
            r->request == NULL || !psr_request_lacks(r->request, rank))
            continue;
        char operation[2 * PSR_NODE_NAME_BYTES];
        psr_node_request_describe(r, operation, sizeof operation);
        snprintf(what, size, "in %s", operation);
        *ret_number = r->number;
        return true;
    }
    return false;
}

/* All its messages are here. */
static void look_for_who_waits(psr_node *node, uint32_t rank, int64_t now_ms)
{
    char self[PSR_HOST_MAX + 32], other[PSR_HOST_MAX + 32], what[2 * PSR_NODE_NAME_BYTES + 8];
    psr_node_name_rank(node, node->options.rank, self, sizeof self);
    psr_node_name_rank(node, rank, other, sizeof other);
    for (psr_node_group *g = node->groups; g != NULL; g = g->next) {
        psr_failure failure = {.err = PSR_ERR_PEER,
                               .scope = PSR_SCOPE_GROUP,
                               .epoch = g->epoch,
                               .group = g->id,
                               .rank = rank,
                               .other = PSR_RANK_ANY};
        if (g->state != PSR_NODE_WHOLE || !psr_node_group_has(g, rank) ||
            !lacks(g, rank, &failure.number, what, sizeof what))
            continue;
        snprintf(failure.line, sizeof failure.line, "%s has left; %s waits for it %s", other, self,
                 what);
        psr_node_find(node, &failure, now_ms);
    }
}

int64_t psr_node_left_tick(psr_node *node, int64_t now_ms)
{
    if (!node->any_left || node->broken)
        return INT64_MAX;
    for (uint32_t r = 0; r < node->ranks; r++)
        if (node->last[r] != PSR_NODE_HERE && node->heard[r] >= node->last[r] &&
            node->out[r] == NULL)
            look_for_who_waits(node, r, now_ms);
    return node->under_way > 0 || node->tables > 0 ? EVERY_MS : INT64_MAX;
}

void psr_node_left_take(psr_node *node, const psr_message *message, int64_t now_ms)
{
    psr_msg_left left;
    const psr_msg_limits limits = psr_node_limits(node);
    psr_err err = psr_msg_left_read(message, &limits, &left);
    if (err != PSR_OK) {
        psr_node_fail(node, err, PSR_RANK_ANY);
        return;
    }
    node->last[left.rank] = left.messages;
    node->any_left = true;
    node->options.cut(node->options.context, (psr_peer){PSR_ROLE_WORKER, left.rank});
    (void)psr_node_left_tick(node, now_ms);
}
