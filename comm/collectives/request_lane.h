/* The lane of a group: it decides which request injects the next slice of an all-reduce by ring. Of
 * the requests that wait, the one with the smallest priority goes first, and among equals the one
 * that began first. At most a window of slices is on its way at a time, all requests together; what
 * has not been sent can still be overtaken (P3: Jayarajan et al., "Priority-based parameter
 * propagation for distributed DNN training", MLSys 2019). A slice is on its way until its final sum
 * has come back. May not be moved; borrows the requests that wait. One thread. */
#ifndef PSR_COMM_COLLECTIVES_REQUEST_LANE_H
#define PSR_COMM_COLLECTIVES_REQUEST_LANE_H

#include "comm/collectives/group.h"

typedef struct psr_request_lane {
    psr_request *first, *last; /* the requests that wait, in their order */
    /* number of requests that have begun: one that began earlier has the smaller number */
    uint64_t turns;
    uint64_t on_their_way; /* slices of all requests that are on their way */
    uint64_t sure;         /* how many of them belong to requests that all ranks have begun */
} psr_request_lane;

/* The request begins to wait; it must not wait already. */
void psr_request_lane_add(psr_request_lane *lane, psr_request *request);
/* The request waits no longer. Does nothing if it did not wait. */
void psr_request_lane_remove(psr_request_lane *lane, psr_request *request);

#endif
