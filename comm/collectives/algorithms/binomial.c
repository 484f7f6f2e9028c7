/* Broadcast, reduce, gather and scatter by a binomial tree (Thakur, Rabenseifner, Gropp,
 * "Optimization of collective communication operations in MPICH", IJHPCA 2005, sections 4.2 and
 * 4.4).
 *
 * n ranks, M bytes in all, a seconds a message, B bytes/s. Rank v counted from the root has the
 * parent v less its lowest bit, and the children v + 1, v + 2, v + 4, .. below that bit. ceil(log2
 * n) steps. Broadcast, reduce: the root sends or receives M log2(n) bytes, log2(n) (a + M/B);
 * slices flow through the tree. Gather, scatter: (n-1)/n M bytes at the root, a log2(n) + (n-1)/n
 * M/B; what a rank hands on goes through its own memory.
 *
 * Order of a reduce: always the tree of rank 0, ((x0 op x1) op (x2 op x3)) op ..; then one message
 * from rank 0 to the root, if that is another: so the root changes no bit. */
#include "comm/collectives/algorithms/algorithms.h"

/* The distance from rank v, of n ranks, to its parent; for rank 0 the first power of two that is at
 * least n. */
static uint32_t distance_up(uint32_t v, uint32_t n)
{
    uint32_t distance = 1;
    while (distance < n && (v & distance) == 0)
        distance *= 2;
    return distance;
}

static uint32_t from_root(const psr_shape *shape)
{
    return (shape->rank + shape->ranks - shape->root) % shape->ranks;
}

static uint32_t rank_of(const psr_shape *shape, uint32_t v)
{
    return (v + shape->root) % shape->ranks;
}

void psr_binomial_broadcast(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t v = from_root(shape), up = distance_up(v, shape->ranks);
    psr_after here = PSR_AT_ONCE;
    if (v > 0)
        here = psr_schedule_receive(schedule, rank_of(shape, v - up), psr_received(0), shape->count,
                                    PSR_AT_ONCE);
    for (uint32_t distance = up / 2; distance > 0; distance /= 2)
        if (v + distance < shape->ranks)
            psr_schedule_send(schedule, rank_of(shape, v + distance), psr_received(0), shape->count,
                              here);
}

void psr_binomial_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t rank = shape->rank, up = distance_up(rank, shape->ranks);
    bool is_root = rank == shape->root;
    psr_area_place sum = psr_shape_own(shape, 0), sums = is_root ? psr_received(0) : psr_scratch(0);
    schedule->scratch = is_root ? 0 : shape->count;
    psr_after last = PSR_AT_ONCE;
    for (uint32_t distance = 1; distance < up && rank + distance < shape->ranks; distance *= 2) {
        last = psr_schedule_receive_fold(schedule, rank + distance, sum, sums, shape->count, last);
        sum = sums;
    }
    if (rank > 0) {
        last = psr_schedule_send(schedule, rank - up, sum, shape->count, last);
        if (is_root)
            psr_schedule_receive(schedule, 0, psr_received(0), shape->count, last);
        return;
    }
    if (shape->ranks == 1)
        last = psr_schedule_copy(schedule, sum, sums, shape->count, last);
    if (shape->finishes)
        last = psr_schedule_finish(schedule, sums, shape->count, last);
    if (!is_root)
        psr_schedule_send(schedule, shape->root, sums, shape->count, last);
}

/* ---- gather and scatter: parts in scratch, in the order counted from the root ---- */

/* Where the part of rank v begins in the memory of rank v0. */
static size_t begin_from(const psr_shape *shape, uint32_t v0, uint32_t v)
{
    size_t begin = 0;
    for (; v0 < v; v0++)
        begin += psr_shape_part(shape, rank_of(shape, v0));
    return begin;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void psr_binomial_gather(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks, v = from_root(shape), up = distance_up(v, n);
    size_t own = psr_shape_part(shape, shape->rank), below = begin_from(shape, v, least(v + up, n));
    schedule->scratch = below;
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_scratch(0), own, PSR_AT_ONCE);
    for (uint32_t distance = 1; distance < up && v + distance < n; distance *= 2) {
        size_t begin = begin_from(shape, v, v + distance),
               end = begin_from(shape, v, least(v + 2 * distance, n));
        psr_schedule_receive(schedule, rank_of(shape, v + distance), psr_scratch(begin),
                             end - begin, PSR_AT_ONCE);
    }
    if (v > 0) {
        psr_schedule_send(schedule, rank_of(shape, v - up), psr_scratch(0), below, PSR_AFTER_ALL);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        psr_schedule_copy(schedule, psr_scratch(begin_from(shape, 0, k)),
                          psr_received(shape->begins[rank_of(shape, k)]),
                          psr_shape_part(shape, rank_of(shape, k)), PSR_AFTER_ALL);
}

void psr_binomial_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks, v = from_root(shape), up = distance_up(v, n);
    size_t own = psr_shape_part(shape, shape->rank), below = begin_from(shape, v, least(v + up, n));
    schedule->scratch = below;
    if (v > 0)
        psr_schedule_receive(schedule, rank_of(shape, v - up), psr_scratch(0), below, PSR_AT_ONCE);
    for (uint32_t k = 0; v == 0 && k < n; k++)
        psr_schedule_copy(schedule, psr_shape_own(shape, shape->begins[rank_of(shape, k)]),
                          psr_scratch(begin_from(shape, 0, k)),
                          psr_shape_part(shape, rank_of(shape, k)), PSR_AT_ONCE);
    for (uint32_t distance = up / 2; distance > 0; distance /= 2) {
        if (v + distance >= n)
            continue;
        size_t begin = begin_from(shape, v, v + distance),
               end = begin_from(shape, v, least(v + 2 * distance, n));
        psr_schedule_send(schedule, rank_of(shape, v + distance), psr_scratch(begin), end - begin,
                          PSR_AFTER_ALL);
    }
    psr_schedule_copy(schedule, psr_scratch(0), psr_received(0), own, PSR_AFTER_ALL);
}
