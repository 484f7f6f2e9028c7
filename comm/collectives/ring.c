/* Reduce-scatter, all-gather and all-reduce by a ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 2009, section 3). comm/operations/ring.c is the same for training's buckets, which overlap.
 *
 * n ranks, M bytes in all, chunk c of rank c, a seconds a message, B bytes/s, slices of S bytes.
 * Reduce-scatter: chunk c sets out from rank c+1 and is summed hop by hop until rank c has it whole: the order of base/fold.h,
 *   c+1, c+2, .., n-1, 0, .., c. n-1 steps, (n-1)/n M bytes sent and received by each rank, (n-1)(a + M/(nB)).
 * All-gather: chunk c goes round from rank c. The same cost.
 * All-reduce: both. 2(n-1) steps, 2(n-1)/n M bytes, 2(n-1)(a + M/(nB)): no algorithm moves fewer bytes. A chunk's slices
 *   follow one another through the ring. */
#include "comm/collectives/algorithms.h"

typedef struct ring {
    psr_schedule *schedule;
    const psr_shape *shape;
    uint32_t left, right;
} ring;

static ring ring_of(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks;
    return (ring){schedule, shape, (shape->rank + n - 1) % n, (shape->rank + 1) % n};
}

/* The chunk that comes in at this step; the one of step 0 is that which leaves first. */
static uint32_t chunk_at(const ring *r, uint32_t step)
{
    uint32_t n = r->shape->ranks;
    return (r->shape->rank + 2 * n - 1 - step) % n;
}

static psr_place at(psr_place area, size_t offset)
{
    return (psr_place){area.area, area.offset + offset};
}

/* Partial sums stand in sums, laid out as the whole; the last, of this rank's chunk, comes to result. Returns that;
 * *ret_first: the sending of the chunk that this rank begins. */
static psr_after reduce_scatter(const ring *r, psr_place sums, psr_place result, psr_after *ret_first)
{
    const psr_shape *shape = r->shape;
    uint32_t n = shape->ranks, c = chunk_at(r, 0);
    *ret_first = psr_schedule_send(r->schedule, r->right, psr_shape_own(shape, shape->begins[c]),
                                   psr_shape_part(shape, c), PSR_AT_ONCE);
    psr_after folded = PSR_AT_ONCE;
    for (uint32_t step = 1; step < n; step++) {
        c = chunk_at(r, step);
        size_t begin = shape->begins[c], count = psr_shape_part(shape, c);
        psr_place to = step < n - 1 ? at(sums, begin) : result;
        folded = psr_schedule_receive_fold(r->schedule, r->left, psr_shape_own(shape, begin), to, count,
                                           PSR_AT_ONCE);
        if (step < n - 1)
            psr_schedule_send(r->schedule, r->right, to, count, folded);
    }
    return shape->finishes
               ? psr_schedule_finish(r->schedule, result, psr_shape_part(shape, shape->rank), folded)
               : folded;
}

/* own: where this rank's chunk is to be sent from, after whole. overwrites: what is received in the first step may not come
 * before that. */
static void all_gather(const ring *r, psr_place own, psr_after whole, psr_after overwrites)
{
    const psr_shape *shape = r->shape;
    psr_schedule_send(r->schedule, r->right, own, psr_shape_part(shape, shape->rank), whole);
    for (uint32_t step = 0; step < shape->ranks - 1; step++) {
        uint32_t c = chunk_at(r, step);
        psr_place to = psr_received(shape->begins[c]);
        size_t count = psr_shape_part(shape, c);
        psr_after received =
            psr_schedule_receive(r->schedule, r->left, to, count, step == 0 ? overwrites : PSR_AT_ONCE);
        if (step < shape->ranks - 2)
            psr_schedule_send(r->schedule, r->right, to, count, received);
    }
}

static void alone(psr_schedule *schedule, const psr_shape *shape)
{
    size_t count = shape->begins[1];
    psr_after copied =
        psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_received(0), count, PSR_AT_ONCE);
    if (shape->finishes)
        psr_schedule_finish(schedule, psr_received(0), count, copied);
}

/* Every partial sum is sent from where it stands, and overwritten there only by the final one, which cannot come before
 * the right neighbour has had it. */
void psr_ring_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    ring r = ring_of(schedule, shape);
    if (shape->ranks == 1) {
        alone(schedule, shape);
        return;
    }
    psr_after first = PSR_AT_ONCE;
    psr_place own = psr_received(shape->begins[shape->rank]);
    psr_after whole = reduce_scatter(&r, psr_received(0), own, &first);
    all_gather(&r, own, whole, shape->in_place ? first : PSR_AT_ONCE);
}

void psr_ring_reduce_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    ring r = ring_of(schedule, shape);
    if (shape->ranks == 1) {
        alone(schedule, shape);
        return;
    }
    psr_after first;
    schedule->scratch = shape->begins[shape->ranks];
    reduce_scatter(&r, psr_scratch(0), psr_received(0), &first);
}

void psr_ring_all_gather(psr_schedule *schedule, const psr_shape *shape)
{
    ring r = ring_of(schedule, shape);
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_received(shape->begins[shape->rank]),
                      psr_shape_part(shape, shape->rank), PSR_AT_ONCE);
    if (shape->ranks > 1)
        all_gather(&r, psr_shape_own(shape, 0), PSR_AT_ONCE, PSR_AT_ONCE);
}
