/* The sum of --mode local against the definition, element by element, and against
 * base/arrays/fold.h, which it does not use. */
#include "tests/unit/expect.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"
#include "base/rng.h"
#include "worker/exchange/exchange_local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static psr_layout layout;
static psr_buckets buckets;

/* Buckets of which no count of workers below divides all, and one shorter than 17 workers. */
static int set_up(void **state)
{
    (void)state;
    expect_ok(psr_layout_add(&layout, "a", 1, (uint32_t[]){16}));
    expect_ok(psr_layout_add(&layout, "b", 2, (uint32_t[]){31, 37}));
    expect_ok(psr_layout_add(&layout, "c", 1, (uint32_t[]){5}));
    expect_ok(psr_buckets_plan(&layout, 4096, &buckets));
    assert_true(buckets.count > 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
    return 0;
}

static psr_config plain_sgd(uint32_t workers)
{
    psr_config config;
    psr_config_defaults(&config);
    config.mode = PSR_MODE_LOCAL;
    config.workers = workers;
    config.lr = 1;
    config.momentum = 0;
    config.weight_decay = 0;
    return config;
}

typedef struct run {
    psr_config config;
    psr_optimizer *optimizer;
    float *weights;
    psr_plan plan;
    psr_local *local;
} run;

static run run_new(psr_config config)
{
    run r = {.config = config};
    return r;
}

static void plan_run(run *r)
{
    psr_compression compression;
    psr_part *parts = NULL;
    expect_ok(psr_compression_parse(r->config.compress, &compression));
    const psr_plan_options options = {.route = PSR_ROUTE_NONE,
                                      .ranks = r->config.workers,
                                      .slice_floats = 16,
                                      .window = 1,
                                      .compression = &compression};
    expect_ok(psr_buckets_parts(&buckets, false, &parts));
    expect_ok(psr_plan_make(&options, parts, buckets.count, &r->plan));
    free(parts);
}

static void run_open(run *r)
{
    expect_ok(psr_optimizer_new(&r->config, &layout, &r->optimizer));
    expect_ok(psr_arena_new(layout.length, &r->weights));
    plan_run(r);
    const psr_local_options options = {.config = &r->config,
                                       .layout = &layout,
                                       .buckets = &buckets,
                                       .plan = &r->plan,
                                       .weights = r->weights,
                                       .optimizer = r->optimizer};
    expect_ok(psr_local_new(&options, &r->local));
    for (uint32_t rank = 0; rank < r->config.workers; rank++) {
        float *g = psr_local_gradients(r->local, rank);
        /* Divided by three, so that all bits of the mantissa are in use and sums do round. */
        for (uint32_t i = 0; i < layout.length; i++)
            g[i] =
                (psr_rng_unit(psr_rng_word((psr_rng_at){1, PSR_RNG_TEST, 0, rank, 0}, i)) - 0.5f) /
                3;
    }
}

static void run_close(run *r)
{
    psr_local_free(r->local);
    psr_plan_done(&r->plan);
    psr_optimizer_free(r->optimizer);
    psr_arena_free(r->weights, layout.length);
}

/* With plain SGD at rate 1 from zero the weights are the sum's negative. */
static void the_sum_has_the_bits_of_the_fold_for_every_number_of_workers(void **state)
{
    (void)state;
    const uint32_t counts[] = {1, 2, 3, 5, 8, 17};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        run r = run_new(plain_sgd(counts[k]));
        run_open(&r);
        expect_ok(psr_local_update(r.local, 0, 10));
        uint32_t n = counts[k], wrong = 0;
        for (uint32_t b = 0; b < buckets.count; b++) {
            size_t length = buckets.items[b].length, offset = buckets.items[b].offset;
            for (size_t i = 0; i < length; i++) {
                uint32_t c = psr_fold_chunk_of(length, n, i);
                float sum = psr_local_gradients(r.local, psr_fold_rank_at(n, c, 0))[offset + i];
                for (uint32_t p = 1; p < n; p++)
                    sum = sum + psr_local_gradients(r.local, psr_fold_rank_at(n, c, p))[offset + i];
                wrong += r.weights[offset + i] != -sum;
            }
        }
        assert_int_equal(wrong, 0);
        run_close(&r);
    }
}

static uint32_t elements_that_differ(uint32_t workers)
{
    run right = run_new(plain_sgd(workers)), reversed = run_new(plain_sgd(workers));
    reversed.config.fold = PSR_FOLD_REVERSED;
    run_open(&right);
    run_open(&reversed);
    expect_ok(psr_local_update(right.local, 0, 10));
    expect_ok(psr_local_update(reversed.local, 0, 10));
    uint32_t differ = 0;
    for (size_t i = 0; i < layout.length; i++) {
        differ += right.weights[i] != reversed.weights[i];
        /* the same sum all the same */
        assert_true(fabsf(right.weights[i] - reversed.weights[i]) < 1e-5f);
    }
    run_close(&right);
    run_close(&reversed);
    return differ;
}

static void the_reversed_order_rounds_differently_from_three_workers_on(void **state)
{
    (void)state;
    assert_int_equal(elements_that_differ(2), 0); /* addition commutes: two workers show nothing */
    assert_true(elements_that_differ(3) > 10);
    assert_true(elements_that_differ(8) > 10);
}

static void a_sum_that_is_not_finite_names_step_and_bucket(void **state)
{
    (void)state;
    run r = run_new(plain_sgd(3));
    run_open(&r);
    psr_local_gradients(r.local, 1)[buckets.items[1].offset] = INFINITY;
    expect_failure(psr_local_update(r.local, 7, 10), PSR_ERR_NUMERIC,
                   "step 8: the gradient of bucket 1 is not finite; a lower --lr may help");
    run_close(&r);
}

static void lars_is_given_whole_tensors(void **state)
{
    (void)state;
    psr_config config = plain_sgd(3);
    config.optimizer = PSR_OPTIMIZER_LARS;
    run r = run_new(config);
    run_open(&r);
    for (size_t i = 0; i < layout.length; i++)
        r.weights[i] = 0.5f;
    expect_ok(psr_local_update(r.local, 0, 10));
    /* Tensor b is adapted to its norms, so its update is far smaller than the gradient; a, of rank
     * 1, is not.
     */
    const psr_tensor *a = &layout.tensors[0], *b = &layout.tensors[1];
    double moved_a = 0, moved_b = 0;
    for (size_t i = 0; i < a->count; i++)
        moved_a += fabs((double)r.weights[a->offset + i] - 0.5) / (double)a->count;
    for (size_t i = 0; i < b->count; i++)
        moved_b += fabs((double)r.weights[b->offset + i] - 0.5) / (double)b->count;
    assert_true(moved_b > 0);
    assert_true(moved_a > 20 * moved_b);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_has_the_bits_of_the_fold_for_every_number_of_workers),
        cmocka_unit_test(the_reversed_order_rounds_differently_from_three_workers_on),
        cmocka_unit_test(a_sum_that_is_not_finite_names_step_and_bucket),
        cmocka_unit_test(lars_is_given_whole_tensors),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
