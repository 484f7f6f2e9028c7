/* Broadcast and reduce by a chain, pipelined: every rank has one before it and one behind it, and
 * slices follow one another ("pipeline" in Chan, Heimlich, Purkayastha, van de Geijn, "Collective
 * communication: theory, practice, and experience", CCPE 2007).
 *
 * n ranks, M bytes, slices of S bytes, a seconds a message, B bytes/s: M bytes sent and received by
 * each rank, (M/S + n - 2)(a + S/B): for many bytes, M/B, whatever n is.
 * Broadcast: from the root on round. Reduce, order: x[n-1], x[n-2], .., 0; then one message from
 * rank 0 to the root, if that is another: so the root changes no bit. */
#include "comm/collectives/algorithms/algorithms.h"

void psr_chain_broadcast(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks, v = (shape->rank + n - shape->root) % n;
    psr_after here = PSR_AT_ONCE;
    if (v > 0)
        here = psr_schedule_receive(schedule, (shape->rank + n - 1) % n, psr_received(0),
                                    shape->count, PSR_AT_ONCE);
    if (v + 1 < n)
        psr_schedule_send(schedule, (shape->rank + 1) % n, psr_received(0), shape->count, here);
}

void psr_chain_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t rank = shape->rank;
    bool is_root = rank == shape->root, is_last = rank + 1 == shape->ranks;
    psr_area_place sum = psr_shape_own(shape, 0), sums = is_root ? psr_received(0) : psr_scratch(0);
    schedule->scratch = is_root ? 0 : shape->count;
    psr_after last = PSR_AT_ONCE;
    if (!is_last) {
        last = psr_schedule_receive_fold(schedule, rank + 1, sum, sums, shape->count, last);
        sum = sums;
    }
    if (rank > 0) {
        last = psr_schedule_send(schedule, rank - 1, sum, shape->count, last);
        if (is_root)
            psr_schedule_receive(schedule, 0, psr_received(0), shape->count, last);
        return;
    }
    if (is_last)
        last = psr_schedule_copy(schedule, sum, sums, shape->count, last);
    if (shape->finishes)
        last = psr_schedule_finish(schedule, sums, shape->count, last);
    if (!is_root)
        psr_schedule_send(schedule, shape->root, sums, shape->count, last);
}
