/* The lane of a group: what its requests inject in all-reduces by ring. Of the requests that wait,
 * the one of the smallest priority goes first, of equals the one that began first; and at most a
 * window of slices is on its way at a time, all requests together: what is not sent yet can still
 * be overtaken (P3: Jayarajan et al., "Priority-based parameter propagation for distributed DNN
 * training", MLSys 2019). A slice is on its way until its final sum has come back. In place;
 * borrows the requests that wait. One thread. */
#ifndef PSR_COMM_COLLECTIVES_REQUEST_LANE_H
#define PSR_COMM_COLLECTIVES_REQUEST_LANE_H

#include "comm/collectives/group.h"

typedef struct psr_request_lane {
    psr_request *first, *last; /* that wait, in their order */
    uint64_t turns;            /* requests begun: who began first has the smaller one */
    uint64_t on_their_way;     /* slices of all requests */
    uint64_t sure;             /* of those, of requests that all ranks have begun */
} psr_request_lane;

/* It waits. It did not. */
void psr_request_lane_add(psr_request_lane *lane, psr_request *request);
/* It waits no longer. Nothing, where it did not. */
void psr_request_lane_remove(psr_request_lane *lane, psr_request *request);

#endif
