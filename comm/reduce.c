/* Every loop is one expression on single elements, so that no vector width shows in its result. It
 * has no branches, so that compilers vectorise it. */
#include "comm/reduce.h"

#include "base/arrays/multiversion.h"
#include "comm/pair.h"

#include <assert.h>

/* out[i] depends on a[i] and b[i] only, also if out is one of them, so a loop need not check
 * whether they overlap. */
#ifdef __clang__
/* under sanitizers clang vectorises no loop, and would warn for each */
#pragma clang diagnostic ignored "-Wpass-failed"
#define PSR_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define PSR_ELEMENTWISE _Pragma("GCC ivdep")
#endif

/* ---- the bits of floating-point numbers ---- */

static inline uint32_t bits_of(float value)
{
    return (union {
               float f;
               uint32_t u;
           }){value}
        .u;
}

static inline float float_of(uint32_t bits)
{
    return (union {
               uint32_t u;
               float f;
           }){bits}
        .f;
}

static inline uint64_t bits_of_double(double value)
{
    return (union {
               double f;
               uint64_t u;
           }){value}
        .u;
}

static inline double double_of(uint64_t bits)
{
    return (union {
               uint64_t u;
               double f;
           }){bits}
        .f;
}

/* a if the condition holds, else b, without a branch: compilers would move into a branch what
 * computes a. */
static inline uint32_t pick(bool condition, uint32_t a, uint32_t b)
{
    return b ^ ((a ^ b) & -(uint32_t)condition);
}

/* ---- float16 and bfloat16 (F. Giesen, "Float->half variants", 2012, with rounding to the nearest)
 * ---- */

enum {
    EXPONENT_SHIFT = 23, /* of float32 */
    HALF_SHIFT = 13,     /* fraction bits that float16 lacks */
    BIAS_DIFFERENCE = 127 - 15,
};

static inline float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half & 0x7c00u;
    const uint32_t shifted = (uint32_t)(half & 0x7fff) << HALF_SHIFT;
    const uint32_t normal = shifted + ((uint32_t)BIAS_DIFFERENCE << EXPONENT_SHIFT);
    /* inf, NaN */
    const uint32_t special = shifted + ((uint32_t)(2 * BIAS_DIFFERENCE) << EXPONENT_SHIFT);
    /* A subnormal is its fraction times 2^-24: it is put into the fraction of 2^-14, which is then
     * subtracted. */
    const uint32_t least = (uint32_t)(BIAS_DIFFERENCE + 1) << EXPONENT_SHIFT;
    const uint32_t subnormal = bits_of(float_of(shifted + least) - float_of(least));
    const uint32_t magnitude =
        pick(exponent == 0, subnormal, pick(exponent == 0x7c00u, special, normal));
    return float_of(sign | magnitude);
}

static inline uint16_t half_of_float(float value)
{
    const uint32_t bits = bits_of(value), sign = bits & 0x80000000u, magnitude = bits ^ sign;
    const uint32_t too_large = (uint32_t)(127 + 16) << EXPONENT_SHIFT; /* 2^16 */
    /* 2^-14, the least normal float16 */
    const uint32_t least = (uint32_t)(BIAS_DIFFERENCE + 1) << EXPONENT_SHIFT;
    /* A subnormal result is rounded by adding a number whose last bit is worth 2^-24. */
    const uint32_t unit = (uint32_t)(BIAS_DIFFERENCE + (23 - 10) + 1) << EXPONENT_SHIFT;
    const uint32_t subnormal = bits_of(float_of(magnitude) + float_of(unit)) - unit;
    const uint32_t odd = (magnitude >> HALF_SHIFT) & 1;
    const uint32_t normal =
        (magnitude - ((uint32_t)BIAS_DIFFERENCE << EXPONENT_SHIFT) + 0xfff + odd) >> HALF_SHIFT;
    const uint32_t special = pick(magnitude > 0x7f800000u, 0x7e00u, 0x7c00u);
    const uint32_t half =
        pick(magnitude >= too_large, special, pick(magnitude < least, subnormal, normal));
    return (uint16_t)(sign >> 16 | half);
}

static inline float bfloat_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

static inline uint16_t bfloat_of_float(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)pick((bits & 0x7fffffffu) > 0x7f800000u, quiet, rounded);
}

float psr_float16_to_float(uint16_t bits)
{
    return half_to_float(bits);
}

uint16_t psr_float16_of_float(float value)
{
    return half_of_float(value);
}

float psr_bfloat16_to_float(uint16_t bits)
{
    return bfloat_to_float(bits);
}

uint16_t psr_bfloat16_of_float(float value)
{
    return bfloat_of_float(value);
}

#define CONVERSION(name, convert, to_type, from_type)                                              \
    PSR_MULTIVERSION static void name##_loop(to_type *restrict out, const from_type *restrict in,  \
                                             size_t count)                                         \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = convert(in[i]);                                                               \
    }                                                                                              \
    void name(to_type *restrict out, const from_type *restrict in, size_t count)                   \
    {                                                                                              \
        name##_loop(out, in, count);                                                               \
    }

CONVERSION(psr_float16_to_floats, half_to_float, float, uint16_t)
CONVERSION(psr_float16_of_floats, half_of_float, uint16_t, float)
CONVERSION(psr_bfloat16_to_floats, bfloat_to_float, float, uint16_t)
CONVERSION(psr_bfloat16_of_floats, bfloat_of_float, uint16_t, float)

/* ---- one element ---- */

/* Among equal numbers only zeros differ in their bits: for a minimum -0 wins. */
static inline float least_float(float a, float b)
{
    const uint32_t ordered = a < b ? bits_of(a) : a == b ? bits_of(a) | bits_of(b) : bits_of(b);
    return float_of(a != a ? bits_of(a) : b != b ? bits_of(b) : ordered);
}

static inline float greatest_float(float a, float b)
{
    const uint32_t ordered = a > b ? bits_of(a) : a == b ? bits_of(a) & bits_of(b) : bits_of(b);
    return float_of(a != a ? bits_of(a) : b != b ? bits_of(b) : ordered);
}

static inline double least_double(double a, double b)
{
    const uint64_t ordered = a < b    ? bits_of_double(a)
                             : a == b ? bits_of_double(a) | bits_of_double(b)
                                      : bits_of_double(b);
    return double_of(a != a ? bits_of_double(a) : b != b ? bits_of_double(b) : ordered);
}

static inline double greatest_double(double a, double b)
{
    const uint64_t ordered = a > b    ? bits_of_double(a)
                             : a == b ? bits_of_double(a) & bits_of_double(b)
                                      : bits_of_double(b);
    return double_of(a != a ? bits_of_double(a) : b != b ? bits_of_double(b) : ordered);
}

/* ---- loops ---- */

/* type: an element in memory; in: from there to the type that is computed with; into: back. */
#define LOOP(name, type, in, into, expression)                                                     \
    PSR_MULTIVERSION static void name(void *out_values, const void *a_values,                      \
                                      const void *b_values, size_t count)                          \
    {                                                                                              \
        type *out = out_values;                                                                    \
        const type *x = a_values, *y = b_values;                                                   \
        PSR_ELEMENTWISE                                                                            \
        for (size_t i = 0; i < count; i++) {                                                       \
            const __typeof__(in(x[0])) a = in(x[i]), b = in(y[i]);                                 \
            out[i] = (type)into(expression);                                                       \
        }                                                                                          \
    }

#define LOOPS(name, type, in, into, least, greatest)                                               \
    LOOP(name##_sum, type, in, into, a + b)                                                        \
    LOOP(name##_product, type, in, into, a *b)                                                     \
    LOOP(name##_minimum, type, in, into, least)                                                    \
    LOOP(name##_maximum, type, in, into, greatest)

/* Sums and products of integers are computed unsigned, and so wrap; comparisons use their own
 * type. */
#define INTEGER_LOOPS(name, type, wide)                                                            \
    LOOP(name##_sum, type, (wide), , a + b)                                                        \
    LOOP(name##_product, type, (wide), , a *b)                                                     \
    LOOP(name##_minimum, type, (type), , a < b ? a : b)                                            \
    LOOP(name##_maximum, type, (type), , a > b ? a : b)

LOOPS(float32, float, (float), , least_float(a, b), greatest_float(a, b))
LOOPS(float64, double, (double), , least_double(a, b), greatest_double(a, b))
LOOPS(float16, uint16_t, half_to_float, half_of_float, least_float(a, b), greatest_float(a, b))
LOOPS(bfloat16, uint16_t, bfloat_to_float, bfloat_of_float, least_float(a, b), greatest_float(a, b))
INTEGER_LOOPS(uint8, uint8_t, uint32_t)
INTEGER_LOOPS(int8, int8_t, uint32_t)
INTEGER_LOOPS(int32, int32_t, uint32_t)
INTEGER_LOOPS(int64, int64_t, uint64_t)
INTEGER_LOOPS(int16, int16_t, uint32_t)
INTEGER_LOOPS(uint16, uint16_t, uint32_t)
INTEGER_LOOPS(uint32, uint32_t, uint32_t)
INTEGER_LOOPS(uint64, uint64_t, uint64_t)

/* Bitwise operations do not depend on the type: by bytes. */
LOOP(bytes_and, uint8_t, (uint32_t), , a &b)
LOOP(bytes_or, uint8_t, (uint32_t), , a | b)
LOOP(bytes_xor, uint8_t, (uint32_t), , a ^ b)

/* truth: 1 for a value other than 0, else 0; into: from there to the type. The sign of integers
 * does not matter. */
#define LOGICAL_LOOPS(name, type, truth, into)                                                     \
    LOOP(name##_logical_and, type, truth, into, a &b)                                              \
    LOOP(name##_logical_or, type, truth, into, a | b)                                              \
    LOOP(name##_logical_xor, type, truth, into, a ^ b)

#define IS_TRUE(value) (uint32_t)((value) != 0)
#define HALF_IS_TRUE(bits) (uint32_t)(((bits)&0x7fff) != 0)

LOGICAL_LOOPS(float32, float, IS_TRUE, (float))
LOGICAL_LOOPS(float64, double, IS_TRUE, (double))
LOGICAL_LOOPS(float16, uint16_t, HALF_IS_TRUE, 0x3c00 *)
LOGICAL_LOOPS(bfloat16, uint16_t, HALF_IS_TRUE, 0x3f80 *)
LOGICAL_LOOPS(bits8, uint8_t, IS_TRUE, )
LOGICAL_LOOPS(bits16, uint16_t, IS_TRUE, )
LOGICAL_LOOPS(bits32, uint32_t, IS_TRUE, )
LOGICAL_LOOPS(bits64, uint64_t, IS_TRUE, )

typedef void loop(void *out, const void *a, const void *b, size_t count);

enum {
    ARITHMETIC = PSR_REDUCTION_MEAN + 1,
    BITWISE = 3,
    LOGICAL = 3,
    PLAIN_TYPES = PSR_TYPE_FLOAT32_INT32
};

#define OF_TYPE(name)                                                                              \
    {                                                                                              \
        name##_sum, name##_product, name##_minimum, name##_maximum, name##_sum                     \
    }

static loop *const arithmetic[PLAIN_TYPES][ARITHMETIC] = {
    [PSR_TYPE_UINT8] = OF_TYPE(uint8),       [PSR_TYPE_FLOAT32] = OF_TYPE(float32),
    [PSR_TYPE_FLOAT64] = OF_TYPE(float64),   [PSR_TYPE_FLOAT16] = OF_TYPE(float16),
    [PSR_TYPE_BFLOAT16] = OF_TYPE(bfloat16), [PSR_TYPE_INT8] = OF_TYPE(int8),
    [PSR_TYPE_INT32] = OF_TYPE(int32),       [PSR_TYPE_INT64] = OF_TYPE(int64),
    [PSR_TYPE_INT16] = OF_TYPE(int16),       [PSR_TYPE_UINT16] = OF_TYPE(uint16),
    [PSR_TYPE_UINT32] = OF_TYPE(uint32),     [PSR_TYPE_UINT64] = OF_TYPE(uint64),
};

static loop *const bitwise[BITWISE] = {bytes_and, bytes_or, bytes_xor};

#define LOGICAL_OF_TYPE(name)                                                                      \
    {                                                                                              \
        name##_logical_and, name##_logical_or, name##_logical_xor                                  \
    }

static loop *const logical[PLAIN_TYPES][LOGICAL] = {
    [PSR_TYPE_UINT8] = LOGICAL_OF_TYPE(bits8),       [PSR_TYPE_FLOAT32] = LOGICAL_OF_TYPE(float32),
    [PSR_TYPE_FLOAT64] = LOGICAL_OF_TYPE(float64),   [PSR_TYPE_FLOAT16] = LOGICAL_OF_TYPE(float16),
    [PSR_TYPE_BFLOAT16] = LOGICAL_OF_TYPE(bfloat16), [PSR_TYPE_INT8] = LOGICAL_OF_TYPE(bits8),
    [PSR_TYPE_INT32] = LOGICAL_OF_TYPE(bits32),      [PSR_TYPE_INT64] = LOGICAL_OF_TYPE(bits64),
    [PSR_TYPE_INT16] = LOGICAL_OF_TYPE(bits16),      [PSR_TYPE_UINT16] = LOGICAL_OF_TYPE(bits16),
    [PSR_TYPE_UINT32] = LOGICAL_OF_TYPE(bits32),     [PSR_TYPE_UINT64] = LOGICAL_OF_TYPE(bits64),
};

void psr_reduce(psr_type type, psr_reduction op, void *out, const void *a, const void *b,
                size_t count)
{
    assert(psr_reduction_fits(op, type));
    if (op <= PSR_REDUCTION_MEAN)
        arithmetic[type][op](out, a, b, count);
    else if (op <= PSR_REDUCTION_BITWISE_XOR)
        bitwise[op - PSR_REDUCTION_BITWISE_AND](out, a, b, count * psr_type_bytes(type));
    else if (op <= PSR_REDUCTION_LOGICAL_XOR)
        logical[type][op - PSR_REDUCTION_LOGICAL_AND](out, a, b, count);
    else if (op == PSR_REDUCTION_MINLOC)
        psr_pair_least(type, out, a, b, count);
    else
        psr_pair_greatest(type, out, a, b, count);
}

/* ---- the end of a fold ---- */

#define DIVIDE(name, type, in, into, real)                                                         \
    PSR_MULTIVERSION static void name##_divide(void *in_out, size_t count, uint32_t n)             \
    {                                                                                              \
        type *values = in_out;                                                                     \
        for (size_t i = 0; i < count; i++)                                                         \
            values[i] = into(in(values[i]) / (real)n);                                             \
    }

DIVIDE(float32, float, , , float)
DIVIDE(float64, double, , , double)
DIVIDE(float16, uint16_t, half_to_float, half_of_float, float)
DIVIDE(bfloat16, uint16_t, bfloat_to_float, bfloat_of_float, float)

static void divide(psr_type type, void *values, size_t count, uint32_t n)
{
    switch (type) {
    case PSR_TYPE_FLOAT32:
        float32_divide(values, count, n);
        return;
    case PSR_TYPE_FLOAT64:
        float64_divide(values, count, n);
        return;
    case PSR_TYPE_FLOAT16:
        float16_divide(values, count, n);
        return;
    default:
        bfloat16_divide(values, count, n);
    }
}

bool psr_reduction_finishes(psr_reduction op)
{
    return op == PSR_REDUCTION_MEAN ||
           (op >= PSR_REDUCTION_LOGICAL_AND && op <= PSR_REDUCTION_LOGICAL_XOR);
}

void psr_reduce_finish(psr_type type, psr_reduction op, void *values, size_t count, uint32_t n)
{
    assert(psr_reduction_finishes(op) && psr_reduction_fits(op, type) && n > 0);
    if (op == PSR_REDUCTION_MEAN)
        divide(type, values, count, n);
    else /* x and x is the truth of x */
        psr_reduce(type, PSR_REDUCTION_LOGICAL_AND, values, values, values, count);
}

/* ---- names ---- */

const char *psr_reduction_name(psr_reduction op)
{
    static const char *const names[PSR_REDUCTIONS] = {
        "sum",         "product",    "minimum",     "maximum",     "mean",
        "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or",
        "logical_xor", "minloc",     "maxloc"};
    return (unsigned)op < PSR_REDUCTIONS ? names[op] : "?";
}

static bool is_real(psr_type type)
{
    return type == PSR_TYPE_FLOAT32 || type == PSR_TYPE_FLOAT64 || type == PSR_TYPE_FLOAT16 ||
           type == PSR_TYPE_BFLOAT16;
}

bool psr_reduction_fits(psr_reduction op, psr_type type)
{
    if (psr_type_is_pair(type) || op >= PSR_REDUCTION_MINLOC)
        return psr_type_is_pair(type) && op >= PSR_REDUCTION_MINLOC;
    if (op >= PSR_REDUCTION_BITWISE_AND && op <= PSR_REDUCTION_BITWISE_XOR)
        return !is_real(type);
    return op != PSR_REDUCTION_MEAN || is_real(type);
}
