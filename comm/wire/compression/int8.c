/* int8: multiples of one scale, which reaches from -127 to 127 of it.
 *
 * Payload: the scale, a float32; then a code of 8 bits, two's complement, for each value. L + 4
 * bytes for L values.
 *
 *     s = max |e| / 127, from 2^-126 up to SCALE_MAX
 *     q = e / s, rounded to an integer, ties to the even one
 *     sent = q s;  r = e - sent, |r| <= s / 2 but for rounding
 *
 * A deterministic form of QSGD's quantisation (Alistarh et al., "QSGD: communication-efficient SGD
 * via gradient quantization and encoding", NIPS 2017), whose random rounding is replaced by error
 * feedback. The quotient is divided, not multiplied by 1 / s: so e and sent are within a factor of
 * 2 wherever q is not 0, and r is exact (Sterbenz). */
#include "comm/wire/compression/codec.h"

#include "base/arrays/finite.h"
#include "base/arrays/multiversion.h"
#include "net/violation.h"

#include <float.h>

#define CODE_MAX 127
/* The largest float32 whose product with 127 is a float32; FLT_MAX / 127 rounded is the next
 * one. */
#define SCALE_MAX 0x1.020406p+121f
/* Adding it to a number of at most 2^22 rounds that to an integer, which is then in the lowest
 * bits, in two's complement. */
#define ROUNDER 0x1.8p+23f

typedef struct int8_state {
    float scale;
    int8_t codes[];
} int8_state;

typedef struct int8_payload {
    float scale;
    int8_t codes[];
} int8_payload;

static size_t bytes_max(size_t count)
{
    return sizeof(int8_payload) + count;
}

static size_t state_bytes(psr_compression compression, size_t count_max)
{
    (void)compression;
    return sizeof(int8_state) + count_max;
}

PSR_MULTIVERSION static void quantise(const float *restrict x, float *restrict r,
                                      int8_t *restrict codes, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float e = x[i] + r[i], rounded = e / scale + ROUNDER;
        codes[i] = (int8_t)psr_codec_bits(rounded);
        r[i] = e - (rounded - ROUNDER) * scale;
    }
}

PSR_MULTIVERSION static void multiply(float *restrict values, const int8_t *restrict codes,
                                      float scale, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)codes[i] * scale;
}

/* A subnormal scale would be so coarse that quotients exceed 127. With the least normal scale,
 * values below half of it go to the residual. */
static float scale_of(float largest)
{
    const float scale = largest / CODE_MAX;
    return scale < FLT_MIN ? FLT_MIN : scale > SCALE_MAX ? SCALE_MAX : scale;
}

static psr_err prepare(psr_compression compression, void *state, const float *values,
                       float *residual, size_t count)
{
    int8_state *self = state;
    float largest;
    PSR_TRY(psr_codec_largest(compression.encoding, values, residual, count, &largest));
    self->scale = scale_of(largest);
    quantise(values, residual, self->codes, self->scale, count);
    return PSR_OK;
}

static void encode(const void *state, psr_span slice, void *payload)
{
    const int8_state *self = state;
    int8_payload *out = payload;
    out->scale = self->scale;
    memcpy(out->codes, self->codes + slice.offset, slice.count);
}

PSR_MULTIVERSION static bool has_code(const int8_t *codes, int8_t code, size_t count)
{
    uint8_t found = 0;
    for (size_t i = 0; i < count; i++)
        found |= codes[i] == code;
    return found;
}

static psr_err check(const psr_message *message, size_t count)
{
    PSR_TRY(psr_codec_check_bytes(message, bytes_max(count), count));
    const int8_payload *payload = message->payload;
    if (!(payload->scale >= FLT_MIN && payload->scale <= SCALE_MAX))
        return psr_violation(message, "the scale of its int8 values is %g",
                             psr_shown(payload->scale));
    if (has_code(payload->codes, -CODE_MAX - 1, count))
        return psr_violation(message, "one of its int8 values is -128");
    return PSR_OK;
}

static void decode(const void *payload, size_t payload_bytes, size_t count, float *ret_values)
{
    (void)payload_bytes;
    const int8_payload *in = payload;
    multiply(ret_values, in->codes, in->scale, count);
}

const psr_codec psr_codec_int8 = {
    .has_residual = true,
    .bytes_max = bytes_max,
    .state_bytes = state_bytes,
    .prepare = prepare,
    .encode = encode,
    .check = check,
    .decode = decode,
};
