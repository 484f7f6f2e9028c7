/* The reference operators against central differences, in double: the sources of the reference back
 * end are compiled with psr_real = double for this program, so that a difference quotient is good
 * to nine digits and a wrong factor or index cannot hide in its error. */
#include "model/loss.h"
#include "model/reference/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/unit/model/differences.h"

static const uint32_t sample_ids[3] = {17, 4, 59999};

/* ---- one operator against differences ---- */

enum { X, W, B, INPUTS };

/* An operator under test: its inputs, the gradients that it gave for them, and its output. The
 * objective is the scalar product of y with fixed random numbers dy, whose gradient by y is dy. */
typedef struct operator_case {
    void (*forward)(struct operator_case *c);
    void (*backward)(struct operator_case *c);
    double *in[INPUTS], *gradient[INPUTS];
    size_t in_count[INPUTS];
    double *y, *dy;
    size_t y_count;
    psr_window window;
    psr_batchnorm norm;
    psr_dropout dropout;
    psr_batch batch;
    double *statistics, *running;
    uint8_t keep[256];
} operator_case;

static double objective(operator_case *c)
{
    double sum = 0;
    c->forward(c);
    for (size_t i = 0; i < c->y_count; i++)
        sum += c->y[i] * c->dy[i];
    return sum;
}

static void check_input(operator_case *c, int k, double offset)
{
    for (size_t i = 0; i < c->in_count[k]; i++) {
        const double kept = c->in[k][i];
        c->in[k][i] = kept + STEP;
        const double above = objective(c);
        c->in[k][i] = kept - STEP;
        const double below = objective(c);
        c->in[k][i] = kept;
        const double expected = (above - below) / (2 * STEP);
        const double found = c->gradient[k][i] - offset;
        if (!(fabs(found - expected) <= TOLERANCE * (1 + fabs(expected))))
            fail_msg("input %d element %zu: gradient %.12g, difference quotient %.12g", k, i, found,
                     expected);
    }
}

/* Runs backward once and compares every element of every gradient. dx must have been added to what
 * was there, dw and db must have replaced it. */
static void check_operator(operator_case *c)
{
    const double present = 3;
    c->y = zeros(c->y_count);
    c->dy = numbers(c->y_count);
    for (int k = 0; k < INPUTS; k++) {
        c->gradient[k] = zeros(c->in_count[k]);
        for (size_t i = 0; i < c->in_count[k]; i++)
            c->gradient[k][i] = present;
    }
    c->forward(c);
    c->backward(c);
    for (int k = 0; k < INPUTS; k++)
        check_input(c, k, k == X ? present : 0);
    for (int k = 0; k < INPUTS; k++) {
        free(c->in[k]);
        free(c->gradient[k]);
    }
    free(c->y);
    free(c->dy);
    free(c->statistics);
    free(c->running);
}

static void give(operator_case *c, int k, double *values, size_t count)
{
    c->in[k] = values;
    c->in_count[k] = count;
}

static psr_window window_of(uint32_t N, uint32_t C, uint32_t H, uint32_t W_, uint32_t O, uint32_t K,
                            uint32_t stride, uint32_t pad)
{
    return (psr_window){.groups = 1,
                        .N = N,
                        .C = C,
                        .H = H,
                        .W = W_,
                        .O = O,
                        .OH = (H + 2 * pad - K) / stride + 1,
                        .OW = (W_ + 2 * pad - K) / stride + 1,
                        .K = K,
                        .stride = stride,
                        .pad = pad};
}

static size_t window_in(const psr_window *v)
{
    return (size_t)v->N * v->C * v->H * v->W;
}

static size_t window_out(const psr_window *v)
{
    return (size_t)v->N * v->O * v->OH * v->OW;
}

/* ---- convolution ---- */

static void conv_forward(operator_case *c)
{
    psr_ref_conv_forward(&c->window, c->in[X], c->in[W], c->in[B], c->y);
}

static void conv_backward(operator_case *c)
{
    psr_ref_conv_backward(&c->window, c->in[X], c->in[W], c->dy, c->gradient[X], c->gradient[W],
                          c->in[B] != NULL ? c->gradient[B] : NULL);
}

static void check_conv(psr_window window, bool bias)
{
    operator_case c = {.forward = conv_forward,
                       .backward = conv_backward,
                       .window = window,
                       .y_count = window_out(&window)};
    const size_t weights = (size_t)window.O * window.C * window.K * window.K;
    give(&c, X, numbers(window_in(&window)), window_in(&window));
    give(&c, W, numbers(weights), weights);
    if (bias)
        give(&c, B, numbers(window.O), window.O);
    check_operator(&c);
}

static void a_convolution_has_the_right_gradients(void **state)
{
    (void)state;
    check_conv(window_of(2, 3, 5, 6, 4, 3, 1, 0), false);
    check_conv(window_of(2, 3, 5, 6, 4, 3, 1, 1), true);
    check_conv(window_of(2, 2, 7, 6, 3, 3, 2, 1), true);
    check_conv(window_of(1, 2, 9, 8, 2, 7, 2, 3), false);
    check_conv(window_of(2, 2, 6, 7, 3, 2, 3, 1), true);
    check_conv(window_of(2, 2, 1, 1, 3, 3, 2, 1), false); /* more padding than image */
}

static void a_1x1_convolution_has_the_right_gradients(void **state)
{
    (void)state;
    check_conv(window_of(2, 4, 3, 5, 3, 1, 1, 0), false);
    check_conv(window_of(2, 4, 5, 6, 3, 1, 2, 0), true);
}

static void a_convolution_gives_the_sums_of_its_definition(void **state)
{
    (void)state;
    /* 3x3 image of 1..9, 2x2 kernel (not symmetric), stride 2, pad 1: worked by hand. */
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[4] = {1, 10, 100, 1000}, b[1] = {0.5};
    const double expected[4] = {1000.5, 3000.5 + 200, 40.5 + 7000, 5.5 + 60 + 800 + 9000};
    const psr_window v = window_of(1, 1, 3, 3, 1, 2, 2, 1);
    double y[4];
    psr_ref_conv_forward(&v, x, w, b, y);
    for (int i = 0; i < 4; i++)
        assert_near(y[i], expected[i], 1e-12);
}

/* ---- pools and shortcut ---- */

static void maxpool_forward(operator_case *c)
{
    psr_ref_maxpool_forward(&c->window, c->in[X], c->y);
}

static void maxpool_backward(operator_case *c)
{
    psr_ref_maxpool_backward(&c->window, c->in[X], c->dy, c->gradient[X]);
}

static void max_pooling_has_the_right_gradient(void **state)
{
    (void)state;
    const psr_window windows[] = {window_of(2, 3, 6, 7, 3, 2, 2, 0),
                                  window_of(2, 2, 7, 8, 2, 3, 2, 1),
                                  window_of(1, 2, 5, 5, 2, 3, 1, 1)};
    for (size_t i = 0; i < sizeof(windows) / sizeof(*windows); i++) {
        operator_case c = {.forward = maxpool_forward,
                           .backward = maxpool_backward,
                           .window = windows[i],
                           .y_count = window_out(&windows[i])};
        give(&c, X, distinct_numbers(window_in(&windows[i])), window_in(&windows[i]));
        check_operator(&c);
    }
}

static void padding_never_wins_a_maximum(void **state)
{
    (void)state;
    const double x[4] = {-4, -3, -2, -1};
    const psr_window v = window_of(1, 1, 2, 2, 1, 3, 2, 1);
    double y[1];
    psr_ref_maxpool_forward(&v, x, y);
    assert_near(y[0], -1, 0);
}

static void among_equal_maxima_the_first_gets_the_gradient(void **state)
{
    (void)state;
    const double x[9] = {5, 5, 0, 5, 5, 0, 0, 0, 5}, dy[4] = {1, 10, 100, 1000};
    /* Windows of 2x2, stride 1: maxima first met at 0, 1, 3 and 4. */
    const double expected[9] = {1, 10, 0, 100, 1000, 0, 0, 0, 0};
    const psr_window v = window_of(1, 1, 3, 3, 1, 2, 1, 0);
    double dx[9] = {0};
    psr_ref_maxpool_backward(&v, x, dy, dx);
    for (int i = 0; i < 9; i++)
        assert_near(dx[i], expected[i], 0);
}

static void a_nan_survives_max_pooling_and_relu(void **state)
{
    (void)state;
    const double x[4] = {1, NAN, 3, 4};
    const psr_window v = window_of(1, 1, 2, 2, 1, 2, 2, 0);
    double y[4];
    psr_ref_maxpool_forward(&v, x, y);
    assert_true(isnan(y[0]));
    psr_ref_relu_forward(4, x, y);
    assert_true(isnan(y[1]));
}

static void avgpool_forward(operator_case *c)
{
    psr_ref_avgpool_forward(c->window.N, c->window.C, c->window.H, c->window.W, c->in[X], c->y);
}

static void avgpool_backward(operator_case *c)
{
    psr_ref_avgpool_backward(c->window.N, c->window.C, c->window.H, c->window.W, c->dy,
                             c->gradient[X]);
}

static void average_pooling_has_the_right_gradient(void **state)
{
    (void)state;
    const psr_window v = {.N = 2, .C = 3, .H = 4, .W = 5};
    operator_case c = {
        .forward = avgpool_forward, .backward = avgpool_backward, .window = v, .y_count = 6};
    give(&c, X, numbers(window_in(&v)), window_in(&v));
    check_operator(&c);
}

static void average_pooling_gives_means(void **state)
{
    (void)state;
    const double x[8] = {1, 2, 3, 6, -1, -1, -1, -5};
    double y[2];
    psr_ref_avgpool_forward(1, 2, 2, 2, x, y);
    assert_near(y[0], 3, 0);
    assert_near(y[1], -2, 0);
}

static void shortcut_forward(operator_case *c)
{
    psr_ref_shortcut_forward(&c->window, c->in[X], c->y);
}

static void shortcut_backward(operator_case *c)
{
    psr_ref_shortcut_backward(&c->window, c->dy, c->gradient[X]);
}

static void a_shortcut_of_option_a_has_the_right_gradient(void **state)
{
    (void)state;
    const psr_window windows[] = {window_of(2, 3, 6, 5, 7, 1, 2, 0),
                                  window_of(2, 2, 4, 4, 4, 1, 2, 0),
                                  window_of(1, 2, 3, 3, 2, 1, 1, 0)};
    for (size_t i = 0; i < sizeof(windows) / sizeof(*windows); i++) {
        operator_case c = {.forward = shortcut_forward,
                           .backward = shortcut_backward,
                           .window = windows[i],
                           .y_count = window_out(&windows[i])};
        give(&c, X, numbers(window_in(&windows[i])), window_in(&windows[i]));
        check_operator(&c);
    }
}

static void a_shortcut_of_option_a_puts_half_of_the_zero_channels_before(void **state)
{
    (void)state;
    const double x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const psr_window v = window_of(1, 1, 3, 3, 3, 1, 2, 0);
    const double expected[12] = {0, 0, 0, 0, 1, 3, 7, 9, 0, 0, 0, 0};
    double y[12];
    memset(y, 0xff, sizeof(y));
    psr_ref_shortcut_forward(&v, x, y);
    for (int i = 0; i < 12; i++)
        assert_near(y[i], expected[i], 0);
}

/* ---- linear ---- */

static void linear_forward(operator_case *c)
{
    psr_ref_linear_forward(c->window.N, c->window.C, c->window.O, c->in[X], c->in[W], c->in[B],
                           c->y);
}

static void linear_backward(operator_case *c)
{
    psr_ref_linear_backward(c->window.N, c->window.C, c->window.O, c->in[X], c->in[W], c->dy,
                            c->gradient[X], c->gradient[W], c->gradient[B]);
}

static void a_linear_layer_has_the_right_gradients(void **state)
{
    (void)state;
    operator_case c = {.forward = linear_forward,
                       .backward = linear_backward,
                       .window = {.N = 3, .C = 5, .O = 4},
                       .y_count = 12};
    give(&c, X, numbers(15), 15);
    give(&c, W, numbers(20), 20);
    give(&c, B, numbers(4), 4);
    check_operator(&c);
}

/* ---- batch norm ---- */

static void norm_forward(operator_case *c)
{
    const uint32_t C = c->norm.C;
    psr_ref_batchnorm_forward(&c->norm, c->in[X], c->in[W], c->in[B], c->running, c->running + C,
                              c->y, c->statistics, c->statistics + C);
}

static void norm_backward(operator_case *c)
{
    psr_ref_batchnorm_backward(&c->norm, c->in[X], c->in[W], c->statistics,
                               c->statistics + c->norm.C, c->dy, c->gradient[X], c->gradient[W],
                               c->gradient[B]);
}

static void batch_norm_has_the_right_gradients(void **state)
{
    (void)state;
    const uint32_t planes[] = {1, 6, 20};
    for (size_t i = 0; i < 3; i++) {
        const psr_batchnorm norm = {
            .N = 4, .C = 3, .S = planes[i], .epsilon = 1e-3, .momentum = 0.1};
        const size_t count = (size_t)norm.N * norm.C * norm.S;
        operator_case c = {.forward = norm_forward,
                           .backward = norm_backward,
                           .norm = norm,
                           .y_count = count,
                           .statistics = zeros(2 * 3),
                           .running = zeros(2 * 3)};
        give(&c, X, numbers(count), count);
        give(&c, W, numbers(3), 3);
        give(&c, B, numbers(3), 3);
        check_operator(&c);
    }
}

static void running_statistics_take_the_unbiased_variance(void **state)
{
    (void)state;
    /* One channel, four values: mean 2.5, sum of squares 5: biased 1.25, unbiased 5/3. */
    const double x[4] = {1, 2, 3, 4}, weight[1] = {2}, bias[1] = {10};
    const psr_batchnorm norm = {.N = 2, .C = 1, .S = 2, .epsilon = 0, .momentum = 0.1};
    double mean[1] = {1}, variance[1] = {1}, y[4], saved_mean[1], scale[1];
    psr_ref_batchnorm_forward(&norm, x, weight, bias, mean, variance, y, saved_mean, scale);
    assert_near(mean[0], 0.9 * 1 + 0.1 * 2.5, 1e-15);
    assert_near(variance[0], 0.9 * 1 + 0.1 * 5 / 3, 1e-15);
    assert_near(y[0], 10 + 2 * -1.5 / sqrt(1.25), 1e-14); /* normalised by the biased one */
    psr_ref_batchnorm_infer(&norm, x, weight, bias, mean, variance, y);
    assert_near(y[3], 10 + 2 * (4 - mean[0]) / sqrt(variance[0]), 1e-14);
}

static void a_single_value_per_channel_leaves_the_running_variance(void **state)
{
    (void)state;
    const double x[1] = {5}, weight[1] = {2}, bias[1] = {10};
    const psr_batchnorm norm = {.N = 1, .C = 1, .S = 1, .epsilon = 1e-5, .momentum = 0.1};
    double mean[1] = {1}, variance[1] = {7}, y[1], saved_mean[1], scale[1];
    psr_ref_batchnorm_forward(&norm, x, weight, bias, mean, variance, y, saved_mean, scale);
    assert_near(variance[0], 7, 0);
    assert_near(mean[0], 1.4, 1e-15);
    assert_near(y[0], 10, 0);
}

/* ---- element-wise ---- */

static void relu_forward(operator_case *c)
{
    psr_ref_relu_forward(c->y_count, c->in[X], c->y);
}

static void relu_backward(operator_case *c)
{
    psr_ref_relu_backward(c->y_count, c->y, c->dy, c->gradient[X]);
}

static void relu_has_the_right_gradient(void **state)
{
    (void)state;
    operator_case c = {.forward = relu_forward, .backward = relu_backward, .y_count = 40};
    give(&c, X, numbers(40), 40);
    check_operator(&c);
    const double y[1] = {0}, dy[1] = {1};
    double dx[1] = {0};
    psr_ref_relu_backward(1, y, dy, dx);
    assert_near(dx[0], 0, 0); /* at the kink: PyTorch's choice */
}

static void add_forward(operator_case *c)
{
    psr_ref_add_forward(c->y_count, c->in[X], c->in[W], c->y);
}

static void add_backward(operator_case *c)
{
    psr_ref_accumulate(c->y_count, c->dy, c->gradient[X]);
    memset(c->gradient[W], 0, c->y_count * sizeof(double));
    psr_ref_accumulate(c->y_count, c->dy, c->gradient[W]);
}

static void an_addition_has_the_right_gradients(void **state)
{
    (void)state;
    operator_case c = {.forward = add_forward, .backward = add_backward, .y_count = 12};
    give(&c, X, numbers(12), 12);
    give(&c, W, numbers(12), 12);
    check_operator(&c);
}

static void dropout_forward(operator_case *c)
{
    psr_ref_dropout_forward(&c->dropout, &c->batch, c->keep, c->in[X], c->y);
}

static void dropout_backward(operator_case *c)
{
    psr_ref_dropout_backward(&c->dropout, &c->batch, c->keep, c->dy, c->gradient[X]);
}

static void check_dropout(bool whole_channels)
{
    const psr_dropout dropout = {
        .C = 8, .S = 9, .drop = 0.4, .node = 3, .whole_channels = whole_channels};
    const size_t count = (size_t)3 * 8 * 9;
    operator_case c = {.forward = dropout_forward,
                       .backward = dropout_backward,
                       .dropout = dropout,
                       .batch = {.samples = sample_ids, .count = 3, .epoch = 2, .seed = 11},
                       .y_count = count};
    give(&c, X, numbers(count), count);
    check_operator(&c);
}

static void dropout_has_the_right_gradient(void **state)
{
    (void)state;
    check_dropout(false);
}

static void dropout2d_has_the_right_gradient(void **state)
{
    (void)state;
    check_dropout(true);
}

static void dropout2d_drops_whole_channels_and_scales_the_others(void **state)
{
    (void)state;
    const psr_dropout dropout = {.C = 64, .S = 4, .drop = 0.5, .whole_channels = true};
    const psr_batch batch = {.samples = sample_ids, .count = 1, .seed = 5};
    double x[256], y[256];
    uint8_t keep[64];
    uint32_t kept = 0;
    for (int i = 0; i < 256; i++)
        x[i] = 1;
    psr_ref_dropout_forward(&dropout, &batch, keep, x, y);
    for (int c = 0; c < 64; c++) {
        assert_true(y[4 * c] == 0 || y[4 * c] == 2);
        kept += y[4 * c] == 2;
        for (int s = 1; s < 4; s++)
            assert_near(y[4 * c + s], y[4 * c], 0);
    }
    assert_in_range(kept, 16, 48);
}

/* ---- loss ---- */

static void check_loss(double smoothing, const psr_second_labels *second)
{
    enum { N = 3, K = 5 };
    const uint32_t labels[N] = {4, 0, 2};
    const float scale = 0.25f;
    double *logits = numbers(N * K), gradient[N * K];
    psr_pass_result result, above, below;
    psr_loss_cross_entropy(logits, labels, second, N, K, smoothing, scale, gradient, &result);
    for (int i = 0; i < N * K; i++) {
        const double kept = logits[i];
        logits[i] = kept + STEP;
        psr_loss_cross_entropy(logits, labels, second, N, K, smoothing, 0, NULL, &above);
        logits[i] = kept - STEP;
        psr_loss_cross_entropy(logits, labels, second, N, K, smoothing, 0, NULL, &below);
        logits[i] = kept;
        const double expected = scale * (above.loss_sum - below.loss_sum) / (2 * STEP);
        assert_near(gradient[i], expected, 1e-9);
    }
    free(logits);
}

static void the_loss_has_the_right_gradient(void **state)
{
    (void)state;
    check_loss(0, NULL);
    check_loss(0.1, NULL);
    check_loss(1, NULL);
    const uint32_t labels[] = {1, 0, 3};
    const float shares[] = {0.25f, 0.5f, 1};
    check_loss(0.1, &(psr_second_labels){labels, shares});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_has_the_right_gradients),
        cmocka_unit_test(a_1x1_convolution_has_the_right_gradients),
        cmocka_unit_test(a_convolution_gives_the_sums_of_its_definition),
        cmocka_unit_test(max_pooling_has_the_right_gradient),
        cmocka_unit_test(padding_never_wins_a_maximum),
        cmocka_unit_test(among_equal_maxima_the_first_gets_the_gradient),
        cmocka_unit_test(a_nan_survives_max_pooling_and_relu),
        cmocka_unit_test(average_pooling_has_the_right_gradient),
        cmocka_unit_test(average_pooling_gives_means),
        cmocka_unit_test(a_shortcut_of_option_a_has_the_right_gradient),
        cmocka_unit_test(a_shortcut_of_option_a_puts_half_of_the_zero_channels_before),
        cmocka_unit_test(a_linear_layer_has_the_right_gradients),
        cmocka_unit_test(batch_norm_has_the_right_gradients),
        cmocka_unit_test(running_statistics_take_the_unbiased_variance),
        cmocka_unit_test(a_single_value_per_channel_leaves_the_running_variance),
        cmocka_unit_test(relu_has_the_right_gradient),
        cmocka_unit_test(an_addition_has_the_right_gradients),
        cmocka_unit_test(dropout_has_the_right_gradient),
        cmocka_unit_test(dropout2d_has_the_right_gradient),
        cmocka_unit_test(dropout2d_drops_whole_channels_and_scales_the_others),
        cmocka_unit_test(the_loss_has_the_right_gradient),
    };
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
