/* Which deadline is to be looked at next: a binary heap of the requests under way (Williams,
 * "Algorithm 232: Heapsort", CACM 1964). The deadline of a request that begins is mostly the last,
 * so it stays where it is put. */
#include "comm/node/node_private.h"

#include <stdlib.h>

static void put(psr_node *node, size_t at, psr_node_request *r)
{
    node->due[at] = r;
    r->due = at + 1;
}

static void move_up(psr_node *node, size_t at, psr_node_request *r)
{
    for (; at > 0 && node->due[(at - 1) / 2]->due_ms > r->due_ms; at = (at - 1) / 2)
        put(node, at, node->due[(at - 1) / 2]);
    put(node, at, r);
}

static void move_down(psr_node *node, size_t at, psr_node_request *r)
{
    for (size_t child; (child = 2 * at + 1) < node->due_count; at = child) {
        if (child + 1 < node->due_count && node->due[child + 1]->due_ms < node->due[child]->due_ms)
            child++;
        if (node->due[child]->due_ms >= r->due_ms)
            break;
        put(node, at, node->due[child]);
    }
    put(node, at, r);
}

static void place(psr_node *node, size_t at, psr_node_request *r)
{
    if (at > 0 && node->due[(at - 1) / 2]->due_ms > r->due_ms)
        move_up(node, at, r);
    else
        move_down(node, at, r);
}

psr_err psr_node_due_add(psr_node *node, psr_node_request *request)
{
    if (node->due_count == node->due_capacity) {
        size_t larger = node->due_capacity > 0 ? 2 * node->due_capacity : 16;
        psr_node_request **grown = realloc(node->due, larger * sizeof(psr_node_request *));
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for an operation's deadline");
        node->due = grown;
        node->due_capacity = larger;
    }
    move_up(node, node->due_count++, request);
    return PSR_OK;
}

/* When a quarter of the room is used, half of it is given back. If that fails, it stays. */
static void shrink(psr_node *node)
{
    size_t smaller = node->due_capacity / 2;
    if (node->due_count >= node->due_capacity / 4 || smaller < 16)
        return;
    psr_node_request **moved = realloc(node->due, smaller * sizeof(psr_node_request *));
    if (moved == NULL)
        return;
    node->due = moved;
    node->due_capacity = smaller;
}

void psr_node_due_remove(psr_node *node, psr_node_request *request)
{
    if (request->due == 0)
        return;
    size_t at = request->due - 1;
    psr_node_request *last = node->due[--node->due_count];
    request->due = 0;
    if (last != request)
        place(node, at, last);
    shrink(node);
}

void psr_node_due_moved(psr_node *node, psr_node_request *request)
{
    place(node, request->due - 1, request);
}
