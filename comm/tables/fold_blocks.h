/* Folds one slice in blocks that stay in the cache. Each block's sum is used (handed to the update)
 * before the next one is made, so that sums cause no memory traffic of their own. No state; any
 * thread.
 */
#ifndef PSR_COMM_FOLD_BLOCKS_H
#define PSR_COMM_FOLD_BLOCKS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* With 8 workers a block's contributions, sum, weights and momentum take 180 KiB: a quarter of a
 * usual second-level cache. */
enum { PSR_FOLD_BLOCK = 4096 };

/* Uses sum[count], the sums of elements [at, at + count) of the slice; they are borrowed for the
 * call. */
typedef psr_err psr_fold_use(void *context, const float *sum, size_t at, size_t count);

/* Folds the slice [begin, begin + count) of a bucket of length floats; x[r][i] is element i of
 * worker r's slice. The order is that of base/arrays/fold.h. width 2: each two floats are the bits
 * of one float64, which is added as such; the three lengths, and those that use gets, are still in
 * floats, and even. width 1: they are floats. scratch: PSR_FOLD_BLOCK floats. Fails as use does. */
PSR_MUST_CHECK psr_err psr_fold_blocks(const float *const *x, uint32_t n, size_t length,
                                       size_t begin, size_t count, uint32_t width, float *scratch,
                                       psr_fold_use *use, void *context);

#endif
