/* Every encoding against its definition, written here as plain loops on one value at a time, over
 * values that are hard. */
#include "tests/unit/expect.h"

#include "base/rng.h"
#include "comm/reduce.h"
#include "comm/wire/compression/compression.h"
#include "comm/wire/encoding.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static psr_compression parsed(const char *text)
{
    psr_compression compression;
    expect_ok(psr_compression_parse(text, &compression));
    return compression;
}

/* ---- text ---- */

static void every_compression_is_parsed_and_printed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
        psr_encoding encoding;
        uint32_t ratio;
    } all[] = {
        {"none", "none", PSR_ENCODING_FLOAT32, 0},
        {"fp16", "fp16", PSR_ENCODING_FP16, 0},
        {"bf16", "bf16", PSR_ENCODING_BF16, 0},
        {"int8", "int8", PSR_ENCODING_INT8, 0},
        {"1bit", "1bit", PSR_ENCODING_1BIT, 0},
        {"topk:0.01", "topk:0.01", PSR_ENCODING_TOPK, 10000000},
        {"topk:.5", "topk:0.5", PSR_ENCODING_TOPK, 500000000},
        {"topk:1", "topk:1", PSR_ENCODING_TOPK, 1000000000},
        {"topk:1.000", "topk:1", PSR_ENCODING_TOPK, 1000000000},
        {"topk:0.000000001", "topk:0.000000001", PSR_ENCODING_TOPK, 1},
        {"topk:0.123456789", "topk:0.123456789", PSR_ENCODING_TOPK, 123456789},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const psr_compression compression = parsed(all[i].text);
        assert_int_equal(compression.encoding, all[i].encoding);
        assert_int_equal(compression.ratio, all[i].ratio);
        char text[PSR_COMPRESSION_TEXT_BYTES];
        psr_compression_print(compression, text);
        assert_string_equal(text, all[i].printed);
        assert_int_equal(psr_compression_has_residual(compression),
                         compression.encoding >= PSR_ENCODING_INT8);
    }
}

static void what_is_no_compression_is_refused_in_one_line(void **state)
{
    (void)state;
    psr_compression compression = {.encoding = PSR_ENCODING_BYTES, .ratio = 7};
    static const char *const not_one[] = {"", "fp32", "float32", "topk", "int8:2", "1bit ", "NONE"};
    for (size_t i = 0; i < sizeof not_one / sizeof not_one[0]; i++) {
        assert_int_equal(psr_compression_parse(not_one[i], &compression), PSR_ERR_USAGE);
        assert_non_null(
            strstr(psr_err_detail(), "is no compression; give none, fp16, bf16, int8, topk:R"));
    }
    static const char *const no_ratio[] = {
        "topk:",     "topk:0",  "topk:0.0",   "topk:1.000000001", "topk:2",
        "topk:-0.1", "topk:1%", "topk:1e-3",  "topk:nan",         "topk:0.0000000001",
        "topk: 0.1", "topk:10", "topk:0.1.1", "topk:4294967296"};
    for (size_t i = 0; i < sizeof no_ratio / sizeof no_ratio[0]; i++) {
        assert_int_equal(psr_compression_parse(no_ratio[i], &compression), PSR_ERR_USAGE);
        assert_non_null(
            strstr(psr_err_detail(), "the ratio of topk is a number above 0 and up to 1"));
    }
    assert_int_equal(compression.encoding, PSR_ENCODING_BYTES);
    assert_int_equal(compression.ratio, 7);
}

/* ---- values ---- */

typedef enum profile {
    NORMAL,    /* as gradients */
    SPREAD,    /* of all magnitudes */
    SUBNORMAL, /* and zeros of both signs */
    TIES,      /* of few magnitudes */
    NEGATIVE,
    ZERO, /* and -0 */
    HUGE_ONES,
    HALVES, /* of what int8's scale is in the first round, and their neighbours */
    COMB,   /* every 17th is large: what a sample of topk sees */
    PROFILES
} profile;

static float draw(profile of, uint32_t i, uint32_t round)
{
    const psr_rng_at at = {
        .seed = 11, .purpose = PSR_RNG_TEST, .epoch = round, .sample = (uint32_t)of};
    const uint32_t word = psr_rng_word(at, i);
    const float sign = word & 1 ? -1.0f : 1.0f, unit = psr_rng_unit(word);
    double normal[2];
    switch (of) {
    case NORMAL:
        psr_rng_normal_pair(at, i, normal);
        return (float)(normal[0] * 1e-3);
    case SPREAD:
        return sign * ldexpf(1 + unit, (int)(word >> 3 & 255) - 149);
    case SUBNORMAL:
        return sign * ldexpf((float)(word >> 3 & 15), -149) * (word >> 8 & 3 ? 1.0f : 100.0f);
    case TIES:
        return sign * (float)(word >> 3 & 3);
    case NEGATIVE:
        return -1 - unit;
    case HUGE_ONES:
        return sign * (unit < 0.01f ? FLT_MAX / 5 : FLT_MAX / 10 * unit); /* four are finite */
    case HALVES:
        return i == 0 ? 1.1f
                      : nextafterf(((float)(word % 253) - 126 + 0.5f) * (1.1f / 127), sign * 2);
    case COMB:
        return sign * (i % 17 == 0 ? 10 + unit : unit);
    default:
        return sign * 0.0f;
    }
}

enum { LONGEST = 1037, ROUNDS = 4 }; /* whole vectors of every width and a rest */
static const size_t lengths[] = {1, 2, 7, 8, 15, 16, 17, 31, 64, 65, 200, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static const char *const lossy[] = {"int8",      "1bit",      "topk:0.000000001", "topk:0.01",
                                    "topk:0.07", "topk:0.25", "topk:0.9",         "topk:1"};
enum { LOSSY = sizeof lossy / sizeof lossy[0] };

static void fill(float *x, size_t count, profile of, uint32_t round)
{
    for (size_t i = 0; i < count; i++)
        x[i] = draw(of, (uint32_t)i, round);
}

static void same_bits(const float *is, const float *want, size_t count, const char *what,
                      psr_compression compression, profile p)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&is[i], &want[i], sizeof *is) != 0)
            fail_msg("%s of %zu values as %s, profile %d: the one at %zu is %a, not %a", what,
                     count, psr_encoding_name(compression.encoding), (int)p, i, (double)is[i],
                     (double)want[i]);
}

static psr_encoder *encoder_of(psr_compression compression, size_t count)
{
    psr_encoder *encoder;
    expect_ok(psr_encoder_new(compression, count, &encoder));
    return encoder;
}

/* A message with a slice, in memory of its exact size, so that a read beyond it is seen. The
 * payload is the caller's to free. */
static psr_message message_of(const psr_encoder *encoder, psr_span slice)
{
    const size_t bytes = psr_encoder_bytes(encoder, slice);
    void *buffer = malloc(bytes > 0 ? bytes : 1);
    psr_message message = {.from = {PSR_ROLE_WORKER, 1}, .head = {.type = PSR_MSG_PUSH}};
    const psr_payload payload = psr_encode_slice(encoder, &message.head, slice, buffer);
    assert_ptr_equal(payload.data, buffer);
    assert_int_equal(payload.bytes, bytes);
    message.payload = buffer;
    message.payload_bytes = bytes;
    return message;
}

static void free_payload(const psr_message *message)
{
    free((void *)(uintptr_t)message->payload);
}

static void decode_slice(const psr_encoder *encoder, psr_compression compression, psr_span slice,
                         float *sent)
{
    const psr_message message = message_of(encoder, slice);
    assert_true(message.payload_bytes <= psr_compression_bytes_max(compression, slice.count));
    expect_ok(psr_decode_slice(&message, compression, slice.count, sent + slice.offset));
    float own[LONGEST];
    const psr_payload payload = {.data = message.payload, .bytes = message.payload_bytes};
    psr_decode_own(compression, &payload, slice.count, own);
    assert_memory_equal(own, sent + slice.offset, slice.count * sizeof *own);
    uint64_t copy[LONGEST + 1];
    psr_head head = {.type = PSR_MSG_RING};
    const psr_payload again = psr_encode_again(&message, &head, copy);
    assert_int_equal(head.encoding, message.head.encoding);
    assert_int_equal(again.bytes, payload.bytes);
    assert_ptr_equal(again.data, copy);
    assert_memory_equal(copy, payload.data, payload.bytes);
    free_payload(&message);
}

/* ---- the definitions, out of reach of the vectoriser ---- */

static float rounded(double value)
{
    volatile float once = (float)value;
    return once;
}

/* The sum or difference of two floats has one rounding also by way of double, which has more than
 * 2 * 24 + 1 bits. */
static float plus(float a, float b)
{
    return rounded((double)a + (double)b);
}

static void int8_by_definition(const float *e, size_t count, float *sent)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(e[i]));
    const float scale = fmaxf(rounded((double)largest / 127), FLT_MIN);
    for (size_t i = 0; i < count; i++) {
        const int code = (int)nearbyint((double)rounded((double)e[i] / (double)scale));
        sent[i] = rounded(code * (double)scale);
    }
}

static void onebit_by_definition(const float *e, size_t count, float *sent)
{
    double lanes[2][16] = {{0}}, sums[2] = {0};
    size_t numbers[2] = {0};
    for (size_t i = 0; i < count; i++) {
        lanes[signbit(e[i]) != 0][i % 16] += (double)e[i];
        numbers[signbit(e[i]) != 0]++;
    }
    for (size_t j = 0; j < 16; j++) {
        sums[0] += lanes[0][j];
        sums[1] += lanes[1][j];
    }
    for (size_t i = 0; i < count; i++) {
        const int sign = signbit(e[i]) != 0;
        sent[i] = rounded(sums[sign] / (double)numbers[sign]);
    }
}

static const float *compared;

static int larger_first(const void *a, const void *b)
{
    const size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const float x = fabsf(compared[i]), y = fabsf(compared[j]);
    if (x != y)
        return x > y ? -1 : 1;
    return i < j ? -1 : 1;
}

static void topk_by_definition(const float *e, size_t count, uint32_t ratio, float *sent)
{
    size_t order[LONGEST], k = 0;
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
        sent[i] = 0;
    }
    compared = e;
    qsort(order, count, sizeof *order, larger_first);
    while (k * 1000000000 < count * ratio)
        k++;
    for (size_t i = 0; i < k; i++)
        sent[order[i]] = e[order[i]];
}

static void by_definition(psr_compression compression, const float *e, size_t count, float *sent)
{
    if (compression.encoding == PSR_ENCODING_INT8)
        int8_by_definition(e, count, sent);
    else if (compression.encoding == PSR_ENCODING_1BIT)
        onebit_by_definition(e, count, sent);
    else
        topk_by_definition(e, count, compression.ratio, sent);
}

static void check_rounds(psr_compression compression, size_t count, profile p)
{
    float x[LONGEST], residual[LONGEST] = {0}, e[LONGEST], sent[LONGEST], want[LONGEST];
    psr_encoder *encoder = encoder_of(compression, count);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(x, count, p, round);
        for (size_t i = 0; i < count; i++)
            e[i] = plus(x[i], residual[i]);
        expect_ok(psr_encoder_prepare(encoder, x, residual, count));
        decode_slice(encoder, compression, (psr_span){0, count}, sent);
        by_definition(compression, e, count, want);
        same_bits(sent, want, count, "what was sent", compression, p);
        for (size_t i = 0; i < count; i++)
            want[i] = compression.encoding == PSR_ENCODING_TOPK && sent[i] != 0
                          ? 0
                          : plus(e[i], -sent[i]);
        for (size_t i = 0; i < count; i++)
            assert_true(residual[i] == want[i]);
    }
    psr_encoder_free(&encoder);
    assert_null(encoder);
}

static void what_is_sent_and_owed_is_what_the_definition_says(void **state)
{
    (void)state;
    for (size_t c = 0; c < LOSSY; c++)
        for (size_t l = 0; l < LENGTHS; l++)
            for (profile p = 0; p < PROFILES; p++)
                check_rounds(parsed(lossy[c]), lengths[l], p);
}

/* In 16 lanes each sum of small values is 2^-53, which 1 + 2^-24 swallows one by one; in another
 * order they would count, and the tie of the mean would be rounded up. */
static void the_means_are_summed_in_the_order_that_is_written_down(void **state)
{
    (void)state;
    enum { COUNT = 64 };
    float x[COUNT], residual[COUNT] = {0}, sent[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        x[i] = i % 16 != 0 ? 0x1p-55f : i == 0 ? 1 : i == 16 ? 0x1p-24f : 0;
    psr_encoder *encoder = encoder_of(parsed("1bit"), COUNT);
    expect_ok(psr_encoder_prepare(encoder, x, residual, COUNT));
    decode_slice(encoder, parsed("1bit"), (psr_span){0, COUNT}, sent);
    assert_true(sent[0] == 0x1p-6f);
    psr_encoder_free(&encoder);
}

/* One rounding of a number: half of the distance to its neighbour. */
static double half_ulp(float value)
{
    const float magnitude = fabsf(value);
    return ((double)nextafterf(magnitude, INFINITY) - (double)magnitude) / 2;
}

static void sent_plus_residual_is_gradient_plus_former_residual(void **state)
{
    (void)state;
    float x[LONGEST], residual[LONGEST], former[LONGEST], sent[LONGEST];
    for (size_t c = 0; c < LOSSY; c++) {
        const psr_compression compression = parsed(lossy[c]);
        psr_encoder *encoder = encoder_of(compression, LONGEST);
        for (profile p = 0; p < PROFILES; p++) {
            memset(residual, 0, sizeof residual);
            for (uint32_t round = 0; round < ROUNDS; round++) {
                fill(x, LONGEST, p, round);
                memcpy(former, residual, sizeof former);
                expect_ok(psr_encoder_prepare(encoder, x, residual, LONGEST));
                decode_slice(encoder, compression, (psr_span){0, LONGEST}, sent);
                for (size_t i = 0; i < LONGEST; i++) {
                    const float e = plus(x[i], former[i]);
                    /* Of magnitudes that double adds without rounding, or whose rounding is far
                     * below float32's. */
                    const double off = fabs((double)sent[i] + (double)residual[i] - (double)e);
                    const bool whole = compression.encoding == PSR_ENCODING_1BIT
                                           ? off <= half_ulp(residual[i])
                                           : off == 0;
                    if (!whole || (compression.encoding == PSR_ENCODING_TOPK && sent[i] != 0 &&
                                   residual[i] != 0))
                        fail_msg("%s, profile %d, value %zu: %a sent, %a owed, of %a", lossy[c],
                                 (int)p, i, (double)sent[i], (double)residual[i], (double)e);
                }
            }
        }
        psr_encoder_free(&encoder);
    }
}

/* A constant gradient is sent in whole in the long run: what is owed does not grow. */
static void nothing_is_lost_over_many_rounds(void **state)
{
    (void)state;
    enum { COUNT = 50, MANY = 2000 };
    float x[COUNT], sent[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        x[i] = draw(NORMAL, (uint32_t)i, 0) + 0.002f;
    for (size_t c = 0; c < LOSSY; c++) {
        const psr_compression compression = parsed(lossy[c]);
        psr_encoder *encoder = encoder_of(compression, COUNT);
        float residual[COUNT] = {0};
        double sums[COUNT] = {0};
        for (int round = 0; round < MANY; round++) {
            expect_ok(psr_encoder_prepare(encoder, x, residual, COUNT));
            decode_slice(encoder, compression, (psr_span){0, COUNT}, sent);
            for (size_t i = 0; i < COUNT; i++)
                sums[i] += (double)sent[i];
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabs(sums[i] / MANY - (double)x[i]) < 1e-3 * 0.2);
        psr_encoder_free(&encoder);
    }
}

/* ---- slices ---- */

static const char *const all[] = {"fp16",     "bf16",  "int8", "1bit", "topk:0.000000001",
                                  "topk:0.1", "topk:1"};
enum { ALL = sizeof all / sizeof all[0] };

static void prepare(psr_encoder *encoder, psr_compression compression, const float *x,
                    float *residual, size_t count)
{
    memset(residual, 0, count * sizeof *residual);
    expect_ok(psr_encoder_prepare(
        encoder, x, psr_compression_has_residual(compression) ? residual : NULL, count));
}

static void every_cut_into_two_slices_gives_the_same_bits(void **state)
{
    (void)state;
    enum { COUNT = 71 };
    float x[COUNT], residual[COUNT], whole[COUNT], parts[COUNT];
    for (size_t c = 0; c < ALL; c++) {
        const psr_compression compression = parsed(all[c]);
        psr_encoder *encoder = encoder_of(compression, COUNT);
        for (profile p = 0; p < PROFILES; p++) {
            fill(x, COUNT, p, 0);
            prepare(encoder, compression, x, residual, COUNT);
            decode_slice(encoder, compression, (psr_span){0, COUNT}, whole);
            for (size_t cut = 0; cut <= COUNT; cut++) {
                memset(parts, 0xff, sizeof parts);
                /* in any order */
                decode_slice(encoder, compression, (psr_span){cut, COUNT - cut}, parts);
                decode_slice(encoder, compression, (psr_span){0, cut}, parts);
                same_bits(parts, whole, COUNT, "two slices", compression, p);
            }
        }
        psr_encoder_free(&encoder);
    }
}

static void slices_of_any_size_give_the_same_bits(void **state)
{
    (void)state;
    float x[LONGEST], residual[LONGEST], whole[LONGEST], parts[LONGEST];
    for (size_t c = 0; c < ALL; c++) {
        const psr_compression compression = parsed(all[c]);
        psr_encoder *encoder = encoder_of(compression, LONGEST);
        fill(x, LONGEST, NORMAL, 0);
        prepare(encoder, compression, x, residual, LONGEST);
        decode_slice(encoder, compression, (psr_span){0, LONGEST}, whole);
        for (size_t size = 1; size < LONGEST; size += size < 70 ? 1 : 61) {
            size_t bytes = 0;
            for (size_t begin = 0; begin < LONGEST; begin += size) {
                const psr_span slice = {begin, LONGEST - begin < size ? LONGEST - begin : size};
                bytes += psr_encoder_bytes(encoder, slice);
                decode_slice(encoder, compression, slice, parts);
            }
            same_bits(parts, whole, LONGEST, "slices", compression, NORMAL);
            if (compression.encoding == PSR_ENCODING_TOPK) /* as many as of the whole */
                assert_int_equal(bytes, psr_encoder_bytes(encoder, (psr_span){0, LONGEST}));
        }
        psr_encoder_free(&encoder);
    }
}

static void an_encoder_takes_shorter_units_and_empty_ones(void **state)
{
    (void)state;
    float x[LONGEST], residual[LONGEST], alone[LONGEST], sent[LONGEST];
    fill(x, LONGEST, NORMAL, 0);
    for (size_t c = 0; c < ALL; c++) {
        const psr_compression compression = parsed(all[c]);
        psr_encoder *encoder = encoder_of(compression, LONGEST);
        prepare(encoder, compression, x, residual, LONGEST);
        for (size_t l = 0; l < LENGTHS; l++) {
            psr_encoder *other = encoder_of(compression, lengths[l]);
            prepare(other, compression, x, residual, lengths[l]);
            decode_slice(other, compression, (psr_span){0, lengths[l]}, alone);
            prepare(encoder, compression, x, residual, lengths[l]);
            decode_slice(encoder, compression, (psr_span){0, lengths[l]}, sent);
            same_bits(sent, alone, lengths[l], "a shorter unit", compression, NORMAL);
            psr_encoder_free(&other);
        }
        prepare(encoder, compression, x, residual, 0);
        decode_slice(encoder, compression, (psr_span){0, 0}, sent);
        psr_encoder_free(&encoder);
        psr_encoder_free(&encoder); /* NULL */
    }
}

/* ---- payloads, byte by byte ---- */

static void expect_payload(const char *text, const float *x, psr_span slice, size_t count,
                           const void *bytes, size_t size)
{
    const psr_compression compression = parsed(text);
    float residual[16];
    psr_encoder *encoder = encoder_of(compression, count);
    prepare(encoder, compression, x, residual, count);
    const psr_message message = message_of(encoder, slice);
    assert_int_equal(message.head.encoding, compression.encoding);
    assert_int_equal(message.payload_bytes, size);
    assert_memory_equal(message.payload, bytes, size);
    free_payload(&message);
    psr_encoder_free(&encoder);
}

static void payloads_have_the_bytes_that_are_written_down(void **state)
{
    (void)state;
    static const float x[10] = {1, -2, 0.5f, 127, -127, 3, -0.0f, 2.5f, 1e6f, -63.5f};
    static const uint8_t fp16[] = {0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38, 0xf0, 0x57, 0xf0, 0xd7,
                                   0x00, 0x42, 0x00, 0x80, 0x00, 0x41, 0x00, 0x7c, 0xf0, 0xd3};
    expect_payload("fp16", x, (psr_span){0, 10}, 10, fp16, sizeof fp16);
    static const uint8_t bf16[] = {0xfe, 0x42, 0xfe, 0xc2};
    expect_payload("bf16", x, (psr_span){3, 2}, 10, bf16, sizeof bf16);
    /* Scale 1; 0.5 and 2.5 are ties. */
    static const uint8_t int8[] = {0, 0, 0x80, 0x3f, 0xfe, 0, 127, 0x81, 3, 0, 2};
    expect_payload("int8", x, (psr_span){1, 7}, 8, int8, sizeof int8);
    /* Of 8 values: 127, then -127, whose index is 4, 3 from the beginning of the slice. */
    static const uint8_t topk[] = {2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0xfe, 0x42, 0, 0, 0xfe, 0xc2};
    expect_payload("topk:0.25", x, (psr_span){1, 6}, 8, topk, sizeof topk);
    /* Signs 0 1 0 0 1 0 0 0, since -0 and nothing owed are +0; means 134 / 6 and -129 / 2. */
    static const uint8_t onebit[] = {0xab, 0xaa, 0xb2, 0x41, 0, 0, 0x81, 0xc2, 0x09};
    expect_payload("1bit", x, (psr_span){1, 6}, 8, onebit, sizeof onebit);
}

static void every_16_bit_number_comes_back_from_its_payload(void **state)
{
    (void)state;
    enum { NUMBERS = 65536 };
    static uint16_t numbers[NUMBERS];
    static float values[NUMBERS];
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers[i] = (uint16_t)i;
    static const char *const halves[] = {"fp16", "bf16"};
    for (size_t h = 0; h < 2; h++) {
        const psr_compression compression = parsed(halves[h]);
        psr_message message = {.payload = numbers, .payload_bytes = sizeof numbers};
        message.head.encoding = compression.encoding;
        expect_ok(psr_decode_slice(&message, compression, NUMBERS, values));
        psr_encoder *encoder = encoder_of(compression, NUMBERS);
        expect_ok(psr_encoder_prepare(encoder, values, NULL, NUMBERS));
        message = message_of(encoder, (psr_span){0, NUMBERS});
        const uint16_t *back = message.payload;
        for (uint32_t i = 0; i < NUMBERS; i++)
            assert_true(isnan(values[i]) || back[i] == i);
        float again;
        for (uint32_t i = 0; i < NUMBERS; i++) /* a NaN stays one */
            if (isnan(values[i])) {
                const psr_message one = {
                    .head = message.head, .payload = &back[i], .payload_bytes = 2};
                expect_ok(psr_decode_slice(&one, compression, 1, &again));
                assert_true(isnan(again));
            }
        free_payload(&message);
        psr_encoder_free(&encoder);
    }
}

/* At any place in a vector and behind it, as by itself. */
static void every_value_is_rounded_to_16_bits_by_itself(void **state)
{
    (void)state;
    float x[LONGEST];
    psr_encoder *fp16 = encoder_of(parsed("fp16"), LONGEST),
                *bf16 = encoder_of(parsed("bf16"), LONGEST);
    for (profile p = 0; p < PROFILES; p++)
        for (uint32_t round = 0; round < ROUNDS; round++) {
            fill(x, LONGEST, p, round);
            for (size_t i = 0; i < LONGEST; i++) /* to where fp16 has normal numbers,
                                                    subnormals and neither */
                x[i] = p == SPREAD ? ldexpf(x[i], -(ilogbf(x[i]) / 2)) : x[i];
            x[round * 7] = INFINITY;
            x[round * 31 + 1] = -NAN;
            expect_ok(psr_encoder_prepare(fp16, x, NULL, LONGEST));
            expect_ok(psr_encoder_prepare(bf16, x, NULL, LONGEST));
            const psr_message a = message_of(fp16, (psr_span){0, LONGEST}),
                              b = message_of(bf16, (psr_span){0, LONGEST});
            for (size_t i = 0; i < LONGEST; i++) {
                assert_int_equal(((const uint16_t *)a.payload)[i], psr_float16_of_float(x[i]));
                assert_int_equal(((const uint16_t *)b.payload)[i], psr_bfloat16_of_float(x[i]));
            }
            free_payload(&a);
            free_payload(&b);
        }
    psr_encoder_free(&fp16);
    psr_encoder_free(&bf16);
}

static void the_largest_slice_fits_one_message(void **state)
{
    (void)state;
    for (size_t c = 0; c < ALL; c++) {
        const psr_compression compression = parsed(all[c]);
        const size_t most = psr_compression_values_max(compression);
        assert_true(psr_compression_bytes_max(compression, most) <= PSR_PAYLOAD_BYTES_MAX);
        assert_true(psr_compression_bytes_max(compression, most + 1) > PSR_PAYLOAD_BYTES_MAX);
    }
    const psr_compression none = parsed("none");
    assert_int_equal(psr_compression_values_max(none),
                     psr_encoding_values_max(PSR_ENCODING_FLOAT32));
    assert_int_equal(psr_compression_bytes_max(none, 3), 12);
    assert_int_equal(psr_compression_bytes_max(parsed("fp16"), 3), 6);
    assert_int_equal(psr_compression_bytes_max(parsed("int8"), 3), 7);
    assert_int_equal(psr_compression_bytes_max(parsed("1bit"), 9), 10);
    assert_int_equal(psr_compression_bytes_max(parsed("topk:0.01"), 3), 24);
}

/* ---- what is refused ---- */

static void a_value_that_is_not_finite_is_named_and_changes_nothing(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    float x[LONGEST], residual[LONGEST], former[LONGEST], sent[LONGEST], after[LONGEST];
    for (size_t c = 0; c < LOSSY; c++) {
        const psr_compression compression = parsed(lossy[c]);
        psr_encoder *encoder = encoder_of(compression, LONGEST);
        memset(residual, 0, sizeof residual);
        fill(x, LONGEST, NORMAL, 0);
        expect_ok(psr_encoder_prepare(encoder, x, residual, LONGEST));
        memcpy(former, residual, sizeof former);
        decode_slice(encoder, compression, (psr_span){0, LONGEST}, sent);
        for (size_t at = 0; at < LONGEST; at += 37)
            for (size_t b = 0; b < 3; b++) {
                float with_bad[LONGEST];
                memcpy(with_bad, x, sizeof with_bad);
                with_bad[at] = with_bad[LONGEST - 1] = bad[b];
                char line[160];
                snprintf(line, sizeof line,
                         "value %zu is %s, with what is owed of it %s: %s has finite values only",
                         at,
                         b == 2   ? "nan"
                         : b == 1 ? "-inf"
                                  : "inf",
                         b == 2   ? "nan"
                         : b == 1 ? "-inf"
                                  : "inf",
                         psr_encoding_name(compression.encoding));
                expect_failure(psr_encoder_prepare(encoder, with_bad, residual, LONGEST),
                               PSR_ERR_NUMERIC, line);
                assert_memory_equal(residual, former, sizeof former);
            }
        decode_slice(encoder, compression, (psr_span){0, LONGEST}, after);
        same_bits(after, sent, LONGEST, "what was prepared before", compression, NORMAL);
        psr_encoder_free(&encoder);
    }
}

static void a_sum_with_the_residual_that_is_too_large_is_named(void **state)
{
    (void)state;
    for (size_t c = 0; c < LOSSY; c++) {
        const psr_compression compression = parsed(lossy[c]);
        psr_encoder *encoder = encoder_of(compression, 2);
        const float x[2] = {1, -FLT_MAX};
        float residual[2] = {0, -FLT_MAX};
        assert_int_equal(psr_encoder_prepare(encoder, x, residual, 2), PSR_ERR_NUMERIC);
        assert_non_null(
            strstr(psr_err_detail(), "value 1 is -3.40282e+38, with what is owed of it -inf"));
        psr_encoder_free(&encoder);
    }
}

static void the_largest_numbers_stay_finite(void **state)
{
    (void)state;
    const float x[4] = {FLT_MAX, -FLT_MAX, FLT_MAX, 1};
    for (size_t c = 0; c < LOSSY; c++) {
        const psr_compression compression = parsed(lossy[c]);
        psr_encoder *encoder = encoder_of(compression, 4);
        float residual[4] = {0}, sent[4];
        expect_ok(psr_encoder_prepare(encoder, x, residual, 4));
        decode_slice(encoder, compression, (psr_span){0, 4}, sent);
        for (size_t i = 0; i < 4; i++)
            assert_true(isfinite(sent[i]) && isfinite(residual[i]));
        if (compression.encoding == PSR_ENCODING_INT8)
            assert_true(sent[0] == 127 * 0x1.020406p+121f);
        psr_encoder_free(&encoder);
    }
}

typedef struct hostile {
    const char *text;
    size_t count;
    uint32_t words[4];
    size_t bytes;
    const char *line;
} hostile;

#define ONE 0x3f800000u /* 1.0f */

static const hostile hostiles[] = {
    {"fp16", 3, {0}, 5, "its payload has 5 bytes, not the 6 of 3 values of fp16"},
    {"bf16", 0, {0}, 2, "its payload has 2 bytes, not the 0 of 0 values of bf16"},
    {"fp16", SIZE_MAX / 2 + 2, {0}, 2, "no message has 9223372036854775809 values of fp16"},
    {"int8", 4, {ONE}, 7, "its payload has 7 bytes, not the 8 of 4 values of int8"},
    {"int8", SIZE_MAX - 3, {ONE}, 0, "no message has 18446744073709551612 values of int8"},
    {"int8", 4, {0x7f800000u}, 8, "the scale of its int8 values is inf"},
    {"int8", 4, {0x7fc00000u}, 8, "the scale of its int8 values is nan"},
    {"int8", 4, {ONE | 1u << 31}, 8, "the scale of its int8 values is -1"},
    {"int8", 4, {0}, 8, "the scale of its int8 values is 0"},
    /* 127 times it is infinite */
    {"int8", 4, {0x7c010204u}, 8, "the scale of its int8 values is 2.67939e+36"},
    {"int8", 4, {ONE, 0x00800000u}, 8, "one of its int8 values is -128"},
    {"1bit",
     9,
     {ONE, ONE | 1u << 31, 0},
     9,
     "its payload has 9 bytes, not the 10 of 9 values of 1bit"},
    {"1bit", 8, {ONE | 1u << 31, 0, 0}, 9, "the means of its 1-bit values are -1 and 0"},
    {"1bit", 8, {ONE, ONE, 0}, 9, "the means of its 1-bit values are 1 and 1"},
    {"1bit", 8, {0x7f800000u, 0, 0}, 9, "the means of its 1-bit values are inf and 0"},
    {"1bit", 8, {0, 0xff800000u, 0}, 9, "the means of its 1-bit values are 0 and -inf"},
    {"1bit", 8, {0, 0x7fc00000u, 0}, 9, "the means of its 1-bit values are 0 and nan"},
    {"1bit", 3, {ONE, 0, 8}, 9, "it has more signs than 3"},
    {"topk:0.5", 9, {1, 2}, 7, "its payload has 7 bytes, not those of pairs of at most 9 values"},
    {"topk:0.5",
     1,
     {0, 1, ONE, ONE},
     16,
     "its payload has 16 bytes, not those of pairs of at most 1 values"},
    {"topk:0.5", 9, {9, ONE}, 8, "its indices do not ascend below 9: the one at 0 is 9"},
    {"topk:0.5", 9, {4, 4, ONE, ONE}, 16, "its indices do not ascend below 9: the one at 1 is 4"},
    {"topk:0.5", 9, {4, 3, ONE, ONE}, 16, "its indices do not ascend below 9: the one at 1 is 3"},
    {"topk:0.5", 9, {3, 0x7f800000u}, 8, "one of its top-k values is not finite"},
    {"topk:0.5", 9, {3, 0xffc00000u}, 8, "one of its top-k values is not finite"},
};

static void a_hostile_payload_is_refused_in_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        const hostile *h = &hostiles[i];
        const psr_compression compression = parsed(h->text);
        psr_message message = {.from = {PSR_ROLE_WORKER, 1},
                               .head = {.type = PSR_MSG_READY, .encoding = compression.encoding},
                               .payload = h->words,
                               .payload_bytes = h->bytes};
        float values[9], before[9];
        memset(values, 0x5a, sizeof values);
        memcpy(before, values, sizeof before);
        char line[200];
        snprintf(line, sizeof line, "worker 1 sent READY: %s", h->line);
        expect_failure(psr_decode_slice(&message, compression, h->count, values), PSR_ERR_PROTOCOL,
                       line);
        assert_memory_equal(values, before, sizeof values);
    }
}

static void another_encoding_is_refused_by_its_name(void **state)
{
    (void)state;
    const uint32_t word = 0;
    float value = 7;
    const psr_message message = {.from = {PSR_ROLE_WORKER, 1},
                                 .head = {.type = PSR_MSG_READY, .encoding = PSR_ENCODING_FLOAT32},
                                 .payload = &word,
                                 .payload_bytes = sizeof word};
    expect_failure(psr_decode_slice(&message, parsed("int8"), 1, &value), PSR_ERR_PROTOCOL,
                   "worker 1 sent READY: its payload is in float32, not in int8");
    assert_true(value == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_compression_is_parsed_and_printed),
        cmocka_unit_test(what_is_no_compression_is_refused_in_one_line),
        cmocka_unit_test(what_is_sent_and_owed_is_what_the_definition_says),
        cmocka_unit_test(the_means_are_summed_in_the_order_that_is_written_down),
        cmocka_unit_test(sent_plus_residual_is_gradient_plus_former_residual),
        cmocka_unit_test(nothing_is_lost_over_many_rounds),
        cmocka_unit_test(every_cut_into_two_slices_gives_the_same_bits),
        cmocka_unit_test(slices_of_any_size_give_the_same_bits),
        cmocka_unit_test(an_encoder_takes_shorter_units_and_empty_ones),
        cmocka_unit_test(payloads_have_the_bytes_that_are_written_down),
        cmocka_unit_test(every_16_bit_number_comes_back_from_its_payload),
        cmocka_unit_test(every_value_is_rounded_to_16_bits_by_itself),
        cmocka_unit_test(the_largest_slice_fits_one_message),
        cmocka_unit_test(a_value_that_is_not_finite_is_named_and_changes_nothing),
        cmocka_unit_test(a_sum_with_the_residual_that_is_too_large_is_named),
        cmocka_unit_test(the_largest_numbers_stay_finite),
        cmocka_unit_test(a_hostile_payload_is_refused_in_one_line),
        cmocka_unit_test(another_encoding_is_refused_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
