/* What a library's sums hand over between their owner and their thread: here both are this one. */
#include "tests/unit/expect.h"

#include "worker/exchange/engines/sum_queue.h"

#define MOST 3

static uint32_t changes;

static void changed(void *context)
{
    assert_ptr_equal(context, &changes);
    changes++;
}

static int open_queue(void **state)
{
    static psr_sum_queue queue;
    changes = 0;
    *state = &queue;
    return psr_sum_queue_init(&queue, MOST, changed, &changes) == PSR_OK ? 0 : -1;
}

static int close_queue(void **state)
{
    psr_sum_queue_done(*state);
    return 0;
}

static void start(psr_sum_queue *queue, uint32_t number)
{
    expect_ok(psr_sum_queue_start(queue, (psr_started_sum){number, NULL, {number, 1}}));
}

static void expect_taken(psr_sum_queue *queue, uint32_t number)
{
    bool any = false;
    uint32_t taken = UINT32_MAX;
    expect_ok(psr_sum_queue_take(queue, &any, &taken));
    assert_true(any);
    assert_int_equal(taken, number);
}

static void expect_nothing(psr_sum_queue *queue)
{
    bool any = true;
    uint32_t taken = 7;
    expect_ok(psr_sum_queue_take(queue, &any, &taken));
    assert_false(any);
    assert_int_equal(taken, 7);
}

static void sums_are_taken_in_the_order_in_which_they_were_started_and_ended(void **state)
{
    psr_sum_queue *queue = *state;
    psr_started_sum started[MOST];
    start(queue, 5);
    start(queue, 4);
    assert_int_equal(psr_sum_queue_take_started(queue, started), 2);
    assert_int_equal(started[0].number, 5);
    assert_int_equal(started[1].number, 4);
    assert_int_equal(started[1].span.offset, 4);
    assert_int_equal(psr_sum_queue_take_started(queue, started), 0);
    expect_nothing(queue);
    psr_sum_queue_end(queue, (const uint32_t[]){4, 5}, 2);
    assert_int_equal(changes, 1);
    expect_taken(queue, 4);
    expect_taken(queue, 5);
    expect_nothing(queue);
}

static void no_more_are_under_way_than_was_said(void **state)
{
    psr_sum_queue *queue = *state;
    psr_started_sum started[MOST];
    for (uint32_t i = 0; i < MOST; i++)
        start(queue, i);
    expect_failure(psr_sum_queue_start(queue, (psr_started_sum){MOST, NULL, {0, 1}}), PSR_ERR_USAGE,
                   "3 sums are under way already");
    assert_int_equal(psr_sum_queue_take_started(queue, started), MOST);
    psr_sum_queue_end(queue, (const uint32_t[]){0}, 1);
    /* it has ended, and is under way until its owner has taken it */
    assert_int_equal(psr_sum_queue_start(queue, started[0]), PSR_ERR_USAGE);
    expect_taken(queue, 0);
    start(queue, MOST);
}

static void a_failure_comes_after_what_had_ended_and_stays(void **state)
{
    psr_sum_queue *queue = *state;
    bool any = true;
    uint32_t number = 7;
    start(queue, 1);
    psr_sum_queue_end(queue, (const uint32_t[]){1}, 1);
    psr_sum_queue_fail(queue, PSR_ERR_IO, "the library is gone");
    assert_int_equal(changes, 2);
    expect_taken(queue, 1);
    for (int again = 0; again < 2; again++)
        expect_failure(psr_sum_queue_take(queue, &any, &number), PSR_ERR_IO, "the library is gone");
    assert_true(any);
    assert_int_equal(number, 7);
}

static void an_owner_that_has_let_go_hears_no_more(void **state)
{
    psr_sum_queue *queue = *state;
    start(queue, 1);
    psr_sum_queue_quit(queue);
    assert_true(queue->quit);
    psr_sum_queue_end(queue, (const uint32_t[]){1}, 1);
    psr_sum_queue_fail(queue, PSR_ERR_IO, "the library is gone");
    assert_int_equal(changes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            sums_are_taken_in_the_order_in_which_they_were_started_and_ended, open_queue,
            close_queue),
        cmocka_unit_test_setup_teardown(no_more_are_under_way_than_was_said, open_queue,
                                        close_queue),
        cmocka_unit_test_setup_teardown(a_failure_comes_after_what_had_ended_and_stays, open_queue,
                                        close_queue),
        cmocka_unit_test_setup_teardown(an_owner_that_has_let_go_hears_no_more, open_queue,
                                        close_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
