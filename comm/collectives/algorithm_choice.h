/* Chooses the algorithm of an operation, by a fixed table of bytes, ranks and hosts and never by a
 * clock: the choice decides the order of a fold, and so its bits. Any thread; no state. */
#ifndef PSR_COMM_COLLECTIVES_ALGORITHM_CHOICE_H
#define PSR_COMM_COLLECTIVES_ALGORITHM_CHOICE_H

#include "comm/collectives/call.h"

/* bytes: of all values together (all-reduce, reduce, scan, exscan, broadcast: of the whole). A
 * message across hosts costs about as much as so many bytes more, so with several hosts few bytes
 * are four times as many (k = 4; on one host k = 1).
 *
 * all_reduce      up to k * 64 KiB and 2 ranks, k * 16 KiB and 4, k * 1 KiB and 8, direct; up to
 *                 k * 64 KiB doubling; up to k * 1 MiB, from 4 ranks on, halving; else ring
 *                 (docs/measurements.md)
 * reduce          up to k * 64 KiB, or 2 ranks, binomial; else chain
 * broadcast       the same
 * scan, exscan    up to k * 64 KiB, or 2 ranks, doubling; else chain
 * reduce_scatter  up to k * 64 KiB direct; else ring
 * all_gather      up to k * 64 KiB, up to 8 ranks direct, with more bruck; else ring
 * gather, scatter parts of up to k * 4 KiB, from 8 ranks on, binomial; else direct
 * barrier         dissemination
 * the others      direct */
psr_algorithm psr_algorithm_choose(psr_kind kind, uint64_t bytes, uint32_t ranks, uint32_t hosts);

/* Bytes of a slice, from least on in powers of two up to most: so that the values are no fewer than
 * 32 slices, which follow one another through the ranks. Of operations whose bytes are not the same
 * on all ranks: least. */
size_t psr_slice_choose(psr_kind kind, uint64_t bytes, size_t least, size_t most);

bool psr_algorithm_fits(psr_algorithm algorithm, psr_kind kind);
/* By its name. USAGE: no such one, or not of that kind; the detail names those that there are. */
PSR_MUST_CHECK psr_err psr_algorithm_find(psr_kind kind, const char *name,
                                          psr_algorithm *ret_algorithm);
/* Puts "ring, direct, .." of that kind into text. */
void psr_algorithm_list(psr_kind kind, char *text, size_t size);

#endif
