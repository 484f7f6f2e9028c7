/* How a node breaks: what is found here, and what the coordinator says. */
#include "comm/node/node_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GRACE_MS = 1000 /* for the coordinator's words on what was found here */ };

static const psr_peer coordinator = {PSR_ROLE_SCHEDULER, 0};

void psr_node_name_rank(const psr_node *node, uint32_t rank, char *text, size_t size)
{
    const psr_view_member *member = psr_view_find(node->options.view, (psr_peer){PSR_ROLE_WORKER, rank});
    if (member != NULL)
        snprintf(text, size, "rank %" PRIu32 " on %s", rank, member->host);
    else
        snprintf(text, size, "rank %" PRIu32, rank);
}

void psr_node_break(psr_node *node, const psr_failure *failure)
{
    if (node->state == PSR_NODE_BROKEN)
        return;
    node->state = PSR_NODE_BROKEN;
    node->failure = *failure;
    atomic_store_explicit(&node->broken, true, memory_order_release);
    for (uint32_t r = 0; r < node->ranks; r++)
        if (r != node->options.rank)
            node->options.cut(node->options.context, (psr_peer){PSR_ROLE_WORKER, r});
    for (psr_node_group *g = node->groups; g != NULL; g = g->next) {
        if (g->table != NULL)
            psr_node_table_break(g->table);
        for (psr_node_request *r = g->first; r != NULL; r = r->next)
            if (atomic_load(&r->state) == PSR_NODE_REQUEST_UNDER_WAY)
                psr_node_request_end(r, &node->failure);
    }
    node->options.changed(node->options.context);
}

void psr_node_tell(const psr_node *node, const psr_failure *f, int64_t within_ms)
{
    if (node->options.alone)
        return;
    psr_head head = psr_msg_finding_head(&(psr_msg_failure){.status = f->err,
                                                            .rank = f->rank,
                                                            .other = f->other,
                                                            .number = f->number,
                                                            .within_ms = (uint64_t)within_ms});
    const psr_payload line = {.data = f->line, .bytes = strlen(f->line)};
    const psr_outbox *outbox = &node->options.outbox;
    psr_err told = outbox->send(outbox->context, coordinator, &head, line.bytes > 0 ? &line : NULL);
    (void)told; /* who cannot be told will miss this rank */
}

/* One line for all: of what two ranks see, both tell, and the coordinator chooses. What only this rank sees is its own. */
void psr_node_find(psr_node *node, const psr_failure *failure, int64_t now_ms)
{
    if (node->state != PSR_NODE_WHOLE)
        return;
    psr_node_tell(node, failure, 0);
    if (node->options.alone || failure->err != PSR_ERR_MISMATCH) {
        psr_node_break(node, failure);
        return;
    }
    node->state = PSR_NODE_FOUND;
    node->found = *failure;
    int64_t grace_ms = node->options.deadline_ms / 4 < GRACE_MS ? node->options.deadline_ms / 4 : GRACE_MS;
    node->give_up_ms = now_ms + grace_ms;
}

psr_failure psr_node_failure_of_detail(psr_err err, uint32_t rank, uint32_t other, uint64_t number)
{
    psr_failure failure = {.err = err, .rank = rank, .other = other, .number = number};
    snprintf(failure.line, sizeof failure.line, "%s", psr_err_detail());
    return failure;
}

void psr_node_fail(psr_node *node, psr_err err, int64_t now_ms)
{
    const psr_failure failure = psr_node_failure_of_detail(err, PSR_RANK_ANY, PSR_RANK_ANY, 0);
    (void)now_ms;
    psr_node_break(node, &failure);
}

const psr_failure *psr_node_failure(const psr_node *node)
{
    return atomic_load_explicit(&node->broken, memory_order_acquire) ? &node->failure : NULL;
}
