/* What changes hands between two plans: random plans, and what a member takes of another. */
#include "tests/unit/expect.h"

#include "base/rng.h"
#include "comm/view/handover.h"
#include "comm/wire/messages.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MAX = 9, WORKERS_MAX = 8, SHARDS_MAX = 4, STATES = 2, ARRAYS = 1 + STATES };

static uint64_t drawn;

static uint32_t draw(uint32_t below)
{
    return psr_rng_below((psr_rng_at){.seed = 7, .purpose = PSR_RNG_TEST}, &drawn, below);
}

/* ---- random plans ---- */

typedef struct members {
    uint32_t workers, shards, buckets;
    uint32_t first[WORKERS_MAX + 1]; /* of hosts */
    psr_host_ranks hosts;
    psr_part parts[BUCKETS_MAX];
} members;

static members draw_members(void)
{
    members m = {.workers = 1 + draw(WORKERS_MAX),
                 .shards = draw(SHARDS_MAX + 1),
                 .buckets = 1 + draw(BUCKETS_MAX)};
    m.hosts.count = 0;
    for (uint32_t rank = 0; rank < m.workers; rank += 1 + draw(m.workers - rank))
        m.first[m.hosts.count++] = rank;
    m.first[m.hosts.count] = m.workers;
    size_t end = 0;
    for (uint32_t b = m.buckets; b-- > 0;) {
        m.parts[b] = (psr_part){{end, 16 * (1 + draw(5))}, b};
        end += m.parts[b].span.count;
    }
    return m;
}

static psr_plan draw_plan(members *m)
{
    psr_route routes[BUCKETS_MAX], only = PSR_ROUTES;
    if (draw(2) == 0)
        only = draw(2) == 0 ? PSR_ROUTE_RING : PSR_ROUTE_HOST;
    for (uint32_t b = 0; b < m->buckets; b++) {
        const psr_route any[] = {PSR_ROUTE_RING, PSR_ROUTE_HOST, PSR_ROUTE_SHARD};
        routes[b] = only != PSR_ROUTES ? only : any[draw(m->shards > 0 ? 3 : 2)];
    }
    m->hosts.first = m->first;
    const psr_plan_options options = {.routes = routes,
                                      .ranks = m->workers,
                                      .shards = m->shards,
                                      .hosts = &m->hosts,
                                      .slice_floats = 16,
                                      .window = 1};
    psr_plan plan = {0};
    expect_ok(psr_plan_make(&options, m->parts, m->buckets, &plan));
    return plan;
}

static psr_peer member_at(const members *m, uint32_t i)
{
    return i < m->workers ? (psr_peer){PSR_ROLE_WORKER, i}
                          : (psr_peer){PSR_ROLE_SHARD, i - m->workers};
}

static bool has(const psr_plan *plan, uint32_t bucket, uint32_t array, psr_peer peer)
{
    return (array == 0 && peer.role == PSR_ROLE_WORKER) || psr_plan_holds(plan, bucket, peer);
}

static uint32_t runs_to(const psr_handover *handover, psr_span span, uint32_t array, psr_peer to,
                        psr_peer *ret_from)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < handover->count; i++) {
        const psr_handover_run *run = &handover->runs[i];
        if (run->array != array || !psr_span_equal(run->span, span) || !psr_peer_equal(run->to, to))
            continue;
        *ret_from = run->from;
        count++;
    }
    return count;
}

/* Every new holder gets once what it lacks, from one who had it; and nothing else moves. */
static void check(const members *m, const psr_plan *old, const psr_plan *new_plan,
                  const psr_handover *handover, const bool *dead)
{
    uint32_t expected = 0;
    for (uint32_t b = 0; b < m->buckets; b++)
        for (uint32_t array = 0; array < ARRAYS; array++)
            for (uint32_t i = 0; i < m->workers + m->shards; i++) {
                const psr_peer to = member_at(m, i);
                psr_peer from = {PSR_ROLE_SCHEDULER, 0};
                const bool lacks = psr_plan_holds(new_plan, b, to) && !has(old, b, array, to) &&
                                   !(dead != NULL && to.role == PSR_ROLE_WORKER && dead[to.rank]);
                const uint32_t runs = runs_to(handover, m->parts[b].span, array, to, &from);
                assert_int_equal(runs, lacks);
                expected += runs;
                if (runs > 0) {
                    assert_true(has(old, b, array, from));
                    assert_false(dead != NULL && from.role == PSR_ROLE_WORKER && dead[from.rank]);
                }
            }
    assert_int_equal(handover->count, expected);
}

static void whoever_holds_a_bucket_now_gets_once_what_it_lacks_from_one_who_has_it(void **state)
{
    (void)state;
    for (int i = 0; i < 4000; i++) {
        members m = draw_members();
        psr_plan old = draw_plan(&m), new_plan = draw_plan(&m);
        const psr_handover_members all = {.workers = m.workers, .shards = m.shards};
        psr_handover handover;
        expect_ok(psr_handover_make(&old, &new_plan, &all, STATES, &handover));
        check(&m, &old, &new_plan, &handover, NULL);
        psr_handover_done(&handover);
        expect_ok(psr_handover_make(&old, &old, &all, STATES, &handover));
        assert_int_equal(handover.count, 0); /* the same plan again */
        psr_handover_done(&handover);
        psr_plan_done(&old);
        psr_plan_done(&new_plan);
    }
}

static void who_is_dead_gives_and_gets_nothing(void **state)
{
    (void)state;
    uint32_t lost = 0;
    for (int i = 0; i < 2000; i++) {
        members m = draw_members();
        bool dead[WORKERS_MAX] = {false};
        psr_plan old = draw_plan(&m), new_plan = draw_plan(&m);
        dead[draw(m.workers)] = true;
        const psr_handover_members some = {
            .workers = m.workers, .shards = m.shards, .dead_workers = dead};
        psr_handover handover = {0};
        psr_err err = psr_handover_make(&old, &new_plan, &some, STATES, &handover);
        if (err == PSR_OK)
            check(&m, &old, &new_plan, &handover, dead);
        else
            assert_int_equal(err, PSR_ERR_NOT_FOUND);
        lost += err != PSR_OK;
        psr_handover_done(&handover);
        psr_plan_done(&old);
        psr_plan_done(&new_plan);
    }
    assert_true(lost > 0 && lost < 2000);
}

/* ---- from one member to another ---- */

typedef struct place {
    float arrays[ARRAYS][128];
    psr_handover handover;
} place;

static float *array_of(void *context, uint32_t array)
{
    return ((place *)context)->arrays[array];
}

static void release(psr_message *message)
{
    free(message);
}

/* What was sent, in order. */
static psr_message *sent[64];
static psr_peer sent_to[64];
static uint32_t sent_count;

static psr_err keep(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_message *message = calloc(1, sizeof *message + payload->bytes);
    message->from = *(const psr_peer *)context;
    message->head = *head;
    message->payload = memcpy(message + 1, payload->data, payload->bytes);
    message->payload_bytes = payload->bytes;
    message->release = release;
    sent_to[sent_count] = to;
    sent[sent_count++] = message;
    return PSR_OK;
}

static const psr_peer shard0 = {PSR_ROLE_SHARD, 0}, worker0 = {PSR_ROLE_WORKER, 0},
                      worker1 = {PSR_ROLE_WORKER, 1};

static psr_plan plan_by(psr_route route)
{
    static const psr_part parts[] = {{{40, 40}, 0}, {{0, 40}, 1}};
    const psr_plan_options options = {
        .route = route, .ranks = 2, .shards = 1, .slice_floats = 16, .window = 1};
    psr_plan plan = {0};
    expect_ok(psr_plan_make(&options, parts, 2, &plan));
    return plan;
}

/* The shard's slots to both workers, cut into messages. */
static void hand_over(place *shard, place *worker, psr_plan *new_plan)
{
    psr_plan old = plan_by(PSR_ROUTE_SHARD);
    *new_plan = plan_by(PSR_ROUTE_RING);
    const psr_handover_members all = {.workers = 2, .shards = 1};
    for (uint32_t array = 0; array < ARRAYS; array++)
        for (uint32_t i = 0; i < 80; i++)
            shard->arrays[array][i] = (float)(1000 * array + i);
    expect_ok(psr_handover_make(&old, new_plan, &all, STATES, &shard->handover));
    expect_ok(psr_handover_make(&old, new_plan, &all, STATES, &worker->handover));
    psr_peer self = shard0;
    const psr_outbox outbox = {.context = &self, .send = keep};
    const psr_handover_arrays arrays = {shard, array_of};
    sent_count = 0;
    expect_ok(psr_handover_send(&shard->handover, shard0, &arrays, 5, 16, &outbox));
    psr_plan_done(&old);
}

static void finish(place *shard, place *worker, psr_plan *new_plan)
{
    for (uint32_t i = 0; i < sent_count; i++)
        psr_message_free(&sent[i]);
    psr_handover_done(&shard->handover);
    psr_handover_done(&worker->handover);
    psr_plan_done(new_plan);
}

static void a_member_has_all_when_the_last_message_of_its_runs_has_come(void **state)
{
    (void)state;
    static place shard, worker;
    psr_plan plan;
    psr_peer from = worker0;
    uint32_t bucket = 9, mine = 0;
    hand_over(&shard, &worker, &plan);
    const psr_handover_arrays arrays = {&worker, array_of};
    assert_int_equal(sent_count, 2 * 2 * STATES * 3); /* workers, buckets, slots, slices of 40 */
    for (uint32_t i = 0; i < sent_count; i++) {
        if (!psr_peer_equal(sent_to[i], worker1))
            continue;
        assert_true(psr_handover_waits(&worker.handover, worker1, &plan, &from, &bucket));
        assert_true(psr_peer_equal(from, shard0) && bucket < 2);
        assert_int_equal(psr_msg_step(&sent[i]->head), 5);
        for (int twice = 0; twice < 2; twice++)
            expect_ok(psr_handover_take(&worker.handover, worker1, &arrays, sent[i]));
        mine++;
    }
    assert_int_equal(mine, sent_count / 2);
    assert_false(psr_handover_waits(&worker.handover, worker1, &plan, &from, &bucket));
    assert_memory_equal(worker.arrays[1], shard.arrays[1], 80 * sizeof(float));
    assert_memory_equal(worker.arrays[2], shard.arrays[2], 80 * sizeof(float));
    assert_true(worker.arrays[0][1] == 0);
    finish(&shard, &worker, &plan);
}

/* As a violation, whose line ends so. */
static void refused(psr_err err, const char *why)
{
    assert_int_equal(err, PSR_ERR_PROTOCOL);
    assert_non_null(strstr(psr_err_detail(), why));
}

static void what_is_not_the_next_of_the_senders_runs_is_refused(void **state)
{
    (void)state;
    static place shard, worker;
    psr_plan plan;
    hand_over(&shard, &worker, &plan);
    const psr_handover_arrays arrays = {&worker, array_of};
    psr_message *first = NULL, *second = NULL;
    for (uint32_t i = 0; i < sent_count && second == NULL; i++)
        if (psr_peer_equal(sent_to[i], worker1))
            *(first == NULL ? &first : &second) = sent[i];
    refused(psr_handover_take(&worker.handover, worker1, &arrays, second),
            "0 floats of the run came before, this begins at 16");
    first->from = worker0;
    refused(psr_handover_take(&worker.handover, worker1, &arrays, first),
            "it is not to hand that over");
    first->from = shard0;
    first->payload_bytes -= 4;
    assert_int_equal(psr_handover_take(&worker.handover, worker1, &arrays, first),
                     PSR_ERR_PROTOCOL);
    first->payload_bytes += 4;
    first->head.fields[1] = UINT64_MAX; /* count */
    refused(psr_handover_take(&worker.handover, worker1, &arrays, first),
            "it is not to hand that over");
    first->head.fields[1] = 0; /* says that the view has begun */
    first->payload_bytes = 0;
    expect_ok(psr_handover_take(&worker.handover, worker1, &arrays, first));
    assert_true(worker.arrays[1][0] == 0 && worker.handover.runs[0].arrived == 0);
    finish(&shard, &worker, &plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_holds_a_bucket_now_gets_once_what_it_lacks_from_one_who_has_it),
        cmocka_unit_test(who_is_dead_gives_and_gets_nothing),
        cmocka_unit_test(a_member_has_all_when_the_last_message_of_its_runs_has_come),
        cmocka_unit_test(what_is_not_the_next_of_the_senders_runs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
