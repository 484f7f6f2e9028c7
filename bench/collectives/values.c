#include "bench/collectives/values.h"

#include <stdint.h>
#include <string.h>

enum { PERIOD = 1021, LARGEST_VALUE_BYTES = 16, INDICES = 65536 /* more than there are ranks */ };

static const struct {
    const char *name;
    size_t bytes;
    int64_t exact; /* integers up to this have no rounding, or wrap as they should */
} types[] = {
    [PSRING_FLOAT32] = {"float32", 4, 1 << 24},
    [PSRING_FLOAT64] = {"float64", 8, INT64_MAX},
    [PSRING_FLOAT16] = {"float16", 2, 1 << 11},
    [PSRING_BFLOAT16] = {"bfloat16", 2, 1 << 8},
    [PSRING_INT8] = {"int8", 1, INT64_MAX},
    [PSRING_UINT8] = {"uint8", 1, INT64_MAX},
    [PSRING_INT32] = {"int32", 4, INT64_MAX},
    [PSRING_INT64] = {"int64", 8, INT64_MAX},
    [PSRING_INT16] = {"int16", 2, INT64_MAX},
    [PSRING_UINT16] = {"uint16", 2, INT64_MAX},
    [PSRING_UINT32] = {"uint32", 4, INT64_MAX},
    [PSRING_UINT64] = {"uint64", 8, INT64_MAX},
    [PSRING_FLOAT32_INT32] = {"float32_int32", sizeof(psring_float32_int32), INT64_MAX},
    [PSRING_FLOAT64_INT32] = {"float64_int32", sizeof(psring_float64_int32), INT64_MAX},
    [PSRING_INT16_INT32] = {"int16_int32", sizeof(psring_int16_int32), INT64_MAX},
    [PSRING_INT32_INT32] = {"int32_int32", sizeof(psring_int32_int32), INT64_MAX},
    [PSRING_INT64_INT32] = {"int64_int32", sizeof(psring_int64_int32), INT64_MAX},
};
static const char *const ops[] = {
    [PSRING_SUM] = "sum",
    [PSRING_PRODUCT] = "product",
    [PSRING_MINIMUM] = "minimum",
    [PSRING_MAXIMUM] = "maximum",
    [PSRING_MEAN] = "mean",
    [PSRING_BITWISE_AND] = "bitwise_and",
    [PSRING_BITWISE_OR] = "bitwise_or",
    [PSRING_BITWISE_XOR] = "bitwise_xor",
    [PSRING_LOGICAL_AND] = "logical_and",
    [PSRING_LOGICAL_OR] = "logical_or",
    [PSRING_LOGICAL_XOR] = "logical_xor",
    [PSRING_MINLOC] = "minloc",
    [PSRING_MAXLOC] = "maxloc",
};
enum { TYPES = sizeof types / sizeof types[0], OPS = sizeof ops / sizeof ops[0] };

const char *bench_type_name(psring_type type)
{
    return (unsigned)type < TYPES ? types[type].name : NULL;
}

const char *bench_op_name(psring_op op)
{
    return (unsigned)op < OPS ? ops[op] : NULL;
}

bool bench_type_find(const char *name, psring_type *ret_type)
{
    for (int type = PSRING_FLOAT32; type < TYPES; type++)
        if (strcmp(types[type].name, name) == 0) {
            *ret_type = (psring_type)type;
            return true;
        }
    return false;
}

bool bench_op_find(const char *name, psring_op *ret_op)
{
    for (int op = 0; op < OPS; op++)
        if (strcmp(ops[op], name) == 0) {
            *ret_op = (psring_op)op;
            return true;
        }
    return false;
}

size_t bench_type_bytes(psring_type type)
{
    return types[type].bytes;
}

static bool is_pair(psring_type type)
{
    return type >= PSRING_FLOAT32_INT32;
}

static bool is_real(psring_type type)
{
    return type <= PSRING_BFLOAT16;
}

static bool is_logical(psring_op op)
{
    return op >= PSRING_LOGICAL_AND && op <= PSRING_LOGICAL_XOR;
}

/* ---- the values ---- */

static int64_t scattered(int rank, size_t i)
{
    return (int64_t)((i + 1) * (2 * (size_t)rank + 3) % PERIOD);
}

static int64_t small(int rank, size_t i)
{
    return scattered(rank, i) % 5 - 2;
}

static int64_t sum_of_small(int ranks, size_t i)
{
    int64_t sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += small(rank, i);
    return sum;
}

/* A product is 2 or -2, since one rank alone has more than 1 there. A mean is an integer: rank 0
 * evens it out. A pair stands as its value times INDICES, plus its index, which is the rank. */
static int64_t value_of(const bench_source *s, int rank, size_t i)
{
    if (is_pair(s->type))
        return scattered(rank, i) % 11 * INDICES + rank;
    if (is_logical(s->op))
        return scattered(rank, i) % 3;
    switch (s->op) {
    case PSRING_SUM:
        return small(rank, i);
    case PSRING_MEAN:
        return small(rank, i) - (rank == 0 ? sum_of_small(s->ranks, i) % s->ranks : 0);
    case PSRING_PRODUCT:
        return i % (size_t)s->ranks == (size_t)rank ? 2 : scattered(rank, i) % 2 * 2 - 1;
    default:
        return scattered(rank, i) % 101;
    }
}

static int64_t fold(psring_op op, int64_t a, int64_t b)
{
    switch (op) {
    case PSRING_PRODUCT:
        return a * b;
    case PSRING_MINIMUM:
        return a < b ? a : b;
    case PSRING_MAXIMUM:
        return a > b ? a : b;
    case PSRING_BITWISE_AND:
        return a & b;
    case PSRING_BITWISE_OR:
        return a | b;
    case PSRING_BITWISE_XOR:
        return a ^ b;
    case PSRING_LOGICAL_AND:
        return a != 0 && b != 0;
    case PSRING_LOGICAL_OR:
        return a != 0 || b != 0;
    case PSRING_LOGICAL_XOR:
        return (a != 0) != (b != 0);
    case PSRING_MINLOC: /* of ranks upwards: of equal values the first stays */
        return b / INDICES < a / INDICES ? b : a;
    case PSRING_MAXLOC:
        return b / INDICES > a / INDICES ? b : a;
    default:
        return a + b;
    }
}

static int64_t folded(const bench_source *s, int ranks, size_t i)
{
    int64_t value = value_of(s, 0, i);
    if (is_logical(s->op))
        value = value != 0;
    for (int rank = 1; rank < ranks; rank++)
        value = fold(s->op, value, value_of(s, rank, i));
    return s->op == PSRING_MEAN ? value / s->ranks : value;
}

const char *bench_values_refuse(psring_type type, psring_op op, int ranks)
{
    if (is_pair(type) != (op == PSRING_MINLOC || op == PSRING_MAXLOC))
        return "minloc and maxloc are of pairs, and pairs have no other op";
    if (op == PSRING_MEAN && !is_real(type))
        return "there is no mean of integers";
    if (op >= PSRING_BITWISE_AND && op <= PSRING_BITWISE_XOR && is_real(type))
        return "bitwise ops are of integers";
    if ((op == PSRING_SUM || op == PSRING_MEAN) && (int64_t)ranks * 3 > types[type].exact)
        return "a sum of so many ranks' values is not exact in this type";
    return NULL;
}

/* Each partial sum is an integer that the encoding's type has, so no rounding changes it. */
const char *bench_values_refuse_encoded(psring_type type, psring_op op, int ranks,
                                        const char *encoding)
{
    if (type != PSRING_FLOAT32 || (op != PSRING_SUM && op != PSRING_MEAN))
        return "--encoding: only sums and means of float32 are encoded";
    return bench_values_refuse(strcmp(encoding, "fp16") == 0 ? PSRING_FLOAT16 : PSRING_BFLOAT16, op,
                               ranks);
}

/* ---- their bits ---- */

static uint32_t float_bits(int64_t value)
{
    const float real = (float)value;
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

/* Of an integer that float16 has. */
static uint16_t half_bits(int64_t value)
{
    const uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000;
    if (value == 0)
        return 0;
    return (uint16_t)(sign | ((bits >> 23 & 0xff) - 127 + 15) << 10 | (bits >> 13 & 0x3ff));
}

static void encode(psring_type type, int64_t value, uint8_t *to);

/* Zeros in its gaps. */
static void encode_pair(psring_type type, int64_t value, uint8_t *to)
{
    static const psring_type of_value[] = {PSRING_FLOAT32, PSRING_FLOAT64, PSRING_INT16,
                                           PSRING_INT32, PSRING_INT64};
    const psring_type first = of_value[type - PSRING_FLOAT32_INT32];
    const int32_t index = (int32_t)(value % INDICES);
    const size_t at = types[first].bytes < sizeof index ? sizeof index : types[first].bytes;
    memset(to, 0, types[type].bytes);
    encode(first, value / INDICES, to);
    memcpy(to + at, &index, sizeof index);
}

static void encode(psring_type type, int64_t value, uint8_t *to)
{
    if (is_pair(type)) {
        encode_pair(type, value, to);
        return;
    }
    const double real = (double)value;
    const uint32_t bits = float_bits(value);
    const uint16_t half = type == PSRING_FLOAT16 ? half_bits(value) : (uint16_t)(bits >> 16);
    const int32_t narrow = (int32_t)value;
    const int16_t narrower = (int16_t)value;
    const uint8_t byte = (uint8_t)value;
    const void *from = type == PSRING_FLOAT32   ? (const void *)&bits
                       : type == PSRING_FLOAT64 ? (const void *)&real
                       : is_real(type)          ? (const void *)&half
                       : types[type].bytes == 8 ? (const void *)&value
                       : types[type].bytes == 4 ? (const void *)&narrow
                       : types[type].bytes == 2 ? (const void *)&narrower
                                                : (const void *)&byte;
    memcpy(to, from, types[type].bytes);
}

/* One period, from the first value that is asked for. */
static void write_period(const bench_source *s, uint8_t *period, size_t count)
{
    for (size_t k = 0; k < PERIOD && k < count; k++) {
        const size_t i = (s->first + k) % PERIOD;
        encode(s->type, s->rank < 0 ? folded(s, -s->rank, i) : value_of(s, s->rank, i),
               period + k * types[s->type].bytes);
    }
}

void bench_values_write(const bench_source *source, void *data, size_t count)
{
    uint8_t period[PERIOD * LARGEST_VALUE_BYTES], *to = data;
    const size_t bytes = types[source->type].bytes;
    write_period(source, period, count);
    for (size_t at = 0; at < count; at += PERIOD)
        memcpy(to + at * bytes, period, (count - at < PERIOD ? count - at : PERIOD) * bytes);
}

static size_t count_different(const uint8_t *a, const uint8_t *b, size_t count, size_t bytes)
{
    size_t different = 0;
    if (memcmp(a, b, count * bytes) == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        different += memcmp(a + i * bytes, b + i * bytes, bytes) != 0;
    return different;
}

size_t bench_values_wrong(const bench_source *source, const void *data, size_t count)
{
    uint8_t period[PERIOD * LARGEST_VALUE_BYTES];
    const uint8_t *from = data;
    const size_t bytes = types[source->type].bytes;
    size_t wrong = 0;
    write_period(source, period, count);
    for (size_t at = 0; at < count; at += PERIOD)
        wrong += count_different(from + at * bytes, period,
                                 count - at < PERIOD ? count - at : PERIOD, bytes);
    return wrong;
}
