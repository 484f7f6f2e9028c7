#include "comm/operations/lane.h"

void psr_lane_init(psr_lane *lane, uint32_t *room, uint32_t window)
{
    *lane = (psr_lane){.waiting = room, .window = window};
}

void psr_lane_open(psr_lane *lane, uint32_t window)
{
    lane->window = window;
}

void psr_lane_add(psr_lane *lane, uint32_t number)
{
    uint32_t *heap = lane->waiting;
    uint32_t i = lane->waiting_count++;
    for (; i > 0 && heap[(i - 1) / 2] > number; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = number;
}

static uint32_t take_smallest(psr_lane *lane)
{
    uint32_t *heap = lane->waiting;
    uint32_t top = heap[0], last = heap[--lane->waiting_count], i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= lane->waiting_count)
            break;
        if (child + 1 < lane->waiting_count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

bool psr_lane_next(psr_lane *lane, uint32_t *ret_number)
{
    if (lane->waiting_count == 0 || lane->sent - lane->returned >= lane->window)
        return false;
    lane->sent++;
    *ret_number = take_smallest(lane);
    return true;
}

void psr_lane_credit(psr_lane *lane, uint64_t count)
{
    lane->returned += count;
}
