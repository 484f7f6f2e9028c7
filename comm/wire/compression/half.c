/* fp16 and bf16: each value by itself, rounded to the nearest, ties to the even one (IEEE 754-2019,
 * section 4.3.1).
 *
 * Payload: count words of 16 bits. 2 L bytes for L values.
 *
 * float16 has 11 significant bits, and 2^-14 .. 65504 with subnormals down to 2^-24: from 65520 on
 * a value becomes infinite, and up to 2^-25 it becomes 0. bfloat16 has 8 significant bits and
 * float32's range; from the middle between its largest number and 2^128 on a value becomes
 * infinite. Infinities stay, a NaN stays one; nothing is refused: who sums them sees what he would
 * see of float32. Without error feedback: the error is at most 2^-11 and 2^-8 of a value, where the
 * numbers are normal. */
#include "comm/wire/compression/codec.h"

#include "comm/reduce.h"

typedef struct half_state {
    const float *values;
} half_state;

static size_t bytes_max(size_t count)
{
    return count * sizeof(uint16_t);
}

static size_t state_bytes(psr_compression compression, size_t count_max)
{
    (void)compression;
    (void)count_max;
    return sizeof(half_state);
}

static psr_err prepare(psr_compression compression, void *state, const float *values,
                       float *residual, size_t count)
{
    (void)compression;
    (void)residual;
    (void)count;
    *(half_state *)state = (half_state){values};
    return PSR_OK;
}

static void encode_fp16(const void *state, psr_span slice, void *payload)
{
    psr_float16_of_floats(payload, ((const half_state *)state)->values + slice.offset, slice.count);
}

static void encode_bf16(const void *state, psr_span slice, void *payload)
{
    psr_bfloat16_of_floats(payload, ((const half_state *)state)->values + slice.offset,
                           slice.count);
}

static psr_err check(const psr_message *message, size_t count)
{
    return psr_codec_check_bytes(message, bytes_max(count), count);
}

static void decode_fp16(const void *payload, size_t payload_bytes, size_t count, float *ret_values)
{
    (void)payload_bytes;
    psr_float16_to_floats(ret_values, payload, count);
}

static void decode_bf16(const void *payload, size_t payload_bytes, size_t count, float *ret_values)
{
    (void)payload_bytes;
    psr_bfloat16_to_floats(ret_values, payload, count);
}

const psr_codec psr_codec_fp16 = {
    .bytes_max = bytes_max,
    .state_bytes = state_bytes,
    .prepare = prepare,
    .encode = encode_fp16,
    .check = check,
    .decode = decode_fp16,
};

const psr_codec psr_codec_bf16 = {
    .bytes_max = bytes_max,
    .state_bytes = state_bytes,
    .prepare = prepare,
    .encode = encode_bf16,
    .check = check,
    .decode = decode_bf16,
};
