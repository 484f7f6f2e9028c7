/* Each operation of a graph against the reference back end's loops, and what planning refuses. */
#include "tests/emulator/cuda/emulator.h"
#include "tests/emulator/cuda/faults.h"
#include "tests/emulator/cuda/graph_parts.h"

#include "model/reference/ops.h"
#include "tests/unit/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a graph that runs over arrays of the host ---- */

/* values: of each tensor that is neither inner nor a number, in the order of its dims: those that
 * are NULL are made, and hold what the graph gave. */
typedef struct run {
    psr_cuda_graph g;
    float *values[PSR_CUDA_GRAPH_TENSORS];
    float numbers[PSR_CUDA_GRAPH_TENSORS];
    bool tf32;
} run;

static const psr_cuda_api *api;
static psr_cuda_device *device;
static psr_cuda_stream *stream;

static int open_device(void **state)
{
    (void)state;
    api = psr_emulator();
    expect_ok(api->device_open(0, &device));
    expect_ok(api->stream_new(device, &stream));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    api->device_close(device);
    return 0;
}

static run *begin(void)
{
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    psr_cuda_graph_begin(&r->g);
    return r;
}

static void end(run *r)
{
    for (uint32_t t = 0; t < PSR_CUDA_GRAPH_TENSORS; t++)
        free(r->values[t]);
    free(r);
}

/* Small numbers that 8 bits of fraction hold, so that all types hold them. */
static float *drawn(size_t count, uint32_t seed)
{
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (float)((int)(seed >> 16) % 129 - 64) / 64;
    }
    return values;
}

/* The element's place in memory. */
static size_t place_of(const psr_cuda_tensor *t, size_t i)
{
    size_t place = 0;
    for (uint32_t d = t->rank; d-- > 0; i /= (size_t)t->dims[d])
        place += i % (size_t)t->dims[d] * (size_t)t->strides[d];
    return place;
}

/* pinned <- values, or back */
static void turn(const psr_cuda_tensor *t, void *pinned, float *values, bool back)
{
    const size_t count = psr_emulator_count(t);
    float *laid = malloc(count * sizeof *laid);
    assert_non_null(laid);
    const bool half = t->type == PSR_CUDA_BF16 || t->type == PSR_CUDA_FP16;
    if (back && half)
        psr_emulator_widen(t->type, count, pinned, laid);
    for (size_t i = 0; i < count; i++) {
        const size_t at = place_of(t, i);
        if (!back)
            laid[at] = values[i];
        if (t->type == PSR_CUDA_FLOAT32) {
            if (back)
                values[i] = ((const float *)pinned)[at];
            else
                ((float *)pinned)[at] = values[i];
        } else if (t->type == PSR_CUDA_INT8) {
            if (back)
                values[i] = ((const signed char *)pinned)[at];
            else
                ((signed char *)pinned)[at] = (signed char)values[i];
        } else if (back) {
            values[i] = laid[at];
        }
    }
    if (!back && half)
        psr_emulator_narrow(t->type, count, laid, pinned);
    free(laid);
}

static size_t bytes_of(const psr_cuda_tensor *t)
{
    return psr_emulator_count(t) * psr_emulator_type_bytes(t->type);
}

static void compute(run *r)
{
    psr_cuda_plan *plan;
    const psr_cuda_plan_limits limits = {.workspace_bytes = 1 << 20, .tf32 = r->tf32};
    expect_ok(api->plan_new(device, &r->g, &limits, &plan));
    psr_cuda_plan_tensors tensors = {0};
    void *pinned[PSR_CUDA_GRAPH_TENSORS] = {NULL}, *workspace = NULL;
    expect_ok(api->memory_new(device, api->plan_workspace(plan), &workspace));
    for (uint32_t t = 0; t < r->g.tensor_count; t++) {
        const psr_cuda_tensor *tensor = &r->g.tensors[t];
        tensors.numbers[t] = r->numbers[t];
        if (tensor->inner || tensor->by_value)
            continue;
        expect_ok(api->memory_new(device, bytes_of(tensor), &tensors.at[t]));
        expect_ok(api->pinned_new(device, bytes_of(tensor), &pinned[t]));
        if (r->values[t] != NULL) {
            turn(tensor, pinned[t], r->values[t], false);
            expect_ok(api->copy(stream, tensors.at[t], pinned[t], bytes_of(tensor)));
        }
    }
    expect_ok(api->plan_run(stream, plan, &tensors, workspace));
    for (uint32_t t = 0; t < r->g.tensor_count; t++)
        if (pinned[t] != NULL)
            expect_ok(api->copy(stream, pinned[t], tensors.at[t], bytes_of(&r->g.tensors[t])));
    expect_ok(api->stream_synchronize(stream));
    for (uint32_t t = 0; t < r->g.tensor_count; t++) {
        if (pinned[t] == NULL)
            continue;
        if (r->values[t] == NULL)
            r->values[t] = drawn(psr_emulator_count(&r->g.tensors[t]), 0);
        turn(&r->g.tensors[t], pinned[t], r->values[t], true);
        api->memory_free(device, tensors.at[t]);
        api->pinned_free(device, pinned[t]);
    }
    api->memory_free(device, workspace);
    api->plan_free(plan);
}

static float *draw(run *r, uint32_t t)
{
    return r->values[t] = drawn(psr_emulator_count(&r->g.tensors[t]), t + 1);
}

static void expect_near(const float *is, const float *should, size_t count, float part)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(should[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(is[i] - should[i]) <= part * largest))
            fail_msg("element %zu is %g, not %g", i, (double)is[i], (double)should[i]);
}

#define PART 1e-5f /* of the largest value */

/* ---- convolutions ---- */

typedef struct shape {
    uint32_t n, c, h, w, o, k, stride, pad, groups;
} shape;

static const shape shapes[] = {
    {2, 4, 7, 5, 6, 3, 1, 1, 1},  {3, 16, 8, 8, 32, 3, 2, 1, 1}, {1, 8, 9, 9, 17, 1, 2, 0, 1},
    {2, 8, 6, 6, 12, 3, 1, 1, 4}, {1, 4, 12, 11, 5, 5, 3, 2, 1}, {5, 20, 4, 4, 16, 3, 1, 0, 1},
};

static psr_window window_of(const shape *s)
{
    psr_window v = {.N = s->n, .C = s->c, .H = s->h, .W = s->w, .O = s->o, .K = s->k};
    v.stride = s->stride, v.pad = s->pad, v.groups = s->groups;
    v.OH = (s->h + 2 * s->pad - s->k) / s->stride + 1;
    v.OW = (s->w + 2 * s->pad - s->k) / s->stride + 1;
    return v;
}

static void convolutions_are_the_references(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        const psr_window v = window_of(s);
        const psr_cuda_window window = {s->k, s->k, s->stride, s->pad};
        run *r[3];
        uint32_t x = 0, w = 0, y = 0;
        for (int kind = PSR_CUDA_CONV; kind <= PSR_CUDA_CONV_WEIGHTS; kind++) {
            r[kind] = begin();
            psr_cuda_graph *g = &r[kind]->g;
            x = psr_cuda_image(g, PSR_CUDA_FLOAT32, s->n, s->c, s->h, s->w);
            w = psr_cuda_image(g, PSR_CUDA_FLOAT32, s->o, s->c / s->groups, s->k, s->k);
            y = psr_cuda_image(g, PSR_CUDA_FLOAT32, s->n, s->o, v.OH, v.OW);
            const uint32_t tensors[][3] = {{x, w, y}, {y, w, x}, {x, y, w}};
            psr_cuda_operate(g, (psr_cuda_operation_kind)kind, &window, tensors[kind], 3);
            for (int k = 0; k < 2; k++)
                draw(r[kind], tensors[kind][k]);
            compute(r[kind]);
        }
        const size_t of_x = psr_emulator_count(&r[0]->g.tensors[x]);
        const size_t of_w = psr_emulator_count(&r[0]->g.tensors[w]);
        const size_t of_y = psr_emulator_count(&r[0]->g.tensors[y]);
        float *ry = drawn(of_y, 0), *dx = calloc(of_x, sizeof *dx), *dw = calloc(of_w, sizeof *dw);
        psr_ref_conv_forward(&v, r[0]->values[x], r[0]->values[w], NULL, ry);
        psr_ref_conv_backward(&v, r[0]->values[x], r[0]->values[w], r[1]->values[y], dx, dw, NULL);
        expect_near(r[0]->values[y], ry, of_y, PART);
        expect_near(r[1]->values[x], dx, of_x, PART);
        expect_near(r[2]->values[w], dw, of_w, PART);
        free(ry);
        free(dx);
        free(dw);
        for (int kind = 0; kind < 3; kind++)
            end(r[kind]);
    }
}

static uint32_t add_conv(run *r, psr_cuda_type type, uint32_t *ret_x, uint32_t *ret_w)
{
    const psr_cuda_window window = {3, 3, 1, 1};
    *ret_x = psr_cuda_image(&r->g, type, 2, 8, 5, 5);
    *ret_w = psr_cuda_image(&r->g, type, 16, 8, 3, 3);
    const uint32_t y = psr_cuda_image(&r->g, type, 2, 16, 5, 5);
    psr_cuda_operate(&r->g, PSR_CUDA_CONV, &window, (uint32_t[]){*ret_x, *ret_w, y}, 3);
    return y;
}

/* Products and sums of float32, rounded once: at the end, where 16 bits are stored. */
static void results_in_16_bits_are_rounded_once(void **state)
{
    (void)state;
    for (int type = PSR_CUDA_BF16; type <= PSR_CUDA_FP16; type++) {
        uint32_t x, w, y;
        run *whole = begin(), *half = begin();
        y = add_conv(whole, PSR_CUDA_FLOAT32, &x, &w);
        draw(whole, x), draw(whole, w);
        compute(whole);
        add_conv(half, (psr_cuda_type)type, &x, &w);
        draw(half, x), draw(half, w);
        compute(half);
        const size_t count = psr_emulator_count(&half->g.tensors[y]);
        uint16_t *rounded = malloc(count * sizeof *rounded);
        psr_emulator_narrow((psr_cuda_type)type, count, whole->values[y], rounded);
        psr_emulator_widen((psr_cuda_type)type, count, rounded, whole->values[y]);
        assert_memory_equal(half->values[y], whole->values[y], count * sizeof(float));
        free(rounded);
        end(whole);
        end(half);
    }
}

static void tf32_drops_bits_of_factors(void **state)
{
    (void)state;
    for (int tf32 = 0; tf32 < 2; tf32++) {
        uint32_t x, w;
        run *r = begin();
        r->tf32 = tf32 == 1;
        const uint32_t y = add_conv(r, PSR_CUDA_FLOAT32, &x, &w);
        draw(r, x), draw(r, w);
        memset(r->values[x], 0, psr_emulator_count(&r->g.tensors[x]) * sizeof(float));
        memset(r->values[w], 0, psr_emulator_count(&r->g.tensors[w]) * sizeof(float));
        r->values[x][12] = 1 + 0x1p-12f; /* pixel 2, 2 of channel 0 */
        r->values[w][4] = 1 + 0x1p-10f;  /* the middle of the window */
        compute(r);
        const float product = tf32 ? 1 + 0x1p-10f : (1 + 0x1p-12f) * (1 + 0x1p-10f);
        assert_true(r->values[y][12] == product);
        end(r);
    }
}

/* ---- norms ---- */

static void norms_are_the_references(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 4; n += 2) {
        const uint32_t C = 6, S = n == 1 ? 1 : 20, h = n == 1 ? 1 : 4, w = n == 1 ? 1 : 5;
        run *r = begin();
        const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, n, C, h, w);
        const uint32_t y = psr_cuda_like(&r->g, x, PSR_CUDA_FLOAT32);
        uint32_t t[12];
        for (uint32_t i = 0; i < 12; i++)
            t[i] = i == 0             ? x
                   : i == 7           ? y
                   : i == 3 || i == 6 ? psr_cuda_number(&r->g)
                                      : psr_cuda_channels(&r->g, C);
        psr_cuda_operate(&r->g, PSR_CUDA_NORM, NULL, t, 12);
        for (uint32_t i = 0; i < 6; i++)
            if (i != 3)
                draw(r, t[i]);
        for (uint32_t c = 0; c < C; c++)
            r->values[t[5]][c] = fabsf(r->values[t[5]][c]);
        r->numbers[t[3]] = 1e-5f, r->numbers[t[6]] = 0.1f;
        compute(r);
        const psr_batchnorm norm = {n, C, S, (double)1e-5f, (double)0.1f};
        float *ry = drawn((size_t)n * C * S, 0), mean[6], variance[6];
        double batch_mean[6], slope[6];
        memcpy(mean, r->values[t[4]], sizeof mean);
        memcpy(variance, r->values[t[5]], sizeof variance);
        psr_ref_batchnorm_forward(&norm, r->values[x], r->values[t[1]], r->values[t[2]], mean,
                                  variance, ry, batch_mean, slope);
        expect_near(r->values[y], ry, (size_t)n * C * S, PART);
        expect_near(r->values[t[10]], mean, C, PART);
        expect_near(r->values[t[11]], variance, C, PART);
        for (uint32_t c = 0; c < C; c++) {
            assert_true(fabs(r->values[t[8]][c] - batch_mean[c]) < 1e-6);
            assert_true(fabs(r->values[t[9]][c] - slope[c]) < 1e-5 * slope[c]);
        }
        free(ry);
        end(r);
    }
}

static void gradients_of_norms_are_the_references(void **state)
{
    (void)state;
    run *r = begin();
    uint32_t t[8];
    for (uint32_t i = 0; i < 8; i++)
        t[i] = i < 2 || i == 5 ? psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, 3, 6, 4, 5)
                               : psr_cuda_channels(&r->g, 6);
    psr_cuda_operate(&r->g, PSR_CUDA_NORM_BACKWARD, NULL, t, 8);
    for (uint32_t i = 0; i < 5; i++)
        draw(r, t[i]);
    const psr_batchnorm norm = {3, 6, 20, 1e-5, 0.1};
    double mean[6], slope[6];
    float running[6] = {0}, variance[6] = {0}, *y = drawn(360, 0);
    psr_ref_batchnorm_forward(&norm, r->values[t[0]], r->values[t[4]], running, running, variance,
                              y, mean, slope);
    for (uint32_t c = 0; c < 6; c++)
        r->values[t[2]][c] = (float)mean[c], r->values[t[3]][c] = (float)slope[c];
    compute(r);
    float *dx = calloc(360, sizeof *dx), dscale[6], dbias[6];
    psr_ref_batchnorm_backward(&norm, r->values[t[0]], r->values[t[4]], mean, slope,
                               r->values[t[1]], dx, dscale, dbias);
    expect_near(r->values[t[5]], dx, 360, PART);
    expect_near(r->values[t[6]], dscale, 6, PART);
    expect_near(r->values[t[7]], dbias, 6, PART);
    free(dx);
    free(y);
    end(r);
}

static void statistics_are_sums_of_channels(void **state)
{
    (void)state;
    run *r = begin();
    const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_BF16, 2, 4, 3, 3);
    const uint32_t sum = psr_cuda_channels(&r->g, 4), squares = psr_cuda_channels(&r->g, 4);
    psr_cuda_operate(&r->g, PSR_CUDA_STATISTICS, NULL, (uint32_t[]){x, sum, squares}, 3);
    draw(r, x);
    compute(r);
    for (uint32_t c = 0; c < 4; c++) {
        float s = 0, q = 0;
        for (uint32_t n = 0; n < 2; n++)
            for (uint32_t i = 0; i < 9; i++) {
                const float value = r->values[x][(n * 4 + c) * 9 + i];
                s += value, q += value * value;
            }
        assert_true(r->values[sum][c] == s && r->values[squares][c] == q); /* all are exact */
    }
    end(r);
}

/* ---- pools ---- */

static void pools_are_the_references(void **state)
{
    (void)state;
    const psr_window v = {.N = 2,
                          .C = 5,
                          .H = 7,
                          .W = 9,
                          .O = 5,
                          .OH = 4,
                          .OW = 5,
                          .K = 3,
                          .stride = 2,
                          .pad = 1,
                          .groups = 1};
    const psr_cuda_window window = {3, 3, 2, 1};
    run *r = begin(), *back = begin();
    const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, 2, 5, 7, 9);
    const uint32_t y = psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, 2, 5, 4, 5);
    const uint32_t index = psr_cuda_like(&r->g, y, PSR_CUDA_INT8);
    psr_cuda_operate(&r->g, PSR_CUDA_MAX_POOL, &window, (uint32_t[]){x, y, index}, 3);
    draw(r, x);
    compute(r);
    float *ry = drawn(200, 0), *dx = calloc(630, sizeof *dx);
    psr_ref_maxpool_forward(&v, r->values[x], ry);
    assert_memory_equal(r->values[y], ry, 200 * sizeof *ry);

    memcpy(back->g.tensors, r->g.tensors, sizeof back->g.tensors);
    back->g.tensor_count = r->g.tensor_count;
    psr_cuda_operate(&back->g, PSR_CUDA_MAX_POOL_BACKWARD, &window, (uint32_t[]){y, index, x}, 3);
    draw(back, y), draw(back, index);
    memcpy(back->values[index], r->values[index], 200 * sizeof(float));
    compute(back);
    psr_ref_maxpool_backward(&v, r->values[x], back->values[y], dx);
    expect_near(back->values[x], dx, 630, PART);
    free(ry);
    free(dx);
    end(r);
    end(back);
}

static void means_are_the_references(void **state)
{
    (void)state;
    const psr_cuda_window window = {7, 9, 1, 0};
    run *r[2];
    for (int back = 0; back < 2; back++) {
        r[back] = begin();
        const uint32_t x = psr_cuda_image(&r[back]->g, PSR_CUDA_FLOAT32, 2, 5, 7, 9);
        const uint32_t y = psr_cuda_image(&r[back]->g, PSR_CUDA_FLOAT32, 2, 5, 1, 1);
        psr_cuda_operate(&r[back]->g, back ? PSR_CUDA_MEAN_POOL_BACKWARD : PSR_CUDA_MEAN_POOL,
                         &window, back ? (uint32_t[]){y, x} : (uint32_t[]){x, y}, 2);
        draw(r[back], back ? y : x);
        compute(r[back]);
    }
    float y[10], *dx = calloc(630, sizeof *dx);
    psr_ref_avgpool_forward(2, 5, 7, 9, r[0]->values[0], y);
    psr_ref_avgpool_backward(2, 5, 7, 9, r[1]->values[1], dx);
    expect_near(r[0]->values[1], y, 10, PART);
    expect_near(r[1]->values[0], dx, 630, PART);
    free(dx);
    end(r[0]);
    end(r[1]);
}

/* ---- single values and matrices ---- */

static void single_values_are_the_references(void **state)
{
    (void)state;
    for (int mode = PSR_CUDA_IDENTITY; mode <= PSR_CUDA_GELU_BACKWARD; mode++) {
        run *r = begin();
        const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, 2, 3, 4, 4);
        const uint32_t b = psr_cuda_like(&r->g, x, PSR_CUDA_FLOAT32);
        const uint32_t y = psr_cuda_like(&r->g, x, PSR_CUDA_FLOAT32);
        psr_cuda_point(&r->g, (psr_cuda_pointwise)mode, x, b, y);
        draw(r, x), draw(r, b);
        compute(r);
        const float *vx = r->values[x], *vb = r->values[b];
        float should[96] = {0}, forward[96];
        for (int i = 0; i < 96; i++) /* the three without a function of their own */
            should[i] = mode == PSR_CUDA_IDENTITY   ? vx[i]
                        : mode == PSR_CUDA_MULTIPLY ? vx[i] * vb[i]
                        : mode == PSR_CUDA_ADD      ? vx[i] + vb[i]
                                                    : 0;
        if (mode == PSR_CUDA_RELU)
            psr_ref_relu_forward(96, vx, should);
        if (mode == PSR_CUDA_RELU_BACKWARD)
            psr_ref_relu_backward(96, vx, vb, should);
        if (mode == PSR_CUDA_SIGMOID)
            psr_ref_sigmoid_forward(96, vx, should);
        psr_ref_sigmoid_forward(96, vx, forward);
        if (mode == PSR_CUDA_SIGMOID_BACKWARD)
            psr_ref_sigmoid_backward(96, forward, vb, should);
        if (mode == PSR_CUDA_GELU)
            psr_ref_gelu_forward(96, vx, should);
        if (mode == PSR_CUDA_GELU_BACKWARD)
            psr_ref_gelu_backward(96, vx, vb, should);
        expect_near(r->values[y], should, 96, PART);
        end(r);
    }
}

static void values_of_channels_are_for_all_pixels(void **state)
{
    (void)state;
    run *r = begin();
    const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, 2, 3, 4, 4);
    const uint32_t b = psr_cuda_channels(&r->g, 3), number = psr_cuda_number(&r->g);
    const uint32_t sum = psr_cuda_inner(&r->g, x), y = psr_cuda_like(&r->g, x, PSR_CUDA_FLOAT32);
    psr_cuda_point(&r->g, PSR_CUDA_ADD, x, b, sum);
    psr_cuda_point(&r->g, PSR_CUDA_MULTIPLY, sum, number, y);
    draw(r, x), draw(r, b);
    r->numbers[number] = 3;
    compute(r);
    for (size_t i = 0; i < 96; i++)
        assert_true(r->values[y][i] == (r->values[x][i] + r->values[b][i / 16 % 3]) * 3);
    end(r);
}

static void products_of_matrices_take_all_layouts(void **state)
{
    (void)state;
    for (int layout = 0; layout < 8; layout++) {
        run *r = begin();
        const uint32_t a = psr_cuda_matrix(&r->g, PSR_CUDA_BF16, 7, 9, (layout & 1) != 0);
        const uint32_t b = psr_cuda_matrix(&r->g, PSR_CUDA_BF16, 9, 19, (layout & 2) != 0);
        const uint32_t c = psr_cuda_matrix(&r->g, PSR_CUDA_FLOAT32, 7, 19, (layout & 4) != 0);
        psr_cuda_operate(&r->g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){a, b, c}, 3);
        draw(r, a), draw(r, b);
        compute(r);
        for (size_t i = 0; i < 7; i++)
            for (size_t j = 0; j < 19; j++) {
                float sum = 0;
                for (size_t k = 0; k < 9; k++)
                    sum += r->values[a][i * 9 + k] * r->values[b][k * 19 + j];
                assert_true(r->values[c][i * 19 + j] == sum);
            }
        end(r);
    }
}

/* ---- numbers of 16 bits ---- */

static void numbers_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    static const struct {
        float value;
        uint16_t bf16, fp16;
    } known[] = {
        {1, 0x3f80, 0x3c00},
        {-2, 0xc000, 0xc000},
        {1 + 0x1p-8f, 0x3f80, 0x3c04},
        {1 + 0x3p-8f, 0x3f82, 0x3c0c},
        {1 + 0x1p-11f, 0x3f80, 0x3c00},
        {1 + 0x3p-11f, 0x3f80, 0x3c02},
        {65504, 0x4780, 0x7bff},
        {65519, 0x4780, 0x7bff},
        {65520, 0x4780, 0x7c00},
        {INFINITY, 0x7f80, 0x7c00},
        {0x1p-24f, 0x3380, 0x0001},
        {0x1p-25f, 0x3300, 0x0000},
        {0x3p-25f, 0x33c0, 0x0002},
        {0x1p-14f, 0x3880, 0x0400},
        {-0.0f, 0x8000, 0x8000},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint16_t bf16, fp16;
        psr_emulator_narrow(PSR_CUDA_BF16, 1, &known[i].value, &bf16);
        psr_emulator_narrow(PSR_CUDA_FP16, 1, &known[i].value, &fp16);
        assert_int_equal(bf16, known[i].bf16);
        assert_int_equal(fp16, known[i].fp16);
    }
    for (uint32_t bits = 0; bits < 0x10000; bits++)
        for (int type = PSR_CUDA_BF16; type <= PSR_CUDA_FP16; type++) {
            const uint16_t before = (uint16_t)bits;
            uint16_t after;
            float value;
            psr_emulator_widen((psr_cuda_type)type, 1, &before, &value);
            psr_emulator_narrow((psr_cuda_type)type, 1, &value, &after);
            assert_true(isnan(value) || before == after);
        }
}

/* ---- refusals ---- */

static void expect_refused(const run *r, const char *reason)
{
    psr_cuda_plan *plan = NULL;
    const psr_cuda_plan_limits limits = {.tf32 = r->tf32};
    assert_int_equal(api->plan_new(device, &r->g, &limits, &plan), PSR_ERR_UNSUPPORTED);
    assert_null(plan);
    if (strstr(psr_err_detail(), reason) == NULL)
        fail_msg("\"%s\" was expected, not %s", reason, psr_err_detail());
}

static void what_the_library_refuses_is_refused(void **state)
{
    (void)state;
    const psr_cuda_window window = {3, 3, 1, 1};
    for (int64_t channels = 3; channels < 5; channels++) {
        run *r = begin();
        const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_BF16, 2, channels, 5, 5);
        const uint32_t dy = psr_cuda_image(&r->g, PSR_CUDA_BF16, 2, 8, 5, 5);
        const uint32_t dw = psr_cuda_image(&r->g, channels == 3 ? PSR_CUDA_BF16 : PSR_CUDA_FLOAT32,
                                           8, channels, 3, 3);
        psr_cuda_operate(&r->g, PSR_CUDA_CONV_WEIGHTS, &window, (uint32_t[]){x, dy, dw}, 3);
        expect_refused(r, channels == 3 ? "one or three channels" : "pass an identity");
        end(r);
    }
    run *gates = begin();
    uint32_t x = psr_cuda_image(&gates->g, PSR_CUDA_BF16, 2, 8, 5, 5), w;
    psr_cuda_point(&gates->g, PSR_CUDA_MULTIPLY, x,
                   psr_cuda_image(&gates->g, PSR_CUDA_BF16, 2, 8, 1, 1),
                   psr_cuda_like(&gates->g, x, PSR_CUDA_BF16));
    expect_refused(gates, "values of each sample and channel");
    end(gates);
    run *sums = begin();
    const uint32_t y = add_conv(sums, PSR_CUDA_FLOAT32, &x, &w);
    const uint32_t sum = psr_cuda_channels(&sums->g, 16), more = psr_cuda_channels(&sums->g, 16);
    psr_cuda_operate(&sums->g, PSR_CUDA_STATISTICS, NULL, (uint32_t[]){y, sum, more}, 3);
    expect_refused(sums, "tensor cores alone");
    end(sums);
    run *product = begin();
    const uint32_t a = psr_cuda_matrix(&product->g, PSR_CUDA_FLOAT32, 4, 4, false);
    const uint32_t c = psr_cuda_like(&product->g, a, PSR_CUDA_FLOAT32);
    psr_cuda_operate(&product->g, PSR_CUDA_MATMUL, NULL, (uint32_t[]){a, a, c}, 3);
    expect_refused(product, "without TF32");
    end(product);
    run *inner = begin();
    x = psr_cuda_image(&inner->g, PSR_CUDA_BF16, 2, 8, 5, 5);
    psr_cuda_point(&inner->g, PSR_CUDA_RELU, psr_cuda_inner(&inner->g, x), 0, x);
    expect_refused(inner, "read before it is made");
    end(inner);
}

/* ---- what ends the process ---- */

static psr_cuda_plan_tensors add_tensors; /* x + b -> y */

static void add_over(size_t bytes, bool half_over)
{
    assert_int_equal(open_device(NULL), 0);
    run *r = begin();
    const uint32_t x = psr_cuda_image(&r->g, PSR_CUDA_FLOAT32, 1, 8, 2, 2);
    const uint32_t b = psr_cuda_like(&r->g, x, PSR_CUDA_FLOAT32);
    const uint32_t y = psr_cuda_like(&r->g, x, PSR_CUDA_FLOAT32);
    psr_cuda_point(&r->g, PSR_CUDA_ADD, x, b, y);
    for (uint32_t t = 0; t < 3; t++)
        expect_ok(api->memory_new(device, t == b ? bytes : 192, &add_tensors.at[t]));
    if (half_over)
        add_tensors.at[y] = (char *)add_tensors.at[x] + 64;
    psr_cuda_plan *plan;
    const psr_cuda_plan_limits limits = {0};
    expect_ok(api->plan_new(device, &r->g, &limits, &plan));
    expect_ok(api->plan_run(stream, plan, &add_tensors, NULL));
    expect_ok(api->stream_synchronize(stream));
}

static void read_too_far(void)
{
    add_over(127, false);
}

static void write_to_what_is_read(void)
{
    add_over(128, true);
}

static void forget_the_workspace(void)
{
    assert_int_equal(open_device(NULL), 0);
    run *r = begin();
    uint32_t x, w;
    const uint32_t y = add_conv(r, PSR_CUDA_BF16, &x, &w);
    psr_cuda_plan *plan;
    psr_cuda_plan_tensors tensors = {0};
    const uint32_t all[] = {x, w, y};
    for (int i = 0; i < 3; i++)
        expect_ok(api->memory_new(device, 8192, &tensors.at[all[i]]));
    const psr_cuda_plan_limits limits = {.workspace_bytes = 1 << 20};
    expect_ok(api->plan_new(device, &r->g, &limits, &plan));
    expect_ok(api->plan_run(stream, plan, &tensors, NULL));
    expect_ok(api->stream_synchronize(stream));
}

static void misuse_ends_the_process(void **state)
{
    (void)state;
    expect_fault(read_too_far, "graph add fp32[1,8,2,2] fp32[1,8,2,2] uses, as tensor 1, 128 bytes "
                               "from byte 0 on of 127 bytes of device memory");
    expect_fault(write_to_what_is_read, "uses, as tensor 2, memory of its tensor 0");
    expect_fault(forget_the_workspace, "a graph uses, as workspace,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_are_the_references),
        cmocka_unit_test(results_in_16_bits_are_rounded_once),
        cmocka_unit_test(tf32_drops_bits_of_factors),
        cmocka_unit_test(norms_are_the_references),
        cmocka_unit_test(gradients_of_norms_are_the_references),
        cmocka_unit_test(statistics_are_sums_of_channels),
        cmocka_unit_test(pools_are_the_references),
        cmocka_unit_test(means_are_the_references),
        cmocka_unit_test(single_values_are_the_references),
        cmocka_unit_test(values_of_channels_are_for_all_pixels),
        cmocka_unit_test(products_of_matrices_take_all_layouts),
        cmocka_unit_test(numbers_are_rounded_to_the_nearest),
        cmocka_unit_test(what_the_library_refuses_is_refused),
        cmocka_unit_test(misuse_ends_the_process),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
