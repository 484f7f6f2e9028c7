/* Scan and exscan: rank r gets the fold of ranks 0 .. r, or of those before r. Any number of ranks.
 *
 * n ranks, M bytes, slices of S bytes, a seconds a message, B bytes/s.
 *
 * Doubling (Sanders, Traeff, "Parallel prefix (scan) algorithms for MPI", EuroPVM/MPI 2006): at
 * distance d = 1, 2, 4, .. rank r and rank r xor d exchange the folds of their blocks of d ranks.
 * The upper one folds what comes into its prefix. Both make the fold of their block of 2d ranks of
 * it, if another rank needs that; a fold that nobody needs is not sent. ceil(log2 n) steps, at most
 * M ceil(log2 n) bytes sent and received by each rank, ceil(log2 n) (a + M/B), and at most 2M bytes
 * of memory. For few bytes.
 * Order: a block of 2d ranks is (its lower half) op (its upper half). A prefix of k ranks is cut
 * into blocks as k is into powers of two, the largest first, and folded from the last block to the
 * first. k = 7: x[0..3] op (x[4..5] op x[6]). Where n is a power of two, the prefix of all ranks
 * has the bits of doubling's all-reduce.
 *
 * Chain: rank r gets the prefix of rank r-1 and hands on its own, slice by slice. M bytes sent and
 * received by each rank, (M/S + n - 2)(a + S/B): for many bytes, M/B, whatever n is.
 * Order: ((x[0] op x[1]) op x[2]) ..
 *
 * In both, the prefix of k ranks has the same bits in scan and in exscan, and whatever n is. */
#include "comm/collectives/algorithms/algorithms.h"

/* ---- doubling ---- */

typedef struct prefix {
    psr_schedule *schedule;
    const psr_shape *shape;
    bool any;             /* there is a prefix: */
    psr_area_place sum;   /* as far as it is folded */
    psr_after made;       /* the action that made it */
    psr_area_place block; /* the fold of this rank's block */
    psr_after block_made;
} prefix;

/* Whether another rank needs the fold of this rank's block of so many ranks. The rank at that
 * distance above needs it for its prefix. A rank below needs it if it needs its own block of twice
 * as many. A block that is needed is complete, since there are ranks above it. */
static bool is_needed(const psr_shape *shape, uint32_t rank, uint32_t size)
{
    for (; size < shape->ranks; size *= 2) {
        if ((rank & size) == 0)
            return shape->ranks - rank > size;
        rank -= size;
    }
    return false;
}

/* The scratch area has the block's fold, and after it what comes from below. */
static psr_area_place block_memory(const prefix *p)
{
    if (p->schedule->scratch == 0)
        p->schedule->scratch = p->shape->count;
    return psr_scratch(0);
}

static psr_area_place arrived_memory(const prefix *p)
{
    p->schedule->scratch = 2 * p->shape->count;
    return psr_scratch(p->shape->count);
}

static psr_after send_block(const prefix *p, uint32_t to)
{
    return psr_schedule_send_copy(p->schedule, to, p->block, p->shape->count, p->block_made);
}

/* Exchanges with the rank above, which needs this rank's block. goes_on: this rank's next block is
 * needed too. */
static void exchange_upwards(prefix *p, uint32_t partner, bool goes_on)
{
    psr_after sent = send_block(p, partner);
    if (!goes_on)
        return;
    psr_area_place both = block_memory(p);
    p->block_made = psr_schedule_receive_fold(p->schedule, partner, p->block, both, p->shape->count,
                                              p->block.area == both.area ? sent : p->block_made);
    p->block = both;
}

/* Folds what comes into the prefix only. */
static void take_last(prefix *p, uint32_t partner)
{
    size_t count = p->shape->count;
    p->made = p->any ? psr_schedule_receive_fold(p->schedule, partner, p->sum, psr_received(0),
                                                 count, p->made)
                     : psr_schedule_receive(p->schedule, partner, psr_received(0), count, p->made);
}

/* Folds what comes into the prefix and into the block. */
static void take_for_both(prefix *p, uint32_t partner)
{
    size_t count = p->shape->count;
    psr_area_place arrived = arrived_memory(p), both = block_memory(p);
    psr_schedule_receive(p->schedule, partner, arrived, count, p->made);
    p->block_made = psr_schedule_fold(p->schedule, arrived, p->block, both, count, PSR_AFTER_ALL);
    p->block = both;
    p->made =
        p->any
            ? psr_schedule_fold(p->schedule, arrived, p->sum, psr_received(0), count, PSR_AFTER_ALL)
            : psr_schedule_copy(p->schedule, arrived, psr_received(0), count, PSR_AFTER_ALL);
}

static void exchange_downwards(prefix *p, uint32_t partner, bool goes_on, bool partner_goes_on)
{
    if (partner_goes_on)
        send_block(p, partner);
    if (goes_on)
        take_for_both(p, partner);
    else
        take_last(p, partner);
    p->any = true;
    p->sum = psr_received(0);
}

/* p: the prefix that this rank begins with. */
static void double_distances(prefix *p)
{
    const psr_shape *shape = p->shape;
    for (uint32_t distance = 1; distance < shape->ranks; distance *= 2) {
        uint32_t partner = shape->rank ^ distance;
        bool goes_on = is_needed(shape, shape->rank, 2 * distance);
        if (partner < shape->rank)
            exchange_downwards(p, partner, goes_on, is_needed(shape, partner, 2 * distance));
        else if (partner < shape->ranks)
            exchange_upwards(p, partner, goes_on);
    }
}

/* In place this rank's values are where the prefix goes, so the block begins as a copy of them. */
static prefix begin(psr_schedule *schedule, const psr_shape *shape)
{
    prefix p = {.schedule = schedule, .shape = shape, .block = psr_shape_own(shape, 0)};
    if (shape->in_place && is_needed(shape, shape->rank, 1)) {
        psr_area_place copy = block_memory(&p);
        p.made = p.block_made =
            psr_schedule_copy(schedule, p.block, copy, shape->count, PSR_AT_ONCE);
        p.block = copy;
    }
    return p;
}

void psr_doubling_scan(psr_schedule *schedule, const psr_shape *shape)
{
    prefix p = begin(schedule, shape);
    p.any = true;
    p.sum = psr_shape_own(shape, 0);
    double_distances(&p);
    if (shape->rank == 0)
        p.made = psr_schedule_copy(schedule, p.sum, psr_received(0), shape->count, p.made);
    if (shape->finishes)
        psr_schedule_finish(schedule, psr_received(0), shape->count, p.made);
}

void psr_doubling_exscan(psr_schedule *schedule, const psr_shape *shape)
{
    prefix p = begin(schedule, shape);
    double_distances(&p);
    if (shape->finishes && shape->rank > 0)
        psr_schedule_finish(schedule, psr_received(0), shape->count, p.made);
}

/* ---- chain ---- */

void psr_chain_scan(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t rank = shape->rank;
    psr_area_place own = psr_shape_own(shape, 0), sum = psr_received(0);
    psr_after made = rank == 0 ? psr_schedule_copy(schedule, own, sum, shape->count, PSR_AT_ONCE)
                               : psr_schedule_receive_fold(schedule, rank - 1, own, sum,
                                                           shape->count, PSR_AT_ONCE);
    if (shape->finishes)
        made = psr_schedule_finish(schedule, sum, shape->count, made);
    if (rank + 1 < shape->ranks)
        psr_schedule_send(schedule, rank + 1, sum, shape->count, made);
}

/* Each rank sends on the prefix with its own values in it. In place the prefix overwrites these
 * values, so they are copied first. */
void psr_chain_exscan(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t rank = shape->rank;
    bool is_last = rank + 1 == shape->ranks;
    psr_area_place own = psr_shape_own(shape, 0), next = psr_scratch(0);
    if (rank == 0) {
        if (!is_last)
            psr_schedule_send(schedule, 1, own, shape->count, PSR_AT_ONCE);
        return;
    }
    psr_after copied = PSR_AT_ONCE;
    schedule->scratch = is_last ? 0 : shape->count;
    if (shape->in_place && !is_last) {
        copied = psr_schedule_copy(schedule, own, next, shape->count, PSR_AT_ONCE);
        own = next;
    }
    psr_after here =
        psr_schedule_receive(schedule, rank - 1, psr_received(0), shape->count, copied);
    if (!is_last) {
        psr_after folded =
            psr_schedule_fold(schedule, psr_received(0), own, next, shape->count, here);
        psr_schedule_send(schedule, rank + 1, next, shape->count, folded);
    }
    if (shape->finishes)
        psr_schedule_finish(schedule, psr_received(0), shape->count, here);
}
