#include "tests/unit/layouts.h"

#include "base/rng.h"

static size_t padded(size_t count)
{
    return (count + 15) / 16 * 16;
}

/* What the header promises of every plan. */
static void check_plan(const psr_layout *layout, uint64_t bucket_bytes, const psr_buckets *buckets)
{
    size_t end = layout->length;
    size_t next_tensor = layout->tensor_count; /* tensors from here on have been covered */
    for (uint32_t b = 0; b < buckets->count; b++) {
        const psr_bucket *bucket = &buckets->items[b];
        assert_true(bucket->length > 0);
        assert_int_equal(bucket->offset % PSR_TENSOR_ALIGN, 0);
        assert_int_equal(bucket->length % PSR_TENSOR_ALIGN, 0);
        assert_true(bucket->length * sizeof(float) <= bucket_bytes);
        assert_int_equal(bucket->offset + bucket->length, end);
        end = bucket->offset;

        const psr_tensor *first = &layout->tensors[bucket->first_tensor];
        if (bucket->piece) {
            assert_int_equal(bucket->tensor_count, 1);
            assert_true(padded(first->count) * sizeof(float) > bucket_bytes);
            assert_true(bucket->offset >= first->offset);
            assert_true(bucket->offset + bucket->length <= first->offset + padded(first->count));
            if (bucket->offset == first->offset)
                next_tensor = bucket->first_tensor;
        } else {
            assert_int_equal(bucket->offset, first->offset);
            assert_int_equal(bucket->first_tensor + bucket->tensor_count, next_tensor);
            next_tensor = bucket->first_tensor;
            /* It was closed because the tensor before it would not fit any more. */
            if (next_tensor > 0)
                assert_true((bucket->length + padded(layout->tensors[next_tensor - 1].count)) *
                                sizeof(float) >
                            bucket_bytes);
        }
    }
    assert_int_equal(end, 0);
    assert_int_equal(next_tensor, 0);
}

static void buckets_fill_from_the_end_and_fuse_small_tensors(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(16, 33, 1, 16, 48);
    psr_buckets buckets;
    expect_ok(psr_buckets_plan(&layout, 64 * sizeof(float), &buckets));
    check_plan(&layout, 64 * sizeof(float), &buckets);
    assert_int_equal(buckets.count, 3);
    assert_int_equal(buckets.items[0].first_tensor, 3); /* 16 + 48 */
    assert_int_equal(buckets.items[1].first_tensor, 1); /* 33 (48) + 1 (16) */
    assert_int_equal(buckets.items[2].first_tensor, 0);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void a_tensor_larger_than_a_bucket_is_split_from_its_end(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(16, 100, 16); /* 100 takes 112 */
    psr_buckets buckets;
    /* not a multiple of 64: 48 floats */
    expect_ok(psr_buckets_plan(&layout, 48 * sizeof(float) + 63, &buckets));
    check_plan(&layout, 48 * sizeof(float), &buckets);
    assert_int_equal(buckets.count, 5);
    static const psr_bucket expected[] = {
        {128, 16, 2, 1, false, false}, {80, 48, 1, 1, true, false}, {32, 48, 1, 1, true, false},
        {16, 16, 1, 1, true, false},   {0, 16, 0, 1, false, false},
    };
    for (uint32_t b = 0; b < 5; b++) {
        assert_int_equal(buckets.items[b].offset, expected[b].offset);
        assert_int_equal(buckets.items[b].length, expected[b].length);
        assert_int_equal(buckets.items[b].first_tensor, expected[b].first_tensor);
        assert_int_equal(buckets.items[b].piece, expected[b].piece);
    }
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void a_tensor_that_just_fits_is_not_split(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(97);
    psr_buckets buckets;
    expect_ok(psr_buckets_plan(&layout, 112 * sizeof(float), &buckets));
    assert_int_equal(buckets.count, 1);
    assert_false(buckets.items[0].piece);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void every_size_of_bucket_covers_random_layouts_exactly(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        psr_rng_at at = {.seed = 1, .purpose = PSR_RNG_TEST, .sample = round};
        uint64_t element = 0;
        psr_layout layout = {0};
        uint32_t tensor_count = psr_rng_below(at, &element, 12);
        for (uint32_t t = 0; t < tensor_count; t++) {
            uint32_t count = 1 + psr_rng_below(at, &element, 300);
            expect_ok(psr_layout_add(&layout, "t", 1, &count));
        }
        uint64_t bucket_bytes = 64 + psr_rng_below(at, &element, 3000);
        psr_buckets buckets;
        expect_ok(psr_buckets_plan(&layout, bucket_bytes, &buckets));
        check_plan(&layout, bucket_bytes, &buckets);
        psr_buckets_done(&buckets);
        psr_layout_done(&layout);
    }
}

static void the_networks_are_covered_by_buckets_of_any_size(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {64, 100, 1000, 65536, 1000003, 4 << 20, 32 << 20, UINT64_MAX};
    static const char *const models[] = {"mlp", "resnet20", "resnet50"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        psr_network *net = NULL;
        expect_ok(psr_network_new(models[m], 10, 3, 32, 32, PSR_SHORTCUT_A, &net));
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            psr_buckets buckets;
            expect_ok(psr_buckets_plan(&net->params, sizes[s], &buckets));
            check_plan(&net->params, sizes[s], &buckets);
            psr_buckets_done(&buckets);
        }
        psr_network_free(net);
    }
}

static void a_bucket_below_64_bytes_is_refused(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(16);
    psr_buckets buckets;
    expect_failure(psr_buckets_plan(&layout, 63, &buckets), PSR_ERR_USAGE,
                   "bucket size of 63 bytes: at least 64 are needed");
    psr_layout_done(&layout);
}

static void the_size_of_buckets_follows_that_of_the_network(void **state)
{
    (void)state;
    const struct {
        const char *model;
        uint32_t classes, channels, side;
        uint64_t bucket_bytes;
        uint32_t count;
    } known[] = {
        {"convnet", 10, 1, 28, 4 << 10, 24},     {"mlp", 10, 1, 28, 128 << 10, 23},
        {"resnet20", 10, 1, 28, 64 << 10, 29},   {"resnet20", 100, 3, 32, 64 << 10, 29},
        {"resnet110", 10, 3, 32, 256 << 10, 42}, {"resnet18", 10, 3, 32, 2 << 20, 34},
        {"resnet50", 1000, 3, 224, 4 << 20, 40}, {"resnet152", 1000, 3, 224, 4 << 20, 86},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        sized_net s =
            make_sized(known[i].model, known[i].classes, known[i].channels, known[i].side);
        assert_int_equal(s.bucket_bytes, known[i].bucket_bytes);
        assert_int_equal(s.buckets.count, known[i].count);
        /* who asks for a size gets it */
        assert_int_equal(psr_bucket_bytes(&s.net->params, 12352), 12352);
        free_sized(&s);
    }
    psr_layout tiny = LAYOUT_OF(16);
    assert_int_equal(psr_bucket_bytes(&tiny, 0), 4096);
    psr_layout_done(&tiny);
}

/* The buckets that a plan's runs of the arena make are those that the runs were taken from. */
static void buckets_are_found_again_by_their_runs(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(100, 16, 33, 7, 900, 1, 1, 64);
    for (uint64_t bucket_bytes = 64; bucket_bytes <= 8192; bucket_bytes += 64) {
        psr_buckets buckets, again;
        psr_span spans[128];
        expect_ok(psr_buckets_plan(&layout, bucket_bytes, &buckets));
        assert_true(buckets.count <= 128);
        for (uint32_t b = 0; b < buckets.count; b++)
            spans[b] = (psr_span){buckets.items[b].offset, buckets.items[b].length};
        expect_ok(psr_buckets_of(&layout, spans, buckets.count, &again));
        assert_int_equal(again.count, buckets.count);
        for (uint32_t b = 0; b < buckets.count; b++) {
            assert_int_equal(again.items[b].offset, buckets.items[b].offset);
            assert_int_equal(again.items[b].length, buckets.items[b].length);
            assert_int_equal(again.items[b].first_tensor, buckets.items[b].first_tensor);
            assert_int_equal(again.items[b].tensor_count, buckets.items[b].tensor_count);
            assert_int_equal(again.items[b].piece, buckets.items[b].piece);
        }
        psr_buckets_done(&again);
        psr_buckets_done(&buckets);
    }
    psr_layout_done(&layout);
}

static void runs_that_are_no_buckets_of_the_layout_are_refused(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(32, 32); /* [0, 32) and [32, 64) */
    static const struct {
        psr_span spans[4];
        uint32_t count;
    } wrong[] = {
        {{{0, 64}}, 0},                      /* nothing */
        {{{32, 32}}, 1},                     /* not all */
        {{{0, 32}, {32, 32}}, 2},            /* not from the end on */
        {{{32, 32}, {0, 16}}, 2},            /* a gap */
        {{{16, 48}, {0, 16}}, 2},            /* a tensor and a piece of another */
        {{{48, 16}, {0, 48}}, 2},            /* likewise, the piece above */
        {{{32, 32}, {32, 0}, {0, 32}}, 3},   /* an empty one */
        {{{32, 32}, {0, 32}, {0, 1}}, 3},    /* more than there is */
        {{{SIZE_MAX - 31, 96}, {0, 32}}, 2}, /* beyond all */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        psr_buckets buckets;
        expect_failure(psr_buckets_of(&layout, wrong[i].spans, wrong[i].count, &buckets),
                       PSR_ERR_FORMAT, "the plan's buckets are not those of an arena of 64 floats");
    }
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_fill_from_the_end_and_fuse_small_tensors),
        cmocka_unit_test(a_tensor_larger_than_a_bucket_is_split_from_its_end),
        cmocka_unit_test(a_tensor_that_just_fits_is_not_split),
        cmocka_unit_test(every_size_of_bucket_covers_random_layouts_exactly),
        cmocka_unit_test(the_networks_are_covered_by_buckets_of_any_size),
        cmocka_unit_test(a_bucket_below_64_bytes_is_refused),
        cmocka_unit_test(the_size_of_buckets_follows_that_of_the_network),
        cmocka_unit_test(buckets_are_found_again_by_their_runs),
        cmocka_unit_test(runs_that_are_no_buckets_of_the_layout_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
