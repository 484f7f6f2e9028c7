#include "model/onednn/kernels/bf16_product.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define INLINE TARGET static inline __attribute__((always_inline))

bool psr_bf16_dots_supported(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

/* 12 rows of two vectors: 24 of 32 registers hold sums. */
enum { TRIPLE = 3, TRIPLES = 4 };

INLINE __m512i word(const uint32_t *from)
{
    return _mm512_set1_epi32((int)*from);
}

/* triples * size rows in registers. Rows go by threes, because an address is a register and one,
 * two, four or eight times another one. */
INLINE void multiply_rows(const psr_bf16_product *p, size_t first, const size_t triples,
                          const size_t size)
{
    __m512 sums[TRIPLES][TRIPLE][2];
    const uint32_t *rows[TRIPLES], *b = p->b;
    const size_t a_row = p->a_row;
#pragma GCC unroll 4
    for (size_t i = 0; i < triples; i++) {
        rows[i] = p->a + (first + i * size) * a_row;
#pragma GCC unroll 3
        for (size_t j = 0; j < size; j++)
            sums[i][j][0] = sums[i][j][1] = _mm512_setzero_ps();
    }
    for (size_t k = 0; k < p->length; k++, b += p->b_step) {
        const __m512bh left = (__m512bh)_mm512_loadu_si512(b),
                       right = (__m512bh)_mm512_loadu_si512(b + PSR_BF16_LANES);
#pragma GCC unroll 4
        for (size_t i = 0; i < triples; i++) {
#pragma GCC unroll 3
            for (size_t j = 0; j < size; j++) {
                const __m512bh of_row = (__m512bh)word(rows[i] + j * a_row);
                sums[i][j][0] = _mm512_dpbf16_ps(sums[i][j][0], of_row, left);
                sums[i][j][1] = _mm512_dpbf16_ps(sums[i][j][1], of_row, right);
            }
            rows[i] += p->a_step;
        }
    }
    float *c = p->c + first * p->c_row;
#pragma GCC unroll 4
    for (size_t i = 0; i < triples; i++)
#pragma GCC unroll 3
        for (size_t j = 0; j < size; j++, c += p->c_row)
#pragma GCC unroll 2
            for (size_t half = 0; half < 2; half++) {
                if (p->add)
                    sums[i][j][half] += _mm512_loadu_ps(c + half * PSR_BF16_LANES);
                _mm512_storeu_ps(c + half * PSR_BF16_LANES, sums[i][j][half]);
            }
}

TARGET void psr_bf16_multiply(const psr_bf16_product *p)
{
    size_t row = 0;
    for (; row + TRIPLES * TRIPLE <= p->rows; row += TRIPLES * TRIPLE)
        multiply_rows(p, row, TRIPLES, TRIPLE);
    for (; row + 2 * TRIPLE <= p->rows; row += 2 * TRIPLE)
        multiply_rows(p, row, 2, TRIPLE);
    for (; row + TRIPLE <= p->rows; row += TRIPLE)
        multiply_rows(p, row, 1, TRIPLE);
    for (; row < p->rows; row++)
        multiply_rows(p, row, 1, 1);
}

#else

bool psr_bf16_dots_supported(void)
{
    return false;
}

void psr_bf16_multiply(const psr_bf16_product *product)
{
    (void)product;
}

#endif
