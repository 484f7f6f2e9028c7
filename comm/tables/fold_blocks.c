#include "comm/tables/fold_blocks.h"

#include "base/arrays/fold.h"

/* Elements [at, at + count) of the slice are in one chunk c. */
static psr_err fold_block(const float *const *x, uint32_t n, uint32_t c, size_t at, size_t count,
                          float *scratch, psr_fold_use *use, void *context)
{
    const float *first = x[psr_fold_rank_at(n, c, 0)] + at;
    if (n == 1)
        return use(context, first, at, count);
    psr_fold_sum(scratch, first, x[psr_fold_rank_at(n, c, 1)] + at, count);
    for (uint32_t p = 2; p < n; p++)
        psr_fold_add(scratch, x[psr_fold_rank_at(n, c, p)] + at, count);
    return use(context, scratch, at, count);
}

psr_err psr_fold_blocks(const float *const *x, uint32_t n, size_t length, size_t begin,
                        size_t count, float *scratch, psr_fold_use *use, void *context)
{
    size_t at = 0;
    while (at < count) {
        uint32_t c = psr_fold_chunk_of(length, n, begin + at);
        size_t chunk_left = psr_fold_chunk_begin(length, n, c + 1) - (begin + at);
        size_t block = count - at < chunk_left ? count - at : chunk_left;
        if (block > PSR_FOLD_BLOCK)
            block = PSR_FOLD_BLOCK;
        PSR_TRY(fold_block(x, n, c, at, block, scratch, use, context));
        at += block;
    }
    return PSR_OK;
}
