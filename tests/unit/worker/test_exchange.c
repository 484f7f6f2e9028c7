/* What the compute thread hears of the exchange, and the exchange of the compute thread. */
#include "tests/unit/played_fence.h"
#include "tests/unit/worker/played_exchange.h"

#include "comm/wire/encoding.h"
#include "worker/exchange/exchange_private.h"

#include <math.h>
#include <sched.h>
#include <string.h>

static void the_engine_hears_of_buckets_in_the_compute_threads_order(void **state)
{
    (void)state;
    whole_step(0);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        assert_string_equal(event_at(i)->what, "ready");
        assert_int_equal(event_at(i)->step, 0);
        assert_int_equal(event_at(i)->bucket, i);
    }
}

static void *land_then_give_back(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    deliver_landed(0, 0);
    while (atomic_load(&exchange->landed[0]) != 1)
        sched_yield();
    /* It has landed, and is still lent: the compute thread must go on waiting. */
    bool waited = atomic_load(&session->wait) == PSR_WAIT_BUCKET;
    give_back_the_loan();
    return waited ? unused : &exchange;
}

static void weights_are_wanted_until_they_landed_and_the_gradient_is_no_longer_lent(void **state)
{
    (void)state;
    whole_step(0);
    event_at(2);
    deliver(PSR_ROLE_SHARD, (psr_head){.type = PSR_MSG_ACK}, NULL, 0);
    assert_string_equal(event_at(3)->what, "send");
    begin(1, 4);
    meanwhile(land_then_give_back);
    expect_ok(psr_exchange_weights_wanted(exchange, 0));
    assert_null(helper_result());
    assert_int_equal(slices_lent(), 0);

    psr_exchange_figures figures;
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.wait_s > 0);
    assert_int_equal(figures.bytes_sent, event_at(3)->bytes);
    assert_true(figures.bytes_sent > 0);
    assert_int_equal(figures.bytes_lent, 500);
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.wait_s == 0);
    assert_int_equal(figures.bytes_sent, 0);
    assert_int_equal(figures.bytes_lent, 0);
}

static void *land_all_but_one_then_that(void *unused)
{
    until_it_waits_for(PSR_WAIT_ALL);
    deliver_landed(0, 2);
    deliver_landed(0, 0);
    while (atomic_load(&exchange->landed[0]) != 1)
        sched_yield();
    bool waited = atomic_load(&session->wait) == PSR_WAIT_ALL;
    deliver_landed(0, 1);
    return waited ? unused : &exchange;
}

static void a_drain_waits_for_every_bucket(void **state)
{
    (void)state;
    expect_ok(psr_exchange_drain(exchange)); /* before the first step there
                                                is nothing to wait for */
    whole_step(0);
    event_at(BUCKETS - 1); /* nothing lands before it is ready */
    meanwhile(land_all_but_one_then_that);
    expect_ok(psr_exchange_drain(exchange));
    assert_null(helper_result());
    psr_exchange_figures figures;
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.exchange_s > 0);
}

static void *break_it_while_it_waits(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    event_at(2);
    break_network(PSR_ERR_PEER);
    return unused;
}

static void a_failure_of_the_exchange_reaches_a_waiting_compute_thread_at_once(void **state)
{
    (void)state;
    whole_step(0);
    begin(1, 4);
    meanwhile(break_it_while_it_waits);
    expect_failure(psr_exchange_weights_wanted(exchange, 0), PSR_ERR_PEER,
                   "worker 1 on host7 died");
    helper_result();
    /* And every call after it. */
    expect_failure(psr_exchange_gradient_ready(exchange, 0, NULL), PSR_ERR_PEER,
                   "worker 1 on host7 died");
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_PEER, "worker 1 on host7 died");
    expect_failure(psr_exchange_begin_step(exchange, &(psr_step){.step = 2}), PSR_ERR_PEER,
                   "worker 1 on host7 died");
    expect_failure(psr_session_metrics(session, "{}"), PSR_ERR_PEER, "worker 1 on host7 died");
    expect_failure(psr_session_pause(session, 1000), PSR_ERR_PEER, "worker 1 on host7 died");
    event *last = event_at(3); /* 3 ready before it */
    assert_string_equal(last->what, "failed");
    assert_string_equal(last->text, "worker 1 on host7 died");
}

static void a_rank_without_samples_gives_zeros_for_every_bucket(void **state)
{
    (void)state;
    float *gradients = psr_exchange_gradients(exchange);
    for (size_t i = 0; i < LENGTH; i++)
        gradients[i] = 7;
    begin(0, 0);
    expect_ok(psr_exchange_end_step(exchange));
    for (uint32_t i = 0; i < BUCKETS; i++) {
        assert_string_equal(event_at(i)->what, "ready");
        assert_true(event_at(i)->first == 0);
    }
    for (size_t i = 0; i < LENGTH; i++)
        assert_true(gradients[i] == 0);
}

static void a_step_that_forgot_a_bucket_is_refused(void **state)
{
    (void)state;
    begin(4, 4);
    expect_ok(psr_exchange_gradient_ready(exchange, 0, NULL));
    expect_failure(psr_exchange_end_step(exchange), PSR_ERR_COMPUTE,
                   "step 5: 1 of 3 buckets were reported ready");
}

static void a_message_that_no_worker_takes_ends_the_run_as_a_violation(void **state)
{
    (void)state;
    deliver(PSR_ROLE_WORKER, psr_msg_push_head(&(psr_msg_push){0}), NULL, 0);
    assert_string_equal(event_at(0)->what, "failed");
    assert_int_equal(event_at(0)->status, PSR_ERR_PROTOCOL);
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_PROTOCOL,
                   "worker 0 sent PUSH (wire step 0, bucket 0, offset 0, count 0, answer 0): a "
                   "worker in this mode does not take that");
}

static void weights_from_another_worker_are_a_violation(void **state)
{
    (void)state;
    deliver(PSR_ROLE_WORKER, (psr_head){.type = PSR_MSG_WEIGHTS}, NULL, 0);
    assert_int_equal(event_at(0)->status, PSR_ERR_PROTOCOL);
}

static void worker_zero_cuts_an_arena_for_the_shards_that_own_it(void **state)
{
    (void)state;
    config.shards = 2;
    start(&played_with_shards);
    float *weights = psr_exchange_first_weights(exchange);
    for (size_t i = 0; i < LENGTH; i++)
        weights[i] = (float)i;
    expect_ok(psr_exchange_install(exchange, 1, weights));
    for (uint32_t b = 0; b < BUCKETS; b++) {
        const event *e = event_at(b);
        assert_int_equal(e->head.type, PSR_MSG_INIT);
        psr_message message = {.head = e->head};
        psr_msg_init says;
        expect_ok(psr_msg_init_read(&message, &says));
        assert_int_equal(says.bucket, b);
        assert_int_equal(says.section, 1);
        assert_int_equal(e->to.role, PSR_ROLE_SHARD);
        assert_int_equal(e->to.rank, b % 2); /* of one size, they go in turn */
        assert_int_equal(says.span.offset, buckets.items[b].offset);
        assert_true(e->first == (float)buckets.items[b].offset);
    }
}

static void without_an_exchange_every_step_goes_on_at_once(void **state)
{
    (void)state;
    start(&psr_engine_none);
    for (uint64_t step = 0; step < 5; step++) {
        begin(step, 4);
        for (uint32_t b = BUCKETS; b-- > 0;)
            expect_ok(psr_exchange_weights_wanted(exchange, b));
        for (uint32_t b = 0; b < BUCKETS; b++)
            expect_ok(psr_exchange_gradient_ready(exchange, b, NULL));
        expect_ok(psr_exchange_end_step(exchange));
    }
    expect_ok(psr_exchange_drain(exchange));
}

static void an_engine_that_exchanges_nothing_is_sent_nothing(void **state)
{
    (void)state;
    start(&psr_engine_none);
    deliver(PSR_ROLE_SHARD, (psr_head){.type = PSR_MSG_WEIGHTS}, NULL, 0);
    assert_string_equal(event_at(0)->what, "failed");
    assert_int_equal(event_at(0)->status, PSR_ERR_PROTOCOL);
    assert_non_null(strstr(event_at(0)->text, "a worker in this mode does not take that"));
}

static void take_turn(uint64_t step, uint32_t rank, float gradient)
{
    expect_ok(psr_exchange_begin_step(exchange, &(psr_step){step, rank, 4, 8}));
    float *gradients = psr_exchange_gradients(exchange);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        expect_ok(psr_exchange_weights_wanted(exchange, b));
        for (size_t i = 0; i < buckets.items[b].length; i++)
            gradients[buckets.items[b].offset + i] = gradient;
        expect_ok(psr_exchange_gradient_ready(exchange, b, NULL));
    }
    expect_ok(psr_exchange_end_step(exchange));
}

static void a_process_that_plays_all_ranks_updates_when_the_last_ones_step_has_ended(void **state)
{
    (void)state;
    config.workers = 2;
    config.lr = 1;
    config.momentum = config.weight_decay = 0;
    start(&psr_engine_local);
    assert_int_equal(psr_exchange_plays(exchange), 2);
    const float *weights = psr_exchange_weights(exchange);
    for (uint64_t step = 0; step < 3; step++) {
        take_turn(step, 0, 1);
        assert_true(weights[0] == -3 * (float)step);
        take_turn(step, 1, 2);
        assert_true(weights[0] == -3 * (float)(step + 1));
    }
    expect_ok(psr_exchange_drain(exchange));
    psr_exchange_figures figures;
    psr_exchange_take_figures(exchange, &figures);
    assert_true(figures.wait_s == 0); /* nobody else is to be waited for */
    assert_true(figures.exchange_s > 0);
}

static played_fence fences[BUCKETS];
static pthread_t device;
static _Atomic bool step_ended;

/* The device writes what it was asked for when the compute thread waits for that, and not
 * before. */
static void *write_gradients(void *of_rank)
{
    float *gradients = of_rank;
    while (atomic_load(&session->wait) != PSR_WAIT_FENCES && !atomic_load(&step_ended))
        sched_yield();
    for (uint32_t b = 0; b < BUCKETS; b++) {
        for (size_t i = 0; i < buckets.items[b].length; i++)
            gradients[buckets.items[b].offset + i] = 2;
        played_fence_pass(&fences[b]);
    }
    return NULL;
}

static void a_process_that_plays_all_ranks_waits_for_its_device_before_it_sums(void **state)
{
    (void)state;
    config.workers = 2;
    config.lr = 1;
    config.momentum = config.weight_decay = 0;
    start(&psr_engine_local);
    take_turn(0, 0, 1);
    for (uint32_t b = 0; b < BUCKETS; b++)
        played_fence_init(&fences[b]);
    expect_ok(psr_exchange_begin_step(exchange, &(psr_step){0, 1, 4, 8}));
    float *gradients = psr_exchange_gradients(exchange);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        expect_ok(psr_exchange_weights_wanted(exchange, b));
        expect_ok(psr_exchange_gradient_ready(exchange, b, &fences[b].fence));
    }
    assert_int_equal(pthread_create(&device, NULL, write_gradients, gradients), 0);
    expect_ok(psr_exchange_end_step(exchange));
    const float weight = psr_exchange_weights(exchange)[0];
    atomic_store(&step_ended, true);
    pthread_join(device, NULL);
    assert_true(weight == -3);
}

static void a_device_that_fails_ends_the_run(void **state)
{
    (void)state;
    begin(0, 4);
    played_fence_init(&fences[0]);
    expect_ok(psr_exchange_gradient_ready(exchange, 0, &fences[0].fence));
    played_fence_fail(&fences[0]);
    event *last = event_at(0);
    assert_string_equal(last->what, "failed");
    assert_int_equal(last->status, PSR_ERR_COMPUTE);
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_COMPUTE, "the device is gone");
}

static void an_average_is_the_sum_in_order_of_rank_divided_once_by_all_weights(void **state)
{
    (void)state;
    config.workers = 3;
    start(&psr_engine_local);
    /* Of these three the order shows: (1e16 + 1) + -1e16 is 0, not 1. */
    double rows[] = {1e16, 6, 2, 1, 7, 3, -1e16, 8, 2};
    expect_ok(psr_exchange_average(exchange, rows, 3));
    assert_true(rows[0] == 0);
    assert_true(rows[1] == 21.0 / 7);
    assert_true(rows[2] == 7);
    double nothing[] = {0, 0, 0, 0, 0, 0};
    expect_ok(psr_exchange_average(exchange, nothing, 2));
    assert_true(isnan(nothing[0]));
    assert_true(nothing[1] == 0);
}

static void *break_it_once_something_was_sent(void *unused)
{
    event_at(0);
    break_network(PSR_ERR_PEER);
    return unused;
}

/* The transport may send it long after: to a worker to which there is no connection yet, say. More
 * slices than may go at once: the rest waits for worker 1. */
static void
what_is_left_to_be_sent_of_a_broadcast_that_failed_is_no_memory_of_the_callers(void **state)
{
    (void)state;
    config.workers = 2;
    config.slice_bytes = 8;
    start(&played_ops);
    char text[] = "what worker 0 says to all of the other workers";
    meanwhile(break_it_once_something_was_sent);
    expect_failure(psr_exchange_broadcast(exchange, text, sizeof text), PSR_ERR_PEER,
                   "worker 1 on host7 died");
    helper_result();
    memset(text, 'x', sizeof text - 1);
    const event *sent = event_at(0);
    assert_int_equal(sent->head.type, PSR_MSG_VALUES);
    assert_int_equal(sent->bytes, 8);
    assert_string_equal(sent->payload, "what worker 0 says to all of the other workers");
}

static void deliver_row_of_worker_1(void)
{
    const double row[] = {10, 1};
    const psr_call call = {.kind = PSR_KIND_ALL_REDUCE,
                           .algorithm = PSR_ALGORITHM_ROOT,
                           .type = PSR_TYPE_FLOAT64,
                           .count = 2};
    psr_head head = psr_msg_values_head(
        &(psr_msg_values){.tag = {.round = 1}, .call = psr_call_message(&call), .total = 2});
    const psr_payload payload = psr_encode(&head, PSR_ENCODING_BYTES, row, sizeof row);
    deliver_from((psr_peer){PSR_ROLE_WORKER, 1}, head, payload.data, payload.bytes);
}

/* Worker 2 is still missing then. */
static void *add_worker_1_and_break_it(void *unused)
{
    until_it_waits_for(PSR_WAIT_OPERATION);
    deliver_row_of_worker_1();
    break_network(PSR_ERR_PEER);
    return unused;
}

static void the_exchange_thread_does_not_write_what_the_caller_averages(void **state)
{
    (void)state;
    config.workers = 3;
    start(&played_ops);
    double rows[] = {1, 1};
    meanwhile(add_worker_1_and_break_it);
    expect_failure(psr_exchange_average(exchange, rows, 2), PSR_ERR_PEER, "worker 1 on host7 died");
    helper_result();
    assert_true(rows[0] == 1 && rows[1] == 1);
}

static void *add_worker_1(void *unused)
{
    deliver_row_of_worker_1();
    return unused;
}

static void an_average_with_other_workers_is_the_callers_when_all_have_come(void **state)
{
    (void)state;
    config.workers = 2;
    start(&played_ops);
    double rows[] = {1, 1};
    meanwhile(add_worker_1);
    expect_ok(psr_exchange_average(exchange, rows, 2));
    helper_result();
    assert_true(rows[0] == 5.5 && rows[1] == 2);
}

#define with_exchange(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define with_config(f) cmocka_unit_test_setup_teardown(f, set_up_config, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_exchange(the_engine_hears_of_buckets_in_the_compute_threads_order),
        with_exchange(weights_are_wanted_until_they_landed_and_the_gradient_is_no_longer_lent),
        with_exchange(a_drain_waits_for_every_bucket),
        with_exchange(a_failure_of_the_exchange_reaches_a_waiting_compute_thread_at_once),
        with_exchange(a_rank_without_samples_gives_zeros_for_every_bucket),
        with_exchange(a_device_that_fails_ends_the_run),
        with_exchange(a_step_that_forgot_a_bucket_is_refused),
        with_exchange(a_message_that_no_worker_takes_ends_the_run_as_a_violation),
        with_exchange(weights_from_another_worker_are_a_violation),
        with_config(worker_zero_cuts_an_arena_for_the_shards_that_own_it),
        with_config(without_an_exchange_every_step_goes_on_at_once),
        with_config(an_engine_that_exchanges_nothing_is_sent_nothing),
        with_config(a_process_that_plays_all_ranks_updates_when_the_last_ones_step_has_ended),
        with_config(a_process_that_plays_all_ranks_waits_for_its_device_before_it_sums),
        with_config(an_average_is_the_sum_in_order_of_rank_divided_once_by_all_weights),
        with_config(what_is_left_to_be_sent_of_a_broadcast_that_failed_is_no_memory_of_the_callers),
        with_config(the_exchange_thread_does_not_write_what_the_caller_averages),
        with_config(an_average_with_other_workers_is_the_callers_when_all_have_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
