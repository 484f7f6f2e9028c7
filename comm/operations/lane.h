/* A lane: what many senders to one receiver share. Of what waits in it the one that is needed first goes first, and at most a window
 * is on its way at a time: what is not sent yet can still be overtaken (P3: Jayarajan et al., "Priority-based parameter
 * propagation for distributed DNN training", MLSys 2019). In place. One thread. */
#ifndef PSR_COMM_LANE_H
#define PSR_COMM_LANE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_lane {
    uint32_t *waiting; /* heap: the smallest on top */
    uint32_t waiting_count;
    uint32_t window;
    uint64_t sent, returned; /* returned: of those sent, for how many the receiver has given credit */
} psr_lane;

/* room: for all that may wait at once; borrowed for life. */
void psr_lane_init(psr_lane *lane, uint32_t *room, uint32_t window);

/* From now on so many may be on their way. */
void psr_lane_open(psr_lane *lane, uint32_t window);

/* Something waits to be sent; of all that waits the smallest number goes first. */
void psr_lane_add(psr_lane *lane, uint32_t number);
/* What is to be sent now, which counts as sent. false: nothing waits, or a window is on its way. */
bool psr_lane_next(psr_lane *lane, uint32_t *ret_number);
/* What was just to be sent goes as so many, which are not to be parted: the window may be passed by all of them but one. */
void psr_lane_together(psr_lane *lane, uint32_t count);
/* So many more of those sent have arrived. */
void psr_lane_credit(psr_lane *lane, uint64_t count);

#endif
