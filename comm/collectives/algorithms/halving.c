/* All-reduce by recursive halving and doubling, for any number of ranks (Rabenseifner,
 * "Optimization of collective reduction operations", ICCS 2004; Thakur, Rabenseifner, Gropp 2005,
 * section 4.5).
 *
 * n ranks, p the largest power of two not above n, M bytes, a seconds a message, B bytes/s. Rank
 * p+i first gives its values to rank i, which folds them, and gets the result at the end. Then
 * ranks 0..p-1 exchange at distance p/2, .., 2, 1 the half of what they still have that the other
 * goes on with, and fold: each ends with one of p blocks. Then back, at distance 1, 2, .., p/2,
 * what they have, until all have all. 2 log2(p) steps, 2(p-1)/p M bytes sent and received by each
 * rank, 2 log2(p) a + 2(p-1)/p M/B; 2(a + M/B) more where n is no power of two.
 *
 * Order, the same in every block: s[i] = x[i] op x[p+i]; then for distance d = p/2, .., 1: s[i] =
 * s[i] op s[i+d], i < d. */
#include "comm/collectives/algorithms/algorithms.h"

#include "base/arrays/fold.h"

enum { LEVELS_MAX = 32 };

/* Blocks [low, high) of p. */
typedef struct blocks {
    uint32_t low, high;
} blocks;

typedef struct halving {
    psr_schedule *schedule;
    const psr_shape *shape;
    uint32_t power;
    psr_area_place sum;       /* this rank's values, as far as they are folded */
    psr_after last;           /* the action that made them */
    blocks have;              /* blocks of the sum that this rank goes on with */
    blocks given[LEVELS_MAX]; /* at each level: the blocks that it gave away */
    psr_after sent[LEVELS_MAX];
} halving;

static size_t begin_of(const halving *h, blocks b)
{
    return psr_fold_chunk_begin(h->shape->count, h->power, b.low);
}

static size_t count_of(const halving *h, blocks b)
{
    return psr_fold_chunk_begin(h->shape->count, h->power, b.high) - begin_of(h, b);
}

static psr_area_place place_in(psr_area_place area, size_t offset)
{
    return (psr_area_place){area.area, area.offset + offset};
}

/* Both halves are in the sum: the half that is given stays there until the partner sends the final
 * values back. */
static void give_half(halving *h, uint32_t level, uint32_t distance)
{
    uint32_t middle = (h->have.low + h->have.high) / 2, partner = h->shape->rank ^ distance;
    blocks lower = {h->have.low, middle}, upper = {middle, h->have.high};
    bool takes_upper = (h->shape->rank & distance) != 0;
    h->given[level] = takes_upper ? lower : upper;
    h->have = takes_upper ? upper : lower;
    size_t given = begin_of(h, h->given[level]), kept = begin_of(h, h->have);
    h->sent[level] = psr_schedule_send(h->schedule, partner, place_in(h->sum, given),
                                       count_of(h, h->given[level]), h->last);
    h->last = psr_schedule_receive_fold(h->schedule, partner, place_in(h->sum, kept),
                                        psr_received(kept), count_of(h, h->have), h->last);
    h->sum = psr_received(0);
}

static void get_half_back(halving *h, uint32_t level, uint32_t distance)
{
    uint32_t partner = h->shape->rank ^ distance;
    size_t have = begin_of(h, h->have), given = begin_of(h, h->given[level]);
    psr_schedule_send(h->schedule, partner, psr_received(have), count_of(h, h->have),
                      PSR_AFTER_ALL);
    psr_schedule_receive(h->schedule, partner, psr_received(given), count_of(h, h->given[level]),
                         h->sent[level]);
    if (h->given[level].low < h->have.low)
        h->have.low = h->given[level].low;
    else
        h->have.high = h->given[level].high;
}

void psr_halving_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t power = psr_power_below(shape->ranks), rest = shape->ranks - power, rank = shape->rank;
    if (power == 1 || rank >= power) { /* alone, or its partner does the rest */
        psr_doubling_all_reduce(schedule, shape);
        return;
    }
    halving h = {.schedule = schedule,
                 .shape = shape,
                 .power = power,
                 .sum = psr_shape_own(shape, 0),
                 .have = {0, power}};
    if (rank < rest) {
        h.last = psr_schedule_receive_fold(schedule, power + rank, h.sum, psr_received(0),
                                           shape->count, PSR_AT_ONCE);
        h.sum = psr_received(0);
    }
    uint32_t level = 0;
    for (uint32_t distance = power / 2; distance > 0; distance /= 2)
        give_half(&h, level++, distance);
    if (shape->finishes)
        psr_schedule_finish(schedule, psr_received(begin_of(&h, h.have)), count_of(&h, h.have),
                            h.last);
    for (uint32_t distance = 1; distance < power; distance *= 2)
        get_half_back(&h, --level, distance);
    if (rank < rest)
        psr_schedule_send(schedule, power + rank, psr_received(0), shape->count, PSR_AFTER_ALL);
}
