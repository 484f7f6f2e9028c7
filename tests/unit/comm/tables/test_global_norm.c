/* One norm that all agree on: four buckets on two shards and the workers of a ring, whose messages
 * are handed over in any order; and messages that are not due. */
#include "tests/unit/expect.h"

#include "comm/tables/global_norm.h"
#include "comm/wire/messages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, SHARDS = 2, MEMBERS = RANKS + SHARDS, BUCKETS = 4, QUEUE = 64 };

typedef struct sent {
    psr_peer from, to;
    psr_head head;
} sent;

typedef struct cluster cluster;
typedef struct member {
    cluster *cluster;
    psr_peer self;
    psr_global_norm *norm;
} member;
struct cluster {
    psr_plan plan;
    member members[MEMBERS];
    sent queue[QUEUE];
    size_t queued;
};

static psr_err send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    const member *m = context;
    cluster *c = m->cluster;
    assert_null(payload);
    assert_true(c->queued < QUEUE);
    c->queue[c->queued++] = (sent){m->self, to, *head};
    return PSR_OK;
}

static void open_skipping(cluster *c, const psr_route *routes, bool skips)
{
    const psr_part parts[BUCKETS] = {{{96, 32}, 0}, {{64, 32}, 1}, {{32, 32}, 2}, {{0, 32}, 3}};
    const psr_plan_options options = {
        .routes = routes, .ranks = RANKS, .shards = SHARDS, .slice_floats = 16, .window = 2};
    *c = (cluster){0};
    expect_ok(psr_plan_make(&options, parts, BUCKETS, &c->plan));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &c->members[i];
        m->cluster = c;
        m->self =
            i < RANKS ? (psr_peer){PSR_ROLE_WORKER, i} : (psr_peer){PSR_ROLE_SHARD, i - RANKS};
        const psr_outbox outbox = {.context = m, .send = send};
        expect_ok(psr_global_norm_new(&c->plan, m->self, 7, skips, &outbox, &m->norm));
    }
}

static void open_cluster(cluster *c, const psr_route *routes)
{
    open_skipping(c, routes, false);
}

static void close_cluster(cluster *c)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        psr_global_norm_free(c->members[i].norm);
    psr_plan_done(&c->plan);
}

static psr_err deliver(cluster *c, const sent *s)
{
    const uint32_t i = s->to.role == PSR_ROLE_WORKER ? s->to.rank : RANKS + s->to.rank;
    psr_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    message->from = s->from;
    message->head = s->head;
    message->release = (void (*)(psr_message *))free;
    return psr_global_norm_message(c->members[i].norm, &message);
}

/* In an order that a rotation by `turn` gives, of members and of what waits. */
static void deliver_all(cluster *c, size_t turn)
{
    while (c->queued > 0) {
        const size_t at = turn % c->queued;
        const sent s = c->queue[at];
        memmove(&c->queue[at], &c->queue[at + 1], (--c->queued - at) * sizeof s);
        expect_ok(deliver(c, &s));
    }
}

/* Adding them in another order gives another double. */
static const double squares[BUCKETS] = {0x1p53, 1.0, 1.0, 1.0};

static bool updates_bucket(const cluster *c, uint32_t bucket, psr_peer peer)
{
    return c->plan.buckets[bucket].route != PSR_ROUTE_FROZEN &&
           psr_plan_holds(&c->plan, bucket, peer);
}

static void all_take_one_norm_whatever_comes_first(void **state)
{
    (void)state;
    static const psr_route ways[][BUCKETS] = {
        {PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD},
        {PSR_ROUTE_RING, PSR_ROUTE_SHARD, PSR_ROUTE_RING, PSR_ROUTE_SHARD},
        {PSR_ROUTE_RING, PSR_ROUTE_RING, PSR_ROUTE_RING, PSR_ROUTE_RING},
        {PSR_ROUTE_SHARD, PSR_ROUTE_FROZEN, PSR_ROUTE_RING, PSR_ROUTE_SHARD},
        {PSR_ROUTE_FROZEN, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_FROZEN},
    };
    assert_true(sqrt(((squares[0] + squares[1]) + squares[2]) + squares[3]) !=
                sqrt(((squares[3] + squares[2]) + squares[1]) + squares[0]));
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (size_t turn = 0; turn < 9; turn++) {
            double sum = 0;
            for (uint32_t b = 0; b < BUCKETS; b++)
                sum += ways[w][b] != PSR_ROUTE_FROZEN ? squares[b] : 0;
            const double expected = sqrt(sum);
            cluster c;
            open_cluster(&c, ways[w]);
            for (uint64_t step = 7; step < 10; step++) {
                for (uint32_t i = 0; i < MEMBERS; i++) {
                    const member *m = &c.members[(i + turn) % MEMBERS];
                    for (uint32_t b = BUCKETS; b-- > 0;)
                        if (updates_bucket(&c, b, m->self))
                            expect_ok(psr_global_norm_part(m->norm, b, squares[b]));
                }
                deliver_all(&c, turn);
                for (uint32_t i = 0; i < MEMBERS; i++) {
                    uint64_t of = 0;
                    double norm = 0;
                    bool updates = i == 0;
                    for (uint32_t b = 0; b < BUCKETS; b++)
                        updates = updates || updates_bucket(&c, b, c.members[i].self);
                    assert_int_equal(psr_global_norm_take(c.members[i].norm, &of, &norm), updates);
                    if (updates) {
                        assert_int_equal(of, step);
                        assert_true(norm == expected);
                    }
                    assert_false(psr_global_norm_take(c.members[i].norm, &of, &norm));
                }
            }
            close_cluster(&c);
        }
}

/* In the second step one bucket's sum is infinite. */
static void where_steps_may_be_left_out_every_worker_hears(void **state)
{
    (void)state;
    static const psr_route ways[][BUCKETS] = {
        {PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD},
        {PSR_ROUTE_SHARD, PSR_ROUTE_FROZEN, PSR_ROUTE_RING, PSR_ROUTE_SHARD},
        {PSR_ROUTE_RING, PSR_ROUTE_RING, PSR_ROUTE_RING, PSR_ROUTE_RING},
    };
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (size_t turn = 0; turn < 9; turn++) {
            cluster c;
            open_skipping(&c, ways[w], true);
            for (uint64_t step = 7; step < 10; step++) {
                for (uint32_t i = 0; i < MEMBERS; i++)
                    for (uint32_t b = BUCKETS; b-- > 0;)
                        if (updates_bucket(&c, b, c.members[i].self))
                            expect_ok(psr_global_norm_part(c.members[i].norm, b,
                                                           step == 8 && b == 0 ? INFINITY : 0));
                deliver_all(&c, turn);
                for (uint32_t i = 0; i < MEMBERS; i++) {
                    uint64_t of = 0;
                    double norm = -1;
                    bool hears = i < RANKS;
                    for (uint32_t b = 0; b < BUCKETS; b++)
                        hears = hears || updates_bucket(&c, b, c.members[i].self);
                    assert_int_equal(psr_global_norm_take(c.members[i].norm, &of, &norm), hears);
                    assert_true(!hears || norm == (step == 8 ? INFINITY : 0));
                }
            }
            close_cluster(&c);
        }
}

static void who_has_summed_all_of_its_own_says_for_whom_it_waits(void **state)
{
    (void)state;
    static const psr_route shards[BUCKETS] = {PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD,
                                              PSR_ROUTE_SHARD};
    cluster c;
    psr_waiting waiting;
    uint32_t bucket;
    open_cluster(&c, shards);
    psr_global_norm *of_shard = c.members[RANKS].norm;
    assert_false(psr_global_norm_waits(of_shard, &waiting, &bucket));
    for (uint32_t b = 0; b < BUCKETS; b++)
        if (psr_plan_holds(&c.plan, b, c.members[RANKS].self))
            expect_ok(psr_global_norm_part(of_shard, b, 1));
    assert_true(psr_global_norm_waits(of_shard, &waiting, &bucket));
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_WORKER, 0}));
    assert_int_equal(waiting.round, 7);
    deliver_all(&c, 0);
    assert_true(psr_global_norm_waits(c.members[0].norm, &waiting, &bucket));
    assert_true(psr_peer_equal(waiting.peer, (psr_peer){PSR_ROLE_SHARD, 1}));
    assert_true(psr_plan_holds(&c.plan, bucket, waiting.peer));
    assert_false(psr_global_norm_waits(c.members[1].norm, &waiting, &bucket));
    close_cluster(&c);
}

static void what_is_not_due_or_not_the_senders_is_refused(void **state)
{
    (void)state;
    static const psr_route shards[BUCKETS] = {PSR_ROUTE_SHARD, PSR_ROUTE_SHARD, PSR_ROUTE_SHARD,
                                              PSR_ROUTE_SHARD};
    cluster c;
    open_cluster(&c, shards);
    const psr_peer worker = {PSR_ROLE_WORKER, 0}, other = {PSR_ROLE_WORKER, 1};
    const psr_peer home = psr_plan_home(&c.plan, 2);
    const psr_peer wrong = {PSR_ROLE_SHARD, 1 - home.rank};
    const struct {
        psr_peer from, to;
        psr_msg_norm says;
    } bad[] = {
        {home, worker, {.bucket = 2, .step = 8, .phase = PSR_NORM_PART, .value = 1}},
        {wrong, worker, {.bucket = 2, .step = 7, .phase = PSR_NORM_PART, .value = 1}},
        {home, worker, {.bucket = 9, .step = 7, .phase = PSR_NORM_PART, .value = 1}},
        {home, other, {.bucket = 2, .step = 7, .phase = PSR_NORM_PART, .value = 1}},
        {home, worker, {.bucket = 2, .step = 7, .phase = PSR_NORM_PART, .value = -1}},
        {home, worker, {.bucket = 2, .step = 7, .phase = PSR_NORM_PART, .value = NAN}},
        {home, worker, {.bucket = 2, .step = 7, .phase = PSR_NORM_PART, .value = INFINITY}},
        {home, worker, {.bucket = 2, .step = 7, .phase = PSR_NORM_PHASES, .value = 1}},
        {other, home, {.bucket = 0, .step = 7, .phase = PSR_NORM_TOTAL, .value = 1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const sent s = {bad[i].from, bad[i].to, psr_msg_norm_head(&bad[i].says)};
        if (deliver(&c, &s) != PSR_ERR_PROTOCOL)
            fail_msg("message %zu was taken", i);
    }
    const sent right = {home, worker,
                        psr_msg_norm_head(&(psr_msg_norm){
                            .bucket = 2, .step = 7, .phase = PSR_NORM_PART, .value = 1})};
    expect_ok(deliver(&c, &right));
    assert_int_equal(deliver(&c, &right), PSR_ERR_PROTOCOL); /* a second time */
    close_cluster(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_take_one_norm_whatever_comes_first),
        cmocka_unit_test(where_steps_may_be_left_out_every_worker_hears),
        cmocka_unit_test(who_has_summed_all_of_its_own_says_for_whom_it_waits),
        cmocka_unit_test(what_is_not_due_or_not_the_senders_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
