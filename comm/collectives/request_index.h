/* The requests of a group that are under way: in the order in which they began, and found by the
 * tags of their messages in constant time. Used by a group and its requests only
 * (comm/collectives/group_private.h). It borrows the requests that are in it. One thread. */
#ifndef PSR_COMM_COLLECTIVES_REQUEST_INDEX_H
#define PSR_COMM_COLLECTIVES_REQUEST_INDEX_H

#include "comm/collectives/group.h"
#include "comm/queues.h"

/* All zero: it is empty. */
typedef struct psr_request_index {
    psr_request *first, *last; /* the oldest first */
    psr_queues by_tag;
} psr_request_index;

void psr_request_index_done(psr_request_index *index);

/* Adds it after all others. It must be in no index. */
void psr_request_index_add(psr_request_index *index, psr_request *request);
/* Its tag is set: from now on it is found by that tag only. It keeps its place. */
void psr_request_index_name(psr_request_index *index, psr_request *request);
/* Does nothing if it is in no index. */
void psr_request_index_remove(psr_request_index *index, psr_request *request);
/* The request with that tag. For a message, which goes one way between two ranks: the one in which
 * this rank sends to that peer, or receives from it. NULL: there is none. */
psr_request *psr_request_index_find(psr_request_index *index, psr_tag tag, uint32_t peer,
                                    bool sends);

#endif
