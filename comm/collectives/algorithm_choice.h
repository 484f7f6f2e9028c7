/* Chooses the algorithm of an operation by a fixed table of bytes, ranks and hosts. No clock is
 * asked, because the algorithm decides the order of a fold, and so the bits of its result. Any
 * thread; no state. */
#ifndef PSR_COMM_COLLECTIVES_ALGORITHM_CHOICE_H
#define PSR_COMM_COLLECTIVES_ALGORITHM_CHOICE_H

#include "comm/collectives/call.h"

/* Where the ranks of a group are. */
typedef struct psr_rank_hosts {
    uint32_t ranks;       /* > 0 */
    uint32_t hosts;       /* 1 .. ranks */
    uint32_t most_on_one; /* ranks of the host that has most of them */
    /* most ranks of one host whose next rank (of the last: the first) is on another host; 1: each
     * host's ranks follow one another. 0: hosts is 1 */
    uint32_t hops;
} psr_rank_hosts;

/* host_of[rank]: any number for each host. */
psr_rank_hosts psr_rank_hosts_of(const uint32_t *host_of, uint32_t ranks);

/* bytes: those of all values together (all-reduce, reduce, scan, exscan, broadcast: of the whole).
 * On one host:
 *     all_reduce      direct up to 64 KiB with 2 ranks, 16 KiB with 4, 1 KiB with 8; doubling up
 *                     to 64 KiB; halving up to 1 MiB from 4 ranks on; else ring
 *                     (docs/measurements.md)
 *     reduce          binomial up to 64 KiB, or with 2 ranks; else chain
 *     broadcast       the same
 *     scan, exscan    doubling up to 64 KiB, or with 2 ranks; else chain
 *     reduce_scatter  direct up to 64 KiB; else ring
 *     all_gather      up to 64 KiB direct with up to 8 ranks, bruck with more; else ring
 *     gather, scatter binomial with parts up to 4 KiB, from 8 ranks on; else direct
 *     barrier         dissemination
 *     the others      direct
 * Over links: the one of these algorithms that costs least by a steps + L/B, where L is what the
 * busiest host's link carries in one direction (all_reduce: + c F for F bytes that a rank folds),
 * and a B = 4000 bytes (0.1 ms at 320 Mbit/s), c B = 1/16 whatever the links are: the choice
 * decides bits, and must not depend on a measurement. docs/algorithms.md has the formulas; Thakur,
 * Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005,
 * has those of links that no two ranks share. Direct and bruck up to 256 KiB only, because of
 * queues; gather and scatter binomial with parts up to 16 KiB. */
psr_algorithm psr_algorithm_choose(psr_kind kind, uint64_t bytes, const psr_rank_hosts *at);

/* The bytes of a slice: a power of two times least, up to most, so that the values make at least 32
 * slices, which follow one another through the ranks. For operations whose bytes differ between
 * ranks: least. */
size_t psr_slice_choose(psr_kind kind, uint64_t bytes, size_t least, size_t most);

bool psr_algorithm_fits(psr_algorithm algorithm, psr_kind kind);
/* Finds an algorithm by its name. USAGE: there is no such algorithm, or this kind does not have it;
 * the detail lists those that it has. */
PSR_MUST_CHECK psr_err psr_algorithm_find(psr_kind kind, const char *name,
                                          psr_algorithm *ret_algorithm);
/* Writes the algorithms of that kind into text: "ring, direct, ..". */
void psr_algorithm_list(psr_kind kind, char *text, size_t size);

#endif
