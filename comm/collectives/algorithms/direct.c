/* Every rank sends each other one what that needs, at once, in one step: n-1 messages, at distance
 * 1, 2, .. so that no rank is everybody's first. n ranks, M bytes in all, a seconds a message, B
 * bytes/s.
 *
 * All-gather, all-to-all: (n-1)/n M bytes sent and received by each rank, a + (n-1)/n M/B (and what
 * n-1 messages cost to send). Reduce-scatter: the same; all parts of this rank's chunk c are kept,
 * then folded in the ring's order c+1, .., n-1, 0, .., c. All-reduce: all-gather of everybody's
 * values, then the fold of each chunk in the ring's order: (n-1)M bytes, a + (n-1)M/B, and
 *   nM bytes of memory: for few bytes. The same bits as the ring.
 * Gather, scatter: (n-1)/n M bytes at the root, a + (n-1)/n M/B.
 * Neighbour exchange, and a message to one rank: what is to be sent, as it is. In place all-to-all
 * sends the same, of copies: slice by slice what comes takes the place of what has been sent
 * there. */
#include "comm/collectives/algorithms/algorithms.h"

static uint32_t rank_at(const psr_shape *shape, uint32_t distance)
{
    return (shape->rank + distance) % shape->ranks;
}

static uint32_t rank_before(const psr_shape *shape, uint32_t distance)
{
    return (shape->rank + shape->ranks - distance) % shape->ranks;
}

/* values[k] are those of rank k, at begin + k * apart. Folds them in the order c+1, .., c into
 * `to`. */
static psr_after fold_in_order(psr_schedule *schedule, const psr_shape *shape, uint32_t c,
                               psr_area_place values, size_t apart, psr_area_place to, size_t count)
{
    uint32_t n = shape->ranks;
    c = shape->in_order ? n - 1 : c;
    psr_area_place sum = {values.area, values.offset + (c + 1) % n * apart};
    psr_after last = PSR_AFTER_ALL;
    for (uint32_t k = 2; k <= n; k++) {
        psr_area_place next = {values.area, values.offset + (c + k) % n * apart};
        last = psr_schedule_fold(schedule, sum, next, to, count, last);
        sum = to;
    }
    if (n == 1)
        last = psr_schedule_copy(schedule, sum, to, count, last);
    return shape->finishes ? psr_schedule_finish(schedule, to, count, last) : last;
}

void psr_direct_all_reduce(psr_schedule *schedule, const psr_shape *shape)
{
    schedule->scratch = shape->ranks * shape->count;
    psr_area_place own = psr_scratch(shape->rank * shape->count);
    psr_after copied =
        psr_schedule_copy(schedule, psr_shape_own(shape, 0), own, shape->count, PSR_AT_ONCE);
    for (uint32_t d = 1; d < shape->ranks; d++)
        psr_schedule_send(schedule, rank_at(shape, d), own, shape->count, copied);
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t from = rank_before(shape, d);
        psr_schedule_receive(schedule, from, psr_scratch(from * shape->count), shape->count,
                             PSR_AT_ONCE);
    }
    for (uint32_t c = 0; c < shape->ranks; c++)
        fold_in_order(schedule, shape, c, psr_scratch(shape->begins[c]), shape->count,
                      psr_received(shape->begins[c]), psr_shape_part(shape, c));
}

void psr_direct_reduce_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    size_t part = psr_shape_part(shape, shape->rank);
    schedule->scratch = shape->ranks * part;
    psr_schedule_copy(schedule, psr_shape_own(shape, shape->begins[shape->rank]),
                      psr_scratch(shape->rank * part), part, PSR_AT_ONCE);
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t to = rank_at(shape, d), from = rank_before(shape, d);
        psr_schedule_send(schedule, to, psr_shape_own(shape, shape->begins[to]),
                          psr_shape_part(shape, to), PSR_AT_ONCE);
        psr_schedule_receive(schedule, from, psr_scratch(from * part), part, PSR_AT_ONCE);
    }
    fold_in_order(schedule, shape, shape->rank, psr_scratch(0), part, psr_received(0), part);
}

void psr_direct_all_gather(psr_schedule *schedule, const psr_shape *shape)
{
    size_t part = psr_shape_part(shape, shape->rank);
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_received(shape->begins[shape->rank]),
                      part, PSR_AT_ONCE);
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t from = rank_before(shape, d);
        psr_schedule_send(schedule, rank_at(shape, d), psr_shape_own(shape, 0), part, PSR_AT_ONCE);
        psr_schedule_receive(schedule, from, psr_received(shape->begins[from]),
                             psr_shape_part(shape, from), PSR_AT_ONCE);
    }
}

void psr_direct_gather(psr_schedule *schedule, const psr_shape *shape)
{
    size_t part = psr_shape_part(shape, shape->rank);
    if (shape->rank != shape->root) {
        psr_schedule_send(schedule, shape->root, psr_shape_own(shape, 0), part, PSR_AT_ONCE);
        return;
    }
    psr_schedule_copy(schedule, psr_shape_own(shape, 0), psr_received(shape->begins[shape->rank]),
                      part, PSR_AT_ONCE);
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t from = rank_at(shape, d);
        psr_schedule_receive(schedule, from, psr_received(shape->begins[from]),
                             psr_shape_part(shape, from), PSR_AT_ONCE);
    }
}

void psr_direct_scatter(psr_schedule *schedule, const psr_shape *shape)
{
    size_t part = psr_shape_part(shape, shape->rank);
    if (shape->rank != shape->root) {
        psr_schedule_receive(schedule, shape->root, psr_received(0), part, PSR_AT_ONCE);
        return;
    }
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t to = rank_at(shape, d);
        psr_schedule_send(schedule, to, psr_shape_own(shape, shape->begins[to]),
                          psr_shape_part(shape, to), PSR_AT_ONCE);
    }
    psr_schedule_copy(schedule, psr_shape_own(shape, shape->begins[shape->rank]), psr_received(0),
                      part, PSR_AT_ONCE);
}

/* What goes to a rank and what comes from it have one place and one count. */
static void all_to_all_in_place(psr_schedule *schedule, const psr_shape *shape, bool at_least)
{
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t peer = rank_at(shape, d);
        psr_area_place part = psr_received(shape->begins[peer]);
        size_t count = psr_shape_part(shape, peer);
        if (at_least && count == 0) {
            psr_schedule_signal(schedule, peer, PSR_AT_ONCE);
            psr_schedule_await(schedule, peer, PSR_AT_ONCE);
        }
        psr_after sent = psr_schedule_send_copy(schedule, peer, part, count, PSR_AT_ONCE);
        psr_schedule_receive(schedule, peer, part, count, sent);
    }
}

/* at_least: a message is sent even if there are no values, so that a count of 0 on one side only is
 * found. */
static void all_to_all(psr_schedule *schedule, const psr_shape *shape, bool at_least)
{
    const size_t *out = shape->send_begins, *in = shape->begins;
    uint32_t rank = shape->rank;
    if (shape->in_place) {
        all_to_all_in_place(schedule, shape, at_least);
        return;
    }
    psr_schedule_copy(schedule, psr_shape_own(shape, out[rank]), psr_received(in[rank]),
                      in[rank + 1] - in[rank], PSR_AT_ONCE);
    for (uint32_t d = 1; d < shape->ranks; d++) {
        uint32_t to = rank_at(shape, d), from = rank_before(shape, d);
        if (at_least && out[to + 1] == out[to])
            psr_schedule_signal(schedule, to, PSR_AT_ONCE);
        if (at_least && in[from + 1] == in[from])
            psr_schedule_await(schedule, from, PSR_AT_ONCE);
        psr_schedule_send(schedule, to, psr_shape_own(shape, out[to]), out[to + 1] - out[to],
                          PSR_AT_ONCE);
        psr_schedule_receive(schedule, from, psr_received(in[from]), in[from + 1] - in[from],
                             PSR_AT_ONCE);
    }
}

void psr_direct_all_to_all(psr_schedule *schedule, const psr_shape *shape)
{
    all_to_all(schedule, shape, false);
}

void psr_direct_all_to_all_v(psr_schedule *schedule, const psr_shape *shape)
{
    all_to_all(schedule, shape, true);
}

void psr_direct_send(psr_schedule *schedule, const psr_shape *shape)
{
    if (shape->count == 0)
        psr_schedule_signal(schedule, shape->peer, PSR_AT_ONCE);
    psr_schedule_send(schedule, shape->peer, psr_shape_own(shape, 0), shape->count, PSR_AT_ONCE);
}

void psr_direct_receive(psr_schedule *schedule, const psr_shape *shape)
{
    if (shape->count == 0)
        psr_schedule_await(schedule, shape->peer, PSR_AT_ONCE);
    psr_schedule_receive(schedule, shape->peer, psr_received(0), shape->count, PSR_AT_ONCE);
}

/* Nothing is sent. */
void psr_direct_probe(psr_schedule *schedule, const psr_shape *shape)
{
    (void)schedule, (void)shape;
}

/* ---- blocks: each is an area; those that are sent come first, then those that are received
 * ---- */

static psr_area_place sent_block(size_t i)
{
    return (psr_area_place){(uint32_t)(PSR_AREA_BLOCKS + i), 0};
}

static psr_area_place received_block(const psr_shape *shape, size_t i)
{
    return sent_block(shape->send_block_count + i);
}

static size_t count_of(const psr_block *block)
{
    size_t count = 0;
    return psr_block_count(block, &count) ? count : 0; /* it was checked before */
}

/* The blocks that a rank sends to itself, the k-th to the k-th. */
static psr_after copy_to_self(psr_schedule *schedule, const psr_shape *shape)
{
    psr_after last = PSR_AT_ONCE;
    for (size_t i = 0, to = 0; i < shape->send_block_count; i++) {
        if (shape->send_blocks[i].rank != shape->rank)
            continue;
        while (shape->receive_blocks[to].rank != shape->rank)
            to++;
        psr_area_place from = sent_block(i), into = received_block(shape, to);
        size_t count = count_of(&shape->send_blocks[i]);
        last = shape->receive_blocks[to++].adds
                   ? psr_schedule_fold(schedule, from, into, into, count, last)
                   : psr_schedule_copy(schedule, from, into, count, last);
    }
    return last;
}

static void send_blocks(psr_schedule *schedule, const psr_shape *shape)
{
    for (size_t i = 0; i < shape->send_block_count; i++) {
        const psr_block *block = &shape->send_blocks[i];
        if (block->rank == shape->rank)
            continue;
        if (count_of(block) == 0)
            psr_schedule_signal(schedule, block->rank, PSR_AT_ONCE);
        psr_schedule_send(schedule, block->rank, sent_block(i), count_of(block), PSR_AT_ONCE);
    }
}

/* Blocks that add may overlap: each comes after the one before it. */
void psr_direct_neighbors(psr_schedule *schedule, const psr_shape *shape)
{
    psr_after last = copy_to_self(schedule, shape);
    send_blocks(schedule, shape);
    for (size_t i = 0; i < shape->receive_block_count; i++) {
        const psr_block *block = &shape->receive_blocks[i];
        psr_area_place to = received_block(shape, i);
        if (block->rank == shape->rank)
            continue;
        if (count_of(block) == 0)
            psr_schedule_await(schedule, block->rank, PSR_AT_ONCE);
        if (block->adds)
            last = psr_schedule_receive_fold(schedule, block->rank, to, to, count_of(block), last);
        else
            psr_schedule_receive(schedule, block->rank, to, count_of(block), PSR_AT_ONCE);
    }
}
