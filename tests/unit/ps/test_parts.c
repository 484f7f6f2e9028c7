#include "tests/unit/expect.h"

#include "model/networks/network.h"
#include "ps/parts.h"

#include <stdio.h>
#include <string.h>

/* The parts of a run of model on images of one channel and 28 pixels. bucket_bytes 0: auto. */
typedef struct sharing {
    psr_config config;
    psr_network *net;
    psr_parts parts;
} sharing;

static sharing share(const char *model, uint32_t shards, uint64_t bucket_bytes,
                     psr_optimizer_kind optimizer)
{
    sharing s = {0};
    psr_config_defaults(&s.config);
    s.config.mode = PSR_MODE_PS;
    s.config.shards = shards;
    s.config.optimizer = optimizer;
    snprintf(s.config.model, sizeof s.config.model, "%s", model);
    expect_ok(psr_network_new(model, 10, 1, 28, 28, PSR_SHORTCUT_A, &s.net));
    s.config.bucket_bytes = psr_bucket_bytes(&s.net->params, bucket_bytes);
    expect_ok(psr_parts_init(&s.config, &s.net->params, NULL, &s.parts));
    return s;
}

static void end(sharing *s)
{
    psr_parts_done(&s->parts);
    psr_network_free(s->net);
}

static void every_shard_of_a_small_network_holds_something_by_default(void **state)
{
    (void)state;
    static const char *const small[] = {"mlp", "convnet", "resnet20"};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        for (uint32_t shards = 1; shards <= 16; shards++) {
            sharing s = share(small[i], shards, 0, PSR_OPTIMIZER_SGD);
            uint64_t sum = 0;
            expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
            for (uint32_t k = 0; k < shards; k++)
                sum += s.parts.bytes[k];
            assert_int_equal(sum, s.net->params.length * sizeof(float));
            end(&s);
        }
}

static void shards_that_would_hold_nothing_are_refused_with_what_would_mend_it(void **state)
{
    (void)state;
    const struct {
        const char *model;
        uint32_t shards;
        uint64_t bucket_bytes;
        psr_optimizer_kind optimizer;
        const char *detail;
    } wrong[] = {
        {"resnet20", 2, 4 << 20, PSR_OPTIMIZER_SGD,
         "--shards 2: shard 1 would hold nothing: with --bucket-size 4M, resnet20 has 1 part to "
         "give; give at most --shards 1, or --bucket-size 64K"},
        {"resnet20", 8, 512 << 10, PSR_OPTIMIZER_SGD,
         "--shards 8: shards 3-7 would hold nothing: with --bucket-size 512K, resnet20 has 3 parts "
         "to give; give at most --shards 3, or --bucket-size 64K"},
        {"mlp", 32, 0, PSR_OPTIMIZER_SGD,
         "--shards 32: shards 23-31 would hold nothing: with --bucket-size 128K, mlp has 23 parts "
         "to give; give at most --shards 23, or --bucket-size 64K"},
        {"convnet", 30, 0, PSR_OPTIMIZER_SGD,
         "--shards 30: shards 24-29 would hold nothing: with --bucket-size 4K, convnet has 24 "
         "parts to give; give at most --shards 24"},
        {"mlp", 8, 0, PSR_OPTIMIZER_LARS,
         "--shards 8: shards 4-7 would hold nothing: with --bucket-size 128K, mlp has 4 parts to "
         "give (lars keeps each tensor on one shard); give at most --shards 4"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sharing s =
            share(wrong[i].model, wrong[i].shards, wrong[i].bucket_bytes, wrong[i].optimizer);
        expect_failure(psr_parts_check(&s.parts, &s.config, &s.net->params), PSR_ERR_USAGE,
                       wrong[i].detail);
        end(&s);
    }
}

static void a_pattern_of_route_that_is_no_tensors_name_is_refused(void **state)
{
    (void)state;
    sharing s = share("mlp", 1, 0, PSR_OPTIMIZER_SGD);
    strcpy(s.config.route, "fc1.*=ps,fc9.*=ring");
    expect_failure(
        psr_parts_check(&s.parts, &s.config, &s.net->params), PSR_ERR_USAGE,
        "--route: no tensor of mlp is called 'fc9.*'; its first is fc1.weight, its last fc3.bias");
    strcpy(s.config.route, "");
    strcpy(s.config.lr_factor, "fc1.*=2,conv*.bias=64");
    expect_failure(psr_parts_check(&s.parts, &s.config, &s.net->params), PSR_ERR_USAGE,
                   "--lr-factor: no tensor of mlp is called 'conv*.bias'; its first is fc1.weight, "
                   "its last fc3.bias");
    strcpy(s.config.lr_factor, "*=1,fc1.*=2");
    strcpy(s.config.decay_factor, "x=1");
    expect_failure(psr_parts_check(&s.parts, &s.config, &s.net->params), PSR_ERR_USAGE,
                   "--decay-factor: no tensor of mlp is called 'x'; its first is fc1.weight, its "
                   "last fc3.bias");
    strcpy(s.config.decay_factor, "fc3.bias=0");
    strcpy(s.config.route, "*=ring,fc1.*=ps"); /* an earlier one may take all */
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    end(&s);
}

static void what_is_advised_serves(void **state)
{
    (void)state;
    sharing s = share("mlp", 23, 0, PSR_OPTIMIZER_SGD);
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    end(&s);
    s = share("mlp", 32, 64 << 10, PSR_OPTIMIZER_SGD);
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    end(&s);
    s = share("mlp", 4, 0, PSR_OPTIMIZER_LARS);
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    end(&s);
}

static void parts_are_told_shard_by_shard_or_by_their_range(void **state)
{
    (void)state;
    char line[512];
    sharing s = share("resnet20", 2, 0, PSR_OPTIMIZER_SGD);
    psr_parts_describe(&s.parts, s.config.bucket_bytes, line, sizeof line);
    assert_string_equal(line, "29 of at most 64K; shard 0 holds 526 KiB, shard 1 526 KiB");
    end(&s);
    s = share("resnet20", 12, 0, PSR_OPTIMIZER_SGD);
    psr_parts_describe(&s.parts, s.config.bucket_bytes, line, sizeof line);
    assert_string_equal(line, "29 of at most 64K; each of 12 shards holds 70 to 110 KiB");
    end(&s);
}

static void without_shards_there_are_buckets_alone(void **state)
{
    (void)state;
    char line[512];
    sharing s = share("resnet20", 1, 128 << 10, PSR_OPTIMIZER_SGD);
    psr_parts_done(&s.parts);
    s.config.mode = PSR_MODE_RING;
    s.config.shards = 0;
    expect_ok(psr_parts_init(&s.config, &s.net->params, NULL, &s.parts));
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    psr_parts_describe(&s.parts, s.config.bucket_bytes, line, sizeof line);
    assert_string_equal(line, "18 of at most 128K");
    assert_null(s.parts.bytes);
    assert_int_equal(s.parts.plan.shards, 0);
    end(&s);
}

static const psr_host_ranks one_host = {1, (uint32_t[]){0, 3}};

static void workers_that_share_memory_hold_what_a_ring_exchanges(void **state)
{
    (void)state;
    char line[512];
    sharing s = share("resnet20", 1, 0, PSR_OPTIMIZER_SGD);
    s.config.mode = PSR_MODE_RING;
    s.config.shards = 0;
    s.config.workers = 3;
    psr_parts_done(&s.parts);
    expect_ok(psr_parts_init(&s.config, &s.net->params, &one_host, &s.parts));
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    assert_int_equal(s.parts.plan.homes, 3);
    assert_int_equal(s.parts.plan.shards, 0);
    for (uint32_t b = 0; b < s.parts.plan.bucket_count; b++)
        assert_int_equal(s.parts.plan.buckets[b].route, PSR_ROUTE_HOST);
    psr_parts_describe(&s.parts, s.config.bucket_bytes, line, sizeof line);
    assert_string_equal(
        line,
        "29 of at most 64K; each worker sums its part where the gradients lie, 350 to 352 KiB");
    end(&s);
}

static void on_several_hosts_each_holds_it_once(void **state)
{
    (void)state;
    char line[512];
    sharing s = share("resnet20", 1, 0, PSR_OPTIMIZER_SGD);
    s.config.mode = PSR_MODE_RING;
    s.config.shards = 0;
    s.config.workers = 3;
    psr_parts_done(&s.parts);
    expect_ok(psr_parts_init(&s.config, &s.net->params, &(psr_host_ranks){2, (uint32_t[]){0, 2, 3}},
                             &s.parts));
    expect_ok(psr_parts_check(&s.parts, &s.config, &s.net->params));
    assert_int_equal(s.parts.plan.hosts.count, 2);
    assert_int_equal(s.parts.plan.homes, 2);
    psr_parts_describe(&s.parts, s.config.bucket_bytes, line, sizeof line);
    assert_string_equal(line, "29 of at most 64K; on each of 2 hosts the workers divide the sums "
                              "among them, and the partial sums go from host to host");
    psr_parts_done(&s.parts);
    /* One on each: hops are all that there is. */
    expect_ok(psr_parts_init(&s.config, &s.net->params,
                             &(psr_host_ranks){3, (uint32_t[]){0, 1, 2, 3}}, &s.parts));
    assert_int_equal(s.parts.plan.buckets[0].route, PSR_ROUTE_RING);
    end(&s);
}

/* Where there is nothing to save, where hops are what rounds, where nothing is exchanged, and where
 * there are shards. */
static void a_ring_has_hops_where_memory_would_not_do(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        sharing s = share("resnet20", 1, 0, PSR_OPTIMIZER_SGD);
        s.config.workers = k == 0 ? 1 : 3;
        s.config.mode = k == 3 ? PSR_MODE_PS : PSR_MODE_RING;
        s.config.exchange = k != 2;
        strcpy(s.config.compress, k == 1 ? "fp16" : "none");
        psr_parts_done(&s.parts);
        expect_ok(psr_parts_init(&s.config, &s.net->params, &one_host, &s.parts));
        const psr_route routes[] = {PSR_ROUTE_RING, PSR_ROUTE_RING, PSR_ROUTE_NONE,
                                    PSR_ROUTE_SHARD};
        assert_int_equal(s.parts.plan.buckets[0].route, routes[k]);
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shard_of_a_small_network_holds_something_by_default),
        cmocka_unit_test(shards_that_would_hold_nothing_are_refused_with_what_would_mend_it),
        cmocka_unit_test(a_pattern_of_route_that_is_no_tensors_name_is_refused),
        cmocka_unit_test(what_is_advised_serves),
        cmocka_unit_test(parts_are_told_shard_by_shard_or_by_their_range),
        cmocka_unit_test(without_shards_there_are_buckets_alone),
        cmocka_unit_test(workers_that_share_memory_hold_what_a_ring_exchanges),
        cmocka_unit_test(on_several_hosts_each_holds_it_once),
        cmocka_unit_test(a_ring_has_hops_where_memory_would_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
