/* All-reduce, broadcast and barrier at a root, which alone sends to the others and hears them. It
 * is for ranks that have channels to the root only, and for few bytes whose sum is to have the bits
 * of a plain loop over the ranks: training's averages, meetings and first weights. No choice by
 * size takes it.
 *
 * n ranks, M bytes, a seconds a message, B bytes/s.
 * All-reduce: rank 0 adds the values of all in ascending order of rank, whatever order they arrive
 *   in, and sends each slice of the sum to all. Order: x[0], x[1], .., x[n-1]. 2 steps; rank 0
 *   receives and sends (n-1) M bytes, the others M: 2a + 2(n-1) M/B.
 * Broadcast: the root sends to each. 1 step; (n-1) M bytes at the root: a + (n-1) M/B.
 * Barrier: each signals to rank 0, which signals to each when it has heard all. 2 steps. */
#include "comm/collectives/algorithms/algorithms.h"

static void reduce_at_the_root(psr_schedule *schedule, const psr_shape *shape)
{
    psr_area_place own = psr_shape_own(shape, 0), sum = psr_received(0);
    psr_after last = PSR_AT_ONCE;
    if (shape->ranks == 1)
        last = psr_schedule_copy(schedule, own, sum, shape->count, last);
    for (uint32_t rank = 1; rank < shape->ranks; rank++, own = sum)
        last = psr_schedule_receive_fold(schedule, rank, own, sum, shape->count, last);
    if (shape->finishes)
        last = psr_schedule_finish(schedule, sum, shape->count, last);
    for (uint32_t rank = 1; rank < shape->ranks; rank++)
        psr_schedule_send(schedule, rank, sum, shape->count, last);
}

/* In place the sum overwrites what was sent, so it may come only when rank 0 has that. */
void psr_root_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    if (shape->rank == 0) {
        reduce_at_the_root(schedule, shape);
        return;
    }
    psr_after sent =
        psr_schedule_send(schedule, 0, psr_shape_own(shape, 0), shape->count, PSR_AT_ONCE);
    psr_schedule_receive(schedule, 0, psr_received(0), shape->count,
                         shape->in_place ? sent : PSR_AT_ONCE);
}

void psr_root_broadcast(psr_schedule *schedule, const psr_shape *shape)
{
    if (shape->rank != shape->root)
        psr_schedule_receive(schedule, shape->root, psr_received(0), shape->count, PSR_AT_ONCE);
    for (uint32_t rank = 0; shape->rank == shape->root && rank < shape->ranks; rank++)
        if (rank != shape->root)
            psr_schedule_send(schedule, rank, psr_received(0), shape->count, PSR_AT_ONCE);
}

void psr_root_barrier(psr_schedule *schedule, const psr_shape *shape)
{
    if (shape->rank > 0) {
        psr_schedule_signal(schedule, 0, PSR_AT_ONCE);
        psr_schedule_await(schedule, 0, PSR_AT_ONCE);
        return;
    }
    for (uint32_t rank = 1; rank < shape->ranks; rank++)
        psr_schedule_await(schedule, rank, PSR_AT_ONCE);
    for (uint32_t rank = 1; rank < shape->ranks; rank++)
        psr_schedule_signal(schedule, rank, PSR_AFTER_ALL);
}
