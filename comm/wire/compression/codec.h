/* The interface of an encoding: a table of functions, one file for each encoding. Private to this
 * folder; compression.c makes the checks that all have in common. */
#ifndef PSR_COMM_CODEC_H
#define PSR_COMM_CODEC_H

#include "comm/wire/compression/compression.h"

#include <string.h>

typedef struct psr_codec {
    bool has_residual;
    size_t (*bytes_max)(size_t count);
    /* Bytes of what an encoder keeps from prepare to the last encode; aligned for double, not
     * initialised. */
    size_t (*state_bytes)(psr_compression compression, size_t count_max);
    psr_err (*prepare)(psr_compression compression, void *state, const float *values,
                       float *residual, size_t count);
    size_t (*slice_bytes)(const void *state, psr_span slice); /* NULL: bytes_max */
    void (*encode)(const void *state, psr_span slice, void *payload);
    /* Checks sizes and values; count <= psr_compression_values_max. */
    psr_err (*check)(const psr_message *message, size_t count);
    /* after check */
    void (*decode)(const void *payload, size_t payload_bytes, size_t count, float *ret_values);
} psr_codec;

extern const psr_codec psr_codec_fp16, psr_codec_bf16, psr_codec_int8, psr_codec_topk,
    psr_codec_1bit;

/* PROTOCOL: the payload does not have that many bytes. */
PSR_MUST_CHECK psr_err psr_codec_check_bytes(const psr_message *message, size_t bytes,
                                             size_t count);

/* The largest |values + residual|. NUMERIC, with the first of them that is not finite. */
PSR_MUST_CHECK psr_err psr_codec_largest(psr_encoding encoding, const float *values,
                                         const float *residual, size_t count, float *ret_largest);
/* NUMERIC, with the first of values + residual that is not finite; there is one. */
PSR_MUST_CHECK psr_err psr_codec_not_finite(psr_encoding encoding, const float *values,
                                            const float *residual, size_t count);

static inline uint32_t psr_codec_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float psr_codec_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits of |value| as an integer that ascends with it. Below 2^31, and signed, since SSE2 has no
 * maximum of unsigned words. */
static inline int32_t psr_codec_magnitude(float value)
{
    return (int32_t)(psr_codec_bits(value) & 0x7fffffffu);
}

/* Byte i of eight, 0 or 1, becomes bit i: the product has it at bit 56 + i, and no two of its terms
 * collide. So bits are made from bytes, which compilers make from comparisons. */
static inline uint8_t psr_codec_gather(const uint8_t flags[8])
{
    uint64_t bytes;
    memcpy(&bytes, flags, sizeof bytes);
    return (uint8_t)(bytes * 0x0102040810204080u >> 56);
}

#endif
