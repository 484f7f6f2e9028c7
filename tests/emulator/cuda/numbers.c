#include "tests/emulator/cuda/graph_parts.h"

#include "base/arrays/multiversion.h"

#include <string.h>

size_t psr_emulator_type_bytes(psr_cuda_type type)
{
    static const size_t bytes[] = {4, 2, 2, 1};
    return bytes[type];
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- bf16: the upper half of a float32 ---- */

static uint16_t bf16_of(float value)
{
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* a NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- fp16: 5 bits of exponent, 10 of fraction ---- */

static float of_fp16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

static uint16_t fp16_of(float value)
{
    const uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        return sign | 0x7e00;
    if (magnitude >= 0x477ff000) /* 65520 and more round to infinity */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* below the smallest normal: multiples of 2^-24 */
        /* Adding 0.5 leaves steps of 2^-24: the addition rounds. */
        const uint32_t steps = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
        return sign | (uint16_t)steps;
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded - (112u << 23)) >> 13);
}

void psr_emulator_widen(psr_cuda_type type, size_t count, const void *from, float *to)
{
    const uint16_t *halves = from;
    for (size_t i = 0; i < count; i++)
        to[i] = type == PSR_CUDA_BF16 ? float_of((uint32_t)halves[i] << 16) : of_fp16(halves[i]);
}

void psr_emulator_narrow(psr_cuda_type type, size_t count, const float *from, void *to)
{
    uint16_t *halves = to;
    for (size_t i = 0; i < count; i++)
        halves[i] = type == PSR_CUDA_BF16 ? bf16_of(from[i]) : fp16_of(from[i]);
}

void psr_emulator_round_tf32(size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of(values[i]);
        if ((bits & 0x7f800000) != 0x7f800000)
            values[i] = float_of((bits + 0x1000) & ~0x1fffu);
    }
}

/* ---- products of matrices ---- */

#define ROWS 4
#define LANES 16

/* Rows m.. and columns n.. of c, as many as a block has: their sums stay in registers. */
#define WHOLE_BLOCK(p, m0, n0)                                                                     \
    do {                                                                                           \
        float sums[ROWS][LANES] = {{0}};                                                           \
        for (size_t k = 0; k < (p)->k; k++)                                                        \
            for (size_t r = 0; r < ROWS; r++)                                                      \
                for (size_t j = 0; j < LANES; j++)                                                 \
                    sums[r][j] += (p)->a[((m0) + r) * (p)->a_m + k * (p)->a_k] *                   \
                                  (p)->b[k * (p)->b_row + (n0) + j];                               \
        for (size_t r = 0; r < ROWS; r++)                                                          \
            for (size_t j = 0; j < LANES; j++) {                                                   \
                float *c = &(p)->c[((m0) + r) * (p)->c_row + (n0) + j];                            \
                *c = (p)->adds ? *c + sums[r][j] : sums[r][j];                                     \
            }                                                                                      \
    } while (0)

/* The same sums, for blocks at the edges. */
static void part_of_block(const psr_emulator_product *p, size_t m0, size_t rows, size_t n0,
                          size_t lanes)
{
    for (size_t r = 0; r < rows; r++) {
        float sums[LANES] = {0};
        for (size_t k = 0; k < p->k; k++) {
            const float a = p->a[(m0 + r) * p->a_m + k * p->a_k];
            for (size_t j = 0; j < lanes; j++)
                sums[j] += a * p->b[k * p->b_row + n0 + j];
        }
        for (size_t j = 0; j < lanes; j++) {
            float *c = &p->c[(m0 + r) * p->c_row + n0 + j];
            *c = p->adds ? *c + sums[j] : sums[j];
        }
    }
}

PSR_MULTIVERSION
static void multiply(const psr_emulator_product *p)
{
    for (size_t m = 0; m < p->m; m += ROWS)
        for (size_t n = 0; n < p->n; n += LANES) {
            const size_t rows = p->m - m < ROWS ? p->m - m : ROWS;
            const size_t lanes = p->n - n < LANES ? p->n - n : LANES;
            if (rows == ROWS && lanes == LANES)
                WHOLE_BLOCK(p, m, n);
            else
                part_of_block(p, m, rows, n, lanes);
        }
}

void psr_emulator_multiply(const psr_emulator_product *product)
{
    multiply(product);
}
