/* The requests under way of a group: in their order, and by what their messages' tags say, however
 * many they are. Those of a group and its requests alone (comm/collectives/group_private.h);
 * borrows them as long as they are in it. One thread. */
#ifndef PSR_COMM_COLLECTIVES_REQUEST_INDEX_H
#define PSR_COMM_COLLECTIVES_REQUEST_INDEX_H

#include "comm/collectives/group.h"
#include "comm/queues.h"

/* All zero: there are none. */
typedef struct psr_request_index {
    psr_request *first, *last; /* the oldest first */
    psr_queues by_tag;
} psr_request_index;

void psr_request_index_done(psr_request_index *index);

/* Behind all others. It is in none. */
void psr_request_index_add(psr_request_index *index, psr_request *request);
/* Its tag is set: it is found by that from now on, and by no other. It keeps its place. */
void psr_request_index_name(psr_request_index *index, psr_request *request);
/* Nothing, where it is in none. */
void psr_request_index_remove(psr_request_index *index, psr_request *request);
/* The one with that tag; of messages, which go one way between two ranks, the one in which this
 * rank sends to that peer (or receives from it). NULL: there is none. */
psr_request *psr_request_index_find(psr_request_index *index, psr_tag tag, uint32_t peer,
                                    bool sends);

#endif
