/* What is observed of a whole run: every message that goes out comes in, a bucket begins before it
 * is sent and lands after what it needs, and the bytes are those that the way costs. */
#include "tests/unit/cluster/cluster_reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 3, WORKERS = 4 };

static psr_layout layout;
static psr_buckets buckets;
static psr_config config;

static int set_up(void **state)
{
    (void)state;
    reference_layout(&layout);
    assert_int_equal(psr_buckets_plan(&layout, 512, &buckets), PSR_OK);
    config = reference_config(&reference_rules[1], WORKERS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
    return 0;
}

/* ---- a record of a run ---- */

typedef struct sighting {
    psr_peer who;
    psr_observed what;
} sighting;

typedef struct record {
    sighting *items; /* in the order of virtual time */
    size_t count, room;
} record;

static void note(void *context, psr_peer who, const psr_observed *observed)
{
    record *r = context;
    if (r->count == r->room) {
        r->room = 2 * r->room + 1024;
        r->items = realloc(r->items, r->room * sizeof *r->items);
        assert_non_null(r->items);
    }
    r->items[r->count++] = (sighting){who, *observed};
}

static record run(uint64_t seed, uint64_t shares, bool late_devices)
{
    record r = {.count = 0};
    const cluster_options options = {.config = &config,
                                     .layout = &layout,
                                     .buckets = &buckets,
                                     .steps = STEPS,
                                     .seed = seed,
                                     .slow_worker = CLUSTER_NOBODY,
                                     .stop_at = UINT64_MAX,
                                     .shares = shares,
                                     .late_devices = late_devices,
                                     .observing = &r,
                                     .see = note};
    cluster *c = cluster_run(&options);
    const char *line;
    assert_int_equal(cluster_status(c, &line), PSR_OK);
    cluster_free(c);
    return r;
}

static bool is_message(const psr_observed *o)
{
    return o->kind == PSR_OBSERVED_OUT || o->kind == PSR_OBSERVED_IN;
}

/* Of a step's values. */
static bool carries_values(const psr_observed *o)
{
    return is_message(o) && (psr_observed_is_gradient(o) || o->type == PSR_MSG_WEIGHTS);
}

/* ---- what must hold ---- */

static void check_stamps(const record *r)
{
    for (size_t i = 1; i < r->count; i++)
        assert_true(r->items[i].what.stamp_ns >= r->items[i - 1].what.stamp_ns);
}

static bool same_message(const psr_observed *a, const psr_observed *b)
{
    return a->type == b->type && a->bucket == b->bucket && a->step == b->step &&
           psr_span_equal(a->span, b->span) && a->bytes == b->bytes;
}

/* The one that `out` becomes at its receiver: channels are first-in first-out. */
static size_t find_arrival(const record *r, size_t out, const bool *found)
{
    const sighting *sent = &r->items[out];
    for (size_t i = out + 1; i < r->count; i++) {
        const sighting *s = &r->items[i];
        if (s->what.kind == PSR_OBSERVED_IN && carries_values(&s->what) && !found[i] &&
            psr_peer_equal(s->who, sent->what.peer) && psr_peer_equal(s->what.peer, sent->who))
            return i;
    }
    fail_msg("a message of bucket %u, step %llu never comes in", sent->what.bucket,
             (unsigned long long)sent->what.step);
    return 0;
}

static void check_messages(const record *r)
{
    bool *found = calloc(r->count + 1, sizeof *found);
    size_t arrivals = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].what.kind == PSR_OBSERVED_IN && carries_values(&r->items[i].what))
            arrivals++;
        if (r->items[i].what.kind != PSR_OBSERVED_OUT || !carries_values(&r->items[i].what))
            continue;
        const size_t in = find_arrival(r, i, found);
        found[in] = true;
        assert_true(same_message(&r->items[i].what, &r->items[in].what));
        arrivals--;
    }
    assert_int_equal(arrivals, 0);
    free(found);
}

/* Of a worker's bucket in a step. */
static void check_bucket(const record *r, uint32_t rank, uint32_t bucket, uint64_t step,
                         psr_route route)
{
    const psr_peer worker = {PSR_ROLE_WORKER, rank};
    uint32_t begun = 0, landed = 0;
    for (size_t i = 0; i < r->count; i++) {
        const psr_observed *o = &r->items[i].what;
        if (!psr_peer_equal(r->items[i].who, worker) || o->bucket != bucket || o->step != step ||
            (is_message(o) && !carries_values(o)))
            continue;
        begun += o->kind == PSR_OBSERVED_BEGIN;
        landed += o->kind == PSR_OBSERVED_LANDED;
        if (!is_message(o))
            assert_int_equal(o->route, route);
        if (o->kind == PSR_OBSERVED_OUT && o->type == PSR_MSG_PUSH)
            assert_int_equal(begun, 1);
        if (o->kind == PSR_OBSERVED_OUT && o->type == PSR_MSG_VALUES)
            assert_int_equal(begun, 1);
        if (o->kind == PSR_OBSERVED_IN)
            assert_int_equal(landed, 0);
    }
    assert_int_equal(begun, 1);
    assert_int_equal(landed, 1);
}

static void check_buckets(const record *r, psr_route route)
{
    for (uint32_t rank = 0; rank < WORKERS; rank++)
        for (uint64_t step = 0; step < STEPS; step++)
            for (uint32_t b = 0; b < buckets.count; b++)
                check_bucket(r, rank, b, step, route);
}

static size_t bytes_out(const record *r, psr_message_type type)
{
    size_t bytes = 0;
    for (size_t i = 0; i < r->count; i++) {
        const psr_observed *o = &r->items[i].what;
        if (o->kind == PSR_OBSERVED_OUT && o->type == type && carries_values(o))
            bytes += o->bytes;
    }
    return bytes;
}

/* A ring's messages do not say how many floats they carry, so that is told before. */
static void check_ring_floats(const record *r)
{
    size_t floats = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].what.kind == PSR_OBSERVED_BEGIN)
            floats += r->items[i].what.ring_floats;
    assert_int_equal(floats * sizeof(float), bytes_out(r, PSR_MSG_VALUES));
}

static void check_all(const record *r, psr_route route)
{
    check_stamps(r);
    check_messages(r);
    check_buckets(r, route);
    check_ring_floats(r);
}

/* ---- tests ---- */

static void over_shards_every_gradient_goes_out_once_and_weights_come_back(void **state)
{
    (void)state;
    config.mode = PSR_MODE_PS;
    const size_t each = STEPS * WORKERS * layout.length * sizeof(float);
    for (config.shards = 1; config.shards <= 3; config.shards++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            record r = run(700 + seed, 0, seed == 3);
            check_all(&r, PSR_ROUTE_SHARD);
            assert_int_equal(bytes_out(&r, PSR_MSG_PUSH), each);
            assert_int_equal(bytes_out(&r, PSR_MSG_WEIGHTS), each);
            assert_int_equal(bytes_out(&r, PSR_MSG_VALUES), 0);
            free(r.items);
        }
}

static void round_a_ring_every_worker_but_one_sends_each_value_twice(void **state)
{
    (void)state;
    config.mode = PSR_MODE_RING;
    for (uint64_t seed = 0; seed < 4; seed++) {
        record r = run(720 + seed, 0, seed == 3);
        check_all(&r, PSR_ROUTE_RING);
        assert_int_equal(bytes_out(&r, PSR_MSG_VALUES),
                         STEPS * 2 * (WORKERS - 1) * layout.length * sizeof(float));
        assert_int_equal(bytes_out(&r, PSR_MSG_PUSH), 0);
        free(r.items);
    }
}

static void within_a_host_who_holds_a_bucket_hears_all_others_of_it(void **state)
{
    (void)state;
    config.mode = PSR_MODE_RING;
    const size_t each = STEPS * (WORKERS - 1) * layout.length * sizeof(float);
    for (uint64_t seed = 0; seed < 4; seed++) {
        record r = run(740 + seed, CLUSTER_ONE_HOST, seed == 3);
        check_all(&r, PSR_ROUTE_HOST);
        assert_int_equal(bytes_out(&r, PSR_MSG_PUSH), each);
        assert_int_equal(bytes_out(&r, PSR_MSG_WEIGHTS), each);
        assert_int_equal(bytes_out(&r, PSR_MSG_RING), 0);
        assert_int_equal(bytes_out(&r, PSR_MSG_VALUES), 0);
        free(r.items);
    }
}

static void between_hosts_sums_go_round_and_within_them_they_do_not(void **state)
{
    (void)state;
    config.mode = PSR_MODE_RING;
    for (uint64_t seed = 0; seed < 4; seed++) {
        record r = run(760 + seed, 1u << 1 | 1u << 3, seed == 3); /* two hosts of two */
        check_all(&r, PSR_ROUTE_HOST);
        assert_int_equal(bytes_out(&r, PSR_MSG_PUSH),
                         STEPS * WORKERS / 2 * layout.length * sizeof(float));
        assert_true(bytes_out(&r, PSR_MSG_RING) > 0);
        free(r.items);
    }
}

static void the_same_seed_is_observed_to_the_same_stamp(void **state)
{
    (void)state;
    config.mode = PSR_MODE_RING;
    record one = run(780, 0, false), other = run(780, 0, false);
    assert_int_equal(one.count, other.count);
    for (size_t i = 0; i < one.count; i++) {
        const psr_observed *a = &one.items[i].what, *b = &other.items[i].what;
        assert_true(psr_peer_equal(one.items[i].who, other.items[i].who));
        assert_true(a->kind == b->kind && a->stamp_ns == b->stamp_ns && same_message(a, b));
    }
    free(one.items);
    free(other.items);
}

#define OBSERVED(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OBSERVED(over_shards_every_gradient_goes_out_once_and_weights_come_back),
        OBSERVED(round_a_ring_every_worker_but_one_sends_each_value_twice),
        OBSERVED(within_a_host_who_holds_a_bucket_hears_all_others_of_it),
        OBSERVED(between_hosts_sums_go_round_and_within_them_they_do_not),
        OBSERVED(the_same_seed_is_observed_to_the_same_stamp),
    };
    return cmocka_run_group_tests(tests, NULL, cluster_print_rate);
}
