/* Reduce-scatter and all-reduce "by ring" within a host, where all ranks share memory: without
 * hops. It is what training does there (worker/exchange/engines/engine_direct.c).
 *
 * n ranks, M bytes in all, chunk c of rank c, a seconds a message, B bytes/s of memory that a rank
 * reads or writes.
 * Reduce-scatter: each rank lends its values of chunk c to rank c, which reads all n where they lie
 *   and folds them once, block by block in its cache, in the ring's order c+1, c+2, .., n-1, 0, ..,
 *   c: so the bits are the ring's (base/arrays/fold.h). 1 step, n-1 messages,
 *   a rank reads M bytes and writes M/n, (n-1)a + (n+1)M/(nB).
 *   A ring's hops read 2(n-1)/n M, and write (n-1)/n M.
 * All-reduce: then rank c lends the sum of its chunk to the n-1 others, and each copies it from
 *   there. A rank reads and writes another (n-1)/n M: in all (n-1)2a + (3n-1)M/(nB), where a ring
 *   has (n-1)2a + (5n-5)M/(nB).
 *
 * Memory that cannot be lent is copied once by its rank, and the copies are lent. Over sockets it
 * sends as many bytes as a ring, but every rank to every other one.
 *
 * A rank asks the others for its own chunk, slice by slice
 * (comm/collectives/request_gathering.c). Why in place and without a copy: what is lent of a chunk
 * is overwritten only by that chunk's sum, which its rank sends when it has read all that was lent.
 * Nobody says that a sum has been read: so its loan is waited for. */
#include "comm/collectives/algorithms/algorithms.h"

static uint32_t rank_at(const psr_shape *shape, uint32_t distance)
{
    return (shape->rank + distance) % shape->ranks;
}

/* Lends this rank's values of each chunk to that chunk's rank, and folds its own chunk. */
static void reduce_scatter(psr_schedule *schedule, const psr_shape *shape, psr_area_place result)
{
    const size_t own = psr_shape_part(shape, shape->rank);
    schedule->overtaking = schedule->gathers = true;
    for (uint32_t d = 1; d < shape->ranks; d++) {
        const uint32_t to = rank_at(shape, d);
        psr_schedule_send(schedule, to, psr_shape_own(shape, shape->begins[to]),
                          psr_shape_part(shape, to), PSR_AT_ONCE);
    }
    for (uint32_t d = 1; d < shape->ranks; d++)
        psr_schedule_hold(schedule, rank_at(shape, d), own);
    psr_schedule_fold_held(schedule, psr_shape_own(shape, shape->begins[shape->rank]), result, own);
}

/* The action that lends this rank's values of a chunk: in place the sum comes after it. */
static psr_after lends(const psr_schedule *schedule, uint32_t rank)
{
    for (uint32_t i = 0; i < schedule->count; i++)
        if (schedule->actions[i].kind == PSR_ACTION_SEND && schedule->actions[i].peer == rank)
            return i + 1;
    return PSR_AT_ONCE;
}

void psr_gathered_reduce_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    reduce_scatter(schedule, shape, psr_received(0));
}

void psr_gathered_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    const psr_area_place sum = psr_received(shape->begins[shape->rank]);
    const size_t own = psr_shape_part(shape, shape->rank);
    reduce_scatter(schedule, shape, sum);
    const psr_after folded = schedule->count;
    for (uint32_t d = 1; d < shape->ranks && own > 0; d++) {
        psr_schedule_send(schedule, rank_at(shape, d), sum, own, folded);
        if (!schedule->no_memory)
            schedule->actions[schedule->count - 1].result = true;
    }
    for (uint32_t d = 1; d < shape->ranks; d++) {
        const uint32_t from = rank_at(shape, d);
        psr_schedule_receive(schedule, from, psr_received(shape->begins[from]),
                             psr_shape_part(shape, from),
                             shape->in_place ? lends(schedule, from) : PSR_AT_ONCE);
    }
}
