/* Sums of squares in one order, for norms (LARS, LAMB): in double, over blocks of
 * PSR_SQUARE_BLOCK elements from the array's start; within a block in 8 lanes (element i into lane
 * i mod 8) that are added as a fixed tree; blocks are added in order. So a sum is a function of the
 * values alone: not of vector width, buckets or shards. Pure; any thread. */
#ifndef PSR_MODEL_SQUARE_SUM_H
#define PSR_MODEL_SQUARE_SUM_H

#include <stddef.h>

#define PSR_SQUARE_BLOCK 4096 /* floats */

/* Of one block: count is at most PSR_SQUARE_BLOCK. */
double psr_square_sum_block(const float *x, size_t count);
/* Of an array that begins at x. */
double psr_square_sum(const float *x, size_t count);

#endif
