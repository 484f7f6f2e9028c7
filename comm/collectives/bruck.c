/* All-gather for few bytes and any number of ranks (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all
 * communications in multiport message-passing systems", TPDS 1997, section 4).
 *
 * n ranks, M bytes in all, a seconds a message, B bytes/s. At distance d = 1, 2, 4, .. a rank has the parts of the ranks r .. r+d-1; it
 * sends them (the last time: as many as are missing there) to rank r-d, and gets those of r+d on. ceil(log2 n) steps,
 * (n-1)/n M bytes sent and received by each rank, a log2(n) + (n-1)/n M/B, and a copy of M bytes, since the parts
 * come in the order counted from this rank. */
#include "comm/collectives/algorithms.h"

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
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_scratch(0), psr_shape_part(shape, rank),
                      PSR_AT_ONCE);
    for (uint32_t distance = 1; distance < n; distance *= 2) {
        uint32_t parts = distance < n - distance ? distance : n - distance;
        size_t begin = begin_of(shape, distance);
        psr_schedule_send(schedule, (rank + n - distance) % n, psr_scratch(0), begin_of(shape, parts),
                          PSR_AFTER_ALL);
        psr_schedule_receive(schedule, (rank + distance) % n, psr_scratch(begin),
                             begin_of(shape, distance + parts) - begin, PSR_AT_ONCE);
    }
    for (uint32_t v = 0; v < n; v++) {
        uint32_t from = (rank + v) % n;
        psr_schedule_copy(schedule, psr_scratch(begin_of(shape, v)), psr_received(shape->begins[from]),
                          psr_shape_part(shape, from), PSR_AFTER_ALL);
    }
}
