/* A kernel in many orders of its threads and several grids, its results beside those that are
 * expected. */
#ifndef PSR_TESTS_KERNEL_ORDERS_H
#define PSR_TESTS_KERNEL_ORDERS_H

#include "base/rng.h"
#include "comm/reduce.h"
#include "model/cuda/kernels/launch.h"
#include "tests/emulator/cuda/emulated_kernel.h"
#include "tests/emulator/cuda/watch.h"
#include "tests/unit/seeds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ORDERS 20
#ifndef PSR_KERNELS_ARE_WATCHED /* the build says: tests/emulator/meson.build */
#define PSR_KERNELS_ARE_WATCHED 0
#endif
#define EDGE_BYTES 64

/* Memory of a test, given back by free_all; written past its end, that fails. */
typedef struct piece {
    struct piece *next;
    size_t bytes;
    double first[]; /* of any type */
} piece;
static piece *pieces;

static inline void *room(size_t bytes)
{
    piece *p = malloc(sizeof *p + bytes + EDGE_BYTES);
    assert_non_null(p);
    p->next = pieces;
    p->bytes = bytes;
    pieces = p;
    memset(p->first, 0xff, bytes + EDGE_BYTES);
    return p->first;
}

static inline int free_all(void **state)
{
    (void)state;
    while (pieces != NULL) {
        piece *p = pieces;
        pieces = p->next;
        for (size_t i = 0; i < EDGE_BYTES; i++)
            assert_int_equal(((unsigned char *)p->first)[p->bytes + i], 0xff);
        free(p);
    }
    return 0;
}

/* Uniform in [-1, 1); each array has numbers of its own. */
static inline float *floats(size_t count)
{
    static uint32_t stream;
    const psr_rng_at at = {.seed = 29, .purpose = PSR_RNG_TEST, .layer = stream++};
    float *x = room(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = 2 * psr_rng_unit(psr_rng_word(at, i)) - 1;
    return x;
}

static inline void *copy_of(const void *x, size_t bytes)
{
    return memcpy(room(bytes), x, bytes);
}

typedef enum values_kind { BYTES, FLOATS, DOUBLES } values_kind;

/* What a kernel writes: count elements (of BYTES: bytes). */
typedef struct result {
    values_kind kind;
    void *at;
    const void *expected;
    size_t count;
    double tolerance;     /* of FLOATS and DOUBLES, relative above 1; BYTES: all bits are equal */
    const void *before;   /* NULL: its bytes are 0xff */
    const double *bounds; /* [count] in place of tolerance: how far each may be off; NULL: none */
} result;

static inline size_t result_bytes(const result *r)
{
    return r->count * (r->kind == FLOATS ? 4 : r->kind == DOUBLES ? 8 : 1);
}

static inline double result_value(const result *r, const void *values, size_t i)
{
    return r->kind == FLOATS ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

static inline void check_result(const char *name, const result *r, uint32_t order)
{
    if (r->kind == BYTES) {
        for (size_t i = 0; i < r->count; i++)
            if (((const uint8_t *)r->at)[i] != ((const uint8_t *)r->expected)[i])
                fail_msg("%s, order %u: byte %zu of %zu is %02x, not %02x", name, order, i,
                         r->count, ((const uint8_t *)r->at)[i], ((const uint8_t *)r->expected)[i]);
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        const double found = result_value(r, r->at, i), right = result_value(r, r->expected, i);
        const double most = r->bounds != NULL ? r->bounds[i] : r->tolerance * (1 + fabs(right));
        if (!(fabs(found - right) <= most))
            fail_msg("%s, order %u: value %zu of %zu is %.17g, not %.17g within %g", name, order, i,
                     r->count, found, right, most);
    }
}

#define WATCHED_ORDERS 2

/* In the first orders every access to memory is watched. */
static inline void play_once(const char *name, psr_cuda_kernel kernel, uint32_t blocks,
                             uint32_t threads, const void *arguments, uint32_t order)
{
    if (!PSR_KERNELS_ARE_WATCHED || order > WATCHED_ORDERS) {
        psr_emulated_kernel(kernel, blocks, threads, arguments, order);
        return;
    }
    char problem[PSR_FIBERS_PROBLEM_BYTES];
    if (!psr_watched_kernel(kernel, blocks, threads, arguments, order, NULL, NULL, problem))
        fail_msg("%s, order %u: %s", name, order, problem);
    psr_watch_forget();
}

/* Every order: with the grid that the kernel asks for, three blocks, or one. All orders must give
 * the same bits. */
static inline void play_orders(const char *name, psr_cuda_kernel kernel, const void *arguments,
                               const result *results, uint32_t count)
{
    const psr_cuda_grid grid = psr_cuda_kernel_grid(kernel, arguments);
    uint8_t *first[4] = {NULL};
    for (uint32_t order = 1; order <= seeds_of(ORDERS); order++) {
        for (uint32_t i = 0; i < count; i++) {
            const size_t bytes = result_bytes(&results[i]);
            if (results[i].before != NULL)
                memcpy(results[i].at, results[i].before, bytes);
            else
                memset(results[i].at, 0xff, bytes);
        }
        const uint32_t blocks = order % 3 == 1 ? grid.blocks : order % 3 == 2 ? 3 : 1;
        play_once(name, kernel, blocks, grid.threads, arguments, order);
        for (uint32_t i = 0; i < count; i++) {
            const size_t bytes = result_bytes(&results[i]);
            check_result(name, &results[i], order);
            if (order == 1)
                first[i] = copy_of(results[i].at, bytes);
            else if (memcmp(first[i], results[i].at, bytes) != 0)
                fail_msg("%s, order %u: other bits than in order 1", name, order);
        }
    }
}

/* ---- tensors ---- */

static const uint32_t all_types[] = {PSR_CUDA_FLOAT32, PSR_CUDA_BF16, PSR_CUDA_FP16};
#define TYPES (sizeof all_types / sizeof *all_types)

static inline size_t type_bytes(uint32_t type)
{
    return type == PSR_CUDA_FLOAT32 ? 4 : 2;
}

/* As the CPU rounds. */
static inline void *as_type(const float *x, uint32_t type, size_t count)
{
    void *y = room(count * type_bytes(type));
    if (type == PSR_CUDA_FLOAT32)
        memcpy(y, x, count * sizeof *x);
    else if (type == PSR_CUDA_BF16)
        psr_bfloat16_of_floats(y, x, count);
    else
        psr_float16_of_floats(y, x, count);
    return y;
}

/* noinline: gcc 12 would warn of a copy that another type has. */
__attribute__((noinline, unused)) static float *as_floats(const void *x, uint32_t type,
                                                          size_t count)
{
    float *y = room(count * sizeof *y);
    if (type == PSR_CUDA_FLOAT32)
        memcpy(y, x, count * sizeof *y);
    else if (type == PSR_CUDA_BF16)
        psr_bfloat16_to_floats(y, x, count);
    else
        psr_float16_to_floats(y, x, count);
    return y;
}

#define PLAY(name, args, ...)                                                                      \
    do {                                                                                           \
        const result play_results[] = {__VA_ARGS__};                                               \
        play_orders(#name, PSR_CUDA_KERNEL_##name, args, play_results,                             \
                    sizeof play_results / sizeof *play_results);                                   \
    } while (0)
#define SAME(at, expected, bytes)                                                                  \
    {                                                                                              \
        BYTES, at, expected, bytes, 0, NULL, NULL                                                  \
    }
#define OVER(at, expected, bytes, before)                                                          \
    {                                                                                              \
        BYTES, at, expected, bytes, 0, before, NULL                                                \
    }
#define NEAR(kind, at, expected, count, tolerance)                                                 \
    {                                                                                              \
        kind, at, expected, count, tolerance, NULL, NULL                                           \
    }
#define WITHIN(kind, at, expected, count, bounds)                                                  \
    {                                                                                              \
        kind, at, expected, count, 0, NULL, bounds                                                 \
    }

/* y[b][c][r] = x[b][r][c]; what x has not is 0. */
static inline float *turned(const float *x, uint32_t batch, uint32_t rows, uint32_t columns,
                            uint32_t rows_wide, uint32_t columns_wide)
{
    float *y = room((size_t)batch * rows_wide * columns * sizeof *y);
    for (size_t b = 0; b < batch; b++)
        for (size_t c = 0; c < columns; c++)
            for (size_t r = 0; r < rows_wide; r++)
                y[(b * columns + c) * rows_wide + r] =
                    r < rows ? x[(b * rows + r) * columns_wide + c] : 0;
    return y;
}

#define KERNEL_TEST(name) cmocka_unit_test_teardown(name, free_all)

#endif
