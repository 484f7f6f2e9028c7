/* Barrier by dissemination (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization",
 * IJPP 1988).
 *
 * n ranks, a seconds a message. At distance d = 1, 2, 4, .. a rank signals rank r+d and awaits rank
 * r-d: then it knows that 2d ranks are there. ceil(log2 n) steps, messages without values, a
 * log2(n).
 *
 * A message is compared where it comes in, and what is sent next waits for that: who ends has
 * heard, by a chain of ranks that compared, of every rank. */
#include "comm/collectives/algorithms/algorithms.h"

void psr_dissemination_barrier(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks;
    for (uint32_t distance = 1; distance < n; distance *= 2) {
        psr_schedule_signal(schedule, (shape->rank + distance) % n, PSR_AFTER_ALL);
        psr_schedule_await(schedule, (shape->rank + n - distance) % n, PSR_AT_ONCE);
    }
}
