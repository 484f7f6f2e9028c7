#include "comm/collectives/request_index.h"

#include "comm/collectives/group_private.h"

#include <stdlib.h>

enum { SIZE_AT_FIRST = 16 };

/* peer and sends are a message's. */
static size_t place_of(size_t size, psr_tag tag, uint32_t peer, bool sends)
{
    uint64_t key = tag.round * UINT64_C(0x9e3779b97f4a7c15) + tag.slot;
    if (tag.slot > PSR_MESSAGE_TAG_MAX)
        key += ((uint64_t)peer << 33) + ((uint64_t)sends << 32);
    key = (key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9); /* as in splitmix64 */
    return (size_t)(key >> 32) & (size - 1);
}

static size_t place_of_request(size_t size, const psr_request *r)
{
    return place_of(size, r->tag, r->peer, r->call.kind == PSR_KIND_SEND);
}

/* Without memory it stays as it is, and finding takes longer. */
static void grow(psr_request_index *index)
{
    size_t larger = 2 * index->size;
    psr_request **heads = calloc(larger, sizeof *heads);
    if (heads == NULL)
        return;
    for (psr_request *r = index->first; r != NULL; r = r->next) {
        psr_request **head = &heads[place_of_request(larger, r)];
        r->in_place = *head;
        *head = r;
    }
    free(index->heads);
    index->heads = heads;
    index->size = larger;
}

psr_err psr_request_index_init(psr_request_index *index)
{
    psr_request **heads = calloc(SIZE_AT_FIRST, sizeof *heads);
    if (heads == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the operations of a group");
    *index = (psr_request_index){.heads = heads, .size = SIZE_AT_FIRST};
    return PSR_OK;
}

void psr_request_index_done(psr_request_index *index)
{
    free(index->heads);
    *index = (psr_request_index){0};
}

void psr_request_index_add(psr_request_index *index, psr_request *request)
{
    if (index->count >= index->size)
        grow(index);
    psr_request **head = &index->heads[place_of_request(index->size, request)];
    request->in_place = *head;
    *head = request;
    request->next = NULL;
    request->previous = index->last;
    *(index->last != NULL ? &index->last->next : &index->first) = request;
    index->last = request;
    request->listed = true;
    index->count++;
}

void psr_request_index_remove(psr_request_index *index, psr_request *request)
{
    if (!request->listed)
        return;
    psr_request **at = &index->heads[place_of_request(index->size, request)];
    while (*at != request)
        at = &(*at)->in_place;
    *at = request->in_place;
    *(request->previous != NULL ? &request->previous->next : &index->first) = request->next;
    *(request->next != NULL ? &request->next->previous : &index->last) = request->previous;
    request->listed = false;
    index->count--;
}

psr_request *psr_request_index_find(const psr_request_index *index, psr_tag tag, uint32_t peer, bool sends)
{
    for (psr_request *r = index->heads[place_of(index->size, tag, peer, sends)]; r != NULL; r = r->in_place)
        if (r->tag.slot == tag.slot && r->tag.round == tag.round &&
            (!r->is_message || (r->peer == peer && (r->call.kind == PSR_KIND_SEND) == sends)))
            return r;
    return NULL;
}
