/* The heart: shards, ring and a reference of plain loops end every step with the same bits. */
#include "base/config.h"
#include "tests/unit/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- a network: tensors of sizes that nothing divides ---- */

static void make_layout(psr_layout *layout)
{
    static const uint32_t shapes[][4] = {{5, 3, 3, 3},   {5, 1, 1, 1},  {7, 5, 1, 1},
                                         {1, 1, 1, 1},   {40, 7, 1, 1}, {17, 1, 1, 1},
                                         {23, 19, 1, 1}, {2, 2, 2, 2},  {33, 1, 1, 1}};
    static const uint32_t ranks[] = {4, 1, 2, 1, 2, 1, 2, 4, 1};
    *layout = (psr_layout){0};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        char name[] = {'t', (char)('0' + i), '\0'};
        assert_int_equal(psr_layout_add(layout, name, ranks[i], shapes[i]), PSR_OK);
    }
}

/* Buckets that planning never makes: of any length, most of them shorter than 8 workers. */
static void make_short_buckets(const psr_layout *layout, psr_buckets *buckets)
{
    static const size_t lengths[] = {1, 2, 3, 5, 7, 11, 13, 40, 97, 250};
    *buckets = (psr_buckets){.items = calloc(layout->length, sizeof *buckets->items)};
    size_t end = layout->length;
    while (end > 0) {
        size_t length = lengths[buckets->count % (sizeof lengths / sizeof lengths[0])];
        length = length < end ? length : end;
        end -= length;
        buckets->items[buckets->count++] = (psr_bucket){.offset = end, .length = length};
    }
}

typedef struct rule {
    const char *name;
    psr_optimizer_kind kind;
    double momentum;
    bool nesterov;
} rule;

static const rule rules[] = {
    {"sgd", PSR_OPTIMIZER_SGD, 0, false},       {"momentum", PSR_OPTIMIZER_SGD, 0.9, false},
    {"nesterov", PSR_OPTIMIZER_SGD, 0.9, true}, {"adam", PSR_OPTIMIZER_ADAM, 0, false},
    {"lars", PSR_OPTIMIZER_LARS, 0.9, false},
};
enum { RULES = sizeof rules / sizeof rules[0] };

static psr_config make_config(const rule *r, uint32_t workers)
{
    psr_config config;
    psr_config_defaults(&config);
    config.workers = workers;
    config.optimizer = r->kind;
    config.momentum = r->momentum;
    config.nesterov = r->nesterov;
    config.lr = 0.05;
    config.weight_decay = 1e-3;
    config.schedule = PSR_SCHEDULE_COSINE;
    config.slice_bytes = 256; /* smaller than most buckets, and no divisor of them */
    config.window = 3;
    return config;
}

/* ---- the reference ---- */

typedef enum order { ORDER_OF_THE_FOLD, ORDER_ANOTHER } order;

/* sum[i] over all workers, chunk c of a bucket in the order c+1, .., n-1, 0, .., c. (Another: c, c+1, .., as
 * a control.) */
static void reference_sum(const psr_bucket *bucket, uint32_t n, uint64_t step, order which, float *sum)
{
    for (uint32_t c = 0; c < n; c++) {
        size_t begin = bucket->offset + bucket->length * c / n;
        size_t end = bucket->offset + bucket->length * (c + 1) / n;
        uint32_t first = which == ORDER_OF_THE_FOLD ? c + 1 : c;
        for (size_t i = begin; i < end; i++) {
            float total = cluster_gradient(first % n, step, i);
            for (uint32_t k = 1; k < n; k++)
                total = total + cluster_gradient((first + k) % n, step, i);
            sum[i] = total;
        }
    }
}

/* Weights after each step: history[step][arena]. slots, when not NULL: the optimizer's at the end. */
static float *reference_run(const psr_config *config, const psr_layout *layout, const psr_buckets *buckets,
                            uint64_t first_step, uint64_t steps, order which, float **slots)
{
    psr_optimizer *optimizer;
    assert_int_equal(psr_optimizer_new(config, layout, &optimizer), PSR_OK);
    float *weights = calloc(layout->length, sizeof *weights);
    float *sum = calloc(layout->length, sizeof *sum);
    float *history = calloc(layout->length * steps, sizeof *history);
    cluster_initial_weights(layout, weights);
    for (uint32_t i = 0; i < psr_optimizer_slot_count(optimizer) && first_step > 0; i++)
        cluster_initial_slot(layout, i, psr_optimizer_slot(optimizer, i));
    for (uint64_t step = first_step; step < first_step + steps; step++) {
        for (uint32_t b = 0; b < buckets->count; b++)
            reference_sum(&buckets->items[b], config->workers, step, which, sum);
        float lr = psr_schedule_lr(config, step, first_step + steps);
        if (psr_optimizer_whole_tensors(optimizer))
            for (size_t t = 0; t < layout->tensor_count; t++)
                psr_optimizer_update_tensor(optimizer, weights, sum, t, lr, step + 1);
        else
            psr_optimizer_update(optimizer, weights, sum, 0, layout->length, lr, step + 1);
        memcpy(history + (step - first_step) * layout->length, weights, layout->length * sizeof *weights);
    }
    for (uint32_t i = 0; slots && i < psr_optimizer_slot_count(optimizer); i++)
        memcpy(slots[i], psr_optimizer_slot(optimizer, i), layout->length * sizeof(float));
    free(weights);
    free(sum);
    psr_optimizer_free(optimizer);
    return history;
}

/* ---- comparing ---- */

/* Padding of tensors is no parameter: LARS leaves it alone, others update it. */
static bool same_tensors(const psr_layout *layout, const float *a, const float *b)
{
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        if (memcmp(a + tensor->offset, b + tensor->offset, tensor->count * sizeof *a) != 0)
            return false;
    }
    return true;
}

static void check_same(const cluster_options *options, const float *reference)
{
    cluster *c = cluster_run(options);
    for (uint64_t k = 0; k < options->steps; k++)
        for (uint32_t r = 0; r < options->config->workers; r++)
            if (!same_tensors(options->layout, cluster_weights(c, r, options->first_step + k),
                              reference + k * options->layout->length))
                fail_msg("mode %s, %u workers, %u shards, optimizer %d: worker %u differs after step %llu",
                         options->config->mode == PSR_MODE_PS ? "ps" : "ring", options->config->workers,
                         options->config->shards, (int)options->config->optimizer, r,
                         (unsigned long long)(options->first_step + k));
    cluster_free(c);
}

static const uint32_t shard_counts[] = {1, 2, 3, 5};

static void check_all(const psr_layout *layout, const psr_buckets *buckets, uint32_t n, const rule *r,
                      uint64_t seed)
{
    enum { STEPS = 4 };
    psr_config config = make_config(r, n);
    float *reference = reference_run(&config, layout, buckets, 0, STEPS, ORDER_OF_THE_FOLD, NULL);
    cluster_options options = {.config = &config,
                               .layout = layout,
                               .buckets = buckets,
                               .steps = STEPS,
                               .seed = seed,
                               .slow_worker = CLUSTER_NOBODY,
                               .stop_at = UINT64_MAX};
    for (size_t s = 0; s < sizeof shard_counts / sizeof shard_counts[0]; s++) {
        config.mode = PSR_MODE_PS;
        config.shards = shard_counts[s];
        options.seed = seed * 100 + s;
        check_same(&options, reference);
    }
    config.mode = PSR_MODE_RING;
    config.shards = 1;
    check_same(&options, reference);
    free(reference);
}

/* ---- tests ---- */

static void shards_and_ring_end_every_step_with_the_bits_of_plain_loops(void **state)
{
    (void)state;
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    for (uint32_t n = 1; n <= 8; n++)
        for (size_t r = 0; r < RULES; r++)
            check_all(&layout, &buckets, n, &rules[r], n * 10 + r);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void buckets_shorter_than_the_number_of_workers_give_the_same_bits(void **state)
{
    (void)state;
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    make_short_buckets(&layout, &buckets);
    for (uint32_t n = 1; n <= 8; n++)
        check_all(&layout, &buckets, n, &rules[n % 4], 1000 + n);
    psr_buckets_done(&buckets);
    /* And as they are planned: the shortest are 16 floats, so there must be more workers. */
    assert_int_equal(psr_buckets_plan(&layout, 64, &buckets), PSR_OK);
    check_all(&layout, &buckets, 19, &rules[1], 2000);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void a_worker_that_is_ten_times_slower_changes_no_bit(void **state)
{
    (void)state;
    enum { STEPS = 6 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 300, &buckets), PSR_OK);
    for (uint32_t slow = 0; slow < 3; slow++)
        for (int mode = 0; mode < 2; mode++) {
            psr_config config = make_config(&rules[1], 3);
            config.mode = mode ? PSR_MODE_RING : PSR_MODE_PS;
            config.shards = mode ? 1 : 2;
            float *reference = reference_run(&config, &layout, &buckets, 0, STEPS, ORDER_OF_THE_FOLD, NULL);
            cluster_options options = {.config = &config,
                                       .layout = &layout,
                                       .buckets = &buckets,
                                       .steps = STEPS,
                                       .seed = 50 + slow,
                                       .slow_worker = slow,
                                       .stop_at = UINT64_MAX};
            check_same(&options, reference);
            free(reference);
        }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void messages_that_arrive_twice_change_no_bit(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    for (size_t r = 0; r < RULES; r++) {
        psr_config config = make_config(&rules[r], 5);
        config.shards = 3;
        float *reference = reference_run(&config, &layout, &buckets, 0, STEPS, ORDER_OF_THE_FOLD, NULL);
        cluster_options options = {.config = &config,
                                   .layout = &layout,
                                   .buckets = &buckets,
                                   .steps = STEPS,
                                   .seed = 60 + r,
                                   .duplicate_permille = 300,
                                   .slow_worker = CLUSTER_NOBODY,
                                   .stop_at = UINT64_MAX};
        check_same(&options, reference);
        free(reference);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void another_order_of_the_fold_gives_other_bits(void **state)
{
    (void)state;
    enum { STEPS = 1 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    for (uint32_t n = 2; n <= 8; n++) {
        psr_config config = make_config(&rules[0], n);
        float *a = reference_run(&config, &layout, &buckets, 0, STEPS, ORDER_OF_THE_FOLD, NULL);
        float *b = reference_run(&config, &layout, &buckets, 0, STEPS, ORDER_ANOTHER, NULL);
        /* Two numbers have one sum whatever their order, which is why equal bits with 2 workers prove
         * nothing. */
        assert_int_equal(same_tensors(&layout, a, b), n == 2);
        free(a);
        free(b);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void a_resumed_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    enum { STEPS = 3, FIRST = 5 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    for (size_t r = 0; r < RULES; r++) {
        psr_config config = make_config(&rules[r], 3);
        float *slots[2] = {calloc(layout.length, sizeof(float)), calloc(layout.length, sizeof(float))};
        float *reference = reference_run(&config, &layout, &buckets, FIRST, STEPS, ORDER_OF_THE_FOLD, slots);
        cluster_options options = {.config = &config,
                                   .layout = &layout,
                                   .buckets = &buckets,
                                   .steps = STEPS,
                                   .first_step = FIRST,
                                   .seed = 70 + r,
                                   .slow_worker = CLUSTER_NOBODY,
                                   .stop_at = UINT64_MAX};
        config.mode = PSR_MODE_RING;
        check_same(&options, reference);
        config.mode = PSR_MODE_PS;
        config.shards = 2;
        check_same(&options, reference);
        /* The shards' last checkpoint holds the optimizer's state. */
        cluster *c = cluster_run(&options);
        for (uint32_t i = 0; i < (rules[r].kind == PSR_OPTIMIZER_ADAM ? 2 : rules[r].momentum != 0); i++) {
            assert_non_null(cluster_slot(c, i, FIRST + STEPS));
            assert_true(same_tensors(&layout, cluster_slot(c, i, FIRST + STEPS), slots[i]));
            assert_null(cluster_slot(c, i, FIRST + 1));
        }
        cluster_free(c);
        free(reference);
        free(slots[0]);
        free(slots[1]);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void a_run_that_is_told_to_stop_checkpoints_the_step_it_stops_after(void **state)
{
    (void)state;
    enum { STEPS = 8, STOP = 3 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    psr_config config = make_config(&rules[1], 3);
    config.shards = 2;
    config.checkpoint_every = 2;
    for (uint64_t seed = 0; seed < 20; seed++) {
        cluster_options options = {.config = &config,
                                   .layout = &layout,
                                   .buckets = &buckets,
                                   .steps = STEPS,
                                   .seed = seed,
                                   .slow_worker = CLUSTER_NOBODY,
                                   .stop_at = STOP};
        cluster *c = cluster_run(&options);
        assert_non_null(cluster_slot(c, 0, 2));
        assert_null(cluster_slot(c, 0, 3));
        assert_non_null(cluster_slot(c, 0, STOP + 1));
        cluster_free(c);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void ssp_lets_workers_be_apart_but_never_by_more_than_its_bound(void **state)
{
    (void)state;
    enum { STEPS = 30 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 1024, &buckets), PSR_OK);
    for (uint32_t bound = 0; bound <= 3; bound++) {
        psr_config config = make_config(&rules[1], 4);
        config.shards = 2;
        config.sync = PSR_SYNC_SSP;
        config.ssp_bound = bound;
        cluster_options options = {.config = &config,
                                   .layout = &layout,
                                   .buckets = &buckets,
                                   .steps = STEPS,
                                   .seed = 80 + bound,
                                   .duplicate_permille = 100,
                                   .slow_worker = 1,
                                   .stop_at = UINT64_MAX};
        cluster *c = cluster_run(&options);
        assert_in_range(cluster_staleness(c), bound > 0, bound);
        /* A step that is under way is no completed one: the lead at a step's begin is at most the bound. */
        assert_in_range(cluster_clock_gap(c), bound > 0, bound);
        cluster_free(c);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void async_lets_the_others_go_on_without_a_slow_worker(void **state)
{
    (void)state;
    enum { STEPS = 30 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 1024, &buckets), PSR_OK);
    psr_config config = make_config(&rules[3], 4);
    config.shards = 3;
    config.sync = PSR_SYNC_ASYNC;
    cluster_options options = {.config = &config,
                               .layout = &layout,
                               .buckets = &buckets,
                               .steps = STEPS,
                               .seed = 90,
                               .slow_worker = 2,
                               .stop_at = UINT64_MAX};
    cluster *c = cluster_run(&options);
    assert_in_range(cluster_clock_gap(c), 5, STEPS);
    assert_in_range(cluster_staleness(c), 5, STEPS);
    cluster_free(c);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void a_fold_by_arrival_ends_near_the_reference(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    for (size_t r = 0; r < RULES; r++) {
        psr_config config = make_config(&rules[r], 5);
        config.shards = 2;
        config.fold = PSR_FOLD_ARRIVAL;
        float *reference = reference_run(&config, &layout, &buckets, 0, STEPS, ORDER_OF_THE_FOLD, NULL);
        cluster_options options = {.config = &config,
                                   .layout = &layout,
                                   .buckets = &buckets,
                                   .steps = STEPS,
                                   .seed = 95 + r,
                                   .slow_worker = 0,
                                   .stop_at = UINT64_MAX};
        cluster *c = cluster_run(&options);
        const float *last = cluster_weights(c, 3, STEPS - 1);
        const float *expected = reference + (STEPS - 1) * layout.length;
        for (size_t t = 0; t < layout.tensor_count; t++)
            for (size_t i = layout.tensors[t].offset; i < layout.tensors[t].offset + layout.tensors[t].count;
                 i++)
                assert_true(fabsf(last[i] - expected[i]) <= 1e-4f * (1 + fabsf(expected[i])));
        cluster_free(c);
        free(reference);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void at_most_a_window_of_pushes_to_a_shard_is_under_way(void **state)
{
    (void)state;
    psr_layout layout;
    psr_buckets buckets;
    make_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 2048, &buckets), PSR_OK);
    for (uint32_t window = 1; window <= 4; window++) {
        psr_config config = make_config(&rules[0], 3);
        config.window = window;
        cluster_options options = {.config = &config,
                                   .layout = &layout,
                                   .buckets = &buckets,
                                   .steps = 5,
                                   .seed = 99,
                                   .slow_worker = 0,
                                   .stop_at = UINT64_MAX};
        cluster *c = cluster_run(&options);
        assert_int_equal(cluster_pushes_in_flight(c), window);
        cluster_free(c);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_and_ring_end_every_step_with_the_bits_of_plain_loops),
        cmocka_unit_test(buckets_shorter_than_the_number_of_workers_give_the_same_bits),
        cmocka_unit_test(a_worker_that_is_ten_times_slower_changes_no_bit),
        cmocka_unit_test(messages_that_arrive_twice_change_no_bit),
        cmocka_unit_test(another_order_of_the_fold_gives_other_bits),
        cmocka_unit_test(a_resumed_run_goes_on_with_the_same_bits),
        cmocka_unit_test(a_run_that_is_told_to_stop_checkpoints_the_step_it_stops_after),
        cmocka_unit_test(ssp_lets_workers_be_apart_but_never_by_more_than_its_bound),
        cmocka_unit_test(async_lets_the_others_go_on_without_a_slow_worker),
        cmocka_unit_test(a_fold_by_arrival_ends_near_the_reference),
        cmocka_unit_test(at_most_a_window_of_pushes_to_a_shard_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
