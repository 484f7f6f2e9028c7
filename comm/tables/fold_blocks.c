#include "comm/tables/fold_blocks.h"

#include "base/arrays/fold.h"
#include "comm/reduce.h"

static void add(float *out, const float *a, const float *b, size_t count, uint32_t width)
{
    if (width == 2)
        psr_reduce(PSR_TYPE_FLOAT64, PSR_REDUCTION_SUM, out, a, b, count / 2);
    else if (out == a)
        psr_fold_add(out, b, count);
    else
        psr_fold_sum(out, a, b, count);
}

/* Elements [at, at + count) of the slice are in one chunk c. */
static psr_err fold_block(const float *const *x, uint32_t n, uint32_t c, size_t at, size_t count,
                          uint32_t width, float *scratch, psr_fold_use *use, void *context)
{
    const float *first = x[psr_fold_rank_at(n, c, 0)] + at;
    if (n == 1)
        return use(context, first, at, count);
    add(scratch, first, x[psr_fold_rank_at(n, c, 1)] + at, count, width);
    for (uint32_t p = 2; p < n; p++)
        add(scratch, scratch, x[psr_fold_rank_at(n, c, p)] + at, count, width);
    return use(context, scratch, at, count);
}

psr_err psr_fold_blocks(const float *const *x, uint32_t n, size_t length, size_t begin,
                        size_t count, uint32_t width, float *scratch, psr_fold_use *use,
                        void *context)
{
    const size_t values = length / width;
    size_t at = 0;
    while (at < count) {
        uint32_t c = psr_fold_chunk_of(values, n, (begin + at) / width);
        size_t chunk_left = psr_fold_chunk_begin(values, n, c + 1) * width - (begin + at);
        size_t block = count - at < chunk_left ? count - at : chunk_left;
        if (block > PSR_FOLD_BLOCK)
            block = PSR_FOLD_BLOCK;
        PSR_TRY(fold_block(x, n, c, at, block, width, scratch, use, context));
        at += block;
    }
    return PSR_OK;
}
