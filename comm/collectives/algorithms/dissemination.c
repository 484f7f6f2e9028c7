/* Barrier by dissemination (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization",
 * IJPP 1988). n ranks, a seconds a message. At distance d = 1, 2, 4, .. a rank signals rank r+d and
 * awaits rank r-d: then it knows that 2d ranks are there. ceil(log2 n) steps, messages without
 * values, a log2(n).
 *
 * A rank compares the digest of a message when it comes in, and sends its next message only after
 * that. So a rank that ends has heard of every rank, through a chain of ranks that all compared. */
#include "comm/collectives/algorithms/algorithms.h"

void psr_dissemination_barrier(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks;
    for (uint32_t distance = 1; distance < n; distance *= 2) {
        psr_schedule_signal(schedule, (shape->rank + distance) % n, PSR_AFTER_ALL);
        psr_schedule_await(schedule, (shape->rank + n - distance) % n, PSR_AT_ONCE);
    }
}
