/* The weights' gradient of 1x1 convolutions in bf16 against its definition, in double. */
#include "model/onednn/kernels/pointwise_bf16.h"

#include "base/rng.h"
#include "model/onednn/kernels/bf16.h"
#include "tests/unit/expect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Root mean square of the error over that of the result: products of bf16 are exact in float32, so
 * some roundings of a float (6e-8). */
#define LIMIT 1e-6

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

static float *gradient_of(const psr_pointwise *p, const uint16_t *x, const uint16_t *dy)
{
    float *dw = bytes((size_t)p->in * p->out * sizeof *dw);
    float *scratch = bytes(psr_pointwise_scratch(p) * sizeof *scratch);
    psr_pointwise_weights_gradient(p, x, dy, dw, scratch);
    free(scratch);
    return dw;
}

/* Of x[n][c][s] in blocks of 16 channels. */
static double value(const psr_pointwise *p, const uint16_t *x, uint32_t channels, size_t n,
                    size_t c, size_t s)
{
    const size_t block = n * (channels / 16) + c / 16;
    return (double)psr_bf16_to_float(x[(block * p->pixels + s) * 16 + c % 16]);
}

static void check(psr_pointwise p)
{
    const size_t pixels = (size_t)p.images * p.pixels;
    uint16_t *x = random_halves(pixels * p.in, 1), *dy = random_halves(pixels * p.out, 2);
    float *dw = gradient_of(&p, x, dy);
    double error = 0, whole = 0;
    for (size_t o = 0; o < p.out; o++)
        for (size_t i = 0; i < p.in; i++) {
            double sum = 0;
            for (size_t n = 0; n < p.images; n++)
                for (size_t s = 0; s < p.pixels; s++)
                    sum += value(&p, x, p.in, n, i, s) * value(&p, dy, p.out, n, o, s);
            const double off = (double)dw[o * p.in + i] - sum;
            error += off * off;
            whole += sum * sum;
        }
    if (!(sqrt(error / whole) <= LIMIT))
        fail_msg("%u images of %u pixels, %u->%u: off by %.3g of its norm, more than %.3g",
                 p.images, p.pixels, p.in, p.out, sqrt(error / whole), LIMIT);
    free(x);
    free(dy);
    free(dw);
}

/* Even and odd numbers of pixels in an image and in all, pairs across two images, one pixel. */
static void all_shapes_agree_with_the_definition(void **state)
{
    (void)state;
    static const uint32_t pixels[] = {1, 2, 3, 49, 64};
    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++)
        for (uint32_t images = 1; images <= 4; images++) {
            check((psr_pointwise){images, 32, 32, pixels[i], 2});
            check((psr_pointwise){images, 64, 160, pixels[i], 3});
        }
}

/* More pairs than a chunk has, and more rows than a part. */
static void many_pixels_and_channels_agree_too(void **state)
{
    (void)state;
    check((psr_pointwise){3, 32, 64, 3137, 2});
    check((psr_pointwise){7, 256, 512, 99, 2});
}

static void the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    psr_pointwise p = {5, 96, 224, 721, 1};
    const size_t pixels = (size_t)p.images * p.pixels;
    uint16_t *x = random_halves(pixels * p.in, 1), *dy = random_halves(pixels * p.out, 2);
    float *one = gradient_of(&p, x, dy);
    for (p.threads = 2; p.threads <= 5; p.threads++) {
        float *several = gradient_of(&p, x, dy);
        assert_memory_equal(several, one, (size_t)p.in * p.out * sizeof *one);
        free(several);
    }
    free(x);
    free(dy);
    free(one);
}

int main(void)
{
    if (!psr_bf16_dots_supported()) {
        printf("1..0 # SKIP this processor has no bf16 dot products\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_shapes_agree_with_the_definition),
        cmocka_unit_test(many_pixels_and_channels_agree_too),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
    };
    return cmocka_run_group_tests_name("pointwise_bf16", tests, NULL, NULL);
}
