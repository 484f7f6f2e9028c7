/* The fold: the one definition of the sum of n workers' gradients.
 *
 * A bucket of L elements has n chunks, chunk c = [floor(cL/n), floor((c+1)L/n)); chunk c is folded
 * in the order c+1, c+2, .., n-1, 0, .., c, starting from worker c+1's values themselves (not from
 * zero). That is the order in which the hops of a ring reduce-scatter add, so ring and shard end
 * with the same bits. Float addition is commutative, so which operand is the accumulator does not
 * matter. Any thread; no state. */
#ifndef PSR_BASE_ARRAYS_FOLD_H
#define PSR_BASE_ARRAYS_FOLD_H

#include <stddef.h>
#include <stdint.h>

/* First element of chunk c of n in a bucket of length elements; c == n gives length. Exact for
 * length * n below 2^64. */
size_t psr_fold_chunk_begin(size_t length, uint32_t n, uint32_t c);

/* The chunk that holds element i (of length > 0). */
uint32_t psr_fold_chunk_of(size_t length, uint32_t n, size_t i);

/* Rank whose contribution is the p-th (p = 0..n-1) to be folded into chunk c. */
uint32_t psr_fold_rank_at(uint32_t n, uint32_t c, uint32_t p);

/* sum[i] += x[i]: one rounding per element. Must not overlap. */
void psr_fold_add(float *restrict sum, const float *restrict x, size_t count);

/* out[i] = a[i] + b[i]: out may be a or b. */
void psr_fold_sum(float *out, const float *a, const float *b, size_t count);

#endif
