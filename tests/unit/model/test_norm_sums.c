/* --sync-bn in the back ends: workers that go on with each other's sums from batch norm to batch
 * norm compute what one worker computes on all their samples. */
#include "model/norm_sums.h"

#include "model/backend.h"
#include "model/freeze.h"
#include "model/reference/ops.h"
#include "tests/unit/expect.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { WORKERS = 3, MOST = 5, SIZE = 16, PIXELS = 3 * SIZE * SIZE, CLASSES = 5 };

static const uint32_t labels[MOST] = {0, 4, 2, 2, 1}, samples[MOST] = {10, 3, 77, 4, 5};
/* The last worker's samples have run out. */
static const uint32_t shares[WORKERS] = {3, 2, 0};

typedef struct worker {
    psr_backend *backend;
    float *gradients, *buffers;
    psr_pass_result result;
} worker;

static psr_network *net;
static psr_buckets buckets;
static float *weights, *images;

static float *floats(size_t count)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 63) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, count * sizeof *x);
    return x;
}

/* Projections give oneDNN's back end two batch norms in one step. */
static int open_network(void **state)
{
    (void)state;
    expect_ok(psr_network_new("resnet20", CLASSES, 3, SIZE, SIZE, PSR_SHORTCUT_B, &net));
    expect_ok(psr_buckets_plan(&net->params, 65536, &buckets));
    weights = floats(net->params.length);
    images = floats(MOST * PIXELS);
    for (int i = 0; i < MOST * PIXELS; i++)
        images[i] = (float)((i * 37 + i / PIXELS * 11) % 101) / 50 - 1 + (float)(i / PIXELS) * 0.2f;
    return 0;
}

static int close_network(void **state)
{
    (void)state;
    psr_buckets_done(&buckets);
    psr_network_free(net);
    free(weights);
    free(images);
    return 0;
}

static worker open_worker(const psr_backend_options *like, bool sync)
{
    worker w = {.gradients = floats(net->params.length), .buffers = floats(net->buffers.length)};
    psr_backend_options options = *like;
    options.max_batch = MOST;
    options.threads = like->threads > 0 ? like->threads : 1;
    options.buckets = &buckets;
    options.sync_norms = sync;
    options.algorithms = "direct";
    psr_network_init(net, 1, weights, w.buffers);
    expect_ok(psr_backend_new(net, &options, &w.backend));
    return w;
}

static void close_worker(worker *w)
{
    psr_backend_free(w->backend);
    free(w->gradients);
    free(w->buffers);
}

static psr_batch batch_of(uint32_t first, uint32_t count)
{
    return (psr_batch){.images = images + first * PIXELS,
                       .labels = labels + first,
                       .samples = samples + first,
                       .count = count};
}

static psr_exec_state state_of(const worker *w)
{
    return (psr_exec_state){weights, w->gradients, w->buffers};
}

static void train_alone(worker *w, uint32_t first, uint32_t count)
{
    const psr_batch batch = batch_of(first, count);
    const psr_exec_state state = state_of(w);
    expect_ok(psr_backend_train(w->backend, &batch, &state, 1.0f / MOST, NULL, &w->result));
}

/* Returns the number of stops. */
static uint32_t train_together(worker *workers)
{
    psr_norm_sums sums[WORKERS];
    uint32_t stops = 0, first = 0;
    for (uint32_t i = 0; i < WORKERS; first += shares[i++]) {
        const psr_batch batch = batch_of(first, shares[i]);
        const psr_exec_state state = state_of(&workers[i]);
        expect_ok(psr_backend_begin(workers[i].backend, &batch, &state, 1.0f / MOST, NULL));
    }
    for (;; stops++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            expect_ok(psr_backend_advance(workers[i].backend, &sums[i], &workers[i].result));
            assert_int_equal(sums[i].count, sums[0].count);
            assert_int_equal(sums[i].values == NULL, sums[0].values == NULL);
        }
        if (sums[0].values == NULL)
            return stops;
        for (uint32_t i = 1; i < WORKERS; i++)
            for (size_t v = 0; v < sums[0].count; v++)
                sums[0].values[v] += sums[i].values[v];
        for (uint32_t i = 1; i < WORKERS; i++)
            memcpy(sums[i].values, sums[0].values, sums[0].count * sizeof(double));
    }
}

/* The largest difference, as a part of the largest value. */
static double apart(const float *a, const float *b, size_t count)
{
    double most = 0, largest = 1e-30;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    return most / largest;
}

static void add(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* Workers together, and whole, which trains on all their samples. within: of statistics and loss;
 * gradients_within: of gradients. */
static void compare_with(worker *whole, const psr_backend_options *options, double within,
                         double gradients_within, uint32_t stops)
{
    worker workers[WORKERS];
    const size_t length = net->params.length;
    for (uint32_t i = 0; i < WORKERS; i++)
        workers[i] = open_worker(options, true);
    train_alone(whole, 0, MOST);
    assert_int_equal(train_together(workers), stops);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_memory_equal(workers[i].buffers, workers[0].buffers,
                            net->buffers.length * sizeof(float));
        if (i > 0)
            add(workers[0].gradients, workers[i].gradients, length);
        workers[0].result.loss_sum += i > 0 ? workers[i].result.loss_sum : 0;
    }
    assert_true(apart(workers[0].gradients, whole->gradients, length) < gradients_within);
    assert_true(apart(workers[0].buffers, whole->buffers, net->buffers.length) < within);
    assert_true(fabs(workers[0].result.loss_sum - whole->result.loss_sum) <
                within * whole->result.loss_sum);
    for (size_t t = 0; t < net->params.tensor_count; t++)
        for (size_t i = 0; net->params.tensors[t].frozen && i < net->params.tensors[t].count; i++)
            assert_true(workers[0].gradients[net->params.tensors[t].offset + i] == 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        close_worker(&workers[i]);
}

static void compare(const psr_backend_options *options, double within, double gradients_within)
{
    worker whole = open_worker(options, false);
    const size_t length = net->params.length;
    /* 19 batch norms and two projections', each forward and backward */
    compare_with(&whole, options, within, gradients_within,
                 options->kind == PSR_BACKEND_REFERENCE ? 2 * 21 : 2 * 19);

    /* With statistics of their own they are far from it. */
    worker first = open_worker(options, false), second = open_worker(options, false);
    train_alone(&first, 0, shares[0]);
    train_alone(&second, shares[0], shares[1]);
    add(first.gradients, second.gradients, length);
    assert_true(apart(first.buffers, whole.buffers, net->buffers.length) > 3 * within);
    assert_true(apart(first.gradients, whole.gradients, length) > 0.02);
    close_worker(&first);
    close_worker(&second);
    close_worker(&whole);
}

static void workers_together_are_one_in_the_reference(void **state)
{
    (void)state;
    compare(&(psr_backend_options){.kind = PSR_BACKEND_REFERENCE}, 1e-5, 1e-5);
}

static void workers_together_are_one_in_onednn(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++)
        compare(&(psr_backend_options){.kind = PSR_BACKEND_ONEDNN, .threads = threads}, 1e-4, 1e-4);
}

/* Values have 8 bits there, and roundings turn ReLUs over. */
static void workers_together_are_one_in_bf16(void **state)
{
    (void)state;
    const psr_backend_options options = {.kind = PSR_BACKEND_ONEDNN,
                                         .precision = PSR_PRECISION_BF16,
                                         .threads = 2,
                                         .max_batch = MOST,
                                         .buckets = &buckets};
    psr_backend *backend = NULL;
    const psr_err err = psr_backend_new(net, &options, &backend);
    psr_backend_free(backend);
    if (err == PSR_OK)
        compare(&options, 0.03, 0.25);
    else
        assert_int_equal(err, PSR_ERR_UNSUPPORTED);
}

/* Seven batch norms are frozen, and the backward pass does not reach them. With held statistics
 * they stop nowhere. */
static void frozen_layers_stop_where_their_sums_are_needed(void **state)
{
    static const struct {
        psr_backend_kind kind;
        bool held;
        uint32_t stops;
    } cases[] = {
        {PSR_BACKEND_REFERENCE, false, 21 + 14},
        {PSR_BACKEND_REFERENCE, true, 14 + 14},
        {PSR_BACKEND_ONEDNN, false, 19 + 12},
        {PSR_BACKEND_ONEDNN, true, 12 + 12},
    };
    psr_config config;
    psr_config_defaults(&config);
    expect_ok(psr_config_set(&config, "freeze", "conv1,bn1,layer1"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        close_network(state);
        open_network(state);
        config.freeze_bn = cases[i].held;
        expect_ok(psr_freeze(&config, net));
        psr_buckets_done(&buckets);
        expect_ok(psr_buckets_plan(&net->params, 65536, &buckets));
        const psr_backend_options options = {.kind = cases[i].kind, .threads = 2};
        worker whole = open_worker(&options, false);
        compare_with(&whole, &options, 1e-4, 1e-4, cases[i].stops);
        close_worker(&whole);
    }
    close_network(state);
    open_network(state);
}

static void a_pass_of_one_worker_alone_may_be_in_parts(void **state)
{
    (void)state;
    const psr_backend_options onednn = {.kind = PSR_BACKEND_ONEDNN};
    worker whole = open_worker(&onednn, false), parts = open_worker(&onednn, true);
    const psr_batch batch = batch_of(0, MOST);
    const psr_exec_state on = state_of(&parts);
    psr_norm_sums sums;
    train_alone(&whole, 0, MOST);
    expect_ok(psr_backend_begin(parts.backend, &batch, &on, 1.0f / MOST, NULL));
    do {
        expect_ok(psr_backend_advance(parts.backend, &sums, &parts.result));
    } while (sums.values != NULL);
    assert_true(apart(parts.gradients, whole.gradients, net->params.length) < 1e-4);
    assert_true(apart(parts.buffers, whole.buffers, net->buffers.length) < 1e-5);
    close_worker(&whole);
    close_worker(&parts);
}

/* The variance around a mean that is 10^4 deviations away, from sums and squares in double. */
static void a_far_mean_leaves_the_variance_its_digits(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    double sum = 0, squares = 0, centred = 0, mean, variance;
    float x[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = 1e4f + (float)(i % 17) / 8;
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    for (int i = 0; i < COUNT; i++)
        centred += ((double)x[i] - sum / COUNT) * ((double)x[i] - sum / COUNT);
    psr_norm_moments(COUNT, sum, squares, &mean, &variance);
    assert_true(mean == sum / COUNT);
    assert_true(fabs(variance - centred / COUNT) < 1e-6 * variance);
    psr_norm_moments(3, 3, 3 * (1 - 1e-16), &mean, &variance); /* equal values: no NaN later */
    assert_true(variance >= 0);
    psr_norm_moments(1, NAN, NAN, &mean, &variance);
    assert_true(isnan(variance));
}

/* 100 000 values whose mean is 3500 deviations away. */
static void sums_of_many_far_values_keep_the_variance(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    const psr_batchnorm norm = {.N = 1, .C = 1, .S = COUNT};
    float *x = floats(COUNT);
    double sum = 0, centred = 0, given, squares, mean, variance;
    for (int i = 0; i < COUNT; i++) {
        x[i] = 1000 + (float)(i % 1009) / 1009;
        sum += (double)x[i];
    }
    for (int i = 0; i < COUNT; i++)
        centred += ((double)x[i] - sum / COUNT) * ((double)x[i] - sum / COUNT);
    psr_ref_batchnorm_sums(&norm, x, &given, &squares);
    psr_norm_moments(COUNT, given, squares, &mean, &variance);
    assert_true(fabs(mean - sum / COUNT) < 1e-12 * mean);
    assert_true(fabs(variance - centred / COUNT) < 5e-8 * variance);
    free(x);
}

/* Momentum 0.1: new = 0.9 * old + 0.1 * batch's, the variance times M / (M - 1), or as it was when
 * there is one value. */
static void running_statistics_are_of_all_values(void **state)
{
    (void)state;
    uint32_t node = 0;
    while (net->nodes[node].op != PSR_OP_BATCHNORM)
        node++;
    const psr_network_node *n = &net->nodes[node];
    const psr_norm_stop stop = {.nodes = {node, PSR_NONE}};
    float *buffers = floats(net->buffers.length),
          *mean = buffers + net->buffers.tensors[n->mean].offset,
          *variance = buffers + net->buffers.tensors[n->variance].offset;
    double *values = calloc(psr_norm_stop_count(net, &stop, false), sizeof *values);
    mean[0] = variance[0] = 1;
    values[0] = 4;
    values[1] = 8;
    values[1 + n->channels] = 32; /* 4 values: mean 2, variance 4 */
    psr_norm_stop_run(net, &stop, values, buffers);
    assert_true(fabs((double)mean[0] - 1.1) < 1e-6);
    assert_true(fabs((double)variance[0] - (0.9 + 0.1 * 4 * 4 / 3)) < 1e-6);
    const float before = variance[0];
    values[0] = 1;
    psr_norm_stop_run(net, &stop, values, buffers);
    assert_true(variance[0] == before);
    free(values);
    free(buffers);
}

static void the_played_back_end_has_no_statistics(void **state)
{
    (void)state;
    const psr_backend_options options = {.kind = PSR_BACKEND_PLAYED,
                                         .max_batch = MOST,
                                         .threads = 1,
                                         .buckets = &buckets,
                                         .profile = "",
                                         .dilate = 1,
                                         .sync_norms = true};
    psr_backend *backend = NULL;
    assert_int_equal(psr_backend_new(net, &options, &backend), PSR_ERR_UNSUPPORTED);
    assert_non_null(strstr(psr_err_detail(), "--sync-bn"));
    assert_null(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_together_are_one_in_the_reference),
        cmocka_unit_test(workers_together_are_one_in_onednn),
        cmocka_unit_test(workers_together_are_one_in_bf16),
        cmocka_unit_test(frozen_layers_stop_where_their_sums_are_needed),
        cmocka_unit_test(a_pass_of_one_worker_alone_may_be_in_parts),
        cmocka_unit_test(a_far_mean_leaves_the_variance_its_digits),
        cmocka_unit_test(sums_of_many_far_values_keep_the_variance),
        cmocka_unit_test(running_statistics_are_of_all_values),
        cmocka_unit_test(the_played_back_end_has_no_statistics),
    };
    return cmocka_run_group_tests(tests, open_network, close_network);
}
