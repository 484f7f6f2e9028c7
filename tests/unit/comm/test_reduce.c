/* The conversions of 16-bit floats over all their values, and every loop against plain arithmetic
 * written from the definition. */
#include "tests/unit/expect.h"

#include "base/rng.h"
#include "comm/pair.h"
#include "comm/psring/psring.h"
#include "comm/reduce.h"

#include <math.h>
#include <string.h>

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* From the definition of a binary format of 16 bits: sign, exponent of so many bits, the rest
 * fraction. */
static double value_of(uint16_t bits, int exponent_bits)
{
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits & 0x7fff) >> fraction_bits,
              fraction = bits & ((1 << fraction_bits) - 1);
    double magnitude;
    if (exponent == (1 << exponent_bits) - 1)
        magnitude = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - bias - fraction_bits);
    else
        magnitude = ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

typedef struct format {
    const char *name;
    int exponent_bits;
    uint16_t infinity;
    float (*to_float)(uint16_t bits);
    uint16_t (*of_float)(float value);
} format;

static const format formats[] = {
    {"float16", 5, 0x7c00, psr_float16_to_float, psr_float16_of_float},
    {"bfloat16", 8, 0x7f80, psr_bfloat16_to_float, psr_bfloat16_of_float},
};

static void rounds_to(const format *f, float value, uint16_t want)
{
    if (f->of_float(value) != want || f->of_float(-value) != (want | 0x8000))
        fail_msg("%s: %a becomes %04x and its negative %04x, not %04x", f->name, (double)value,
                 f->of_float(value), f->of_float(-value), want);
}

static void every_16_bit_float_becomes_its_value_and_comes_back(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            const double want = value_of((uint16_t)bits, formats[k].exponent_bits);
            const float is = formats[k].to_float((uint16_t)bits);
            if (isnan(want)) {
                assert_true(isnan(is));
                assert_true(isnan(value_of(formats[k].of_float(is), formats[k].exponent_bits)));
                continue;
            }
            if ((double)is != want || !signbit(is) != !signbit(want) ||
                formats[k].of_float(is) != bits)
                fail_msg("%s %04x: %a rather than %a, and back %04x", formats[k].name, bits,
                         (double)is, want, formats[k].of_float(is));
        }
}

/* Between each two neighbours: the middle goes to the even one, what is on a side of it to that
 * side. */
static void a_float_becomes_the_nearest_and_a_tie_the_even_one(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        const format *f = &formats[k];
        for (uint16_t low = 0; low + 1 < f->infinity; low++) {
            const float a = f->to_float(low), b = f->to_float((uint16_t)(low + 1));
            const float middle = a + (b - a) / 2;
            rounds_to(f, middle, low % 2 == 0 ? low : (uint16_t)(low + 1));
            rounds_to(f, nextafterf(middle, INFINITY), (uint16_t)(low + 1));
            if (middle != a) /* the least bfloat16 above 0 is the 2^16th of float32's numbers */
                rounds_to(f, nextafterf(middle, 0), low);
        }
        const float largest = f->to_float((uint16_t)(f->infinity - 1)),
                    below = f->to_float((uint16_t)(f->infinity - 2));
        const float limit = largest + (largest - below) / 2;
        rounds_to(f, limit, f->infinity);
        rounds_to(f, nextafterf(limit, 0), (uint16_t)(f->infinity - 1));
        rounds_to(f, INFINITY, f->infinity);
        rounds_to(f, 3e38f, k == 0 ? f->infinity : 0x7f62);
    }
}

static void a_nan_stays_one_in_16_bits(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        for (uint32_t low = 0; low < 23; low++) {
            assert_true(
                isnan(formats[k].to_float(formats[k].of_float(float_of(0x7f800000u | 1u << low)))));
            assert_true(
                isnan(formats[k].to_float(formats[k].of_float(float_of(0xff800000u | 1u << low)))));
        }
}

/* ---- the loops ---- */

enum { COUNT = 1031 }; /* no multiple of any vector */

static double minimum(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static double maximum(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

/* In double, which holds sums and products of two values of fewer bits exactly, or rounds so that
 * rounding again is harmless. */
static double in_double(psr_reduction op, double a, double b)
{
    switch (op) {
    case PSR_REDUCTION_PRODUCT:
        return a * b;
    case PSR_REDUCTION_MINIMUM:
        return minimum(a, b);
    case PSR_REDUCTION_MAXIMUM:
        return maximum(a, b);
    case PSR_REDUCTION_LOGICAL_AND:
        return a != 0 && b != 0;
    case PSR_REDUCTION_LOGICAL_OR:
        return a != 0 || b != 0;
    case PSR_REDUCTION_LOGICAL_XOR:
        return (a != 0) != (b != 0);
    default:
        return a + b;
    }
}

static int64_t in_int64(psr_reduction op, int64_t a, int64_t b)
{
    switch (op) {
    case PSR_REDUCTION_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case PSR_REDUCTION_MINIMUM:
        return a < b ? a : b;
    case PSR_REDUCTION_MAXIMUM:
        return a > b ? a : b;
    case PSR_REDUCTION_BITWISE_AND:
        return a & b;
    case PSR_REDUCTION_BITWISE_OR:
        return a | b;
    case PSR_REDUCTION_BITWISE_XOR:
        return a ^ b;
    case PSR_REDUCTION_LOGICAL_AND:
        return a != 0 && b != 0;
    case PSR_REDUCTION_LOGICAL_OR:
        return a != 0 || b != 0;
    case PSR_REDUCTION_LOGICAL_XOR:
        return (a != 0) != (b != 0);
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* Some are larger than any int64. */
static uint64_t in_uint64(psr_reduction op, uint64_t a, uint64_t b)
{
    if (op == PSR_REDUCTION_MINIMUM)
        return a < b ? a : b;
    if (op == PSR_REDUCTION_MAXIMUM)
        return a > b ? a : b;
    return (uint64_t)in_int64(op, (int64_t)a, (int64_t)b);
}

/* A pair by its layout in psring.h. Every value of these types is a long double too. */
static long double pair_at(psr_type type, const void *pairs, size_t i, int32_t *ret_index)
{
#define READ(t)                                                                                    \
    do {                                                                                           \
        const psring_##t *pair = (const psring_##t *)pairs + i;                                    \
        *ret_index = pair->index;                                                                  \
        return (long double)pair->value;                                                           \
    } while (0)
    switch (type) {
    case PSR_TYPE_FLOAT32_INT32:
        READ(float32_int32);
    case PSR_TYPE_FLOAT64_INT32:
        READ(float64_int32);
    case PSR_TYPE_INT16_INT32:
        READ(int16_int32);
    case PSR_TYPE_INT32_INT32:
        READ(int32_int32);
    default:
        READ(int64_int32);
    }
#undef READ
}

static bool same_number(long double a, long double b)
{
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

/* A NaN wins; -0 is below +0; of equal values the smallest index wins. */
static bool right_pair(psr_type type, psr_reduction op, const void *a, const void *b,
                       const void *out, size_t i)
{
    int32_t x_index, y_index, index;
    const long double x = pair_at(type, a, i, &x_index), y = pair_at(type, b, i, &y_index),
                      is = pair_at(type, out, i, &index);
    bool x_wins = x < y || (x == y && signbit(x));
    if (op == PSR_REDUCTION_MAXLOC)
        x_wins = !x_wins;
    if (isnan(x) || isnan(y))
        x_wins = isnan(x);
    if (same_number(x, y))
        x_wins = x_index < y_index;
    return same_number(is, x_wins ? x : y) && index == (x_wins ? x_index : y_index);
}

/* Value i of a pair of operands, as plain arithmetic has it. */
static bool right(psr_type type, psr_reduction op, const void *a, const void *b, const void *out,
                  size_t i)
{
#define INTEGER(t) (((const t *)out)[i] == (t)in_int64(op, ((const t *)a)[i], ((const t *)b)[i]))
    if (psr_type_is_pair(type))
        return right_pair(type, op, a, b, out, i);
    switch (type) {
    case PSR_TYPE_UINT64:
        return ((const uint64_t *)out)[i] ==
               in_uint64(op, ((const uint64_t *)a)[i], ((const uint64_t *)b)[i]);
    case PSR_TYPE_INT16:
        return INTEGER(int16_t);
    case PSR_TYPE_UINT16:
        return INTEGER(uint16_t);
    case PSR_TYPE_UINT32:
        return INTEGER(uint32_t);
    case PSR_TYPE_UINT8:
        return INTEGER(uint8_t);
    case PSR_TYPE_INT8:
        return INTEGER(int8_t);
    case PSR_TYPE_INT32:
        return INTEGER(int32_t);
    case PSR_TYPE_INT64:
        return INTEGER(int64_t);
    case PSR_TYPE_FLOAT64: {
        const double want = in_double(op, ((const double *)a)[i], ((const double *)b)[i]),
                     is = ((const double *)out)[i];
        return (isnan(want) && isnan(is)) || memcmp(&want, &is, sizeof is) == 0;
    }
    case PSR_TYPE_FLOAT32: {
        const float want = (float)in_double(op, (double)((const float *)a)[i],
                                            (double)((const float *)b)[i]),
                    is = ((const float *)out)[i];
        return (isnan(want) && isnan(is)) || bits_of(want) == bits_of(is);
    }
    default: {
        const format *f = &formats[type == PSR_TYPE_BFLOAT16];
        const uint16_t x = ((const uint16_t *)a)[i], y = ((const uint16_t *)b)[i],
                       is = ((const uint16_t *)out)[i];
        /* Rounded to float32 first: that is the definition. */
        const float want = (float)in_double(op, (double)f->to_float(x), (double)f->to_float(y));
        return (isnan(want) && isnan(f->to_float(is))) || f->of_float(want) == is;
    }
    }
#undef INTEGER
}

/* Random bits are values of every type: also infinite ones, NaNs and subnormals; a part is of the
 * special ones. */
static void fill(void *memory, size_t bytes, uint32_t which)
{
    static const uint32_t special[] = {0,           0x80000000u, 0x7f800000u, 0xff800000u,
                                       0x7fc00000u, 0x80008000u, 0x7c00fc00u};
    psr_rng_at at = {.seed = 7, .purpose = PSR_RNG_TEST, .sample = which};
    for (size_t i = 0; i < bytes / 4; i++) {
        uint32_t word = psr_rng_word(at, i);
        if (word % 5 == 0)
            word = special[word / 5 % 7];
        memcpy((char *)memory + 4 * i, &word, 4);
    }
}

/* Zeros of both signs, NaNs and equal values, of 64 bits too. */
static void fill_few(void *memory, size_t bytes, uint32_t which)
{
    static const uint64_t few[] = {0, 1, 0x8000000000000000u, 0x7ff80000ffffffffu};
    psr_rng_at at = {.seed = 8, .purpose = PSR_RNG_TEST, .sample = which};
    for (size_t i = 0; i < bytes / 8; i++)
        memcpy((char *)memory + 8 * i, &few[psr_rng_word(at, i) % 4], 8);
}

static void check_loop(psr_type type, psr_reduction op, size_t count, const uint64_t a[2 * COUNT],
                       const uint64_t b[2 * COUNT])
{
    static uint64_t out[2 * COUNT], in_place[2 * COUNT];
    memset(out, 0xa5, sizeof out);
    psr_reduce(type, op, out, a, b, count);
    for (size_t i = 0; i < count; i++)
        if (!right(type, op, a, b, out, i))
            fail_msg("%s of %s: value %zu of %zu is wrong", psr_reduction_name(op),
                     psr_type_name(type), i, count);
    const size_t bytes = count * psr_type_bytes(type);
    for (size_t i = bytes; i < sizeof out; i++)
        assert_int_equal(((const uint8_t *)out)[i], 0xa5);
    memcpy(in_place, a, sizeof in_place);
    psr_reduce(type, op, in_place, in_place, b, count);
    for (size_t i = 0; i < count; i++)
        assert_true(right(type, op, a, b, in_place, i));
    memcpy(in_place, b, sizeof in_place);
    psr_reduce(type, op, in_place, a, in_place, count);
    for (size_t i = 0; i < count; i++)
        assert_true(right(type, op, a, b, in_place, i));
    psr_reduce(type, op, in_place, in_place, in_place, 0);
}

static void every_loop_computes_what_plain_arithmetic_does(void **state)
{
    static uint64_t any[2][2 * COUNT], few[2][2 * COUNT];
    (void)state;
    for (uint32_t k = 0; k < 2; k++) {
        fill(any[k], sizeof any[k], 1 + k);
        fill_few(few[k], sizeof few[k], 1 + k);
    }
    for (psr_type type = 0; type < PSR_TYPES; type++)
        for (psr_reduction op = 0; op < PSR_REDUCTIONS; op++)
            if (psr_reduction_fits(op, type))
                for (size_t count = 0; count <= COUNT;
                     count = count < 70 ? count + 1 : count + 961) {
                    check_loop(type, op, count, any[0], any[1]);
                    check_loop(type, op, count, few[0], few[1]);
                }
}

static void all_pairs_with_a_special_float16_are_right(void **state)
{
    (void)state;
    static const uint16_t special[] = {0x0000, 0x8000, 0x7c00, 0xfc00, 0x7e00,
                                       0x0001, 0x83ff, 0x0400, 0x7bff, 0xbc00};
    static uint16_t a[65536], b[65536], out[65536];
    for (size_t s = 0; s < sizeof special / sizeof special[0]; s++)
        for (psr_type type = PSR_TYPE_FLOAT16; type <= PSR_TYPE_BFLOAT16; type++)
            for (psr_reduction op = 0; op < PSR_REDUCTIONS; op++) {
                if (!psr_reduction_fits(op, type) || op == PSR_REDUCTION_MEAN)
                    continue;
                for (size_t i = 0; i < 65536; i++) {
                    a[i] = (uint16_t)i;
                    b[i] = special[s];
                }
                psr_reduce(type, op, out, a, b, 65536);
                for (size_t i = 0; i < 65536; i++)
                    if (!right(type, op, a, b, out, i))
                        fail_msg("%s of %s %04x and %04x is %04x", psr_reduction_name(op),
                                 psr_type_name(type), a[i], b[i], out[i]);
            }
}

static void integers_wrap(void **state)
{
    (void)state;
    const int32_t a[] = {INT32_MAX, INT32_MIN, 65536}, b[] = {1, -1, 65536};
    int32_t out[3];
    psr_reduce(PSR_TYPE_INT32, PSR_REDUCTION_SUM, out, a, b, 3);
    assert_int_equal(out[0], INT32_MIN);
    assert_int_equal(out[1], INT32_MAX);
    psr_reduce(PSR_TYPE_INT32, PSR_REDUCTION_PRODUCT, out, a, b, 3);
    assert_int_equal(out[2], 0);
    const int8_t c = -128, d = -1;
    int8_t e;
    psr_reduce(PSR_TYPE_INT8, PSR_REDUCTION_SUM, &e, &c, &d, 1);
    assert_int_equal(e, 127);
    const int16_t f = INT16_MIN, g = INT16_MIN;
    int16_t h;
    psr_reduce(PSR_TYPE_INT16, PSR_REDUCTION_SUM, &h, &f, &g, 1);
    assert_int_equal(h, 0);
    const uint16_t i = 65535, j = 65535; /* their product is too large for an int */
    uint16_t k;
    psr_reduce(PSR_TYPE_UINT16, PSR_REDUCTION_PRODUCT, &k, &i, &j, 1);
    assert_int_equal(k, 1);
    const int64_t l = INT64_MIN, m = -1;
    int64_t n;
    psr_reduce(PSR_TYPE_INT64, PSR_REDUCTION_PRODUCT, &n, &l, &m, 1);
    assert_true(n == INT64_MIN);
}

static void a_logical_fold_of_one_value_is_0_or_1(void **state)
{
    (void)state;
    double x[] = {0, -0.0, NAN, 1e-310, -INFINITY, 1};
    psr_reduce_finish(PSR_TYPE_FLOAT64, PSR_REDUCTION_LOGICAL_XOR, x, 6, 1);
    for (size_t i = 0; i < 6; i++)
        assert_true(x[i] == (i < 2 ? 0 : 1) && !signbit(x[i]));
    int16_t y[] = {0, -3, 256};
    psr_reduce_finish(PSR_TYPE_INT16, PSR_REDUCTION_LOGICAL_AND, y, 3, 1);
    assert_true(y[0] == 0 && y[1] == 1 && y[2] == 1);
    uint16_t z[] = {0x8000, 0x0001};
    psr_reduce_finish(PSR_TYPE_FLOAT16, PSR_REDUCTION_LOGICAL_OR, z, 2, 1);
    assert_true(z[0] == 0 && z[1] == 0x3c00);
}

/* Gaps of what is computed and copied are zeros, whatever stood there. */
static void no_gap_of_a_pair_is_handed_on(void **state)
{
    (void)state;
    for (psr_type type = 0; type < PSR_TYPES; type++) {
        if (!psr_type_has_gaps(type))
            continue;
        uint64_t a[2], b[2], folded[2], copied[2];
        memset(a, 0xee, sizeof a);
        memset(b, 0xee, sizeof b);
        memset(folded, 0xdd, sizeof folded);
        memset(copied, 0xdd, sizeof copied);
        psr_reduce(type, PSR_REDUCTION_MINLOC, folded, a, b, 1);
        psr_pair_copy(type, copied, a, 1);
        size_t zeros = 0, bytes = psr_type_bytes(type);
        assert_memory_equal(folded, copied, bytes);
        for (size_t i = 0; i < bytes; i++) {
            zeros += ((uint8_t *)copied)[i] == 0;
            assert_true(((uint8_t *)copied)[i] == 0 || ((uint8_t *)copied)[i] == 0xee);
        }
        assert_int_equal(zeros, type == PSR_TYPE_INT16_INT32 ? 2 : 4);
    }
}

/* As psring.h says. */
static void each_type_has_its_reductions(void **state)
{
    (void)state;
    for (psr_type type = 0; type < PSR_TYPES; type++)
        for (psr_reduction op = 0; op < PSR_REDUCTIONS; op++) {
            const char *name = psr_reduction_name(op), *of = psr_type_name(type);
            const bool is_pair = strchr(of, '_') != NULL, is_real = strstr(of, "float") != NULL;
            bool fits = !is_pair;
            if (strstr(name, "loc") != NULL)
                fits = is_pair;
            if (strstr(name, "bitwise") != NULL)
                fits = !is_pair && !is_real;
            if (strstr(name, "logical") != NULL)
                fits = !is_pair;
            if (strcmp(name, "mean") == 0)
                fits = !is_pair && is_real;
            if (psr_reduction_fits(op, type) != fits)
                fail_msg("%s of %s", name, of);
        }
}

static void a_mean_divides_once_and_integers_have_none(void **state)
{
    (void)state;
    float x[] = {1, 10, -7};
    psr_reduce_finish(PSR_TYPE_FLOAT32, PSR_REDUCTION_MEAN, x, 3, 3);
    assert_true(x[0] == 1.0f / 3.0f && x[1] == 10.0f / 3.0f && x[2] == -7.0f / 3.0f);
    double y[] = {1, 10};
    psr_reduce_finish(PSR_TYPE_FLOAT64, PSR_REDUCTION_MEAN, y, 2, 7);
    assert_true(y[0] == 1.0 / 7.0 && y[1] == 10.0 / 7.0);
    for (size_t k = 0; k < 2; k++) {
        uint16_t z = formats[k].of_float(5);
        psr_reduce_finish(k == 0 ? PSR_TYPE_FLOAT16 : PSR_TYPE_BFLOAT16, PSR_REDUCTION_MEAN, &z, 1,
                          3);
        assert_int_equal(z, formats[k].of_float(5.0f / 3.0f));
    }
    static const psr_type integers[] = {PSR_TYPE_UINT8, PSR_TYPE_INT8, PSR_TYPE_INT32,
                                        PSR_TYPE_INT64};
    for (size_t i = 0; i < 4; i++) {
        assert_false(psr_reduction_fits(PSR_REDUCTION_MEAN, integers[i]));
        assert_true(psr_reduction_fits(PSR_REDUCTION_SUM, integers[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_16_bit_float_becomes_its_value_and_comes_back),
        cmocka_unit_test(a_float_becomes_the_nearest_and_a_tie_the_even_one),
        cmocka_unit_test(a_nan_stays_one_in_16_bits),
        cmocka_unit_test(every_loop_computes_what_plain_arithmetic_does),
        cmocka_unit_test(all_pairs_with_a_special_float16_are_right),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(a_logical_fold_of_one_value_is_0_or_1),
        cmocka_unit_test(no_gap_of_a_pair_is_handed_on),
        cmocka_unit_test(each_type_has_its_reductions),
        cmocka_unit_test(a_mean_divides_once_and_integers_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
