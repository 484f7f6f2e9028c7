/* All-gather and all-to-all for few bytes and any number of ranks (Bruck, Ho, Kipnis, Upfal,
 * Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing
 * systems", TPDS 1997, sections 4 and 3).
 *
 * n ranks, M bytes in all (all-to-all: of a rank), a seconds a message, B bytes/s.
 *
 * All-gather: at distance d = 1, 2, 4, .. a rank has the parts of the ranks r .. r+d-1; it sends
 * them (the last time: as many as are missing there) to rank r-d, and gets those of r+d on.
 * ceil(log2 n) steps, (n-1)/n M bytes sent and received by each rank, a log2(n) + (n-1)/n M/B, and
 * a copy of M bytes, since the parts come in the order counted from this rank.
 *
 * All-to-all: a part that is to go v ranks on goes by the powers of two that v is a sum of, the
 * smallest first. At distance d = 1, 2, 4, .. a rank sends rank r+d, in one message, the parts for
 * whose v that power is one, and gets as many of rank r-d in their place. ceil(log2 n) messages in
 * place of n-1, each of about M/2 bytes: log2(n) (a + M/(2B)), with (1 + log2 n) M bytes of memory.
 * So it pays where a outweighs the bytes. In place it works on a copy of the parts, of M bytes
 * more. */
#include "comm/collectives/algorithms/algorithms.h"

/* Where the part of rank r + v begins in scratch. */
static size_t begin_of(const psr_shape *shape, uint32_t v)
{
    size_t begin = 0;
    for (uint32_t k = 0; k < v; k++)
        begin += psr_shape_part(shape, (shape->rank + k) % shape->ranks);
    return begin;
}

void psr_bruck_all_gather(psr_schedule *schedule, const psr_shape *shape)
{
    uint32_t n = shape->ranks, rank = shape->rank;
    schedule->scratch = shape->begins[n];
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_scratch(0),
                      psr_shape_part(shape, rank), PSR_AT_ONCE);
    for (uint32_t distance = 1; distance < n; distance *= 2) {
        uint32_t parts = distance < n - distance ? distance : n - distance;
        size_t begin = begin_of(shape, distance);
        psr_schedule_send(schedule, (rank + n - distance) % n, psr_scratch(0),
                          begin_of(shape, parts), PSR_AFTER_ALL);
        psr_schedule_receive(schedule, (rank + distance) % n, psr_scratch(begin),
                             begin_of(shape, distance + parts) - begin, PSR_AT_ONCE);
    }
    for (uint32_t v = 0; v < n; v++) {
        uint32_t from = (rank + v) % n;
        psr_schedule_copy(schedule, psr_scratch(begin_of(shape, v)),
                          psr_received(shape->begins[from]), psr_shape_part(shape, from),
                          PSR_AFTER_ALL);
    }
}

/* ---- all-to-all: parts are numbered by how far they go ---- */

typedef struct all_to_all {
    psr_schedule *schedule;
    const psr_shape *shape;
    size_t part;        /* values: all are of as many */
    psr_area_place own; /* where this rank's parts are; nothing writes there */
} all_to_all;

/* Where part v is before the step of that distance: in its rank's own parts, until its first
 * step. */
static psr_area_place before_step(const all_to_all *a, uint32_t v, uint32_t distance)
{
    bool untouched = (v & (distance - 1)) == 0;
    uint32_t to = (a->shape->rank + v) % a->shape->ranks;
    return untouched ? (psr_area_place){a->own.area, a->own.offset + to * a->part}
                     : psr_scratch(v * a->part);
}

/* Where it is after the step, which may be its last: it has come from v ranks before this one. */
static psr_area_place after_step(const all_to_all *a, uint32_t v, uint32_t distance)
{
    bool arrived = v < 2 * distance;
    uint32_t from = (a->shape->rank + a->shape->ranks - v) % a->shape->ranks;
    return arrived ? psr_received(from * a->part) : psr_scratch(v * a->part);
}

/* What is sent and what is received at each distance has its own memory, from `pack` on, so nothing
 * waits for memory. Returns how many values that takes. */
static size_t step(const all_to_all *a, uint32_t distance, size_t pack)
{
    const uint32_t n = a->shape->ranks, rank = a->shape->rank;
    size_t count = 0;
    for (uint32_t v = distance; v < n; v++) {
        if ((v & distance) == 0)
            continue;
        psr_schedule_copy(a->schedule, before_step(a, v, distance), psr_scratch(pack + count),
                          a->part, PSR_AFTER_ALL);
        count += a->part;
    }
    psr_schedule_send(a->schedule, (rank + distance) % n, psr_scratch(pack), count, PSR_AFTER_ALL);
    psr_schedule_receive(a->schedule, (rank + n - distance) % n, psr_scratch(pack + count), count,
                         PSR_AT_ONCE);
    size_t at = pack + count;
    for (uint32_t v = distance; v < n; v++) {
        if ((v & distance) == 0)
            continue;
        psr_schedule_copy(a->schedule, psr_scratch(at), after_step(a, v, distance), a->part,
                          PSR_AFTER_ALL);
        at += a->part;
    }
    return 2 * count;
}

void psr_bruck_all_to_all(psr_schedule *schedule, const psr_shape *shape)
{
    all_to_all a = {schedule, shape, psr_shape_part(shape, 0), psr_shape_own(shape, 0)};
    size_t all = shape->ranks * a.part, used = all;
    if (shape->in_place) {
        a.own = psr_scratch(used);
        used += all;
        psr_schedule_copy(schedule, psr_received(0), a.own, all, PSR_AT_ONCE);
    } else {
        psr_schedule_copy(schedule, psr_shape_own(shape, shape->rank * a.part),
                          psr_received(shape->rank * a.part), a.part, PSR_AT_ONCE);
    }
    for (uint32_t distance = 1; distance < shape->ranks; distance *= 2)
        used += step(&a, distance, used);
    schedule->scratch = used;
}
