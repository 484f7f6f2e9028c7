/* Chooses the algorithm of an operation by a fixed table of bytes, ranks and hosts. No clock is
 * asked, because the algorithm decides the order of a fold, and so the bits of its result. Any
 * thread; no state. */
#ifndef PSR_COMM_COLLECTIVES_ALGORITHM_CHOICE_H
#define PSR_COMM_COLLECTIVES_ALGORITHM_CHOICE_H

#include "comm/collectives/call.h"

/* bytes: those of all values together (all-reduce, reduce, scan, exscan, broadcast: of the whole).
 * k = 1 on one host. A message between hosts costs more, so with several hosts k = 4.
 *     all_reduce      direct up to k * 64 KiB with 2 ranks, k * 16 KiB with 4, k * 1 KiB with 8;
 *                     doubling up to k * 64 KiB; halving up to k * 1 MiB from 4 ranks on;
 *                     else ring (docs/measurements.md)
 *     reduce          binomial up to k * 64 KiB, or with 2 ranks; else chain
 *     broadcast       the same
 *     scan, exscan    doubling up to k * 64 KiB, or with 2 ranks; else chain
 *     reduce_scatter  direct up to k * 64 KiB; else ring
 *     all_gather      up to k * 64 KiB direct with up to 8 ranks, bruck with more; else ring
 *     gather, scatter binomial with parts up to k * 4 KiB, from 8 ranks on; else direct
 *     barrier         dissemination
 *     the others      direct */
psr_algorithm psr_algorithm_choose(psr_kind kind, uint64_t bytes, uint32_t ranks, uint32_t hosts);

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
