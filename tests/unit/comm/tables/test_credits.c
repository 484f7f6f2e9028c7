#include "tests/unit/expect.h"

#include "comm/tables/credits.h"

static psr_credits three(uint64_t ahead)
{
    psr_credits c;
    assert_int_equal(psr_credits_init(&c, 3, 10, ahead, 2), PSR_OK);
    return c;
}

static void push(psr_credits *c, uint32_t worker, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        (void)psr_credits_take(c, worker);
}

static void what_came_is_told_by_itself_when_it_is_half_a_window(void **state)
{
    (void)state;
    psr_credits c = three(0);
    push(&c, 1, 1);
    assert_false(psr_credits_due(&c, 1));
    push(&c, 1, 1);
    assert_true(psr_credits_due(&c, 1));
    assert_int_equal(psr_credits_tell(&c, 1), 2);
    assert_false(psr_credits_due(&c, 1));
    psr_credits_done(&c);
}

static void a_worker_ahead_of_the_slowest_is_held_back_until_that_one_comes(void **state)
{
    (void)state;
    psr_credits c = three(2);
    push(&c, 0, 1);
    push(&c, 1, 6);
    assert_int_equal(psr_credits_tell(&c, 1), 3);
    assert_false(psr_credits_due(&c, 1));
    assert_true(psr_credits_take(&c, 0)); /* others may be due */
    assert_false(psr_credits_due(&c, 1));
    assert_true(psr_credits_take(&c, 0));
    assert_true(psr_credits_due(&c, 1));
    assert_int_equal(psr_credits_tell(&c, 1), 5);
    assert_int_equal(psr_credits_tell(&c, 0), 3); /* the slowest gets all of its own */
    psr_credits_done(&c);
}

static void who_has_not_begun_the_step_keeps_nobody_back(void **state)
{
    (void)state;
    psr_credits c = three(2);
    push(&c, 1, 9);
    assert_int_equal(psr_credits_tell(&c, 1), 9);
    push(&c, 2, 1); /* from now on the slowest */
    push(&c, 1, 1);
    assert_int_equal(psr_credits_tell(&c, 1), 9); /* what was told is never taken back */
    push(&c, 2, 9);
    assert_int_equal(psr_credits_tell(&c, 1), 10);
    psr_credits_done(&c);
}

static void at_the_end_of_a_step_nothing_is_held_back(void **state)
{
    (void)state;
    psr_credits c = three(2);
    for (uint32_t w = 0; w < 3; w++) {
        push(&c, w, 5);
        (void)psr_credits_tell(&c, w);
    }
    push(&c, 2, 5);
    assert_int_equal(psr_credits_tell(&c, 2), 7);
    push(&c, 0, 5);
    push(&c, 1, 4);
    assert_true(psr_credits_take(&c, 1));
    for (uint32_t w = 0; w < 3; w++)
        assert_int_equal(psr_credits_tell(&c, w), 10);
    psr_credits_done(&c);
}

static void a_worker_on_the_shards_host_neither_waits_nor_keeps_others_waiting(void **state)
{
    (void)state;
    psr_credits c = three(2);
    assert_false(psr_credits_set_near(&c, 0));
    push(&c, 0, 9);
    push(&c, 1, 1);
    assert_int_equal(psr_credits_tell(&c, 0), 9);
    push(&c, 2, 8);
    assert_int_equal(psr_credits_tell(&c, 2), 3); /* for worker 1 */
    push(&c, 0, 3);
    assert_int_equal(psr_credits_tell(&c, 0), 12);
    push(&c, 1, 8);
    assert_true(psr_credits_due(&c, 2));
    assert_int_equal(psr_credits_tell(&c, 2), 8); /* worker 0 is at 2 of the next step */
    psr_credits_done(&c);
}

static void who_waits_for_a_worker_that_turns_out_to_be_on_the_shards_host_goes_on(void **state)
{
    (void)state;
    psr_credits c = three(2);
    push(&c, 0, 1);
    push(&c, 1, 8);
    assert_int_equal(psr_credits_tell(&c, 1), 3);
    assert_true(psr_credits_set_near(&c, 0));
    assert_true(psr_credits_due(&c, 1));
    assert_int_equal(psr_credits_tell(&c, 1), 8);
    push(&c, 2, 1);
    push(&c, 1, 1);
    assert_int_equal(psr_credits_tell(&c, 1), 8); /* worker 2 is the slowest now */
    psr_credits_done(&c);
}

static void a_step_of_one_push_holds_nobody_back(void **state)
{
    (void)state;
    psr_credits c;
    assert_int_equal(psr_credits_init(&c, 2, 1, 1, 1), PSR_OK);
    for (uint64_t step = 1; step < 5; step++) {
        assert_false(psr_credits_take(&c, 0));
        assert_int_equal(psr_credits_tell(&c, 0), step);
    }
    psr_credits_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_is_told_by_itself_when_it_is_half_a_window),
        cmocka_unit_test(a_worker_ahead_of_the_slowest_is_held_back_until_that_one_comes),
        cmocka_unit_test(who_has_not_begun_the_step_keeps_nobody_back),
        cmocka_unit_test(at_the_end_of_a_step_nothing_is_held_back),
        cmocka_unit_test(a_worker_on_the_shards_host_neither_waits_nor_keeps_others_waiting),
        cmocka_unit_test(who_waits_for_a_worker_that_turns_out_to_be_on_the_shards_host_goes_on),
        cmocka_unit_test(a_step_of_one_push_holds_nobody_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
