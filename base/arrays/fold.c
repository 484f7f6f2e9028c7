#include "base/arrays/fold.h"

#include "base/arrays/multiversion.h"

size_t psr_fold_chunk_begin(size_t length, uint32_t n, uint32_t c)
{
    return (size_t)((uint64_t)length * c / n);
}

uint32_t psr_fold_chunk_of(size_t length, uint32_t n, size_t i)
{
    /* The largest c with floor(c L / n) <= i, that is c L < (i + 1) n. */
    return (uint32_t)((((uint64_t)i + 1) * n - 1) / length);
}

uint32_t psr_fold_rank_at(uint32_t n, uint32_t c, uint32_t p)
{
    return (uint32_t)(((uint64_t)c + 1 + p) % n);
}

/* An addition per element rounds the same at every width. The loops are static, since clang 14
 * gives a multiversioned public function no symbol under its own name. */
PSR_MULTIVERSION static void add(float *restrict sum, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

PSR_MULTIVERSION static void sum_apart(float *restrict out, const float *a, const float *b,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

PSR_MULTIVERSION static void double_in_place(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] += x[i];
}

void psr_fold_add(float *restrict sum, const float *restrict x, size_t count)
{
    add(sum, x, count);
}

void psr_fold_sum(float *out, const float *a, const float *b, size_t count)
{
    if (out == a && out == b)
        double_in_place(out, count);
    else if (out == a)
        add(out, b, count);
    else if (out == b)
        add(out, a, count);
    else
        sum_apart(out, a, b, count);
}
