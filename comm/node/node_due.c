/* Which deadline is to be looked at next. Requests under way are in a list, the earliest deadline
 * first. One that begins mostly has the latest deadline, since most have the same time; it comes to
 * the list's end. One whose deadline is earlier than the list's last one comes into a binary heap
 * instead (Williams, "Algorithm 232: Heapsort", CACM 1964). A heap of all would touch some thirty
 * other requests with each that ends, of 100,000. If there is no memory for the heap, a request is
 * put into the list where it belongs, which takes longer. */
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

/* false: there is no memory for another one. */
static bool has_room(psr_node *node)
{
    if (node->due_count < node->due_capacity)
        return true;
    size_t larger = node->due_capacity > 0 ? 2 * node->due_capacity : 16;
    psr_node_request **grown = realloc(node->due, larger * sizeof(psr_node_request *));
    if (grown == NULL)
        return false;
    node->due = grown;
    node->due_capacity = larger;
    return true;
}

/* Behind all requests of the list whose deadlines are not later. */
static void link(psr_node *node, psr_node_request *r)
{
    psr_node_request *before = node->due_last;
    while (before != NULL && before->due_ms > r->due_ms)
        before = before->due_previous;
    r->due_listed = true;
    r->due_previous = before;
    r->due_next = before != NULL ? before->due_next : node->due_first;
    *(before != NULL ? &before->due_next : &node->due_first) = r;
    *(r->due_next != NULL ? &r->due_next->due_previous : &node->due_last) = r;
}

static void unlink_listed(psr_node *node, psr_node_request *r)
{
    *(r->due_previous != NULL ? &r->due_previous->due_next : &node->due_first) = r->due_next;
    *(r->due_next != NULL ? &r->due_next->due_previous : &node->due_last) = r->due_previous;
    r->due_next = r->due_previous = NULL;
    r->due_listed = false;
}

void psr_node_due_add(psr_node *node, psr_node_request *request)
{
    const bool is_last = node->due_last == NULL || node->due_last->due_ms <= request->due_ms;
    if (is_last || !has_room(node))
        link(node, request);
    else
        move_up(node, node->due_count++, request);
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
    if (request->due_listed)
        unlink_listed(node, request);
    if (request->due == 0)
        return;
    size_t at = request->due - 1;
    psr_node_request *last = node->due[--node->due_count];
    request->due = 0;
    if (last != request)
        place(node, at, last);
    shrink(node);
}

void psr_node_due_move(psr_node *node, psr_node_request *request, int64_t due_ms)
{
    psr_node_due_remove(node, request);
    request->due_ms = due_ms;
    psr_node_due_add(node, request);
}

psr_node_request *psr_node_due_first(const psr_node *node)
{
    psr_node_request *listed = node->due_first;
    psr_node_request *top = node->due_count > 0 ? node->due[0] : NULL;
    return top == NULL || (listed != NULL && listed->due_ms <= top->due_ms) ? listed : top;
}
