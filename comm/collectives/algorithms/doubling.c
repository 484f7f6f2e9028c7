/* All-reduce by recursive doubling, for any number of ranks (Thakur, Rabenseifner, Gropp,
 * "Optimization of collective communication operations in MPICH", IJHPCA 2005, section 4.5).
 *
 * n ranks, p the largest power of two not above n, M bytes, a seconds a message, B bytes/s. Rank
 * p+i first gives its values to rank i, which folds them, and gets the result at the end. Ranks
 * 0..p-1 exchange all that they have with the rank at distance 1, 2, 4, .. p/2, and fold. log2(p)
 * steps, M log2(p) bytes sent and received by each rank, log2(p) (a + M/B); 2(a + M/B) more where n
 * is no power of two. For few bytes: the fewest steps that there can be.
 *
 * Order: s[i] = x[i] op x[p+i]; then, by twos, (s[0] op s[1]) op (s[2] op s[3]), .. : the tree of
 * rank 0. */
#include "comm/collectives/algorithms/algorithms.h"

static void beyond_the_power(psr_schedule *schedule, const psr_shape *shape, uint32_t partner)
{
    psr_after sent =
        psr_schedule_send(schedule, partner, psr_shape_own(shape, 0), shape->count, PSR_AT_ONCE);
    psr_schedule_receive(schedule, partner, psr_received(0), shape->count,
                         shape->in_place ? sent : PSR_AT_ONCE);
}

void psr_doubling_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t power = psr_power_below(shape->ranks), rest = shape->ranks - power, rank = shape->rank;
    if (rank >= power) {
        beyond_the_power(schedule, shape, rank - power);
        return;
    }
    psr_area_place sum = psr_shape_own(shape, 0);
    psr_after last = PSR_AT_ONCE;
    if (rank < rest) {
        last = psr_schedule_receive_fold(schedule, power + rank, sum, psr_received(0), shape->count,
                                         last);
        sum = psr_received(0);
    }
    for (uint32_t distance = 1; distance < power; distance *= 2) {
        uint32_t partner = rank ^ distance;
        /* If the fold is made in the values that are sent, these are copied, and each slice is
         * folded after it was sent. */
        psr_after sent = psr_schedule_send_copy(schedule, partner, sum, shape->count, last);
        last = psr_schedule_receive_fold(schedule, partner, sum, psr_received(0), shape->count,
                                         sum.area == PSR_AREA_RECEIVE ? sent : last);
        sum = psr_received(0);
    }
    if (shape->ranks == 1)
        last = psr_schedule_copy(schedule, sum, psr_received(0), shape->count, last);
    if (shape->finishes)
        last = psr_schedule_finish(schedule, psr_received(0), shape->count, last);
    if (rank < rest)
        psr_schedule_send(schedule, power + rank, psr_received(0), shape->count, last);
}
