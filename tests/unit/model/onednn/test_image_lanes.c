/* Convolutions of few channels with images in lanes: against sums in double, in odd shapes, numbers
 * of images and of threads; and that no bit depends on the width of the vectors. Exit 77 where the
 * processor has not the instructions. */
#include "model/onednn/kernels/image_lanes.h"

#include "base/rng.h"
#include "model/onednn/kernels/bf16.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/expect.h"

#define GUARD 1e30f /* lies behind each array, and stays */

typedef struct arrays {
    size_t x_count, y_count, w_count, out;
    float *x, *y, *w, *bias, *scratch;
} arrays;

static float *floats(size_t count)
{
    float *values = aligned_alloc(64, ((count + 1) * sizeof *values + 63) / 64 * 64);
    assert_non_null(values);
    values[count] = GUARD;
    return values;
}

static float *random_floats(size_t count, uint64_t sample)
{
    float *values = floats(count);
    const psr_rng_at at = {.seed = 3, .purpose = PSR_RNG_SYNTHETIC, .sample = sample};
    for (size_t i = 0; i < count; i++)
        values[i] = 2 * psr_rng_unit(psr_rng_word(at, i)) - 1;
    return values;
}

static arrays arrays_of(const psr_image_lanes *c)
{
    const size_t height = c->height - c->kernel + 1, width = c->width - c->kernel + 1;
    arrays a = {.x_count = (size_t)c->images * c->in * c->height * c->width,
                .y_count = c->images * c->out * height * width,
                .w_count = (size_t)c->out * c->in * c->kernel * c->kernel,
                .out = c->out};
    a.x = random_floats(a.x_count, 1);
    a.y = random_floats(a.y_count, 2);
    a.w = random_floats(a.w_count, 3);
    a.bias = random_floats(a.out, 4);
    a.scratch = floats(psr_image_lanes_scratch(c));
    return a;
}

static void arrays_done(arrays *a)
{
    free(a->x);
    free(a->y);
    free(a->w);
    free(a->bias);
    free(a->scratch);
}

/* ---- in double ---- */

typedef struct expected {
    double *y, *dx, *dw, *dbias;
} expected;

static double *doubles(size_t count)
{
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

/* y by x, and of the gradient a->y all else. */
static expected expect(const psr_image_lanes *c, const arrays *a)
{
    const size_t height = c->height - c->kernel + 1, width = c->width - c->kernel + 1;
    expected e = {doubles(a->y_count), doubles(a->x_count), doubles(a->w_count), doubles(a->out)};
    for (size_t n = 0; n < c->images; n++)
        for (size_t o = 0; o < c->out; o++)
            for (size_t row = 0; row < height; row++)
                for (size_t column = 0; column < width; column++) {
                    const size_t to = ((n * c->out + o) * height + row) * width + column;
                    e.y[to] = (double)a->bias[o];
                    e.dbias[o] += (double)a->y[to];
                    for (size_t i = 0; i < c->in; i++)
                        for (size_t r = 0; r < c->kernel; r++)
                            for (size_t k = 0; k < c->kernel; k++) {
                                const size_t w = ((o * c->in + i) * c->kernel + r) * c->kernel + k;
                                const size_t x =
                                    ((n * c->in + i) * c->height + row + r) * c->width + column + k;
                                e.y[to] += (double)a->w[w] * (double)a->x[x];
                                e.dx[x] += (double)a->w[w] * (double)a->y[to];
                                e.dw[w] += (double)a->x[x] * (double)a->y[to];
                            }
                }
    return e;
}

static void expected_done(expected *e)
{
    free(e->y);
    free(e->dx);
    free(e->dw);
    free(e->dbias);
}

static void expect_close(const char *what, const float *found, const double *wanted, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)found[i] - wanted[i]) * ((double)found[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    if (!(sqrt(difference) <= 5e-6 * sqrt(norm)))
        fail_msg("%s is off by %g of %g", what, sqrt(difference), sqrt(norm));
    assert_true(found[count] == GUARD);
}

/* ---- all three passes ---- */

typedef struct passes {
    float *y, *dx, *dw, *dbias;
} passes;

static passes run(const psr_image_lanes *c, arrays *a)
{
    passes p = {floats(a->y_count), floats(a->x_count), floats(a->w_count), floats(a->out)};
    psr_image_lanes_forward(c, a->x, a->w, a->bias, p.y, a->scratch);
    psr_image_lanes_source_gradient(c, a->y, a->w, p.dx, a->scratch);
    psr_image_lanes_weights_gradient(c, a->x, a->y, p.dw, p.dbias, a->scratch);
    assert_true(a->scratch[psr_image_lanes_scratch(c)] == GUARD);
    return p;
}

static void passes_done(passes *p)
{
    free(p->y);
    free(p->dx);
    free(p->dw);
    free(p->dbias);
}

static const psr_image_lanes shapes[] = {
    {.images = 32, .in = 1, .out = 10, .height = 28, .width = 28, .kernel = 5},
    {.images = 48, .in = 10, .out = 20, .height = 12, .width = 12, .kernel = 5},
    {.images = 1, .in = 1, .out = 1, .height = 2, .width = 2, .kernel = 2},
    {.images = 17, .in = 3, .out = 7, .height = 9, .width = 6, .kernel = 3},
    {.images = 31, .in = 6, .out = 11, .height = 5, .width = 13, .kernel = 4},
    {.images = 16, .in = 2, .out = 5, .height = 7, .width = 7, .kernel = 7},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void sums_agree_with_those_in_double(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            psr_image_lanes c = shapes[i];
            c.threads = threads;
            c.lanes = psr_image_lanes_widest();
            arrays a = arrays_of(&c);
            expected e = expect(&c, &a);
            passes p = run(&c, &a);
            expect_close("y", p.y, e.y, a.y_count);
            expect_close("dx", p.dx, e.dx, a.x_count);
            expect_close("dw", p.dw, e.dw, a.w_count);
            expect_close("dbias", p.dbias, e.dbias, a.out);
            passes_done(&p);
            expected_done(&e);
            arrays_done(&a);
        }
}

static void the_width_of_vectors_changes_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        psr_image_lanes c = shapes[i];
        c.threads = 2;
        arrays a = arrays_of(&c);
        c.lanes = psr_image_lanes_widest();
        passes wide = run(&c, &a);
        c.lanes = 8;
        passes narrow = run(&c, &a);
        assert_memory_equal(wide.y, narrow.y, a.y_count * sizeof(float));
        assert_memory_equal(wide.dx, narrow.dx, a.x_count * sizeof(float));
        assert_memory_equal(wide.dw, narrow.dw, a.w_count * sizeof(float));
        assert_memory_equal(wide.dbias, narrow.dbias, a.out * sizeof(float));
        passes_done(&wide);
        passes_done(&narrow);
        arrays_done(&a);
    }
}

static uint16_t *halves_of(const float *values, size_t count)
{
    uint16_t *halves = calloc(count, sizeof *halves);
    assert_non_null(halves);
    for (size_t i = 0; i < count; i++)
        halves[i] = psr_bf16_from_float(values[i]);
    return halves;
}

/* In place: what bf16 leaves of it. */
static void round_values(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = psr_bf16_to_float(psr_bf16_from_float(values[i]));
}

static void expect_halves(const uint16_t *found, const float *wanted, size_t count)
{
    uint16_t *halves = halves_of(wanted, count);
    assert_memory_equal(found, halves, count * sizeof *halves);
    free(halves);
}

/* bf16 is float32 with rounded values: the same sums, rounded once. */
static void values_in_bf16_are_summed_as_those_in_float32(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        psr_image_lanes c = shapes[i];
        c.threads = 2;
        c.lanes = psr_image_lanes_widest();
        arrays a = arrays_of(&c);
        a.x[0] = a.y[0] = NAN;
        round_values(a.x, a.x_count);
        round_values(a.y, a.y_count);
        passes p = run(&c, &a);
        uint16_t *x = halves_of(a.x, a.x_count), *dy = halves_of(a.y, a.y_count);
        uint16_t *y = calloc(a.y_count, sizeof *y), *dx = calloc(a.x_count, sizeof *dx);
        float *dw = floats(a.w_count), *dbias = floats(a.out);
        assert_true(y != NULL && dx != NULL);
        c.bf16 = true;
        psr_image_lanes_forward(&c, x, a.w, a.bias, y, a.scratch);
        psr_image_lanes_source_gradient(&c, dy, a.w, dx, a.scratch);
        psr_image_lanes_weights_gradient(&c, x, dy, dw, dbias, a.scratch);
        expect_halves(y, p.y, a.y_count);
        expect_halves(dx, p.dx, a.x_count);
        assert_memory_equal(dw, p.dw, a.w_count * sizeof *dw);
        assert_memory_equal(dbias, p.dbias, a.out * sizeof *dbias);
        free(x);
        free(dy);
        free(y);
        free(dx);
        free(dw);
        free(dbias);
        passes_done(&p);
        arrays_done(&a);
    }
}

static void it_fits_few_channels_of_small_images_that_fill_the_lanes(void **state)
{
    (void)state;
    psr_image_lanes c = shapes[0];
    c.threads = 2;
    c.lanes = 8;
    assert_true(psr_image_lanes_fit(&c));
    c.images = 16; /* one thread would have none */
    assert_false(psr_image_lanes_fit(&c));
    c.threads = 1;
    assert_true(psr_image_lanes_fit(&c));
    c.images = 11;
    assert_false(psr_image_lanes_fit(&c));
    c.images = 128;
    c.height = c.width = 224;
    assert_false(psr_image_lanes_fit(&c));
    c.height = c.width = 28;
    c.out = 64;
    assert_false(psr_image_lanes_fit(&c));
    c.out = 10;
    c.lanes = 0;
    assert_false(psr_image_lanes_fit(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_those_in_double),
        cmocka_unit_test(the_width_of_vectors_changes_no_bit),
        cmocka_unit_test(values_in_bf16_are_summed_as_those_in_float32),
        cmocka_unit_test(it_fits_few_channels_of_small_images_that_fill_the_lanes),
    };
    if (psr_image_lanes_widest() == 0) {
        printf("skipped: images in lanes need AVX2 and FMA\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
