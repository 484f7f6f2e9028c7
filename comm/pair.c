#include "comm/pair.h"

#include <assert.h>
#include <math.h>

/* Here the padding has a name. */
typedef struct float32_int32 {
    float value;
    int32_t index;
} float32_int32;
typedef struct float64_int32 {
    double value;
    int32_t index, gap;
} float64_int32;
typedef struct int16_int32 {
    int16_t value, gap;
    int32_t index;
} int16_int32;
typedef struct int32_int32 {
    int32_t value, index;
} int32_int32;
typedef struct int64_int32 {
    int64_t value;
    int32_t index, gap;
} int64_int32;

bool psr_type_is_pair(psr_type type)
{
    return type >= PSR_TYPE_FLOAT32_INT32;
}

bool psr_type_has_gaps(psr_type type)
{
    return type == PSR_TYPE_FLOAT64_INT32 || type == PSR_TYPE_INT16_INT32 ||
           type == PSR_TYPE_INT64_INT32;
}

/* Below 0: a wins, above 0: b wins. sign: 1 for the least, -1 for the greatest. */
static int compare_real(double a, double b, int sign)
{
    if (isnan(a) || isnan(b))
        return (isnan(b) != 0) - (isnan(a) != 0);
    if (a == b) /* -0 is below +0 */
        return sign * ((signbit(b) != 0) - (signbit(a) != 0));
    return a < b ? -sign : sign;
}

static int compare_integer(int64_t a, int64_t b, int sign)
{
    return sign * ((a > b) - (a < b));
}

#define OF_TYPE(pair, wide, compare)                                                               \
    static void pair##_copy(pair *to, const pair *from, size_t count)                              \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            to[i] = (pair){.value = from[i].value, .index = from[i].index};                        \
    }                                                                                              \
    static void pair##_fold(pair *out, const pair *a, const pair *b, size_t count, int sign)       \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            const int order = compare((wide)a[i].value, (wide)b[i].value, sign);                   \
            const pair *won =                                                                      \
                order < 0 || (order == 0 && a[i].index < b[i].index) ? &a[i] : &b[i];              \
            out[i] = (pair){.value = won->value, .index = won->index};                             \
        }                                                                                          \
    }

OF_TYPE(float32_int32, double, compare_real)
OF_TYPE(float64_int32, double, compare_real)
OF_TYPE(int16_int32, int64_t, compare_integer)
OF_TYPE(int32_int32, int64_t, compare_integer)
OF_TYPE(int64_int32, int64_t, compare_integer)

void psr_pair_copy(psr_type type, void *to, const void *from, size_t count)
{
    assert(psr_type_is_pair(type));
    switch (type) {
    case PSR_TYPE_FLOAT32_INT32:
        float32_int32_copy(to, from, count);
        return;
    case PSR_TYPE_FLOAT64_INT32:
        float64_int32_copy(to, from, count);
        return;
    case PSR_TYPE_INT16_INT32:
        int16_int32_copy(to, from, count);
        return;
    case PSR_TYPE_INT32_INT32:
        int32_int32_copy(to, from, count);
        return;
    default:
        int64_int32_copy(to, from, count);
    }
}

static void fold(psr_type type, void *out, const void *a, const void *b, size_t count, int sign)
{
    assert(psr_type_is_pair(type));
    switch (type) {
    case PSR_TYPE_FLOAT32_INT32:
        float32_int32_fold(out, a, b, count, sign);
        return;
    case PSR_TYPE_FLOAT64_INT32:
        float64_int32_fold(out, a, b, count, sign);
        return;
    case PSR_TYPE_INT16_INT32:
        int16_int32_fold(out, a, b, count, sign);
        return;
    case PSR_TYPE_INT32_INT32:
        int32_int32_fold(out, a, b, count, sign);
        return;
    default:
        int64_int32_fold(out, a, b, count, sign);
    }
}

void psr_pair_least(psr_type type, void *out, const void *a, const void *b, size_t count)
{
    fold(type, out, a, b, count, 1);
}

void psr_pair_greatest(psr_type type, void *out, const void *a, const void *b, size_t count)
{
    fold(type, out, a, b, count, -1);
}
