#include "comm/collectives/request_index.h"

#include "comm/collectives/group_private.h"

/* peer and sends matter for a message only. */
static psr_queue_key key_of(psr_tag tag, uint32_t peer, bool sends)
{
    uint64_t of_message =
        tag.slot > PSR_MESSAGE_TAG_MAX ? (uint64_t)peer << 33 | (uint64_t)sends << 32 : 0;
    return (psr_queue_key){tag.round, of_message | tag.slot};
}

void psr_request_index_done(psr_request_index *index)
{
    psr_queues_done(&index->by_tag);
}

void psr_request_index_add(psr_request_index *index, psr_request *request)
{
    request->next = NULL;
    request->previous = index->last;
    *(index->last != NULL ? &index->last->next : &index->first) = request;
    index->last = request;
    request->listed = true;
}

void psr_request_index_name(psr_request_index *index, psr_request *request)
{
    psr_queues_remove(&index->by_tag, &request->by_tag);
    psr_queues_add(&index->by_tag, &request->by_tag,
                   key_of(request->tag, request->peer, request->call.kind == PSR_KIND_SEND));
}

void psr_request_index_remove(psr_request_index *index, psr_request *request)
{
    if (!request->listed)
        return;
    psr_queues_remove(&index->by_tag, &request->by_tag);
    *(request->previous != NULL ? &request->previous->next : &index->first) = request->next;
    *(request->next != NULL ? &request->next->previous : &index->last) = request->previous;
    request->listed = false;
}

psr_request *psr_request_index_find(psr_request_index *index, psr_tag tag, uint32_t peer,
                                    bool sends)
{
    return PSR_QUEUED_OF(psr_queues_first(&index->by_tag, key_of(tag, peer, sends)), psr_request,
                         by_tag);
}
