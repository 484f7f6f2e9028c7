#include "comm/queues.h"

#include <stdlib.h>

enum { SIZE_LEAST = 16 };

/* The mixing function of splitmix64. */
static uint64_t hash_of(psr_queue_key key)
{
    uint64_t hash = key.a * UINT64_C(0x9e3779b97f4a7c15) + key.b;
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

static psr_queued **head_of(psr_queues *queues, psr_queue_key key)
{
    return queues->size > 0 ? &queues->heads[hash_of(key) & (queues->size - 1)] : &queues->few;
}

static bool same(psr_queue_key a, psr_queue_key b)
{
    return a.a == b.a && a.b == b.b;
}

/* Where the first of that key is linked, or the end of its chain. */
static psr_queued **find(psr_queues *queues, psr_queue_key key)
{
    psr_queued **at = head_of(queues, key);
    for (; *at != NULL && !same((*at)->key, key); at = &(*at)->chain)
        queues->visited++;
    queues->visited++;
    return at;
}

static void move_chain(psr_queues *to, psr_queued *first)
{
    for (psr_queued *next; first != NULL; first = next) {
        next = first->chain;
        psr_queued **head = head_of(to, first->key);
        first->chain = *head;
        *head = first;
    }
}

static void resize(psr_queues *queues, size_t size)
{
    psr_queues moved = {.size = size, .count = queues->count, .visited = queues->visited};
    moved.heads = calloc(size, sizeof(psr_queued *));
    if (moved.heads == NULL)
        return;
    move_chain(&moved, queues->few);
    for (size_t i = 0; i < queues->size; i++)
        move_chain(&moved, queues->heads[i]);
    free(queues->heads);
    *queues = moved;
}

void psr_queues_done(psr_queues *queues)
{
    free(queues->heads);
    *queues = (psr_queues){0};
}

void psr_queues_add(psr_queues *queues, psr_queued *queued, psr_queue_key key)
{
    psr_queued **at = find(queues, key), *first = *at;
    queued->key = key;
    queued->next = queued->chain = NULL;
    if (first != NULL) {
        queued->previous = first->previous;
        first->previous->next = queued;
        first->previous = queued;
        return;
    }
    queued->previous = queued;
    *at = queued;
    if (++queues->count > (queues->size > 0 ? queues->size : 2))
        resize(queues, queues->size > 0 ? 2 * queues->size : SIZE_LEAST);
}

static void remove_first(psr_queues *queues, psr_queued **at)
{
    psr_queued *first = *at, *next = first->next;
    if (next != NULL) {
        next->previous = first->previous;
        next->chain = first->chain;
        *at = next;
        return;
    }
    *at = first->chain;
    if (--queues->count < queues->size / 8 && queues->size > SIZE_LEAST)
        resize(queues, queues->size / 2);
}

void psr_queues_remove(psr_queues *queues, psr_queued *queued)
{
    if (!psr_queued_is_in(queued))
        return;
    psr_queued **at = find(queues, queued->key);
    if (*at == queued) {
        remove_first(queues, at);
    } else {
        queued->previous->next = queued->next;
        (queued->next != NULL ? queued->next : *at)->previous = queued->previous;
    }
    queued->next = queued->previous = queued->chain = NULL;
}

psr_queued *psr_queues_first(psr_queues *queues, psr_queue_key key)
{
    return *find(queues, key);
}
