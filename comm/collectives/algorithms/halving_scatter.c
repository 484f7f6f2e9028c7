/* Reduce-scatter by recursive halving, for any number of ranks (Thakur, Rabenseifner, Gropp,
 * "Optimization of collective communication operations in MPICH", IJHPCA 2005, section 4.3).
 *
 * n ranks, p the largest power of two not above n, M bytes in all, a seconds a message, B bytes/s.
 * Rank p+i first gives its values to rank i, which folds them. Then ranks 0..p-1 exchange at
 * distance p/2, .., 2, 1 the half of the parts that they still have that the other goes on with,
 * and fold: each ends with its own part, and with that of rank p+i, which gets it. log2(p) steps,
 * (p-1)/p M bytes sent and received by each rank, log2(p) a + (p-1)/p M/B; where n is no power of
 * two 2a + (n+1)/n M/B more and a copy of M bytes.
 *
 * Order, the same in every part: that of halving.c. */
#include "comm/collectives/algorithms/algorithms.h"

/* In scratch the parts are in the order in which they stay together: those of ranks 0, p, 1, p+1,
 * 2, ..; if n is a power of two this is the order of ranks. */
typedef struct halving {
    psr_schedule *schedule;
    const psr_shape *shape;
    uint32_t power;
    psr_area_place sum; /* where the fold of all parts begins, as far as it is made */
    psr_after last;     /* the action that made it */
    uint32_t low, high; /* the ranks, of the first p, whose parts this rank goes on with */
} halving;

static bool has_second(const halving *h, uint32_t rank)
{
    return h->power + rank < h->shape->ranks;
}

/* Where the part of a rank < p begins in scratch. */
static size_t begin_of(const halving *h, uint32_t rank)
{
    const size_t *begins = h->shape->begins;
    uint32_t seconds = has_second(h, rank) ? h->power + rank : h->shape->ranks;
    return begins[rank] + begins[seconds] - begins[h->power];
}

static psr_area_place sum_at(const halving *h, size_t offset)
{
    return (psr_area_place){h->sum.area, h->sum.offset + offset};
}

/* From the end to the beginning: all is there when the last copy has been made. */
static void lay_out(halving *h)
{
    const psr_shape *shape = h->shape;
    for (uint32_t rank = h->power; rank-- > 0;) {
        size_t first = psr_shape_part(shape, rank), to = begin_of(h, rank);
        if (has_second(h, rank))
            h->last = psr_schedule_copy(
                h->schedule, psr_shape_own(shape, shape->begins[h->power + rank]),
                psr_scratch(to + first), psr_shape_part(shape, h->power + rank), h->last);
        h->last = psr_schedule_copy(h->schedule, psr_shape_own(shape, shape->begins[rank]),
                                    psr_scratch(to), first, h->last);
    }
    h->sum = psr_scratch(0);
}

static void exchange_halves(halving *h, uint32_t distance, psr_area_place result)
{
    uint32_t middle = (h->low + h->high) / 2, partner = h->shape->rank ^ distance;
    bool takes_upper = (h->shape->rank & distance) != 0;
    size_t low = begin_of(h, h->low), cut = begin_of(h, middle), high = begin_of(h, h->high);
    size_t given = takes_upper ? low : cut, given_count = takes_upper ? cut - low : high - cut;
    size_t kept = takes_upper ? cut : low, kept_count = high - low - given_count;
    psr_schedule_send(h->schedule, partner, sum_at(h, given), given_count, h->last);
    psr_area_place to = distance > 1 ? psr_scratch(kept) : result;
    h->last =
        psr_schedule_receive_fold(h->schedule, partner, sum_at(h, kept), to, kept_count, h->last);
    h->sum = psr_scratch(0);
    h->low = takes_upper ? middle : h->low;
    h->high = takes_upper ? h->high : middle;
}

/* One of the last n-p ranks. */
static void beyond_the_power(halving *h)
{
    const psr_shape *shape = h->shape;
    uint32_t partner = shape->rank - h->power;
    psr_schedule_send(h->schedule, partner, h->sum, shape->begins[shape->ranks], h->last);
    psr_schedule_receive(h->schedule, partner, psr_received(0), psr_shape_part(shape, shape->rank),
                         h->last);
}

/* The parts of this rank and of rank p+i, in scratch. */
static void hand_out(halving *h)
{
    const psr_shape *shape = h->shape;
    uint32_t rank = shape->rank, second = h->power + rank;
    size_t begin = begin_of(h, rank), own = psr_shape_part(shape, rank);
    psr_after whole = h->last;
    if (shape->finishes)
        whole = psr_schedule_finish(h->schedule, psr_scratch(begin),
                                    own + psr_shape_part(shape, second), whole);
    psr_schedule_send(h->schedule, second, psr_scratch(begin + own), psr_shape_part(shape, second),
                      whole);
    psr_schedule_copy(h->schedule, psr_scratch(begin), psr_received(0), own, PSR_AFTER_ALL);
}

void psr_halving_reduce_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t power = psr_power_below(shape->ranks), rank = shape->rank;
    halving h = {.schedule = schedule,
                 .shape = shape,
                 .power = power,
                 .sum = psr_shape_own(shape, 0),
                 .last = PSR_AT_ONCE,
                 .high = power};
    if (power > 1)
        schedule->scratch = shape->begins[shape->ranks];
    if (power < shape->ranks)
        lay_out(&h);
    if (rank >= power) {
        beyond_the_power(&h);
        return;
    }
    bool two = has_second(&h, rank);
    if (two)
        h.last = psr_schedule_receive_fold(schedule, power + rank, h.sum, h.sum,
                                           shape->begins[shape->ranks], h.last);
    psr_area_place result = two ? psr_scratch(begin_of(&h, rank)) : psr_received(0);
    for (uint32_t distance = power / 2; distance > 0; distance /= 2)
        exchange_halves(&h, distance, result);
    if (two) {
        hand_out(&h);
        return;
    }
    if (power == 1)
        h.last = psr_schedule_copy(schedule, h.sum, result, psr_shape_part(shape, rank), h.last);
    if (shape->finishes)
        psr_schedule_finish(schedule, result, psr_shape_part(shape, rank), h.last);
}
