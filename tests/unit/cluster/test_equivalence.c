/* The heart: shards, ring and a reference of plain loops end every step with the same bits. */
#include "comm/tables/table.h"
#include "tests/unit/cluster/cluster_reference.h"
#include "tests/unit/seeds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Of the test that goes on. */
static psr_layout layout;
static psr_buckets buckets;
static psr_config config;

/* *state: const size_t, the bytes of a bucket. */
static int set_up(void **state)
{
    reference_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, *(const size_t *)*state, &buckets), PSR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
    return 0;
}

static float *reference_of(uint64_t steps)
{
    const reference_order order =
        config.fold == PSR_FOLD_REVERSED ? REFERENCE_REVERSED : REFERENCE_FOLD;
    return reference_run(&config, &layout, &buckets, 0, steps, order, NULL);
}

static cluster_options options_of(uint64_t steps, uint64_t seed)
{
    return (cluster_options){.config = &config,
                             .layout = &layout,
                             .buckets = &buckets,
                             .steps = steps,
                             .seed = seed,
                             .slow_worker = CLUSTER_NOBODY,
                             .stop_at = UINT64_MAX};
}

/* Buckets that planning never makes: of any length, most of them shorter than 8 workers. */
static void make_short_buckets(void)
{
    static const size_t lengths[] = {1, 2, 3, 5, 7, 11, 13, 40, 97, 250};
    buckets = (psr_buckets){.items = calloc(layout.length, sizeof *buckets.items)};
    size_t end = layout.length;
    while (end > 0) {
        size_t length = lengths[buckets.count % (sizeof lengths / sizeof lengths[0])];
        length = length < end ? length : end;
        end -= length;
        buckets.items[buckets.count++] = (psr_bucket){.offset = end, .length = length};
    }
}

static const uint32_t shard_counts[] = {1, 2, 3, 5};

static void check_all(uint32_t n, const reference_rule *r, psr_fold_order fold, uint64_t seed)
{
    enum { STEPS = 4 };
    config = reference_config(r, n);
    config.fold = fold;
    float *reference = reference_of(STEPS);
    cluster_options options = options_of(STEPS, seed);
    for (size_t s = 0; s < sizeof shard_counts / sizeof shard_counts[0]; s++) {
        config.mode = PSR_MODE_PS;
        config.shards = shard_counts[s];
        options.seed = seed * 100 + s;
        reference_check(&options, reference);
    }
    config.mode = PSR_MODE_RING;
    config.shards = 1;
    reference_check(&options, reference);
    options.shares = CLUSTER_ONE_HOST;
    options.seed++;
    reference_check(&options, reference);
    options.shares = seed * 0x9e3779b97f4a7c15u >> 20; /* some hosts or others */
    options.seed++;
    reference_check(&options, reference);
    free(reference);
}

/* ---- tests ---- */

static void shards_and_ring_end_every_step_with_the_bits_of_plain_loops(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n++)
        for (size_t r = 0; r < REFERENCE_RULES; r++)
            if (case_is_played(n + r))
                check_all(n, &reference_rules[r], PSR_FOLD_RANK, n * 10 + r);
}

static void so_do_they_with_ranks_that_are_counted_from_the_last_one(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n++)
        check_all(n, &reference_rules[n % REFERENCE_RULES], PSR_FOLD_REVERSED, n * 10 + 7);
}

static void hosts_of_any_size_give_the_same_bits(void **state)
{
    (void)state;
    enum { STEPS = 3 };
    for (uint32_t n = 2; n <= 5; n++)
        for (uint64_t shares = 0; shares < 1u << n; shares += 2) { /* every split into runs */
            if (!case_is_played(n + shares / 2))
                continue;
            config = reference_config(&reference_rules[(n + shares / 2) % REFERENCE_RULES], n);
            config.mode = PSR_MODE_RING;
            config.window = 1 + shares % 3;
            float *reference = reference_of(STEPS);
            cluster_options options = options_of(STEPS, 3000 + n * 100 + shares);
            options.shares = shares;
            reference_check(&options, reference);
            free(reference);
        }
}

static void buckets_shorter_than_the_number_of_workers_give_the_same_bits(void **state)
{
    (void)state;
    /* As they are planned, the shortest are 16 floats, so there must be more workers. */
    check_all(19, &reference_rules[1], PSR_FOLD_RANK, 2000);
    check_all(5, &reference_rules[1], PSR_FOLD_REVERSED, 2001);
    psr_buckets_done(&buckets);
    make_short_buckets();
    for (uint32_t n = 1; n <= 8; n++)
        check_all(n, &reference_rules[n % 4], PSR_FOLD_RANK, 1000 + n);
}

static void a_worker_that_is_ten_times_slower_changes_no_bit(void **state)
{
    (void)state;
    enum { STEPS = 6 };
    for (uint32_t slow = 0; slow < 3; slow++)
        for (int mode = 0; mode < 4; mode++) {
            config = reference_config(&reference_rules[1], 3);
            config.mode = mode ? PSR_MODE_RING : PSR_MODE_PS;
            config.shards = mode ? 1 : 2;
            float *reference = reference_of(STEPS);
            cluster_options options = options_of(STEPS, 50 + slow);
            options.slow_worker = slow;
            options.shares = mode == 2 ? CLUSTER_ONE_HOST : mode == 3 ? 1u << 1 : 0;
            reference_check(&options, reference);
            free(reference);
        }
}

static void messages_that_arrive_twice_change_no_bit(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    for (size_t r = 0; r < REFERENCE_RULES; r++) {
        config = reference_config(&reference_rules[r], 5);
        config.shards = 3;
        float *reference = reference_of(STEPS);
        cluster_options options = options_of(STEPS, 60 + r);
        options.duplicate_permille = 300;
        reference_check(&options, reference);
        config.mode = PSR_MODE_RING;
        options.shares = CLUSTER_ONE_HOST;
        reference_check(&options, reference);
        options.shares = 1u << 1 | 1u << 4;
        reference_check(&options, reference);
        free(reference);
    }
}

static void another_order_of_the_fold_gives_other_bits(void **state)
{
    (void)state;
    enum { STEPS = 1 };
    for (uint32_t n = 2; n <= 8; n++) {
        config = reference_config(&reference_rules[0], n);
        float *a = reference_of(STEPS);
        static const reference_order others[] = {REFERENCE_ANOTHER, REFERENCE_REVERSED};
        for (size_t k = 0; k < 2; k++) {
            float *b = reference_run(&config, &layout, &buckets, 0, STEPS, others[k], NULL);
            /* Two numbers have one sum whatever their order, which is why equal bits with 2 workers
             * prove nothing. */
            assert_int_equal(reference_same(&layout, a, b), n == 2);
            free(b);
        }
        free(a);
    }
}

/* --precision fp16. The first step and two in a row are among them. */
static void a_step_that_overflows_is_left_out_by_all(void **state)
{
    (void)state;
    enum { STEPS = 6, OVERFLOWS = 1 | 1 << 2 | 1 << 3 };
    static const char *const routes[] = {"", "t1=ring,t4=ring,t6=ring"};
    for (size_t r = 0; r < REFERENCE_RULES; r++) {
        config = reference_config(&reference_rules[r], 3);
        config.precision = PSR_PRECISION_FP16;
        float *reference = reference_run_without(&config, &layout, &buckets, 0, STEPS,
                                                 REFERENCE_FOLD, OVERFLOWS, NULL);
        cluster_options options = options_of(STEPS, 80 + r);
        options.overflows = OVERFLOWS;
        options.late_devices = true;
        for (size_t w = 0; w < 2; w++) {
            strcpy(config.route, routes[w]);
            config.mode = PSR_MODE_PS;
            for (config.shards = 1; config.shards <= 3; config.shards++)
                reference_check(&options, reference);
        }
        config.route[0] = '\0';
        config.mode = PSR_MODE_RING;
        config.shards = 1;
        for (int share = 0; share < 3; share++) {
            options.shares = (const uint64_t[]){0, 1u << 1, CLUSTER_ONE_HOST}[share];
            reference_check(&options, reference);
        }
        free(reference);
    }
}

static void so_it_is_when_the_mode_changes(void **state)
{
    (void)state;
    enum { STEPS = 8, OVERFLOWS = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 };
    config = reference_config(&reference_rules[1], 3);
    config.precision = PSR_PRECISION_FP16;
    config.shards = 2;
    config.mode = PSR_MODE_PS;
    config.stretch_count = 3;
    config.stretches[0] = (psr_stretch){PSR_MODE_PS, 0};
    config.stretches[1] = (psr_stretch){PSR_MODE_RING, 3};
    config.stretches[2] = (psr_stretch){PSR_MODE_PS, 6};
    float *reference = reference_run_without(&config, &layout, &buckets, 0, STEPS, REFERENCE_FOLD,
                                             OVERFLOWS, NULL);
    for (uint64_t seed = 90; seed < 96; seed++) {
        cluster_options options = options_of(STEPS, seed);
        options.overflows = OVERFLOWS;
        options.shares = seed % 2 == 0 ? CLUSTER_ONE_HOST : 0;
        reference_check(&options, reference);
    }
    free(reference);
}

/* The last checkpoint holds the optimizer's state, of the shards, of worker 0 or of each worker
 * what it holds. */
static void check_slots(const cluster_options *options, float **slots)
{
    uint64_t steps = options->first_step + options->steps;
    cluster *c = cluster_run(options);
    for (uint32_t i = 0; i < (config.optimizer == PSR_OPTIMIZER_ADAM ? 2 : config.momentum != 0);
         i++) {
        assert_non_null(cluster_slot(c, i, steps));
        assert_true(reference_same(options->layout, cluster_slot(c, i, steps), slots[i]));
        assert_null(cluster_slot(c, i, options->first_step + 1));
    }
    cluster_free(c);
}

static void a_resumed_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    enum { STEPS = 3, FIRST = 5 };
    for (size_t r = 0; r < REFERENCE_RULES; r++) {
        config = reference_config(&reference_rules[r], 3);
        float *slots[2] = {calloc(layout.length, sizeof(float)),
                           calloc(layout.length, sizeof(float))};
        float *reference =
            reference_run(&config, &layout, &buckets, FIRST, STEPS, REFERENCE_FOLD, slots);
        cluster_options options = options_of(STEPS, 70 + r);
        options.first_step = FIRST;
        config.mode = PSR_MODE_RING;
        for (int share = 0; share < 4; share++) {
            options.shares = (const uint64_t[]){0, 1u << 1, 1u << 2, CLUSTER_ONE_HOST}[share];
            reference_check(&options, reference);
            check_slots(&options, slots);
        }
        config.mode = PSR_MODE_PS;
        config.shards = 2;
        reference_check(&options, reference);
        check_slots(&options, slots);
        free(reference);
        free(slots[0]);
        free(slots[1]);
    }
}

static void a_run_that_is_told_to_stop_checkpoints_the_step_it_stops_after(void **state)
{
    (void)state;
    enum { STEPS = 12, STOP = 3 };
    config = reference_config(&reference_rules[1], 3);
    config.shards = 2;
    config.checkpoint_every = (psr_duration){.steps = 2};
    float *reference = reference_of(STEPS);
    for (uint64_t seed = 0; seed < seeds_of(40); seed++) {
        config.mode = seed % 2 ? PSR_MODE_PS : PSR_MODE_RING;
        cluster_options options = options_of(STEPS, seed);
        options.stop_at = STOP;
        options.shares = seed % 8 == 0 ? CLUSTER_ONE_HOST : seed % 4 == 0 ? 1u << 1 : 0;
        cluster *c = cluster_run(&options);
        /* Who begins step STOP last may hear of it before, and all take the last step that any has
         * begun. */
        uint64_t taken = cluster_steps(c);
        assert_in_range(taken, STOP + 1, STEPS);
        for (uint64_t steps = 1; steps <= STEPS; steps++) {
            bool due = (steps % 2 == 0 && steps <= taken) || steps == taken;
            assert_int_equal(cluster_slot(c, 0, steps) != NULL, due);
            const float *weights = cluster_checkpointed_weights(c, steps);
            assert_int_equal(weights != NULL, due);
            if (due)
                assert_true(
                    reference_same(&layout, weights, reference + (steps - 1) * layout.length));
        }
        cluster_free(c);
    }
    free(reference);
}

/* ---- compressed ---- */

static const char *const compressions[] = {"fp16", "bf16", "int8", "topk:0.03", "1bit"};
enum { COMPRESSIONS = sizeof compressions / sizeof compressions[0] };

static void make_residuals(uint32_t n, bool resumed, float **residuals)
{
    for (uint32_t r = 0; r < n; r++) {
        residuals[r] = calloc(layout.length, sizeof *residuals[r]);
        if (resumed)
            cluster_initial_residual(&layout, r, residuals[r]);
    }
}

static bool leaves_out(const char *text)
{
    psr_compression compression;
    assert_int_equal(psr_compression_parse(text, &compression), PSR_OK);
    return psr_compression_has_residual(compression);
}

/* Weights after every step, what each worker owes at the end, and what all have of the weights. */
static void check_compressed(const cluster_options *options)
{
    enum { MOST = 5 };
    const uint32_t n = config.workers;
    const uint64_t steps = options->first_step + options->steps;
    float *residuals[MOST];
    assert_in_range(n, 1, MOST);
    make_residuals(n, options->first_step > 0, residuals);
    float *reference = reference_run_compressed(&config, &layout, &buckets, options->first_step,
                                                options->steps, residuals);
    reference_check(options, reference);
    cluster *c = cluster_run(options);
    const float *pulled = cluster_pulled(c, steps);
    assert_int_equal(pulled != NULL, leaves_out(config.compress_weights));
    if (pulled != NULL)
        assert_true(
            reference_same(&layout, pulled, reference + (options->steps - 1) * layout.length));
    for (uint32_t r = 0; r < n; r++) {
        const float *owed = cluster_residual(c, r, steps);
        const bool owes = leaves_out(config.compress);
        assert_int_equal(owed != NULL, owes);
        if (owes)
            assert_true(reference_same(&layout, owed, residuals[r]));
        free(residuals[r]);
    }
    cluster_free(c);
    free(reference);
}

static void compressed_shards_end_every_step_with_the_bits_of_mode_local(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    for (uint32_t k = 0; k < COMPRESSIONS; k++)
        for (uint32_t n = 1; n <= 4; n++)
            for (uint32_t shards = 1; shards <= 3; shards++) {
                if (!case_is_played(k + n + shards))
                    continue;
                config = reference_config(&reference_rules[(k + n) % REFERENCE_RULES], n);
                strcpy(config.compress, compressions[k]);
                config.shards = shards;
                cluster_options options = options_of(STEPS, 3000 + 100 * k + 10 * n + shards);
                options.duplicate_permille = shards == 2 ? 300 : 0;
                check_compressed(&options);
            }
}

static void a_compressed_ring_ends_every_step_with_the_bits_of_mode_local(void **state)
{
    (void)state;
    enum { STEPS = 5 };
    for (uint32_t k = 0; k < COMPRESSIONS; k++)
        for (uint32_t n = 1; n <= 5; n++) {
            config = reference_config(&reference_rules[(k + n) % REFERENCE_RULES], n);
            strcpy(config.compress, compressions[k]);
            config.mode = PSR_MODE_RING;
            cluster_options options = options_of(STEPS, 6000 + 10 * k + n);
            options.slow_worker = n > 2 ? k % n : CLUSTER_NOBODY;
            check_compressed(&options);
        }
}

/* With more than one worker: alone, a ring rounds its gradient once too. */
static void a_ring_rounds_otherwise_than_shards_do(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COMPRESSIONS; k++)
        for (uint32_t n = 1; n <= 3; n++) {
            float *history[2];
            config = reference_config(&reference_rules[0], n);
            strcpy(config.compress, compressions[k]);
            for (int ring = 0; ring < 2; ring++) {
                float *residuals[3];
                config.mode = ring ? PSR_MODE_RING : PSR_MODE_PS;
                make_residuals(n, false, residuals);
                history[ring] =
                    reference_run_compressed(&config, &layout, &buckets, 0, 1, residuals);
                for (uint32_t r = 0; r < n; r++)
                    free(residuals[r]);
            }
            assert_int_equal(reference_same(&layout, history[0], history[1]), n == 1);
            free(history[0]);
            free(history[1]);
        }
}

static void a_compressed_run_that_is_resumed_owes_what_it_did(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COMPRESSIONS; k++)
        for (uint32_t shards = 1; shards <= 2; shards++) {
            config = reference_config(&reference_rules[1], 3);
            strcpy(config.compress, compressions[k]);
            config.shards = shards;
            cluster_options options = options_of(3, 4000 + 10 * k + shards);
            options.first_step = 5;
            check_compressed(&options);
            config.mode = PSR_MODE_RING;
            config.shards = 1;
            check_compressed(&options);
        }
}

/* With --compress-weights; pushes as they are, or compressed too. Resumed, workers hold what they
 * had pulled, and the shards what that was rounded from. */
static void weights_that_come_back_rounded_are_those_of_mode_local(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (uint32_t n = 1; n <= 3; n++)
            for (uint32_t shards = 1; shards <= 3; shards++) {
                config = reference_config(&reference_rules[(bf16 + n) % REFERENCE_RULES], n);
                strcpy(config.compress_weights, bf16 ? "bf16" : "fp16");
                strcpy(config.compress, n == 2 ? "int8" : "fp16");
                config.shards = shards;
                cluster_options options =
                    options_of(5, 7000 + 100 * (uint32_t)bf16 + 10 * n + shards);
                options.duplicate_permille = shards == 2 ? 300 : 0;
                options.first_step = shards == 3 ? 5 : 0;
                check_compressed(&options);
            }
}

static const char *const differences[] = {"int8", "topk:0.05", "topk:1", "1bit"};
enum { DIFFERENCES = sizeof differences / sizeof differences[0] };

/* A part is encoded as one, so neither the number of shards nor the size of slices changes a bit.
 * Resumed, shards and workers begin with different weights. */
static void weights_that_come_as_differences_are_those_of_mode_local(void **state)
{
    (void)state;
    static const char *const pushes[] = {"none", "fp16", "int8", "1bit"};
    for (uint32_t k = 0; k < DIFFERENCES; k++)
        for (uint32_t n = 1; n <= 3; n++)
            for (uint32_t shards = 1; shards <= 3; shards++) {
                if (!case_is_played(k + n + shards))
                    continue;
                config = reference_config(&reference_rules[(k + n) % REFERENCE_RULES], n);
                strcpy(config.compress_weights, differences[k]);
                strcpy(config.compress, pushes[(k + n + shards) % 4]);
                config.shards = shards;
                config.slice_bytes = n == 2 ? 128 : 256;
                cluster_options options = options_of(5, 9000 + 100 * k + 10 * n + shards);
                options.duplicate_permille = shards == 2 ? 300 : 0;
                options.first_step = shards == 3 ? 5 : 0;
                check_compressed(&options);
            }
}

/* What a worker holds then is not what the checkpoint has; without rounding it is. */
static void a_checkpoint_has_the_weights_that_are_rounded_from(void **state)
{
    (void)state;
    const size_t length = layout.length;
    for (int rounded = 0; rounded < 2; rounded++) {
        config = reference_config(&reference_rules[0], 2);
        strcpy(config.compress_weights, rounded ? "bf16" : "none");
        cluster_options options = options_of(2, 8000 + (uint32_t)rounded);
        cluster *c = cluster_run(&options);
        const float *saved = cluster_checkpointed_weights(c, 2), *held = cluster_weights(c, 1, 1);
        assert_non_null(saved);
        assert_int_equal(reference_same(&layout, saved, held), !rounded);
        float *from = malloc(length * sizeof *from);
        memcpy(from, saved, length * sizeof *from);
        assert_int_equal(
            psr_compression_round((psr_compression){.encoding = PSR_ENCODING_BF16}, from, length),
            PSR_OK);
        assert_int_equal(reference_same(&layout, from, held), rounded);
        free(from);
        cluster_free(c);
    }
}

static void compressed_runs_of_relaxed_consistency_end_well(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COMPRESSIONS; k++)
        for (int async = 0; async < 2; async++) {
            config = reference_config(&reference_rules[0], 4);
            strcpy(config.compress, compressions[k]);
            config.shards = 2;
            strcpy(config.compress_weights, k % 3 == 0 ? "fp16" : "none");
            config.sync = async ? PSR_SYNC_ASYNC : PSR_SYNC_SSP;
            config.ssp_bound = 1;
            cluster_options options = options_of(12, 5000 + 10 * k + (uint32_t)async);
            options.duplicate_permille = 200;
            options.slow_worker = 1;
            cluster *c = cluster_run(&options);
            const float *weights = cluster_checkpointed_weights(c, 12);
            assert_non_null(weights);
            for (size_t t = 0; t < layout.tensor_count; t++)
                for (size_t i = 0; i < layout.tensors[t].count; i++)
                    assert_true(isfinite(weights[layout.tensors[t].offset + i]));
            if (!async)
                assert_in_range(cluster_staleness(c), 1, 1);
            cluster_free(c);
        }
}

/* ---- */

static void ssp_lets_workers_be_apart_but_never_by_more_than_its_bound(void **state)
{
    (void)state;
    enum { STEPS = 30 };
    for (uint32_t bound = 0; bound <= 3; bound++) {
        config = reference_config(&reference_rules[1], 4);
        config.shards = 2;
        config.sync = PSR_SYNC_SSP;
        config.ssp_bound = bound;
        cluster_options options = options_of(STEPS, 80 + bound);
        options.duplicate_permille = 100;
        options.slow_worker = 1;
        cluster *c = cluster_run(&options);
        assert_in_range(cluster_staleness(c), bound > 0, bound);
        /* A step that is under way is no completed one: the lead at a step's begin is at most the
         * bound. */
        assert_in_range(cluster_clock_gap(c), bound > 0, bound);
        cluster_free(c);
    }
}

static void async_lets_the_others_go_on_without_a_slow_worker(void **state)
{
    (void)state;
    enum { STEPS = 30 };
    config = reference_config(&reference_rules[3], 4);
    config.shards = 3;
    config.sync = PSR_SYNC_ASYNC;
    cluster_options options = options_of(STEPS, 90);
    options.slow_worker = 2;
    cluster *c = cluster_run(&options);
    assert_in_range(cluster_clock_gap(c), 5, STEPS);
    assert_in_range(cluster_staleness(c), 5, STEPS);
    cluster_free(c);
}

static void a_fold_by_arrival_ends_near_the_reference(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    for (size_t r = 0; r < REFERENCE_RULES; r++) {
        config = reference_config(&reference_rules[r], 5);
        config.shards = 2;
        config.fold = PSR_FOLD_ARRIVAL;
        float *reference = reference_of(STEPS);
        cluster_options options = options_of(STEPS, 95 + r);
        options.slow_worker = 0;
        cluster *c = cluster_run(&options);
        const float *last = cluster_weights(c, 3, STEPS - 1);
        const float *expected = reference + (STEPS - 1) * layout.length;
        for (size_t t = 0; t < layout.tensor_count; t++)
            for (size_t i = layout.tensors[t].offset;
                 i < layout.tensors[t].offset + layout.tensors[t].count; i++)
                assert_true(fabsf(last[i] - expected[i]) <= 1e-4f * (1 + fabsf(expected[i])));
        cluster_free(c);
        free(reference);
    }
}

/* Of what it reads where it lies, which the seed decides, a wider one. */
static void at_most_a_window_of_pushes_to_a_shard_is_under_way(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 4; window++) {
        config = reference_config(&reference_rules[0], 3);
        config.window = window;
        cluster_options options = options_of(5, 97);
        options.slow_worker = 0;
        options.counts_pushes = true;
        cluster *c = cluster_run(&options);
        assert_int_equal(cluster_pushes_in_flight(c), window);
        cluster_free(c);
        options.seed = 99;
        c = cluster_run(&options);
        assert_in_range(cluster_pushes_in_flight(c), window + 1, PSR_TABLE_WINDOW_LENT * window);
        cluster_free(c);
    }
}

#define OF_BUCKETS(bytes, test)                                                                    \
    cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, &(size_t){bytes})

int main(void)
{
    const struct CMUnitTest tests[] = {
        OF_BUCKETS(512, shards_and_ring_end_every_step_with_the_bits_of_plain_loops),
        OF_BUCKETS(512, so_do_they_with_ranks_that_are_counted_from_the_last_one),
        OF_BUCKETS(512, hosts_of_any_size_give_the_same_bits),
        OF_BUCKETS(64, buckets_shorter_than_the_number_of_workers_give_the_same_bits),
        OF_BUCKETS(300, a_worker_that_is_ten_times_slower_changes_no_bit),
        OF_BUCKETS(512, messages_that_arrive_twice_change_no_bit),
        OF_BUCKETS(512, another_order_of_the_fold_gives_other_bits),
        OF_BUCKETS(512, a_step_that_overflows_is_left_out_by_all),
        OF_BUCKETS(512, so_it_is_when_the_mode_changes),
        OF_BUCKETS(512, a_resumed_run_goes_on_with_the_same_bits),
        OF_BUCKETS(512, a_run_that_is_told_to_stop_checkpoints_the_step_it_stops_after),
        OF_BUCKETS(512, compressed_shards_end_every_step_with_the_bits_of_mode_local),
        OF_BUCKETS(512, a_compressed_ring_ends_every_step_with_the_bits_of_mode_local),
        OF_BUCKETS(512, a_ring_rounds_otherwise_than_shards_do),
        OF_BUCKETS(512, a_compressed_run_that_is_resumed_owes_what_it_did),
        OF_BUCKETS(1024, weights_that_come_back_rounded_are_those_of_mode_local),
        OF_BUCKETS(512, weights_that_come_as_differences_are_those_of_mode_local),
        OF_BUCKETS(1024, a_checkpoint_has_the_weights_that_are_rounded_from),
        OF_BUCKETS(1024, compressed_runs_of_relaxed_consistency_end_well),
        OF_BUCKETS(1024, ssp_lets_workers_be_apart_but_never_by_more_than_its_bound),
        OF_BUCKETS(1024, async_lets_the_others_go_on_without_a_slow_worker),
        OF_BUCKETS(512, a_fold_by_arrival_ends_near_the_reference),
        OF_BUCKETS(2048, at_most_a_window_of_pushes_to_a_shard_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, cluster_print_rate);
}
