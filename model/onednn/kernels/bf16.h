/* bfloat16 as the upper half of a float32. Rounding is to nearest, ties to even; a NaN stays
 * one. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_BF16_H
#define PSR_MODEL_ONEDNN_KERNELS_BF16_H

#include <stdint.h>
#include <string.h>

static inline float psr_bf16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t psr_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t nan = (bits & 0x7fffffff) > 0x7f800000;
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)(nan ? (bits >> 16) | 0x40 : rounded);
}

#endif
