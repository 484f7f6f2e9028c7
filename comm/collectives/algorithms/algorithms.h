/* The algorithms. Each writes the schedule of one rank. For request.c and algorithm_choice.c
 * only. */
#ifndef PSR_COMM_COLLECTIVES_ALGORITHMS_ALGORITHMS_H
#define PSR_COMM_COLLECTIVES_ALGORITHMS_ALGORITHMS_H

#include "comm/collectives/group.h"
#include "comm/collectives/schedule.h"

/* What an operation looks like from one rank. */
typedef struct psr_shape {
    uint32_t rank, ranks, root;
    uint32_t peer; /* for a message */
    /* number of values of the whole: all-reduce, reduce, scan, broadcast, a message */
    size_t count;
    const size_t *begins; /* [ranks + 1]: where each rank's part begins;
                                                      all-reduce: each chunk (base/arrays/fold.h) */
    /* all-to-all: where what goes to each rank begins; begins is for what comes from each */
    const size_t *send_begins;
    /* the areas SEND and RECEIVE are the same: all-reduce, reduce, scan, all-to-all */
    bool in_place;
    bool finishes; /* the result needs psr_reduce_finish */
    bool in_order; /* the fold does not commute: direct folds x[0] op x[1] op .. */
    bool encoded;  /* what is sent is encoded: all-reduce by ring */
    bool gathered; /* by ring: all ranks share memory, so it needs no hops (gathered.c) */
    const psr_block *send_blocks, *receive_blocks; /* for a neighbour exchange */
    size_t send_block_count, receive_block_count;
} psr_shape;

static inline size_t psr_shape_part(const psr_shape *shape, uint32_t rank)
{
    return shape->begins[rank + 1] - shape->begins[rank];
}

/* This rank's own values, before anything is folded into them. */
static inline psr_area_place psr_shape_own(const psr_shape *shape, size_t offset)
{
    return (psr_area_place){shape->in_place ? PSR_AREA_RECEIVE : PSR_AREA_SEND, offset};
}

static inline psr_area_place psr_received(size_t offset)
{
    return (psr_area_place){PSR_AREA_RECEIVE, offset};
}

static inline psr_area_place psr_scratch(size_t offset)
{
    return (psr_area_place){PSR_AREA_SCRATCH, offset};
}

typedef void psr_algorithm_writer(psr_schedule *schedule, const psr_shape *shape);

psr_algorithm_writer psr_ring_all_reduce, psr_ring_reduce_scatter, psr_ring_all_gather;
psr_algorithm_writer psr_gathered_all_reduce, psr_gathered_reduce_scatter;
psr_algorithm_writer psr_direct_all_reduce, psr_direct_reduce_scatter, psr_direct_all_gather,
    psr_direct_gather, psr_direct_scatter, psr_direct_all_to_all, psr_direct_all_to_all_v;
psr_algorithm_writer psr_doubling_all_reduce, psr_halving_all_reduce, psr_halving_reduce_scatter;
psr_algorithm_writer psr_binomial_broadcast, psr_binomial_reduce, psr_binomial_gather,
    psr_binomial_scatter;
psr_algorithm_writer psr_chain_broadcast, psr_chain_reduce;
psr_algorithm_writer psr_bruck_all_gather, psr_bruck_all_to_all;
psr_algorithm_writer psr_doubling_scan, psr_doubling_exscan, psr_chain_scan, psr_chain_exscan;
psr_algorithm_writer psr_root_all_reduce, psr_root_broadcast, psr_root_barrier;
psr_algorithm_writer psr_dissemination_barrier;
psr_algorithm_writer psr_direct_neighbors, psr_direct_send, psr_direct_receive, psr_direct_probe;

/* The algorithm of that name; NULL: this kind has none. */
psr_algorithm_writer *psr_algorithm_of(psr_kind kind, psr_algorithm algorithm);

/* The largest power of two up to n > 0. */
static inline uint32_t psr_power_below(uint32_t n)
{
    uint32_t power = 1;
    while (power <= n / 2)
        power *= 2;
    return power;
}

#endif
