#include "bench/exchange/check.h"

#include "comm/wire/compression/compression.h"

#include <math.h>
#include <string.h>

/* Worker rank's gradient at arena element i: small integers, so sums are exact whatever their order
 * and the check is simple. */
static float gradient_at(uint32_t rank, size_t i)
{
    return (float)((i * 7 + rank * 13) % 61) - 30.0f;
}

void bench_fill_gradients(const bench_run *b, uint32_t rank, float *gradients)
{
    for (size_t t = 0; t < b->layout.tensor_count; t++) {
        const psr_tensor *tensor = &b->layout.tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++)
            gradients[i] = gradient_at(rank, i);
    }
}

/* By how much what was exchanged in so many rounds may differ from what was given. Not at all if it
 * is float32, or if all sums are whole numbers that 16 bits hold. With error feedback sums and what
 * is owed add up to it, but for float32's rounding. */
static float tolerance_of(const bench_run *b, uint32_t rounds)
{
    const psr_compression compression = b->plan.buckets[0].compression;
    float largest = 30.0f * (float)b->config.workers,
          all = largest * (float)(rounds * b->config.workers);
    if (psr_compression_is_none(compression))
        return 0;
    if (psr_compression_has_residual(compression))
        return all * 0x1p-16f;
    return largest <= 256 ? 0 : all * 0x1p-8f;
}

/* All ranks owe it: who has sent a final sum, or had a part in one, has settled what it owes of
 * that. */
static float owed_at(const bench_run *b, size_t i)
{
    float owed = 0;
    for (uint32_t r = 0; r < b->config.workers && b->owed != NULL; r++)
        owed += b->owed[r * b->layout.length + i];
    return owed;
}

uint32_t bench_count_wrong(const bench_run *b, uint32_t rounds, const float *gradients,
                           const float *weights)
{
    float tolerance = tolerance_of(b, b->sum_only ? 1 : rounds);
    /* Of weights that come in 16 bits: half a unit of bfloat16's last place, and float32's. Where
     * differences come they are those that shards have. */
    const bool rounded =
        !psr_compression_is_none(b->plan.pulled) && !psr_plan_pulls_differences(&b->plan);
    float rounding = rounded ? 0x1.01p-8f : 0;
    uint32_t wrong = 0;
    for (size_t t = 0; t < b->layout.tensor_count; t++) {
        const psr_tensor *tensor = &b->layout.tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
            float sum = 0;
            for (uint32_t r = 0; r < b->config.workers; r++)
                sum += gradient_at(r, i);
            float want = b->sum_only ? sum : sum * (float)rounds - owed_at(b, i);
            float got = b->sum_shared ? weights[i]
                        : b->sum_only ? gradients[i]
                                      : weights[i] / -BENCH_LR;
            wrong += !(fabsf(got - want) <= tolerance + rounding * fabsf(want));
        }
    }
    return wrong;
}

uint32_t bench_count_unlike(const bench_run *b, const float *one, const float *other)
{
    uint32_t unlike = 0;
    for (size_t t = 0; t < b->layout.tensor_count; t++) {
        const psr_tensor *tensor = &b->layout.tensors[t];
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++)
            unlike += memcmp(&one[i], &other[i], sizeof *one) != 0;
    }
    return unlike;
}
