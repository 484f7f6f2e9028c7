#include "base/fold.h"


/* Vector versions of the two loops for what the processor has: an addition per element rounds the same at
 * every width. The clones are chosen by an ifunc when the program is loaded, which is before a
 * sanitizer's run time is up: sanitized builds take the plain loop. The clones are static, since clang 14
 * gives a cloned public function no symbol under its own name. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOLD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define FOLD_SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(FOLD_SANITIZED) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define FOLD_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef FOLD_CLONES
#define FOLD_CLONES
#endif

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

uint32_t psr_fold_position(uint32_t n, uint32_t c, uint32_t r)
{
    return (uint32_t)(((uint64_t)r + 2 * (uint64_t)n - c - 1) % n);
}

FOLD_CLONES static void add(float *restrict sum, const float *restrict x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += x[i];
}

FOLD_CLONES static void sum_apart(float *restrict out, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

FOLD_CLONES static void double_in_place(float *x, size_t count)
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
