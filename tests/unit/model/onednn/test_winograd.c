/* Our own Winograd against the sums of the convolution's definition, in double. */
#include "model/onednn/kernels/winograd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/expect.h"

/* Root mean square of the error over that of the result: a few roundings of a float (6e-8). */
#define LIMIT 2e-6

typedef struct problem {
    psr_winograd w;
    float *x, *dy, *weights; /* given */
    float *y, *dx, *dw;      /* found */
    size_t x_count, y_count, w_count;
} problem;

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 64) / 64 * 64);
    assert_non_null(x);
    memset(x, 0xff, count * sizeof *x); /* NaN: what is read before it is written shows */
    return x;
}

static float *random_floats(size_t count, uint64_t seed)
{
    const psr_rng_at at = {.seed = seed};
    float *x = floats(count);
    for (size_t i = 0; i < count; i++)
        x[i] = psr_rng_unit(psr_rng_word(at, i)) - 0.5f;
    return x;
}

static problem problem_of(psr_winograd w)
{
    const size_t pixels = (size_t)w.images * w.height * w.width;
    problem p = {.w = w,
                 .x_count = pixels * w.in,
                 .y_count = pixels * w.out,
                 .w_count = (size_t)9 * w.in * w.out};
    p.x = random_floats(p.x_count, 1);
    p.dy = random_floats(p.y_count, 2);
    p.weights = random_floats(p.w_count, 3);
    p.y = floats(p.y_count);
    p.dx = floats(p.x_count);
    p.dw = floats(p.w_count);
    return p;
}

static void problem_done(problem *p)
{
    float *all[] = {p->x, p->dy, p->weights, p->y, p->dx, p->dw};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void solve(problem *p)
{
    float *scratch = floats(psr_winograd_values_scratch(&p->w));
    psr_winograd_forward(&p->w, p->x, p->weights, p->y, scratch);
    psr_winograd_source_gradient(&p->w, p->dy, p->weights, p->dx, scratch);
    free(scratch);
    scratch = floats(psr_winograd_weights_scratch(&p->w));
    psr_winograd_weights_gradient(&p->w, p->x, p->dy, p->dw, scratch);
    free(scratch);
}

/* Of x[n][c][y][x] in blocks of `lanes` channels. */
static size_t place(const psr_winograd *w, uint32_t channels, size_t n, size_t c, size_t y,
                    size_t x)
{
    return (((n * (channels / w->lanes) + c / w->lanes) * w->height + y) * w->width + x) *
               w->lanes +
           c % w->lanes;
}

/* y, dx and dw at once: every product of the definition belongs to one sum of each. */
static void sum(const problem *p, double *y, double *dx, double *dw)
{
    const psr_winograd *w = &p->w;
    for (size_t n = 0; n < w->images; n++)
        for (size_t o = 0; o < w->out; o++)
            for (size_t i = 0; i < w->in; i++)
                for (size_t row = 0; row < w->height; row++)
                    for (size_t column = 0; column < w->width; column++)
                        for (size_t k = 0; k < 9; k++) {
                            const size_t from_row = row + k / 3,
                                         /* + padding */
                                from_column = column + k % 3;
                            if (from_row < 1 || from_row > w->height || from_column < 1 ||
                                from_column > w->width)
                                continue;
                            const size_t at_y = place(w, w->out, n, o, row, column);
                            const size_t at_x =
                                place(w, w->in, n, i, from_row - 1, from_column - 1);
                            const size_t at_w = (o * w->in + i) * 9 + k;
                            y[at_y] += (double)p->x[at_x] * p->weights[at_w];
                            dx[at_x] += (double)p->dy[at_y] * p->weights[at_w];
                            dw[at_w] += (double)p->dy[at_y] * p->x[at_x];
                        }
}

static void assert_near(const psr_winograd *w, const char *what, const float *found,
                        const double *expected, size_t count)
{
    double error = 0, whole = 0;
    for (size_t i = 0; i < count; i++) {
        error += (found[i] - expected[i]) * (found[i] - expected[i]);
        whole += expected[i] * expected[i];
    }
    if (!(sqrt(error / whole) <= LIMIT))
        fail_msg(
            "%s of %u x %u->%u, %ux%u, blocks of %u, is off by %.3g of its norm, more than %.3g",
            what, w->images, w->in, w->out, w->height, w->width, w->lanes, sqrt(error / whole),
            LIMIT);
}

static void check(psr_winograd w)
{
    problem p = problem_of(w);
    double *y = calloc(p.y_count, sizeof *y), *dx = calloc(p.x_count, sizeof *dx),
           *dw = calloc(p.w_count, sizeof *dw);
    assert_true(y != NULL && dx != NULL && dw != NULL);
    sum(&p, y, dx, dw);
    solve(&p);
    assert_near(&w, "the forward pass", p.y, y, p.y_count);
    assert_near(&w, "the source's gradient", p.dx, dx, p.x_count);
    assert_near(&w, "the weights' gradient", p.dw, dw, p.w_count);
    free(y);
    free(dx);
    free(dw);
    problem_done(&p);
}

/* Whole and cut tiles in height and width, whole and half panels of channels, one image and
 * several. */
static void all_shapes_agree_with_the_definition(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {2, 7}, {4, 4}, {5, 3}, {8, 12}, {9, 6}};
    for (uint32_t lanes = 8; lanes <= 16; lanes += 8)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            check((psr_winograd){1, lanes, lanes, sizes[i][0], sizes[i][1], lanes, 2, false});
            check(
                (psr_winograd){3, 2 * lanes, 3 * lanes, sizes[i][0], sizes[i][1], lanes, 2, false});
            check(
                (psr_winograd){2, 5 * lanes, 2 * lanes, sizes[i][0], sizes[i][1], lanes, 3, false});
        }
}

/* More tiles than a chunk has, and more channels than are summed up at a time. */
static void many_tiles_and_channels_agree_too(void **state)
{
    (void)state;
    check((psr_winograd){17, 8, 16, 33, 30, 8, 2, false});
    check((psr_winograd){2, 168, 72, 8, 8, 8, 2, false});
    check((psr_winograd){2, 80, 176, 8, 8, 16, 2, false});
}

static void the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    for (uint32_t lanes = 8; lanes <= 16; lanes += 8) {
        problem one = problem_of((psr_winograd){5, 3 * lanes, 5 * lanes, 17, 14, lanes, 1, false});
        solve(&one);
        for (uint32_t threads = 2; threads <= 5; threads++) {
            problem several =
                problem_of((psr_winograd){5, 3 * lanes, 5 * lanes, 17, 14, lanes, threads, false});
            solve(&several);
            assert_memory_equal(several.y, one.y, one.y_count * sizeof(float));
            assert_memory_equal(several.dx, one.dx, one.x_count * sizeof(float));
            assert_memory_equal(several.dw, one.dw, one.w_count * sizeof(float));
            problem_done(&several);
        }
        problem_done(&one);
    }
}

int main(void)
{
    if (!psr_winograd_supported()) {
        printf("1..0 # SKIP this processor has no AVX2\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shapes_agree_with_the_definition),
        cmocka_unit_test(many_tiles_and_channels_agree_too),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
    };
    return cmocka_run_group_tests_name("winograd", tests, NULL, NULL);
}
