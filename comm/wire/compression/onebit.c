/* 1bit: the sign of each value, and one mean for either sign (Seide et al., Interspeech 2014,
 * section 3.2, with a bucket where the paper has a column of a matrix).
 *
 * Payload: two float32, the means of signs 0 and 1; then a bit for each value, the lowest of a byte
 * first; bits beyond the last value are 0. L / 8 + 8 bytes for L values.
 *
 *     sign = e's sign bit (of -0 it is 1)
 *     mean[sign] = sum of the e with that sign / their number, 0 if there are none
 *     sent = mean[sign];  r = e - sent, rounded once
 *
 * The sums: 16 in double, the j-th of the values j, j + 16, .., which are then added in the order
 * of j. That is the unit's own order, whatever the width of vectors and however slices are cut. */
#include "comm/wire/compression/codec.h"

#include "base/arrays/finite.h"
#include "base/arrays/multiversion.h"
#include "net/violation.h"

#include <float.h>
#include <math.h>

enum { LANES = 16, SIGNS = 1024 };

typedef struct onebit_state {
    float means[2];
    uint8_t bits[]; /* and a byte of zeros */
} onebit_state;

typedef struct onebit_payload {
    float means[2];
    uint8_t bits[];
} onebit_payload;

static size_t bit_bytes(size_t count)
{
    return (count + 7) / 8;
}

static size_t bytes_max(size_t count)
{
    return sizeof(onebit_payload) + bit_bytes(count);
}

static size_t state_bytes(psr_compression compression, size_t count_max)
{
    (void)compression;
    return sizeof(onebit_state) + bit_bytes(count_max) + 1;
}

typedef struct sums {
    double of[2];     /* for each sign */
    size_t negatives; /* number of values of sign 1 */
} sums;

typedef struct lanes {
    double above[LANES], below[LANES];
    uint32_t negatives[LANES];
} lanes;

/* With masks, since a compiler would make a branch of a condition on floats. */
static inline void add_row(lanes *restrict to, const float *restrict x, const float *restrict r,
                           size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const float e = x[j] + r[j];
        const uint32_t bits = psr_codec_bits(e), sign = bits >> 31, negative = -sign;
        to->above[j] += (double)psr_codec_float(bits & ~negative);
        to->below[j] += (double)psr_codec_float(bits & negative);
        to->negatives[j] += sign;
    }
}

PSR_MULTIVERSION static void add_rows(lanes *restrict to, const float *restrict x,
                                      const float *restrict r, size_t count)
{
    size_t i = 0;
    for (; count - i >= LANES; i += LANES)
        add_row(to, x + i, r + i, LANES); /* a constant for the compiler */
    add_row(to, x + i, r + i, count - i);
}

static sums add_up(const float *x, const float *r, size_t count)
{
    lanes by_lane = {0};
    add_rows(&by_lane, x, r, count);
    sums all = {0};
    for (size_t j = 0; j < LANES; j++) {
        all.of[0] += by_lane.above[j];
        all.of[1] += by_lane.below[j];
        all.negatives += by_lane.negatives[j];
    }
    return all;
}

/* The residuals of at most SIGNS values, and their signs, a byte each. */
PSR_MULTIVERSION static void owe(const float *restrict x, float *restrict r, const float *means,
                                 uint8_t *restrict signs, size_t count)
{
    const float above = means[0], below = means[1];
    for (size_t i = 0; i < count; i++) {
        const float e = x[i] + r[i];
        const uint32_t sign = psr_codec_bits(e) >> 31;
        signs[i] = (uint8_t)sign;
        r[i] = e - (sign != 0 ? below : above);
    }
}

static void write_signs(const float *values, float *residual, onebit_state *self, size_t count)
{
    for (size_t begin = 0; begin < count; begin += SIGNS) {
        uint8_t signs[SIGNS] = {0};
        const size_t part = count - begin < SIGNS ? count - begin : SIGNS;
        owe(values + begin, residual + begin, self->means, signs, part);
        for (size_t i = 0; i < part; i += 8)
            self->bits[(begin + i) / 8] = psr_codec_gather(signs + i);
    }
    self->bits[bit_bytes(count)] = 0;
}

static float mean(double sum, size_t count)
{
    return count == 0 ? 0.0f : (float)(sum / (double)count);
}

static psr_err prepare(psr_compression compression, void *state, const float *values,
                       float *residual, size_t count)
{
    onebit_state *self = state;
    const sums all = add_up(values, residual, count);
    /* finite floats have a finite sum in double */
    if (!isfinite(all.of[0]) || !isfinite(all.of[1]))
        return psr_codec_not_finite(compression.encoding, values, residual, count);
    self->means[0] = mean(all.of[0], count - all.negatives);
    self->means[1] = mean(all.of[1], all.negatives);
    write_signs(values, residual, self, count);
    return PSR_OK;
}

/* The bits of a slice may begin anywhere in a byte. */
static void encode(const void *state, psr_span slice, void *payload)
{
    const onebit_state *self = state;
    onebit_payload *out = payload;
    memcpy(out->means, self->means, sizeof out->means);
    const uint8_t *from = self->bits + slice.offset / 8;
    const unsigned shift = slice.offset % 8, used = slice.count % 8;
    const size_t bytes = bit_bytes(slice.count);
    for (size_t i = 0; i < bytes; i++)
        out->bits[i] = (uint8_t)(from[i] >> shift | from[i + 1] << (8 - shift));
    if (used != 0)
        out->bits[bytes - 1] &= (uint8_t)((1u << used) - 1);
}

static psr_err check(const psr_message *message, size_t count)
{
    PSR_TRY(psr_codec_check_bytes(message, bytes_max(count), count));
    const onebit_payload *payload = message->payload;
    const float above = payload->means[0], below = payload->means[1];
    if (!(above >= 0 && above <= FLT_MAX && below <= 0 && below >= -FLT_MAX))
        return psr_violation(message, "the means of its 1-bit values are %g and %g",
                             psr_shown(above), psr_shown(below));
    if (count % 8 != 0 && payload->bits[count / 8] >> count % 8 != 0)
        return psr_violation(message, "it has more signs than %zu", count);
    return PSR_OK;
}

static void decode(const void *payload, size_t payload_bytes, size_t count, float *ret_values)
{
    (void)payload_bytes;
    const onebit_payload *in = payload;
    /* The values of four signs at a time, because compilers do not turn bits into lanes of a
     * vector. */
    float of_four[16][4];
    for (size_t signs = 0; signs < 16; signs++)
        for (size_t i = 0; i < 4; i++)
            of_four[signs][i] = in->means[signs >> i & 1];
    size_t i = 0;
    for (; count - i >= 8; i += 8) {
        memcpy(ret_values + i, of_four[in->bits[i / 8] & 15], sizeof of_four[0]);
        memcpy(ret_values + i + 4, of_four[in->bits[i / 8] >> 4], sizeof of_four[0]);
    }
    for (; i < count; i++)
        ret_values[i] = in->means[in->bits[i / 8] >> i % 8 & 1];
}

const psr_codec psr_codec_1bit = {
    .has_residual = true,
    .bytes_max = bytes_max,
    .state_bytes = state_bytes,
    .prepare = prepare,
    .encode = encode,
    .check = check,
    .decode = decode,
};
