/* A lane: a priority queue that several operations share which send to one receiver. The message
 * that the next forward pass needs first is sent first. At most a window of messages is
 * unacknowledged at a time; the others wait here, where a more urgent one can still overtake them
 * (P3: Jayarajan et al., "Priority-based parameter propagation for distributed DNN training", MLSys
 * 2019). In place. One thread. */
#ifndef PSR_COMM_LANE_H
#define PSR_COMM_LANE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_lane {
    uint32_t *waiting; /* heap: the smallest on top */
    uint32_t waiting_count;
    uint32_t window;
    uint64_t sent, returned; /* returned: of those sent, for how many
                                the receiver has given credit */
} psr_lane;

/* room: an array for all numbers that may wait at the same time; borrowed for life. */
void psr_lane_init(psr_lane *lane, uint32_t *room, uint32_t window);

/* Changes the window: so many messages may be unacknowledged from now on. */
void psr_lane_open(psr_lane *lane, uint32_t window);

/* Queues a message by its number. The smallest number is sent first. */
void psr_lane_add(psr_lane *lane, uint32_t number);
/* Takes the number of the message to send now, and counts it as sent. false: nothing waits, or the
 * window is full. */
bool psr_lane_next(psr_lane *lane, uint32_t *ret_number);
/* The receiver has acknowledged so many more messages. */
void psr_lane_credit(psr_lane *lane, uint64_t count);

#endif
