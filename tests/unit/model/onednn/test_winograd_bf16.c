/* Our own Winograd in bf16 against the sums of the convolution's definition, in double, of the same
 * bf16 values. */
#include "model/onednn/kernels/winograd_bf16.h"

#include "base/rng.h"
#include "model/onednn/kernels/bf16.h"
#include "tests/unit/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Root mean square of the error over that of the result: some roundings to 8 bits. The direct
 * convolution of the same values, whose weights and result are rounded, is off by 0.0024. */
#define LIMIT 8e-3

typedef struct problem {
    psr_winograd w;
    uint16_t *x, *dy; /* given */
    float *weights;
    uint16_t *y, *dx; /* found */
    float *dw;
    size_t x_count, y_count, w_count;
} problem;

static void *bytes(size_t count)
{
    void *at = aligned_alloc(64, (count + 127) / 64 * 64);
    assert_non_null(at);
    memset(at, 0xff, count); /* NaN: what is read before it is written shows */
    return at;
}

static uint16_t *random_halves(size_t count, uint64_t seed)
{
    const psr_rng_at at = {.seed = seed};
    uint16_t *x = bytes(count * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = psr_bf16_from_float(psr_rng_unit(psr_rng_word(at, i)) - 0.5f);
    return x;
}

static problem problem_of(psr_winograd w)
{
    const size_t pixels = (size_t)w.images * w.height * w.width;
    const psr_rng_at at = {.seed = 3};
    problem p = {.w = w,
                 .x_count = pixels * w.in,
                 .y_count = pixels * w.out,
                 .w_count = (size_t)9 * w.in * w.out};
    assert_true(psr_winograd_bf16_fits(&w));
    p.x = random_halves(p.x_count, 1);
    p.dy = random_halves(p.y_count, 2);
    p.weights = bytes(p.w_count * sizeof(float));
    for (size_t i = 0; i < p.w_count; i++)
        p.weights[i] = psr_rng_unit(psr_rng_word(at, i)) - 0.5f;
    p.y = bytes(p.y_count * sizeof(uint16_t));
    p.dx = bytes(p.x_count * sizeof(uint16_t));
    p.dw = bytes(p.w_count * sizeof(float));
    return p;
}

static void problem_done(problem *p)
{
    void *all[] = {p->x, p->dy, p->weights, p->y, p->dx, p->dw};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void solve(problem *p)
{
    float *scratch = bytes(psr_winograd_bf16_values_scratch(&p->w) * sizeof(float));
    psr_winograd_bf16_forward(&p->w, p->x, p->weights, p->y, scratch);
    psr_winograd_bf16_source_gradient(&p->w, p->dy, p->weights, p->dx, scratch);
    free(scratch);
    scratch = bytes(psr_winograd_bf16_weights_scratch(&p->w) * sizeof(float));
    psr_winograd_bf16_weights_gradient(&p->w, p->x, p->dy, p->dw, scratch);
    free(scratch);
}

/* Of x[n][c][y][x] in blocks of 16 channels. */
static size_t place(const psr_winograd *w, uint32_t channels, size_t n, size_t c, size_t y,
                    size_t x)
{
    return (((n * (channels / 16) + c / 16) * w->height + y) * w->width + x) * 16 + c % 16;
}

/* What one tap of one window contributes to y, dx and dw. */
static void sum_tap(const problem *p, size_t n, size_t o, size_t i, size_t k, double *y, double *dx,
                    double *dw)
{
    const psr_winograd *w = &p->w;
    const size_t at_w = (o * w->in + i) * 9 + k;
    for (size_t row = 0; row < w->height; row++)
        for (size_t column = 0; column < w->width; column++) {
            const size_t from_row = row + k / 3, from_column = column + k % 3; /* + padding */
            if (from_row < 1 || from_row > w->height || from_column < 1 || from_column > w->width)
                continue;
            const size_t at_y = place(w, w->out, n, o, row, column);
            const size_t at_x = place(w, w->in, n, i, from_row - 1, from_column - 1);
            const double x = (double)psr_bf16_to_float(p->x[at_x]),
                         gradient = (double)psr_bf16_to_float(p->dy[at_y]);
            y[at_y] += x * (double)p->weights[at_w];
            dx[at_x] += gradient * (double)p->weights[at_w];
            dw[at_w] += gradient * x;
        }
}

static void assert_near(const psr_winograd *w, const char *what, const void *found, bool halves,
                        const double *expected, size_t count)
{
    double error = 0, whole = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = halves ? (double)psr_bf16_to_float(((const uint16_t *)found)[i])
                                    : (double)((const float *)found)[i];
        error += (value - expected[i]) * (value - expected[i]);
        whole += expected[i] * expected[i];
    }
    if (!(sqrt(error / whole) <= LIMIT))
        fail_msg("%s of %u x %u->%u, %ux%u is off by %.3g of its norm, more than %.3g", what,
                 w->images, w->in, w->out, w->height, w->width, sqrt(error / whole), LIMIT);
}

static void check(psr_winograd w)
{
    problem p = problem_of(w);
    double *y = calloc(p.y_count, sizeof *y), *dx = calloc(p.x_count, sizeof *dx),
           *dw = calloc(p.w_count, sizeof *dw);
    assert_true(y != NULL && dx != NULL && dw != NULL);
    for (size_t n = 0; n < w.images; n++)
        for (size_t o = 0; o < w.out; o++)
            for (size_t i = 0; i < w.in; i++)
                for (size_t k = 0; k < 9; k++)
                    sum_tap(&p, n, o, i, k, y, dx, dw);
    solve(&p);
    assert_near(&w, "the forward pass", p.y, true, y, p.y_count);
    assert_near(&w, "the source's gradient", p.dx, true, dx, p.x_count);
    assert_near(&w, "the weights' gradient", p.dw, false, dw, p.w_count);
    free(y);
    free(dx);
    free(dw);
    problem_done(&p);
}

/* Whole and cut tiles in height and width, even and odd numbers of tiles, one panel of channels and
 * several, one image and several. */
static void all_shapes_agree_with_the_definition(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {2, 7}, {4, 4}, {5, 3}, {8, 12}, {9, 6}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check((psr_winograd){1, 32, 32, sizes[i][0], sizes[i][1], 16, 2, true});
        check((psr_winograd){3, 64, 96, sizes[i][0], sizes[i][1], 16, 2, true});
        check((psr_winograd){2, 96, 32, sizes[i][0], sizes[i][1], 16, 3, true});
    }
}

/* More tiles than a chunk has, and more than are summed up at a time. */
static void many_tiles_agree_too(void **state)
{
    (void)state;
    check((psr_winograd){5, 32, 64, 33, 30, 16, 2, true});
    check((psr_winograd){2, 160, 96, 28, 28, 16, 2, true});
}

static void the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    problem one = problem_of((psr_winograd){5, 96, 160, 17, 14, 16, 1, true});
    solve(&one);
    for (uint32_t threads = 2; threads <= 5; threads++) {
        problem several = problem_of((psr_winograd){5, 96, 160, 17, 14, 16, threads, true});
        solve(&several);
        assert_memory_equal(several.y, one.y, one.y_count * sizeof(uint16_t));
        assert_memory_equal(several.dx, one.dx, one.x_count * sizeof(uint16_t));
        assert_memory_equal(several.dw, one.dw, one.w_count * sizeof(float));
        problem_done(&several);
    }
    problem_done(&one);
}

int main(void)
{
    if (!psr_bf16_dots_supported()) {
        printf("1..0 # SKIP this processor has no bf16 dot products\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shapes_agree_with_the_definition),
        cmocka_unit_test(many_tiles_agree_too),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
    };
    return cmocka_run_group_tests_name("winograd_bf16", tests, NULL, NULL);
}
