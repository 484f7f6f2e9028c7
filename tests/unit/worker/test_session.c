/* A run's life as one worker takes part in it: hold and stop, reports, checkpoints and their
 * restoring, the end. */
#include "tests/unit/played_fence.h"
#include "tests/unit/worker/played_exchange.h"

#include <stdio.h>
#include <stdlib.h>

static void a_failure_of_the_compute_thread_is_told_and_ends_the_exchange(void **state)
{
    (void)state;
    psr_session_fail(session, psr_fail(PSR_ERR_NUMERIC, "step 3: the loss is not finite"));
    event *first = event_at(0);
    assert_string_equal(first->what, "failed");
    assert_int_equal(first->status, PSR_ERR_NUMERIC);
    assert_string_equal(first->text, "step 3: the loss is not finite");
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_NUMERIC, "step 3: the loss is not finite");
}

static void the_first_of_two_failures_is_the_one_that_stays(void **state)
{
    (void)state;
    break_network(PSR_ERR_IO);
    assert_string_equal(event_at(0)->what, "failed");
    psr_session_fail(session, psr_fail(PSR_ERR_NUMERIC, "something else"));
    expect_failure(psr_exchange_drain(exchange), PSR_ERR_IO, "worker 1 on host7 died");
}

static void *stop_after_step_two(void *unused)
{
    until_it_waits_for(PSR_WAIT_HOLD);
    deliver(PSR_ROLE_SCHEDULER, psr_msg_stop_at_head(2), NULL, 0);
    return unused;
}

static uint64_t held_said(const event *e)
{
    psr_message message = {.head = e->head};
    uint64_t step;
    expect_ok(psr_msg_held_read(&message, &(psr_msg_limits){.steps = UINT64_MAX}, &step));
    return step;
}

static void a_hold_is_answered_and_lasts_until_the_last_step_is_named(void **state)
{
    (void)state;
    whole_step(0);
    whole_step(1);
    event_at(5);
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_HOLD}, NULL, 0);
    event *held = event_at(6);
    assert_string_equal(held->what, "tell");
    assert_int_equal(held->head.type, PSR_MSG_HELD);
    assert_int_equal(held_said(held), 1);
    meanwhile(stop_after_step_two);
    begin(2, 4); /* waits, and is the last */
    helper_result();
    for (uint32_t b = 0; b < BUCKETS; b++)
        expect_ok(psr_exchange_gradient_ready(exchange, b, NULL));
    expect_ok(psr_exchange_end_step(exchange));
    expect_failure(psr_exchange_begin_step(exchange, &(psr_step){3, 0, 4, 4}), PSR_ERR_CANCELLED,
                   "the run was stopped after step 3");
    assert_int_equal(psr_session_last_step(session), 2);
    for (uint32_t b = 0; b < BUCKETS; b++)
        for (uint64_t step = 0; step < 3; step++)
            deliver_landed(step, b);
    expect_ok(psr_exchange_drain(exchange)); /* a stopped run is still whole */
}

static void before_its_first_step_a_worker_promises_that_one(void **state)
{
    (void)state;
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_HOLD}, NULL, 0);
    assert_int_equal(event_at(0)->head.type, PSR_MSG_HELD);
    assert_int_equal(held_said(event_at(0)), 0);
    deliver(PSR_ROLE_SCHEDULER, psr_msg_stop_at_head(0), NULL, 0);
    begin(0, 4);
}

static void a_report_says_what_the_compute_thread_does(void **state)
{
    (void)state;
    begin(3, 4);
    psr_session_progress(session, PSR_PHASE_BACKWARD);
    psr_msg_progress now = {0}, later = {0};
    psr_session_report(session, &now);
    assert_int_equal(now.step, 3);
    assert_int_equal(now.phase, PSR_PHASE_BACKWARD);
    assert_false(now.waits);
    assert_false(now.evaluates);
    psr_session_progress(session, PSR_PHASE_BACKWARD);
    psr_session_report(session, &later);
    assert_true(later.counter > now.counter);
}

static psr_msg_progress report_while_waiting;

static void *report_then_land(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    psr_session_report(session, &report_while_waiting);
    deliver_landed(0, 1);
    return unused;
}

static void a_report_names_whom_it_waits_for(void **state)
{
    (void)state;
    whole_step(0);
    begin(1, 4);
    meanwhile(report_then_land);
    expect_ok(psr_exchange_weights_wanted(exchange, 1));
    helper_result();
    assert_int_equal(report_while_waiting.phase, PSR_PHASE_RING);
    assert_int_equal(report_while_waiting.step, 5);
    assert_int_equal(report_while_waiting.bucket, 1);
    assert_true(report_while_waiting.waits);
    assert_true(psr_peer_equal(report_while_waiting.waits_for, (psr_peer){PSR_ROLE_SHARD, 2}));
}

static played_fence fence;

static void *report_then_pass(void *unused)
{
    until_it_waits_for(PSR_WAIT_BUCKET);
    event_at(1); /* buckets 0 and 2 are ready, and bucket 1 was reported before them */
    psr_session_report(session, &report_while_waiting);
    played_fence_pass(&fence);
    event_at(2);
    deliver_landed(0, 1);
    return unused;
}

static void a_report_names_the_device_that_it_waits_for_and_nobody_else(void **state)
{
    (void)state;
    played_fence_init(&fence);
    report_while_waiting = (psr_msg_progress){0};
    begin(0, 4);
    expect_ok(psr_exchange_gradient_ready(exchange, 1, &fence.fence));
    expect_ok(psr_exchange_gradient_ready(exchange, 0, NULL));
    expect_ok(psr_exchange_gradient_ready(exchange, 2, NULL));
    expect_ok(psr_exchange_end_step(exchange));
    begin(1, 4);
    meanwhile(report_then_pass);
    expect_ok(psr_exchange_weights_wanted(exchange, 1));
    helper_result();
    assert_int_equal(report_while_waiting.phase, PSR_PHASE_DEVICE);
    assert_int_equal(report_while_waiting.step, 0);
    assert_int_equal(report_while_waiting.bucket, 1);
    assert_false(report_while_waiting.waits);
    const uint32_t order[] = {0, 2, 1}; /* in which they were ready */
    for (uint32_t i = 0; i < BUCKETS; i++)
        assert_int_equal(event_at(i)->bucket, order[i]);
}

static void more_metrics_than_the_queue_holds_all_arrive_in_order(void **state)
{
    (void)state;
    enum { LINES = 1000 };
    char line[32];
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "{\"step\": %d}", i);
        expect_ok(psr_session_metrics(session, line));
    }
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "{\"step\": %d}", i);
        assert_int_equal(event_at((uint32_t)i)->head.type, PSR_MSG_METRICS);
        assert_string_equal(event_at((uint32_t)i)->text, line);
    }
}

static void a_checkpoints_section_leaves_in_pieces_that_cover_it_once(void **state)
{
    (void)state;
    const size_t piece = PSR_PAYLOAD_BYTES_MAX / sizeof(float), count = 2 * piece + 5;
    float *data = calloc(count, sizeof *data);
    data[0] = 1;
    data[piece] = 2;
    data[2 * piece] = 3;
    expect_ok(psr_session_checkpoint(session, 9, PSR_SECTION_SLOT(1), data, (psr_span){0, count}));
    free(data); /* it was copied */
    uint64_t next = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const event *e = event_at(i);
        assert_int_equal(e->head.type, PSR_MSG_CHECKPOINT);
        psr_message message = {.head = e->head};
        psr_msg_piece says;
        expect_ok(psr_msg_piece_read(&message, &says));
        assert_int_equal(says.steps, 9);
        assert_int_equal(says.section, PSR_SECTION_SLOT(1));
        assert_int_equal(says.span.offset, next);
        assert_int_equal(e->bytes, says.span.count * sizeof(float));
        assert_true(e->first == (float)(i + 1));
        next += says.span.count;
    }
    assert_int_equal(next, count);
}

static void *report_then_say_saved(void *unused)
{
    until_it_waits_for(PSR_WAIT_SAVED);
    psr_session_report(session, &report_while_waiting);
    deliver(PSR_ROLE_SCHEDULER, psr_msg_saved_head(20), NULL, 0);
    return unused;
}

static void the_next_checkpoint_waits_until_the_last_one_is_in_place(void **state)
{
    (void)state;
    expect_ok(psr_session_await_saved(session, 0)); /* there was none */
    whole_step(29);
    meanwhile(report_then_say_saved);
    expect_ok(psr_session_await_saved(session, 20));
    helper_result();
    assert_int_equal(report_while_waiting.phase, PSR_PHASE_CHECKPOINT);
    assert_int_equal(report_while_waiting.step, 29);
    assert_true(report_while_waiting.waits);
    assert_true(psr_peer_equal(report_while_waiting.waits_for, (psr_peer){PSR_ROLE_SCHEDULER, 0}));
    expect_ok(psr_session_await_saved(session, 20));
}

static void restored_pieces_come_in_order(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        deliver(PSR_ROLE_SCHEDULER, psr_msg_restore_head(&(psr_msg_piece){.span = {i, 0}}), NULL,
                0);
    for (uint32_t i = 0; i < 4; i++) { /* the fifth is freed with the exchange */
        psr_message *message = NULL;
        expect_ok(psr_session_restored(session, &message));
        psr_msg_piece says;
        expect_ok(psr_msg_piece_read(message, &says));
        assert_int_equal(says.span.offset, i);
        psr_message_free(&message);
    }
}

static void ready_waits_for_start_and_done_for_bye(void **state)
{
    (void)state;
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_START}, NULL, 0);
    expect_ok(psr_session_ready(session, "{\"algorithms\": \"\"}"));
    assert_int_equal(event_at(0)->head.type, PSR_MSG_READY);
    assert_string_equal(event_at(0)->text, "{\"algorithms\": \"\"}");
    deliver(PSR_ROLE_SCHEDULER, (psr_head){.type = PSR_MSG_BYE}, NULL, 0);
    expect_ok(psr_session_done(session, 12, false, "{}"));
    assert_int_equal(event_at(1)->head.type, PSR_MSG_DONE);
    psr_message message = {.head = event_at(1)->head};
    psr_msg_done says;
    expect_ok(psr_msg_done_read(&message, &(psr_msg_limits){.steps = UINT64_MAX}, &says));
    assert_int_equal(says.steps, 12);
    assert_false(says.left_out);
}

#define with_exchange(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_exchange(a_failure_of_the_compute_thread_is_told_and_ends_the_exchange),
        with_exchange(the_first_of_two_failures_is_the_one_that_stays),
        with_exchange(a_hold_is_answered_and_lasts_until_the_last_step_is_named),
        with_exchange(before_its_first_step_a_worker_promises_that_one),
        with_exchange(a_report_says_what_the_compute_thread_does),
        with_exchange(a_report_names_whom_it_waits_for),
        with_exchange(a_report_names_the_device_that_it_waits_for_and_nobody_else),
        with_exchange(more_metrics_than_the_queue_holds_all_arrive_in_order),
        with_exchange(a_checkpoints_section_leaves_in_pieces_that_cover_it_once),
        with_exchange(the_next_checkpoint_waits_until_the_last_one_is_in_place),
        with_exchange(restored_pieces_come_in_order),
        with_exchange(ready_waits_for_start_and_done_for_bye),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
