/* Reduce-scatter, all-gather and all-reduce by a ring (Patarasuk and Yuan, "Bandwidth optimal
 * all-reduce algorithms for clusters of workstations", JPDC 2009, section 3). Training's buckets
 * are all-reduces by it (comm/operations/ring.h).
 *
 * n ranks, M bytes in all, chunk c of rank c, a seconds a message, B bytes/s, slices of S bytes.
 * Where all ranks share memory, reduce-scatter and all-reduce have no hops: algorithms/gathered.c.
 *
 * Reduce-scatter: chunk c sets out from rank c+1 and is summed hop by hop until rank c has it
 *   whole: the order of base/arrays/fold.h,
 *   c+1, c+2, .., n-1, 0, .., c. n-1 steps, (n-1)/n M bytes sent and received by each rank,
 *   (n-1)(a + M/(nB)).
 * All-gather: chunk c goes round from rank c. The same cost.
 * All-reduce: both. 2(n-1) steps, 2(n-1)/n M bytes, 2(n-1)(a + M/(nB)): no algorithm moves fewer
 *   bytes. A chunk's slices follow one another through the ring, and those of different chunks
 *   overtake one another.
 *
 * An all-reduce's rank r injects chunk r-1, as the group's lane lets it
 * (comm/collectives/request_lane.h): at most a window of slices whose sum has not come back to it.
 * So the final sum is the credit, and no message is needed for that. Why in place and without a
 * copy: a slice that r has lent in the reduce-scatter is overwritten here only by its final sum.
 * The right neighbour's hop is a part of that sum, so the sum cannot come back before the neighbour
 * has read what was lent: also where it reads in this process's own memory, since it adds first and
 * sends then. A slice that r has lent in the all-gather holds its final value. The next round
 * writes it again, and no message says that the right neighbour has read it: so what is lent is
 * waited for before. */
#include "comm/collectives/algorithms/algorithms.h"

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

/* The chunk that comes in at this step; for step 0 the one that leaves first. */
static uint32_t chunk_at(const ring *r, uint32_t step)
{
    uint32_t n = r->shape->ranks;
    return (r->shape->rank + 2 * n - 1 - step) % n;
}

static psr_area_place at(psr_area_place area, size_t offset)
{
    return (psr_area_place){area.area, area.offset + offset};
}

/* The transfer that was just added. NULL: it has no values, and there is none. */
static psr_action *after_hops(const ring *r, size_t count, uint32_t hops)
{
    if (count == 0 || r->schedule->no_memory)
        return NULL;
    psr_action *action = &r->schedule->actions[r->schedule->count - 1];
    action->hops = hops;
    return action;
}

/* Partial sums are in `sums`, laid out as the whole; the last one, of this rank's chunk, goes to
 * `result`. Returns the action that makes it. */
static psr_after reduce_scatter(const ring *r, psr_area_place sums, psr_area_place result)
{
    const psr_shape *shape = r->shape;
    uint32_t n = shape->ranks, c = chunk_at(r, 0);
    psr_schedule_send(r->schedule, r->right, psr_shape_own(shape, shape->begins[c]),
                      psr_shape_part(shape, c), PSR_AT_ONCE);
    psr_action *first = after_hops(r, psr_shape_part(shape, c), 0);
    if (first != NULL)
        first->injects = true;
    psr_after folded = PSR_AT_ONCE;
    for (uint32_t step = 1; step < n; step++) {
        c = chunk_at(r, step);
        size_t begin = shape->begins[c], count = psr_shape_part(shape, c);
        psr_area_place to = step < n - 1 ? at(sums, begin) : result;
        folded = psr_schedule_receive_fold(r->schedule, r->left, psr_shape_own(shape, begin), to,
                                           count, PSR_AT_ONCE);
        after_hops(r, count, step - 1);
        if (step < n - 1) {
            psr_schedule_send(r->schedule, r->right, to, count, folded);
            after_hops(r, count, step);
        }
    }
    return shape->finishes ? psr_schedule_finish(r->schedule, result,
                                                 psr_shape_part(shape, shape->rank), folded)
                           : folded;
}

/* The action that sends a partial sum which the final one overwrites: the final one comes after
 * it. */
static psr_after overwritten(const ring *r, size_t begin)
{
    for (uint32_t i = 0; i < r->schedule->count; i++) {
        const psr_action *action = &r->schedule->actions[i];
        if (action->kind == PSR_ACTION_SEND && action->a.area == PSR_AREA_RECEIVE &&
            action->a.offset == begin)
            return i + 1;
    }
    return PSR_AT_ONCE;
}

/* own: where this rank's chunk is sent from, after the action `whole`. hops: the number of hops
 * before the first one. */
static void all_gather(const ring *r, psr_area_place own, psr_after whole, uint32_t hops)
{
    const psr_shape *shape = r->shape;
    const uint32_t steps = shape->ranks - 1;
    psr_schedule_send(r->schedule, r->right, own, psr_shape_part(shape, shape->rank), whole);
    psr_action *result = after_hops(r, psr_shape_part(shape, shape->rank), hops);
    if (result != NULL)
        result->result = true;
    for (uint32_t step = 0; step < steps; step++) {
        uint32_t c = chunk_at(r, step);
        psr_area_place to = psr_received(shape->begins[c]);
        size_t count = psr_shape_part(shape, c);
        psr_after received =
            psr_schedule_receive(r->schedule, r->left, to, count,
                                 hops > 0 ? overwritten(r, shape->begins[c]) : PSR_AT_ONCE);
        psr_action *arrival = after_hops(r, count, hops + step);
        if (arrival != NULL)
            arrival->returns = step == 0;
        if (step + 1 == steps)
            return;
        psr_schedule_send(r->schedule, r->right, to, count, received);
        psr_action *onward = after_hops(r, count, hops + step + 1);
        if (onward != NULL)
            onward->onward = true;
    }
}

static void alone(psr_schedule *schedule, const psr_shape *shape)
{
    size_t count = shape->begins[1];
    psr_after copied =
        psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_received(0), count, PSR_AT_ONCE);
    if (shape->finishes)
        copied = psr_schedule_finish(schedule, psr_received(0), count, copied);
    if (shape->encoded)
        psr_schedule_round(schedule, psr_received(0), count, copied);
}

void psr_ring_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    ring r = ring_of(schedule, shape);
    schedule->overtaking = true;
    if (shape->ranks == 1) {
        alone(schedule, shape);
        return;
    }
    if (shape->gathered) {
        psr_gathered_all_reduce(schedule, shape);
        return;
    }
    psr_area_place own = psr_received(shape->begins[shape->rank]);
    psr_after whole = reduce_scatter(&r, psr_received(0), own);
    all_gather(&r, own, whole, shape->ranks - 1);
}

void psr_ring_reduce_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    ring r = ring_of(schedule, shape);
    if (shape->ranks == 1) {
        alone(schedule, shape);
        return;
    }
    if (shape->gathered) {
        psr_gathered_reduce_scatter(schedule, shape);
        return;
    }
    schedule->scratch = shape->begins[shape->ranks];
    reduce_scatter(&r, psr_scratch(0), psr_received(0));
}

void psr_ring_all_gather(psr_schedule *schedule, const psr_shape *shape)
{
    ring r = ring_of(schedule, shape);
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_received(shape->begins[shape->rank]),
                      psr_shape_part(shape, shape->rank), PSR_AT_ONCE);
    if (shape->ranks > 1)
        all_gather(&r, psr_shape_own(shape, 0), PSR_AT_ONCE, 0);
}
