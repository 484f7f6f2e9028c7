#include "tests/unit/layouts.h"

#include "base/arrays/fold.h"
#include "comm/wire/messages.h"
#include "comm/view/plan.h"
#include "model/networks/network_list.h"

#include <stdlib.h>

/* ---- sharing out ---- */

/* owner[b]: the shard that bucket b goes to; ret_bytes (may be NULL): what each shard holds. */
static psr_err assign(const psr_buckets *buckets, uint32_t shards, bool whole_tensors,
                      uint32_t *owner, uint64_t *ret_bytes)
{
    const psr_plan_options options = {.route = PSR_ROUTE_SHARD,
                                      .ranks = 2,
                                      .shards = shards,
                                      .slice_floats = 1 << 17,
                                      .window = 2};
    psr_part *parts = NULL;
    psr_plan plan = {0};
    expect_ok(psr_buckets_parts(buckets, whole_tensors, &parts));
    psr_err err = psr_plan_make(&options, parts, buckets->count, &plan);
    free(parts);
    for (uint32_t b = 0; b < plan.bucket_count; b++)
        owner[b] = plan.buckets[b].home;
    if (err == PSR_OK && ret_bytes != NULL)
        psr_plan_loads(&plan, PSR_ROUTE_SHARD, ret_bytes);
    psr_plan_done(&plan);
    return err;
}

static void shards_take_the_largest_first_and_ties_go_to_the_lower_index(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(64, 16, 32, 64); /* buckets 0..3 are of 64, 32, 16, 64 */
    psr_buckets buckets;
    uint32_t owner[4];
    expect_ok(psr_buckets_plan(&layout, 64 * sizeof(float), &buckets));
    assert_int_equal(buckets.count, 3); /* 64; 32 + 16; 64 */
    expect_ok(assign(&buckets, 2, false, owner, NULL));
    assert_int_equal(owner[0], 0);
    assert_int_equal(owner[2], 1);
    assert_int_equal(owner[1], 0);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void every_bucket_has_an_owner_even_with_more_shards_than_buckets(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(16, 16);
    psr_buckets buckets;
    uint32_t owner[2] = {99, 99};
    expect_ok(psr_buckets_plan(&layout, 64, &buckets));
    expect_ok(assign(&buckets, 7, false, owner, NULL));
    assert_int_equal(owner[0], 0);
    assert_int_equal(owner[1], 1);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

/* Every run of one home, and every run between them, once, from the arena's beginning on. */
static void runs_of_a_home_and_of_the_others_alternate_and_cover_the_arena(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(64, 64, 64, 64, 64, 64, 64);
    static const uint32_t homes[] = {2, 0, 0, 1, 2, 2, 0}; /* from the arena's end on */
    psr_buckets buckets;
    psr_part *parts = NULL;
    psr_plan plan = {0};
    const psr_plan_options options = {
        .route = PSR_ROUTE_SHARD, .ranks = 2, .shards = 3, .slice_floats = 1 << 17, .window = 2};
    expect_ok(psr_buckets_plan(&layout, 64 * sizeof(float), &buckets));
    assert_int_equal(buckets.count, 7);
    expect_ok(psr_buckets_parts(&buckets, false, &parts));
    expect_ok(psr_plan_make(&options, parts, buckets.count, &plan));
    for (uint32_t b = 0; b < plan.bucket_count; b++)
        plan.buckets[b].home = homes[b];
    for (uint32_t home = 0; home < 4; home++) {
        const psr_peer shard = {PSR_ROLE_SHARD, home};
        uint32_t held = plan.bucket_count, others = plan.bucket_count;
        bool holds = homes[plan.bucket_count - 1] == home;
        size_t end = 0;
        for (psr_span run; end < layout.length; end += run.count, holds = !holds) {
            run = psr_plan_next_run(&plan, shard, holds, holds ? &held : &others);
            assert_int_equal(run.offset, end);
            assert_true(run.count > 0);
        }
        assert_int_equal(psr_plan_next_run(&plan, shard, true, &held).count, 0);
        assert_int_equal(psr_plan_next_run(&plan, shard, false, &others).count, 0);
    }
    psr_plan_done(&plan);
    free(parts);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

/* Floats on the fullest and on the emptiest shard. */
static void extremes(const psr_buckets *buckets, const uint32_t *owner, uint32_t shards,
                     size_t *ret_most, size_t *ret_least)
{
    size_t load[16] = {0};
    assert_true(shards <= 16);
    for (uint32_t b = 0; b < buckets->count; b++) {
        assert_true(owner[b] < shards);
        load[owner[b]] += buckets->items[b].length;
    }
    *ret_most = 0;
    *ret_least = SIZE_MAX;
    for (uint32_t s = 0; s < shards; s++) {
        *ret_most = load[s] > *ret_most ? load[s] : *ret_most;
        *ret_least = load[s] < *ret_least ? load[s] : *ret_least;
    }
}

static void resnet50_is_balanced_within_one_bucket(void **state)
{
    (void)state;
    psr_network *net = NULL;
    expect_ok(psr_network_new("resnet50", 1000, 3, 224, 224, PSR_SHORTCUT_A, &net));
    const uint64_t bucket_bytes = 4 << 20;
    psr_buckets buckets;
    expect_ok(psr_buckets_plan(&net->params, bucket_bytes, &buckets));
    uint32_t *owner = calloc(buckets.count, sizeof *owner);
    assert_non_null(owner);
    for (uint32_t shards = 1; shards <= 8; shards++) {
        size_t most, least;
        expect_ok(assign(&buckets, shards, false, owner, NULL));
        extremes(&buckets, owner, shards, &most, &least);
        assert_true((most - least) * sizeof(float) <= bucket_bytes);
    }
    free(owner);
    psr_buckets_done(&buckets);
    psr_network_free(net);
}

/* The largest part over the mean. */
static double unevenness(const sized_net *s, uint32_t shards)
{
    size_t most, least;
    uint64_t bytes[16];
    uint32_t *owner = calloc(s->buckets.count, sizeof *owner);
    assert_non_null(owner);
    expect_ok(assign(&s->buckets, shards, false, owner, bytes));
    extremes(&s->buckets, owner, shards, &most, &least);
    bool found = false;
    for (uint32_t i = 0; i < shards; i++) {
        assert_in_range(bytes[i], least * sizeof(float), most * sizeof(float));
        found = found || bytes[i] == most * sizeof(float);
    }
    assert_true(found);
    free(owner);
    return (double)most * shards / (double)s->net->params.length;
}

static void no_shard_of_any_network_carries_much_more_than_the_mean(void **state)
{
    (void)state;
    const struct {
        uint32_t classes, channels, side;
    } data[] = {{10, 1, 28}, {47, 1, 28}, {10, 3, 32}, {100, 3, 32}, {1000, 3, 224}};
    for (const psr_listed_network *listed = psr_networks; listed->name != NULL; listed++)
        for (size_t d = 0; d < sizeof data / sizeof data[0]; d++) {
            if (data[d].side < listed->least_size)
                continue;
            sized_net s = make_sized(listed->name, data[d].classes, data[d].channels, data[d].side);
            for (uint32_t shards = 2; shards <= 8; shards++) {
                double ratio = unevenness(&s, shards);
                /* Largest first onto the lightest: beyond the mean there is at most a bucket's
                 * share of it. */
                double bound = 1 + (double)s.bucket_bytes * (shards - 1) /
                                       ((double)s.net->params.length * sizeof(float));
                if (shards <= 5 && bound > 1.25)
                    bound = 1.25;
                if (ratio > bound)
                    fail_msg("%s of %u classes, %u shards: the largest part is %.3f times the "
                             "mean, more than %.3f",
                             listed->name, data[d].classes, shards, ratio, bound);
            }
            free_sized(&s);
        }
}

static void pieces_of_a_tensor_share_a_shard_when_tensors_must_stay_whole(void **state)
{
    (void)state;
    psr_network *net = NULL;
    expect_ok(psr_network_new("resnet18", 1000, 3, 224, 224, PSR_SHORTCUT_A, &net));
    psr_buckets buckets;
    expect_ok(psr_buckets_plan(&net->params, 1 << 20, &buckets));
    uint32_t *owner = calloc(buckets.count, sizeof *owner);
    assert_non_null(owner);
    bool parted[2] = {false, false}; /* without and with whole_tensors */
    for (int whole = 0; whole < 2; whole++) {
        expect_ok(assign(&buckets, 3, whole, owner, NULL));
        for (uint32_t b = 1; b < buckets.count; b++)
            if (buckets.items[b].piece && buckets.items[b - 1].piece &&
                buckets.items[b].first_tensor == buckets.items[b - 1].first_tensor &&
                owner[b] != owner[b - 1])
                parted[whole] = true;
    }
    assert_true(parted[0]);
    assert_false(parted[1]);
    free(owner);
    psr_buckets_done(&buckets);
    psr_network_free(net);
}

static void neighbouring_split_tensors_are_units_of_their_own(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(64, 64); /* each in four pieces, the eight buckets side by side */
    psr_buckets buckets;
    uint32_t owner[8];
    expect_ok(psr_buckets_plan(&layout, 64, &buckets));
    assert_int_equal(buckets.count, 8);
    expect_ok(assign(&buckets, 2, true, owner, NULL));
    for (int b = 0; b < 8; b++)
        assert_int_equal(owner[b], b / 4);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

static void no_shards_are_refused(void **state)
{
    (void)state;
    psr_layout layout = LAYOUT_OF(16);
    psr_buckets buckets;
    uint32_t owner[1];
    expect_ok(psr_buckets_plan(&layout, 64, &buckets));
    expect_failure(assign(&buckets, 0, false, owner, NULL), PSR_ERR_USAGE,
                   "0 shards: at least 1 is needed");
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

/* ---- cutting ---- */

/* Three buckets with gaps between them, that nobody may touch. */
static const psr_part parts[] = {{{900, 333}, 0}, {{100, 7}, 1}, {{0, 64}, 2}};
enum { PARTS = 3 };

static psr_plan cut(psr_route route, uint32_t ranks, size_t slice_floats)
{
    const psr_plan_options options = {.route = route,
                                      .ranks = ranks,
                                      .shards = route == PSR_ROUTE_SHARD ? 2 : 0,
                                      .slice_floats = slice_floats,
                                      .window = 2};
    psr_plan plan;
    expect_ok(psr_plan_make(&options, parts, PARTS, &plan));
    return plan;
}

/* Chunks in a bucket, slices in a chunk: in order, without a gap, none empty, none too long; and
 * each is found by its place. */
static void check_cut(const psr_plan *plan, uint32_t chunks)
{
    uint32_t next = 0;
    for (uint32_t b = PARTS; b-- > 0;) {
        const psr_plan_bucket *bucket = &plan->buckets[b];
        size_t at = parts[b].span.offset;
        assert_int_equal(bucket->first_slice, next);
        for (uint32_t c = 0; c < chunks; c++) {
            psr_span chunk = psr_plan_chunk(plan, b, c);
            assert_int_equal(chunk.offset, at);
            assert_int_equal(at, parts[b].span.offset +
                                     psr_fold_chunk_begin(parts[b].span.count, chunks, c));
            for (size_t begin = 0; begin < chunk.count; begin += plan->slice_floats, next++) {
                const psr_slice *slice = &plan->slices[next];
                assert_int_equal(psr_plan_slice_at(plan, b, c, begin), next);
                assert_int_equal(slice->bucket, b);
                assert_int_equal(slice->chunk, c);
                assert_int_equal(slice->span.offset, at);
                assert_in_range(slice->span.count, 1, plan->slice_floats);
                at += slice->span.count;
            }
        }
        assert_int_equal(at, psr_span_end(parts[b].span));
        assert_int_equal(next, bucket->first_slice + bucket->slice_count);
    }
    assert_int_equal(next, plan->slice_count);
}

static void slices_cover_every_chunk_of_every_bucket_in_order(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 2, 3, 7, 16, 64, 100, 5000};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (uint32_t ranks = 1; ranks <= 70; ranks++) {
            psr_plan ring = cut(PSR_ROUTE_RING, ranks, lengths[i]);
            psr_plan shard = cut(PSR_ROUTE_SHARD, ranks, lengths[i]);
            check_cut(&ring, ranks);
            check_cut(&shard, 1);
            psr_plan_done(&ring);
            psr_plan_done(&shard);
        }
}

static void what_leaves_no_process_is_not_cut(void **state)
{
    (void)state;
    psr_plan plan = cut(PSR_ROUTE_NONE, 3, 16);
    assert_int_equal(plan.slice_count, 0);
    assert_int_equal(plan.bucket_count, PARTS);
    assert_int_equal(plan.ranks, 3);
    psr_plan_done(&plan);
}

static void each_bucket_has_a_compression_of_its_own(void **state)
{
    (void)state;
    psr_plan plan = cut(PSR_ROUTE_SHARD, 3, 16), again;
    const psr_plan_options limits = {.ranks = 3, .shards = 2, .slice_floats = 16, .window = 2};
    for (uint32_t b = 0; b < PARTS; b++)
        assert_true(psr_compression_is_none(plan.buckets[b].compression));
    expect_ok(psr_plan_of(&limits, plan.buckets, PARTS, &again));
    assert_true(psr_compression_is_none(again.buckets[1].compression));
    psr_plan_done(&again);
    assert_false(psr_plan_has_residual(&plan));
    plan.buckets[1].compression = (psr_compression){.encoding = PSR_ENCODING_INT8};
    expect_ok(psr_plan_of(&limits, plan.buckets, PARTS, &again));
    assert_true(psr_plan_has_residual(&again));
    assert_int_equal(again.buckets[1].compression.encoding, PSR_ENCODING_INT8);
    psr_plan_done(&again);
    plan.buckets[1].span.count = (size_t)UINT32_MAX + 1;
    expect_failure(psr_plan_of(&limits, plan.buckets, PARTS, &again), PSR_ERR_UNSUPPORTED,
                   "bucket 1 of 4294967296 values is too long to be compressed as one");
    psr_plan_done(&plan);
}

/* The largest slice there is, of values that take eight bytes each when all of them are
 * selected. */
static void a_whole_slice_fits_a_message_in_any_compression(void **state)
{
    (void)state;
    static const char *const texts[] = {"none", "fp16", "bf16", "int8", "topk:0.01", "1bit"};
    const psr_part part = {{0, 1000003}, 0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        psr_compression compression;
        psr_plan plan;
        expect_ok(psr_compression_parse(texts[i], &compression));
        const psr_plan_options options = {.route = PSR_ROUTE_NONE,
                                          .ranks = 3,
                                          .slice_floats =
                                              psr_plan_slice_floats(PSR_PAYLOAD_BYTES_MAX),
                                          .window = 2,
                                          .compression = &compression};
        expect_ok(psr_plan_make(&options, &part, 1, &plan));
        assert_true(psr_compression_equal(plan.buckets[0].compression, compression));
        assert_in_range(psr_compression_bytes_max(compression, plan.buckets[0].slice_floats), 1,
                        PSR_PAYLOAD_BYTES_MAX);
        assert_int_equal(plan.buckets[0].slice_floats % 16, 0);
        assert_int_equal(plan.buckets[0].slice_floats,
                         compression.encoding == PSR_ENCODING_TOPK ? 128 << 10 : 256 << 10);
        psr_plan_done(&plan);
    }
}

/* Whatever comes back: a slice of what is pulled must fit too. */
static void a_whole_slice_of_what_is_pulled_fits_a_message(void **state)
{
    (void)state;
    static const char *const texts[] = {"none", "bf16", "int8", "topk:0.01", "1bit"};
    const psr_part part = {{0, 1000003}, 0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        psr_compression pulled;
        psr_plan plan;
        expect_ok(psr_compression_parse(texts[i], &pulled));
        const psr_plan_options options = {.route = PSR_ROUTE_SHARD,
                                          .ranks = 3,
                                          .shards = 1,
                                          .slice_floats =
                                              psr_plan_slice_floats(PSR_PAYLOAD_BYTES_MAX),
                                          .window = 2,
                                          .pulled = &pulled};
        expect_ok(psr_plan_make(&options, &part, 1, &plan));
        assert_int_equal(psr_plan_pulls_differences(&plan), i >= 2);
        assert_in_range(psr_compression_bytes_max(pulled, plan.buckets[0].slice_floats), 1,
                        PSR_PAYLOAD_BYTES_MAX);
        psr_plan_done(&plan);
    }
}

static void slices_are_whole_cache_lines(void **state)
{
    (void)state;
    assert_int_equal(psr_plan_slice_floats(512 << 10), 128 << 10);
    assert_int_equal(psr_plan_slice_floats(320), 80);
    assert_int_equal(psr_plan_slice_floats(191), 32);
    assert_int_equal(psr_plan_slice_floats(0), 16);
}

/* ---- hosts ---- */

static psr_plan on_hosts(const psr_host_ranks *hosts)
{
    const psr_plan_options options = {.route = PSR_ROUTE_HOST,
                                      .ranks = hosts->first[hosts->count],
                                      .hosts = hosts,
                                      .slice_floats = 16,
                                      .window = 2};
    psr_plan plan;
    expect_ok(psr_plan_make(&options, parts, PARTS, &plan));
    return plan;
}

static void on_each_host_one_worker_holds_a_bucket(void **state)
{
    (void)state;
    psr_plan plan = on_hosts(&(psr_host_ranks){3, (uint32_t[]){0, 2, 3, 6}});
    assert_int_equal(plan.homes, 6);
    const uint32_t host_of[] = {0, 0, 1, 2, 2, 2};
    for (uint32_t r = 0; r < 6; r++)
        assert_int_equal(psr_plan_host_of(&plan, r), host_of[r]);
    /* Homes are 0, 5 and 1: the second bucket is the smallest, and the first one the largest. */
    const uint32_t holders[PARTS][3] = {{0, 2, 3}, {1, 2, 5}, {1, 2, 4}};
    for (uint32_t b = 0; b < PARTS; b++)
        for (uint32_t h = 0; h < 3; h++)
            assert_int_equal(psr_plan_holder(&plan, b, h), holders[b][h]);
    assert_true(psr_plan_sends(&plan, 3, 5));  /* the same host */
    assert_true(psr_plan_sends(&plan, 1, 2));  /* bucket 2 */
    assert_true(psr_plan_sends(&plan, 4, 1));  /* the same, from the last host to the first */
    assert_false(psr_plan_sends(&plan, 4, 0)); /* which holds others */
    assert_false(psr_plan_sends(&plan, 0, 3)); /* not the next host */
    psr_plan_done(&plan);
}

/* Floats that the fullest worker of a host holds. */
static size_t fullest_of_host(const psr_plan *plan, uint32_t host)
{
    size_t load[16] = {0}, most = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        size_t *of_holder = &load[psr_plan_holder(plan, b, host) - plan->hosts.first[host]];
        *of_holder += plan->buckets[b].span.count;
        most = *of_holder > most ? *of_holder : most;
    }
    return most;
}

static void on_hosts_of_any_sizes_the_workers_of_each_hold_parts_of_one_size(void **state)
{
    (void)state;
    static const uint32_t sizes[][4] = {{1, 3}, {3, 1},    {2, 2, 2}, {4, 1},   {3, 2},
                                        {4, 3}, {2, 3, 4}, {6, 4},    {7, 5, 3}};
    enum { COUNT = 61, LARGEST = 64 };
    psr_part many[COUNT];
    size_t end = 0;
    for (uint32_t b = COUNT; b-- > 0; end += many[b].span.count)
        many[b] = (psr_part){{end, b % 7 == 0 ? 7 : LARGEST - b % 3 * 16}, b};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t first[5] = {0};
        psr_host_ranks hosts = {0, first};
        for (; hosts.count < 4 && sizes[i][hosts.count] > 0; hosts.count++)
            first[hosts.count + 1] = first[hosts.count] + sizes[i][hosts.count];
        const psr_plan_options options = {.route = PSR_ROUTE_HOST,
                                          .ranks = first[hosts.count],
                                          .hosts = &hosts,
                                          .slice_floats = 16,
                                          .window = 2};
        psr_plan plan;
        expect_ok(psr_plan_make(&options, many, COUNT, &plan));
        for (uint32_t h = 0; h < hosts.count; h++)
            assert_in_range(fullest_of_host(&plan, h), end / sizes[i][h],
                            end / sizes[i][h] + LARGEST);
        psr_plan_done(&plan);
    }
}

static void homes_are_as_many_as_all_hosts_divide_or_as_the_largest_has(void **state)
{
    (void)state;
    assert_int_equal(psr_host_ranks_homes(&(psr_host_ranks){1, (uint32_t[]){3, 8}}), 5);
    assert_int_equal(psr_host_ranks_homes(&(psr_host_ranks){3, (uint32_t[]){0, 4, 10, 14}}), 12);
    assert_int_equal(psr_host_ranks_homes(&(psr_host_ranks){2, (uint32_t[]){0, 1024, 1025}}), 1024);
    assert_int_equal(psr_host_ranks_homes(&(psr_host_ranks){3, (uint32_t[]){0, 13, 29, 44}}), 16);
    assert_int_equal(
        psr_host_ranks_homes(&(psr_host_ranks){2, (uint32_t[]){0, UINT32_MAX - 1, UINT32_MAX}}),
        UINT32_MAX - 1);
}

static void the_plan_of_a_host_has_its_workers_and_the_same_slices(void **state)
{
    (void)state;
    psr_plan plan = on_hosts(&(psr_host_ranks){3, (uint32_t[]){0, 2, 3, 6}}), within;
    check_cut(&plan, 6);
    expect_ok(psr_plan_within(&plan, 1, &within));
    assert_int_equal(within.ranks, 2);
    assert_int_equal(within.homes, 2);
    assert_int_equal(psr_plan_first_rank(&within), 0);
    assert_int_equal(within.slice_count, plan.slice_count);
    for (uint32_t b = 0; b < PARTS; b++)
        assert_int_equal(psr_plan_home(&within, b).rank, psr_plan_holder(&plan, b, 0));
    check_cut(&within, 6);
    psr_plan_done(&within);
    expect_ok(psr_plan_within(&plan, 5, &within));
    assert_int_equal(within.ranks, 3);
    assert_int_equal(psr_plan_first_rank(&within), 3);
    for (uint32_t b = 0; b < PARTS; b++)
        assert_int_equal(psr_plan_home(&within, b).rank, psr_plan_holder(&plan, b, 2));
    psr_plan_done(&within);
    psr_plan_done(&plan);
}

static void more_slices_than_can_be_counted_are_refused(void **state)
{
    (void)state;
    const psr_part huge = {{0, (size_t)1 << 40}, 0};
    const psr_plan_options options = {
        .route = PSR_ROUTE_RING, .ranks = 3, .slice_floats = 16, .window = 2};
    psr_plan plan;
    expect_failure(psr_plan_make(&options, &huge, 1, &plan), PSR_ERR_UNSUPPORTED,
                   "68719476738 slices are too many: larger slices or buckets are needed");
}

static void a_message_names_a_slice_or_is_refused(void **state)
{
    (void)state;
    psr_plan plan = cut(PSR_ROUTE_RING, 3, 16); /* bucket 2: chunks of 21, 21 and 22 */
    const psr_message message = {.from = {PSR_ROLE_WORKER, 1},
                                 .head = psr_msg_pull_head(&(psr_msg_pull){0})};
    const psr_slice right = {.bucket = 2, .span = {21 + 16, 5}};
    uint32_t number = 0;
    expect_ok(psr_plan_find(&plan, &message, right.bucket, right.span, &number));
    assert_int_equal(plan.slices[number].span.offset, 37);
    assert_int_equal(plan.slices[number].chunk, 1);
#define REFUSED(detail, ...)                                                                       \
    do {                                                                                           \
        psr_slice says = right;                                                                    \
        __VA_ARGS__;                                                                               \
        expect_failure(                                                                            \
            psr_plan_find(&plan, &message, says.bucket, says.span, &number), PSR_ERR_PROTOCOL,     \
            "worker 1 sent PULL (wire step 0, bucket 0, offset 0, count 0, taken 0): " detail);    \
    } while (0)
    REFUSED("there are 3 buckets", says.bucket = 3);
    REFUSED("no slice of the bucket begins there", says.span.offset = 38);
    REFUSED("no slice of the bucket begins there", says.span.offset = 20);
    REFUSED("no slice of the bucket begins there", says.span.offset = 64);
    REFUSED("no slice of the bucket begins there", says.span.offset = SIZE_MAX);
    plan.buckets[2].route = PSR_ROUTE_NONE;
    REFUSED("the bucket is not exchanged", (void)0);
    plan.buckets[2].route = PSR_ROUTE_RING;
    REFUSED("the slice has 5 floats", says.span.count = 6);
#undef REFUSED
    psr_plan_done(&plan);
}

static void a_frozen_bucket_is_not_cut_and_every_worker_has_it(void **state)
{
    (void)state;
    const psr_route routes[] = {PSR_ROUTE_SHARD, PSR_ROUTE_FROZEN, PSR_ROUTE_SHARD};
    const psr_part three[] = {{{160, 32}, 0}, {{32, 128}, 1}, {{0, 32}, 2}};
    const psr_plan_options options = {
        .routes = routes, .ranks = 3, .shards = 2, .slice_floats = 16, .window = 1};
    psr_plan plan;
    expect_ok(psr_plan_make(&options, three, 3, &plan));
    assert_int_equal(plan.slice_count, 4);
    assert_int_equal(plan.buckets[1].slice_count, 0);
    assert_true(psr_plan_all_go(&plan, PSR_ROUTE_SHARD));
    assert_false(psr_plan_all_go(&plan, PSR_ROUTE_RING));
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_true(psr_plan_holds(&plan, 1, (psr_peer){PSR_ROLE_WORKER, rank}));
    assert_false(psr_plan_holds(&plan, 1, (psr_peer){PSR_ROLE_SHARD, 0}));
    assert_int_equal(psr_plan_home(&plan, 1).role, PSR_ROLE_WORKER);
    uint64_t loads[2];
    psr_plan_loads(&plan, PSR_ROUTE_SHARD, loads);
    assert_int_equal(loads[0], 128);
    assert_int_equal(loads[1], 128);
    psr_plan_done(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_a_home_and_of_the_others_alternate_and_cover_the_arena),
        cmocka_unit_test(shards_take_the_largest_first_and_ties_go_to_the_lower_index),
        cmocka_unit_test(every_bucket_has_an_owner_even_with_more_shards_than_buckets),
        cmocka_unit_test(resnet50_is_balanced_within_one_bucket),
        cmocka_unit_test(no_shard_of_any_network_carries_much_more_than_the_mean),
        cmocka_unit_test(pieces_of_a_tensor_share_a_shard_when_tensors_must_stay_whole),
        cmocka_unit_test(neighbouring_split_tensors_are_units_of_their_own),
        cmocka_unit_test(no_shards_are_refused),
        cmocka_unit_test(slices_cover_every_chunk_of_every_bucket_in_order),
        cmocka_unit_test(what_leaves_no_process_is_not_cut),
        cmocka_unit_test(a_frozen_bucket_is_not_cut_and_every_worker_has_it),
        cmocka_unit_test(each_bucket_has_a_compression_of_its_own),
        cmocka_unit_test(a_whole_slice_fits_a_message_in_any_compression),
        cmocka_unit_test(a_whole_slice_of_what_is_pulled_fits_a_message),
        cmocka_unit_test(slices_are_whole_cache_lines),
        cmocka_unit_test(on_each_host_one_worker_holds_a_bucket),
        cmocka_unit_test(on_hosts_of_any_sizes_the_workers_of_each_hold_parts_of_one_size),
        cmocka_unit_test(homes_are_as_many_as_all_hosts_divide_or_as_the_largest_has),
        cmocka_unit_test(the_plan_of_a_host_has_its_workers_and_the_same_slices),
        cmocka_unit_test(more_slices_than_can_be_counted_are_refused),
        cmocka_unit_test(a_message_names_a_slice_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
