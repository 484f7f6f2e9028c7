/* Values of the types that tensors have, as float32 and back: to nearest, ties to even, as the CPU
 * rounds (comm/reduce.h). Included by *.cu alone. */
#ifndef PSR_MODEL_CUDA_VALUES_H
#define PSR_MODEL_CUDA_VALUES_H

#include "model/cuda/graph.h"
#include "model/cuda/kernels/device.h"

PSR_DEVICE float psr_device_of_bf16(uint32_t half)
{
    return PSR_FLOAT_OF(half << 16);
}

PSR_DEVICE uint32_t psr_device_to_bf16(float value)
{
    const uint32_t bits = PSR_BITS(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

PSR_DEVICE float psr_device_of_fp16(uint32_t half)
{
    const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) /* infinite or NaN */
        return PSR_FLOAT_OF(sign | 0x7f800000u | rest << 13);
    if (rest < 0x400u) /* a multiple of 2^-24 */
        return PSR_FLOAT_OF(sign | PSR_BITS((float)rest * 5.9604644775390625e-8f));
    return PSR_FLOAT_OF(sign | ((rest << 13) + 0x38000000u));
}

PSR_DEVICE uint32_t psr_device_to_fp16(float value)
{
    const uint32_t bits = PSR_BITS(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return sign | 0x7e00u;
    if (rest >= 0x477ff000u) /* 65520 */
        return sign | 0x7c00u;
    if (rest < 0x38800000u) /* 2^-14: the last bit of a number from 1/2 on is worth 2^-24 */
        return sign | (PSR_BITS(PSR_FLOAT_OF(rest) + 0.5f) - 0x3f000000u);
    return sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
}

/* x[i] and y[i] = value; type: psr_cuda_type, not INT8. */

PSR_DEVICE float psr_device_get(const void *x, uint32_t type, uint64_t i)
{
    if (type == PSR_CUDA_FLOAT32)
        return ((const float *)x)[i];
    const uint32_t half = ((const uint16_t *)x)[i];
    return type == PSR_CUDA_BF16 ? psr_device_of_bf16(half) : psr_device_of_fp16(half);
}

PSR_DEVICE void psr_device_set(void *y, uint32_t type, uint64_t i, float value)
{
    if (type == PSR_CUDA_FLOAT32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] = (uint16_t)(type == PSR_CUDA_BF16 ? psr_device_to_bf16(value)
                                                              : psr_device_to_fp16(value));
}

/* Eight values at once, by accesses of 16 bytes: element 8 i of an array that begins at a multiple
 * of 16 bytes. */

#define PSR_DEVICE_GROUP 8

#ifdef __CUDACC__
typedef uint4 psr_device_words;
#else
typedef struct psr_device_words {
    uint32_t x, y, z, w;
} psr_device_words;
#endif

PSR_DEVICE uint32_t psr_device_aligned(const void *x)
{
    return ((uintptr_t)x & 15u) == 0;
}

PSR_DEVICE void psr_device_get_words(const void *x, uint64_t i, uint32_t words[4])
{
    const psr_device_words at = ((const psr_device_words *)x)[i];
    words[0] = at.x;
    words[1] = at.y;
    words[2] = at.z;
    words[3] = at.w;
}

PSR_DEVICE void psr_device_set_words(void *y, uint64_t i, const uint32_t words[4])
{
    psr_device_words at;
    at.x = words[0];
    at.y = words[1];
    at.z = words[2];
    at.w = words[3];
    ((psr_device_words *)y)[i] = at;
}

PSR_DEVICE void psr_device_get_group(const void *x, uint32_t type, uint64_t i,
                                     float values[PSR_DEVICE_GROUP])
{
    uint32_t words[4];
    if (type == PSR_CUDA_FLOAT32) {
        PSR_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            psr_device_get_words(x, 2 * i + half, words);
            PSR_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                values[4 * half + k] = PSR_FLOAT_OF(words[k]);
        }
        return;
    }
    psr_device_get_words(x, i, words);
    PSR_UNROLL
    for (uint32_t k = 0; k < PSR_DEVICE_GROUP; k++) {
        const uint32_t half = words[k / 2] >> 16 * (k % 2) & 0xffffu;
        values[k] = type == PSR_CUDA_BF16 ? psr_device_of_bf16(half) : psr_device_of_fp16(half);
    }
}

PSR_DEVICE void psr_device_set_group(void *y, uint32_t type, uint64_t i,
                                     const float values[PSR_DEVICE_GROUP])
{
    uint32_t words[4];
    if (type == PSR_CUDA_FLOAT32) {
        PSR_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            PSR_UNROLL
            for (uint32_t k = 0; k < 4; k++)
                words[k] = PSR_BITS(values[4 * half + k]);
            psr_device_set_words(y, 2 * i + half, words);
        }
        return;
    }
    PSR_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        const float low = values[2 * k], high = values[2 * k + 1];
        words[k] = type == PSR_CUDA_BF16 ? psr_device_to_bf16(low) | psr_device_to_bf16(high) << 16
                                         : psr_device_to_fp16(low) | psr_device_to_fp16(high) << 16;
    }
    psr_device_set_words(y, i, words);
}

#endif
