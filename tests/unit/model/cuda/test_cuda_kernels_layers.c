/* The kernels of layers beside the reference back end's: dropout, gates, option A's shortcut, batch
 * norm by running statistics. There images lie channel by channel; here they are turned around. */
#include "model/dropout.h"
#include "model/reference/ops.h"

#include "tests/unit/model/cuda/kernel_orders.h"

typedef struct image_shape {
    uint32_t samples, channels, height, width;
} image_shape;

static const image_shape shapes[] = {
    {1, 1, 1, 1}, {3, 10, 1, 1}, {2, 7, 3, 5}, {2, 24, 4, 6}, {3, 130, 2, 2}, {1, 16, 9, 9},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static uint32_t pixels_of(image_shape s)
{
    return s.height * s.width;
}

static size_t count_of(image_shape s)
{
    return (size_t)s.samples * s.channels * pixels_of(s);
}

/* Random values that the type holds, by channels. */
static float *image_of(image_shape s, uint32_t type)
{
    const float *x = floats(count_of(s));
    return as_floats(as_type(x, type, count_of(s)), type, count_of(s));
}

/* As the GPU has it. */
static void *on_gpu(const float *x, image_shape s, uint32_t type)
{
    const uint32_t P = pixels_of(s);
    return as_type(turned(x, s.samples, s.channels, P, s.channels, P), type, count_of(s));
}

static float *zeros(size_t count)
{
    return memset(room(count * sizeof(float)), 0, count * sizeof(float));
}

static void play_dropout(image_shape s, uint32_t type, bool whole_channels, double drop)
{
    uint32_t *samples = room(s.samples * sizeof *samples);
    for (uint32_t n = 0; n < s.samples; n++)
        samples[n] = 1000 * n + 7;
    const size_t bytes = count_of(s) * type_bytes(type);
    const psr_batch batch = {
        .samples = samples, .count = s.samples, .epoch = 5, .seed = 0x123456789abcdefu};
    const psr_dropout dropout = {.C = s.channels,
                                 .S = pixels_of(s),
                                 .drop = drop,
                                 .node = 11,
                                 .whole_channels = whole_channels};
    const float *x = image_of(s, type);
    float *y = room(count_of(s) * sizeof *y);
    psr_ref_dropout_forward(&dropout, &batch, room(count_of(s)), x, y);
    void *found = room(bytes), *before = on_gpu(x, s, type);
    psr_cuda_dropout_args args = {.x = before,
                                  .y = found,
                                  .samples = samples,
                                  .seed = batch.seed,
                                  .drop = (float)drop,
                                  .scale = psr_dropout_scale(drop),
                                  .whole_channels = whole_channels,
                                  .epoch = batch.epoch,
                                  .node = dropout.node,
                                  .type = type,
                                  .count = s.samples,
                                  .channels = s.channels,
                                  .height = s.height,
                                  .width = s.width};
    const void *right = on_gpu(y, s, type);
    PLAY(dropout, &args, SAME(found, right, bytes));
    args.x = found; /* in place */
    PLAY(dropout, &args, OVER(found, right, bytes, before));
}

static void dropout_keeps_what_the_cpu_keeps(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES * TYPES; i++)
        for (uint32_t whole = 0; whole < 2; whole++) {
            play_dropout(shapes[i / TYPES], all_types[i % TYPES], whole, 0.5);
            play_dropout(shapes[i / TYPES], all_types[i % TYPES], whole, i % 2 ? 1 : 0.1);
        }
}

static void play_gate(image_shape s, uint32_t type)
{
    const size_t rows = (size_t)s.samples * s.channels, count = count_of(s);
    const image_shape one_pixel = {s.samples, s.channels, 1, 1};
    const float *x = image_of(s, type), *gate = image_of(one_pixel, type), *dy = image_of(s, type);
    float *y = room(count * sizeof *y), *dx = zeros(count), *ds = zeros(rows);
    psr_ref_gate_forward(rows, pixels_of(s), x, gate, y);
    psr_ref_gate_backward(rows, pixels_of(s), x, gate, dy, dx, ds);
    const size_t bytes = count * type_bytes(type);
    void *found = room(bytes), *found_ds = room(rows * type_bytes(type));
    const psr_cuda_gate_args args = {
        on_gpu(x, s, type), as_type(gate, type, rows), found, type, s.samples, s.channels,
        pixels_of(s)};
    PLAY(gate, &args, SAME(found, on_gpu(y, s, type), bytes));

    psr_cuda_gate_backward_args back = {args.x,    args.s,     on_gpu(dy, s, type),
                                        found,     found_ds,   type,
                                        s.samples, s.channels, pixels_of(s)};
    const void *right_dx = on_gpu(dx, s, type);
    if (type == PSR_CUDA_FLOAT32)
        PLAY(gate_backward, &back, SAME(found, right_dx, bytes),
             NEAR(FLOATS, found_ds, ds, rows, 1e-6));
    else
        PLAY(gate_backward, &back, SAME(found, right_dx, bytes));
    back.ds = NULL;
    PLAY(gate_backward, &back, SAME(found, right_dx, bytes));
    back.ds = found_ds;
    back.dx = NULL;
    if (type == PSR_CUDA_FLOAT32)
        PLAY(gate_backward, &back, NEAR(FLOATS, found_ds, ds, rows, 1e-6));
}

static void gates_are_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES * TYPES; i++)
        play_gate(shapes[i / TYPES], all_types[i % TYPES]);
}

static void play_shortcut(image_shape s, uint32_t out, uint32_t stride, uint32_t type)
{
    const image_shape to = {s.samples, out, (s.height - 1) / stride + 1,
                            (s.width - 1) / stride + 1};
    const psr_window window = {.N = s.samples,
                               .C = s.channels,
                               .H = s.height,
                               .W = s.width,
                               .O = out,
                               .OH = to.height,
                               .OW = to.width,
                               .stride = stride};
    const float *x = image_of(s, type), *dy = image_of(to, type);
    float *y = room(count_of(to) * sizeof *y), *dx = zeros(count_of(s));
    psr_ref_shortcut_forward(&window, x, y);
    psr_ref_shortcut_backward(&window, dy, dx);
    void *found = room(count_of(to) * type_bytes(type));
    void *found_dx = room(count_of(s) * type_bytes(type));
    psr_cuda_shortcut_args args = {on_gpu(x, s, type), found,   type,  s.samples, s.channels, out,
                                   s.height,           s.width, stride};
    PLAY(shortcut, &args, SAME(found, on_gpu(y, to, type), count_of(to) * type_bytes(type)));
    args.x = on_gpu(dy, to, type);
    args.y = found_dx;
    PLAY(shortcut_backward, &args,
         SAME(found_dx, on_gpu(dx, s, type), count_of(s) * type_bytes(type)));
}

static void shortcuts_are_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES * TYPES; i++) {
        const image_shape s = shapes[i / TYPES];
        play_shortcut(s, 2 * s.channels, 2, all_types[i % TYPES]);
        play_shortcut(s, s.channels + 3, 1, all_types[i % TYPES]);
        play_shortcut(s, s.channels, 3, all_types[i % TYPES]);
    }
}

static void play_norm(image_shape s, uint32_t type)
{
    const uint32_t C = s.channels;
    const size_t count = count_of(s), bytes = count * type_bytes(type);
    const psr_batchnorm norm = {s.samples, C, pixels_of(s), 1e-5, 0.1};
    const float *x = image_of(s, type), *dy = image_of(s, type);
    const float *weight = floats(C), *bias = floats(C), *mean = floats(C);
    float *variance = floats(C), *dx = zeros(count), *scale = room(C * sizeof *scale);
    float *shift = room(C * sizeof *shift), *dscale = room(C * sizeof *dscale);
    float *dbias = room(C * sizeof *dbias), *right[4];
    double *sums = room(C * sizeof *sums), *products = room(C * sizeof *products);
    double *wide_mean = room(C * sizeof *wide_mean);
    for (int i = 0; i < 4; i++)
        right[i] = room(C * sizeof **right);
    for (uint32_t c = 0; c < C; c++) {
        variance[c] = 1.5f + variance[c];
        wide_mean[c] = mean[c];
    }
    psr_ref_batchnorm_products(&norm, x, wide_mean, dy, sums, products);
    for (uint32_t c = 0; c < C; c++) {
        const double deviation = sqrt(variance[c] + 1e-5);
        right[0][c] = (float)(weight[c] / deviation);
        right[1][c] = (float)(bias[c] - mean[c] * weight[c] / deviation);
        right[2][c] = (float)(products[c] / deviation);
        right[3][c] = (float)sums[c];
    }
    const psr_cuda_scale_of_norm_args scaled = {weight, bias,  mean,  variance,
                                                scale,  shift, 1e-5f, C};
    PLAY(scale_of_norm, &scaled, NEAR(FLOATS, scale, right[0], C, 1e-7),
         NEAR(FLOATS, shift, right[1], C, 1e-7));

    psr_ref_batchnorm_backward_held(&norm, weight, variance, dy, dx);
    void *found = room(bytes);
    psr_cuda_norm_gradient_args args = {.x = on_gpu(x, s, type),
                                        .dy = on_gpu(dy, s, type),
                                        .weight = weight,
                                        .mean = mean,
                                        .variance = variance,
                                        .dx = found,
                                        .dscale = dscale,
                                        .dbias = dbias,
                                        .epsilon = 1e-5f,
                                        .type = type,
                                        .channels = C,
                                        .rows = (uint64_t)s.samples * pixels_of(s)};
    const result right_sums[] = {NEAR(FLOATS, dscale, right[2], C, 2e-6),
                                 NEAR(FLOATS, dbias, right[3], C, 2e-6)};
    if (type == PSR_CUDA_FLOAT32)
        PLAY(norm_gradient, &args, right_sums[0], right_sums[1],
             NEAR(FLOATS, found, on_gpu(dx, s, type), count, 1e-6));
    args.dx = NULL;
    PLAY(norm_gradient, &args, right_sums[0], right_sums[1]);
    args.dx = found;
    args.dscale = args.dbias = NULL;
    if (type == PSR_CUDA_FLOAT32)
        PLAY(norm_gradient, &args, NEAR(FLOATS, found, on_gpu(dx, s, type), count, 1e-6));
}

static void batch_norm_by_running_statistics_is_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES * TYPES; i++)
        play_norm(shapes[i / TYPES], all_types[i % TYPES]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KERNEL_TEST(dropout_keeps_what_the_cpu_keeps),
        KERNEL_TEST(gates_are_the_references),
        KERNEL_TEST(shortcuts_are_the_references),
        KERNEL_TEST(batch_norm_by_running_statistics_is_the_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
