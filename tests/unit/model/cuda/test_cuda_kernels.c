/* psring's kernels for GPUs on this processor, beside what the CPU computes: in 20 orders of their
 * threads, in odd sizes, of one value, and beyond the grid. */
#include "model/cuda/kernels/kernels.h"

#include "base/arrays/fold.h"
#include "model/loss.h"
#include "model/reference/ops.h"

#include "tests/unit/model/byte_batch.h"
#include "tests/unit/model/cuda/kernel_orders.h"

#include <float.h>

/* ---- value by value ---- */

static void cast_from(uint32_t from, const float *values, size_t count, size_t skip)
{
    const void *x = as_type(values, from, count);
    const size_t from_bytes = type_bytes(from);
    for (size_t t = 0; t < TYPES; t++) {
        const uint32_t to = all_types[t];
        const void *expected = as_type(as_floats(x, from, count), to, count);
        void *y = room(count * type_bytes(to));
        const psr_cuda_cast_args args = {.x = (const char *)x + skip * from_bytes,
                                         .y = y,
                                         .from = from,
                                         .to = to,
                                         .count = count - skip};
        PLAY(cast, &args,
             SAME(y, (const char *)expected + skip * type_bytes(to),
                  (count - skip) * type_bytes(to)));
    }
}

static void a_cast_rounds_as_the_cpu(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 7, 8, 2051};
    for (size_t c = 0; c < 4; c++)
        for (size_t t = 0; t < TYPES; t++)
            cast_from(all_types[t], floats(counts[c]), counts[c], 0);
    cast_from(PSR_CUDA_FLOAT32, floats(100), 100, 1); /* not aligned */
}

/* All words of 16 bits, and floats around each of them. */
static void a_cast_rounds_every_half_as_the_cpu(void **state)
{
    (void)state;
    uint16_t *halves = room(65536 * sizeof *halves);
    uint32_t *around = room(6 * 65536 * sizeof *around);
    for (uint32_t i = 0; i < 65536; i++) {
        halves[i] = (uint16_t)i;
        uint32_t bits;
        const float of_fp16 = psr_float16_to_float((uint16_t)i);
        memcpy(&bits, &of_fp16, sizeof bits);
        for (uint32_t k = 0; k < 3; k++) {
            around[6 * i + k] = (i << 16 | 0x7fffu) + k;
            around[6 * i + 3 + k] = bits + 0xfffu + k;
        }
    }
    static const uint32_t types[] = {PSR_CUDA_BF16, PSR_CUDA_FP16};
    for (size_t t = 0; t < 2; t++) {
        float *wide = room(65536 * sizeof *wide);
        psr_cuda_cast_args args = {
            .x = halves, .y = wide, .from = types[t], .to = PSR_CUDA_FLOAT32, .count = 65536};
        psr_emulated_kernel(PSR_CUDA_KERNEL_cast, 3, 256, &args, 1);
        assert_memory_equal(wide, as_floats(halves, types[t], 65536), 65536 * sizeof *wide);
        uint16_t *rounded = room(6 * 65536 * sizeof *rounded);
        args = (psr_cuda_cast_args){around, rounded, PSR_CUDA_FLOAT32, types[t], 6 * 65536};
        psr_emulated_kernel(PSR_CUDA_KERNEL_cast, 3, 256, &args, 1);
        assert_memory_equal(rounded, as_type((const float *)around, types[t], 6 * 65536),
                            6 * 65536 * sizeof *rounded);
    }
}

static void an_addition_rounds_once(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 9, 4099};
    for (size_t c = 0; c < 3; c++)
        for (size_t t = 0; t < TYPES; t++) {
            const size_t count = counts[c], bytes = count * type_bytes(all_types[t]);
            const void *a = as_type(floats(count), all_types[t], count);
            const void *b = as_type(floats(count), all_types[t], count);
            float *sum = as_floats(a, all_types[t], count);
            psr_fold_add(sum, as_floats(b, all_types[t], count), count);
            void *y = room(bytes);
            psr_cuda_add_args args = {a, b, y, all_types[t], count};
            const void *expected = as_type(sum, all_types[t], count);
            PLAY(add, &args, SAME(y, expected, bytes));
            args.a = y; /* in place */
            PLAY(add, &args, OVER(y, expected, bytes, a));
        }
}

static void a_relu_goes_forward_and_back(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 700};
    for (size_t i = 0; i < 2 * TYPES; i++) {
        const size_t count = counts[i / TYPES], bytes = count * type_bytes(all_types[i % TYPES]);
        const uint32_t type = all_types[i % TYPES];
        const void *x = as_type(floats(count), type, count),
                   *dy = as_type(floats(count), type, count);
        float *forward = as_floats(x, type, count), *back = as_floats(dy, type, count);
        for (size_t k = 0; k < count; k++) {
            back[k] = forward[k] > 0 ? back[k] : 0;
            forward[k] = forward[k] > 0 ? forward[k] : 0;
        }
        void *y = room(bytes);
        psr_cuda_relu_args args = {.x = x, .y = y, .type = type, .count = count};
        PLAY(relu, &args, SAME(y, as_type(forward, type, count), bytes));
        args.dy = dy;
        PLAY(relu, &args, SAME(y, as_type(back, type, count), bytes));
    }
}

/* ---- matrices that are turned around ---- */

typedef struct turned_shape {
    uint32_t batch, channels, wide, height, width;
} turned_shape;

static const turned_shape shapes[] = {
    {1, 1, 1, 1, 1},   {3, 3, 8, 7, 9},   {2, 1, 8, 29, 37}, {2, 70, 72, 3, 3},
    {3, 33, 33, 1, 1}, {2, 65, 65, 5, 7}, {1, 3, 4, 40, 33}, {5, 40, 48, 6, 6},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static void an_image_is_laid_out_by_channels(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES * TYPES; i++) {
        const turned_shape s = shapes[i / TYPES];
        const uint32_t type = all_types[i % TYPES], pixels = s.height * s.width;
        const size_t count = (size_t)s.batch * pixels * s.wide;
        const float *x = floats((size_t)s.batch * s.channels * pixels);
        void *y = room(count * type_bytes(type));
        const psr_cuda_image_args args = {x,          y,      type,     s.batch,
                                          s.channels, s.wide, s.height, s.width};
        PLAY(image, &args,
             SAME(y, as_type(turned(x, s.batch, s.channels, pixels, s.wide, pixels), type, count),
                  count * type_bytes(type)));
    }
}

static void images_are_made_of_bytes_as_the_reference_does(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SHAPES; i++) {
        const turned_shape s = shapes[i];
        const size_t count = (size_t)s.batch * s.channels * s.height * s.width;
        byte_batch b = byte_batch_new(i, s.batch, s.channels, s.height, s.width);
        float *y = room(count * sizeof *y), *expected = room(count * sizeof *expected);
        psr_ref_images_of_bytes(s.batch, s.channels, s.height, s.width, &b.of, expected);
        const psr_cuda_images_of_bytes_args args = {
            copy_of(b.bytes, b.size),
            copy_of(b.images, s.batch * sizeof *b.images),
            copy_of(b.values, s.channels * PSR_BYTE_VALUES * sizeof *b.values),
            y,
            s.batch,
            s.channels,
            s.height,
            s.width};
        byte_batch_spoil(&b, s.batch, s.channels);
        PLAY(images_of_bytes, &args, SAME(y, expected, count * sizeof *y));
    }
}

static void a_filter_and_its_gradient_are_laid_out_by_channels(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const turned_shape s = shapes[i];
        const uint32_t type = all_types[i % TYPES], pixels = s.height * s.width;
        const size_t plain = (size_t)s.batch * s.channels * pixels;
        const size_t count = (size_t)s.batch * pixels * s.wide;
        const float *w = floats(plain);
        void *y = room(count * type_bytes(type));
        const psr_cuda_filter_args args = {w,          y,      type,     s.batch,
                                           s.channels, s.wide, s.height, s.width};
        PLAY(filter, &args,
             SAME(y, as_type(turned(w, s.batch, s.channels, pixels, s.wide, pixels), type, count),
                  count * type_bytes(type)));

        const float *dy = floats(count);
        float *dw = room(plain * sizeof *dw);
        const psr_cuda_filter_gradient_args back = {dy,     dw,       s.batch, s.channels,
                                                    s.wide, s.height, s.width};
        PLAY(filter_gradient, &back,
             SAME(dw, turned(dy, s.batch, pixels, s.channels, pixels, s.wide), plain * sizeof *dw));
    }
}

static void rows_are_flat_and_an_image_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const turned_shape s = shapes[i];
        const uint32_t type = all_types[i % TYPES], pixels = s.height * s.width;
        const size_t count = (size_t)s.batch * s.channels * pixels;
        const size_t bytes = count * type_bytes(type);
        const float *x = floats(count);
        void *y = room(bytes);
        psr_cuda_flatten_args args = {
            as_type(x, type, count), y, 0, type, s.batch, s.channels, pixels};
        PLAY(flatten, &args,
             SAME(y,
                  as_type(turned(x, s.batch, pixels, s.channels, pixels, s.channels), type, count),
                  bytes));
        args.back = 1;
        PLAY(flatten, &args,
             SAME(y,
                  as_type(turned(x, s.batch, s.channels, pixels, s.channels, pixels), type, count),
                  bytes));
    }
}

/* ---- the loss ---- */

/* A label of its own for each sample, and a second one for mixed samples, now and then the same. */
static void play_loss(uint32_t samples, uint32_t classes, bool mixed, double smoothing,
                      uint32_t type)
{
    const size_t count = (size_t)samples * classes;
    float *logits = floats(count);
    for (size_t i = 0; i < count; i++)
        logits[i] = i % 7 == 0 ? 3 : 20 * logits[i]; /* some are equal */
    uint32_t *labels = room(samples * sizeof *labels), *seconds = room(samples * sizeof *seconds);
    float *shares = room(samples * sizeof *shares);
    for (uint32_t n = 0; n < samples; n++) {
        labels[n] = 5 * n % classes;
        seconds[n] = 3 * n % classes;
        shares[n] = (float)(n % 8) / 8;
    }
    const psr_second_labels second = {seconds, shares};
    double *losses = room(samples * sizeof *losses), *found = room(samples * sizeof *found);
    uint32_t *correct = room(samples * sizeof *correct), *top5 = room(samples * sizeof *top5);
    uint32_t *is_correct = room(samples * sizeof *correct), *is_top5 = room(samples * sizeof *top5);
    float *gradient = room(count * sizeof *gradient);
    double total = 0;
    uint32_t counts[2] = {0};
    for (uint32_t n = 0; n < samples; n++) {
        const psr_second_labels its = {seconds + n, shares + n};
        psr_pass_result one;
        psr_loss_cross_entropy(logits + (size_t)n * classes, labels + n, mixed ? &its : NULL, 1,
                               classes, smoothing, 0.125f, gradient + (size_t)n * classes, &one);
        losses[n] = one.loss_sum;
        is_correct[n] = (uint32_t)one.correct;
        is_top5[n] = (uint32_t)one.top5;
        total += one.loss_sum;
        counts[0] += is_correct[n];
        counts[1] += is_top5[n];
    }
    const size_t bytes = samples * sizeof *top5;
    void *dx = room(count * type_bytes(type));
    psr_cuda_loss_args args = {.logits = logits,
                               .labels = labels,
                               .second_labels = mixed ? second.labels : NULL,
                               .shares = mixed ? second.shares : NULL,
                               .gradient = dx,
                               .losses = found,
                               .correct = correct,
                               .top5 = top5,
                               .label_smoothing = smoothing,
                               .scale = 0.125f,
                               .type = type,
                               .samples = samples,
                               .classes = classes};
    if (type == PSR_CUDA_FLOAT32)
        PLAY(loss, &args, NEAR(DOUBLES, found, losses, samples, 1e-13),
             SAME(correct, is_correct, bytes), SAME(top5, is_top5, bytes),
             NEAR(FLOATS, dx, gradient, count, 1e-8));
    else
        PLAY(loss, &args, NEAR(DOUBLES, found, losses, samples, 1e-13),
             SAME(correct, is_correct, bytes), SAME(top5, is_top5, bytes),
             SAME(dx, as_type(gradient, type, count), count * type_bytes(type)));
    args.gradient = NULL;
    PLAY(loss, &args, NEAR(DOUBLES, found, losses, samples, 1e-13),
         SAME(correct, is_correct, bytes), SAME(top5, is_top5, bytes));

    double ret_loss;
    uint32_t ret_counts[2];
    const psr_cuda_loss_total_args of_all = {found, correct, top5, &ret_loss, ret_counts, samples};
    PLAY(loss_total, &of_all, NEAR(DOUBLES, &ret_loss, &total, 1, 1e-13),
         SAME(ret_counts, counts, sizeof counts));
}

static void the_loss_is_the_cpus(void **state)
{
    (void)state;
    play_loss(1, 1, false, 0, PSR_CUDA_FLOAT32);
    play_loss(7, 10, false, 0, PSR_CUDA_FLOAT32);
    play_loss(7, 10, true, 0.1, PSR_CUDA_FLOAT32);
    play_loss(5, 33, false, 0.1, PSR_CUDA_BF16);
    play_loss(3, 1000, true, 0.2, PSR_CUDA_FP16);
    play_loss(300, 2, false, 0.1, PSR_CUDA_FLOAT32);
}

/* ---- matrices ---- */

static float *transposed(const float *x, uint32_t rows, uint32_t columns)
{
    return turned(x, 1, rows, columns, rows, columns);
}

static void play_product(uint32_t rows, uint32_t inner, uint32_t columns)
{
    const float *a = floats((size_t)rows * inner), *b = floats((size_t)columns * inner);
    const float *bias = floats(columns);
    float *c = room((size_t)rows * columns * sizeof *c);
    float *expected = room((size_t)rows * columns * sizeof *expected);
    for (uint32_t way = 0; way < 8; way++) {
        const bool with_bias = way & 4;
        psr_ref_linear_forward(rows, inner, columns, a, b, with_bias ? bias : NULL, expected);
        const psr_cuda_product_args args = {.a = way & 1 ? transposed(a, rows, inner) : a,
                                            .b = way & 2 ? b : transposed(b, columns, inner),
                                            .bias = with_bias ? bias : NULL,
                                            .c = c,
                                            .rows = rows,
                                            .inner = inner,
                                            .columns = columns,
                                            .a_turned = way & 1,
                                            .b_turned = way >> 1 & 1};
        PLAY(product, &args, NEAR(FLOATS, c, expected, (size_t)rows * columns, 1e-6 * sqrt(inner)));
    }
}

static void a_product_is_that_of_the_linear_layer(void **state)
{
    (void)state;
    play_product(1, 1, 1);
    play_product(3, 17, 5);
    play_product(65, 33, 130);
}

/* The order of lanes.h: lane l of 16 sums rows l, l + 16, .., and a tree adds up the lanes. */
static float sum_in_order(const float *x, uint32_t rows, uint32_t columns, uint32_t c)
{
    enum { LANES = 16 };
    float lanes[LANES] = {0};
    for (uint32_t r = 0; r < rows; r++)
        lanes[r % LANES] += x[(size_t)r * columns + c];
    for (uint32_t half = LANES / 2; half >= 1; half /= 2)
        for (uint32_t l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

/* How far any such sum may be from the exact one: a value takes part in at most d roundings, one in
 * each addition to its lane's sum but the first, and four in the tree, so it is off by
 * ((1 + u)^d - 1) sum |x| at most (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
 * section 4.2), u = 2^-24. One more rounding is the expected value's. */
static double sum_bound(const float *x, uint32_t rows, uint32_t columns, uint32_t c)
{
    const double roundings = (rows + 15) / 16 - 1 + 4 + 1;
    double total = 0;
    for (uint32_t r = 0; r < rows; r++)
        total += fabs((double)x[(size_t)r * columns + c]);
    return expm1(roundings * log1p(FLT_EPSILON / 2)) * total;
}

static void columns_are_summed(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {3, 10}, {100, 17}, {1037, 50}};
    for (size_t i = 0; i < 4 * TYPES; i++) {
        const uint32_t rows = sizes[i / TYPES][0], columns = sizes[i / TYPES][1];
        const uint32_t type = all_types[i % TYPES];
        const size_t count = (size_t)rows * columns;
        const void *x = as_type(floats(count), type, count);
        const float *values = as_floats(x, type, count);
        float *y = room(columns * sizeof *y), *expected = room(columns * sizeof *expected);
        float *in_order = room(columns * sizeof *in_order);
        double *bounds = room(columns * sizeof *bounds);
        psr_ref_linear_backward(rows, 0, columns, NULL, NULL, values, NULL, NULL, expected);
        for (uint32_t c = 0; c < columns; c++) {
            in_order[c] = sum_in_order(values, rows, columns, c);
            bounds[c] = sum_bound(values, rows, columns, c);
        }
        const psr_cuda_column_sums_args args = {x, y, rows, type, columns};
        PLAY(column_sums, &args, SAME(y, in_order, columns * sizeof *y),
             WITHIN(FLOATS, y, expected, columns, bounds));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_TEST(a_cast_rounds_as_the_cpu),
        KERNEL_TEST(a_cast_rounds_every_half_as_the_cpu),
        KERNEL_TEST(an_addition_rounds_once),
        KERNEL_TEST(an_image_is_laid_out_by_channels),
        KERNEL_TEST(images_are_made_of_bytes_as_the_reference_does),
        KERNEL_TEST(a_filter_and_its_gradient_are_laid_out_by_channels),
        KERNEL_TEST(rows_are_flat_and_an_image_again),
        KERNEL_TEST(the_loss_is_the_cpus),
        KERNEL_TEST(a_product_is_that_of_the_linear_layer),
        KERNEL_TEST(columns_are_summed),
        KERNEL_TEST(a_relu_goes_forward_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
