#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/command_queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { READY = PSR_COMMAND_OWNER };

static psr_command ready(uint64_t step, uint32_t bucket)
{
    return (psr_command){.kind = READY, .step = step, .bucket = bucket};
}

static void commands_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    psr_command_queue *queue = NULL;
    assert_int_equal(psr_command_queue_new(16, &queue), PSR_OK);
    psr_command out;
    assert_false(psr_command_pop(queue, &out));
    for (uint64_t round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 11; i++) {
            psr_command in = ready(round, i);
            assert_true(psr_command_push(queue, &in));
        }
        for (uint32_t i = 0; i < 11; i++) {
            assert_true(psr_command_pop(queue, &out));
            assert_int_equal(out.step, round);
            assert_int_equal(out.bucket, i);
        }
        assert_false(psr_command_pop(queue, &out));
    }
    psr_command_queue_free(queue);
}

static void a_full_queue_takes_nothing_until_something_is_taken_out(void **state)
{
    (void)state;
    psr_command_queue *queue = NULL;
    assert_int_equal(psr_command_queue_new(1, &queue), PSR_OK);
    psr_command in = ready(0, 0), out;
    uint32_t count = 0;
    while (psr_command_push(queue, &in)) {
        in.bucket = ++count;
        assert_in_range(count, 1, 1000);
    }
    assert_in_range(count, 1, 1000);
    assert_false(psr_command_room(queue));
    assert_true(psr_command_pop(queue, &out));
    assert_int_equal(out.bucket, 0);
    assert_true(psr_command_room(queue));
    assert_true(psr_command_push(queue, &in));
    assert_false(psr_command_push(queue, &in));
    psr_command_queue_free(queue);
}

static void what_was_never_taken_out_is_freed_with_the_queue(void **state)
{
    (void)state;
    psr_command_queue *queue = NULL;
    assert_int_equal(psr_command_queue_new(4, &queue), PSR_OK);
    /* The address sanitizer's leak check is what fails here. */
    psr_command in = {.kind = PSR_COMMAND_SEND, .object = calloc(1, sizeof(psr_outgoing))};
    assert_true(psr_command_push(queue, &in));
    in = (psr_command){.kind = READY};
    assert_true(psr_command_push(queue, &in));
    psr_command_queue_free(queue);
    psr_command_queue_free(NULL);
}

enum { MANY = 200000 };

static void a_queue_without_a_capacity_grows_and_keeps_the_order(void **state)
{
    (void)state;
    psr_command_queue *queue = NULL;
    assert_int_equal(psr_command_queue_new(0, &queue), PSR_OK);
    uint64_t pushed = 0, popped = 0;
    psr_command out;
    for (uint64_t round = 1; round <= 200;
         round++) { /* more go in than come out, until the rest comes */
        for (uint64_t i = 0; i < round; i++) {
            psr_command in = ready(pushed++, 0);
            assert_true(psr_command_room(queue));
            assert_true(psr_command_push(queue, &in));
        }
        for (uint64_t i = 0; i < round / 2; i++) {
            assert_true(psr_command_pop(queue, &out));
            assert_int_equal(out.step, popped++);
        }
    }
    while (psr_command_pop(queue, &out))
        assert_int_equal(out.step, popped++);
    assert_int_equal(popped, pushed);
    psr_command_queue_free(queue);
}

static void *produce(void *context)
{
    psr_command_queue *queue = context;
    for (uint64_t i = 0; i < MANY; i++) {
        psr_command in = ready(i, (uint32_t)(i * 7));
        while (!psr_command_push(queue, &in))
            sched_yield();
    }
    return NULL;
}

static void check_two_threads(uint32_t capacity)
{
    psr_command_queue *queue = NULL;
    assert_int_equal(psr_command_queue_new(capacity, &queue), PSR_OK);
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, queue), 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        psr_command out;
        while (!psr_command_pop(queue, &out))
            sched_yield();
        wrong += out.kind != READY || out.step != i || out.bucket != (uint32_t)(i * 7);
    }
    pthread_join(producer, NULL);
    assert_int_equal(wrong, 0);
    psr_command_queue_free(queue);
}

static void two_threads_lose_nothing_and_see_whole_commands(void **state)
{
    (void)state;
    check_two_threads(64);
    check_two_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_queue_without_a_capacity_grows_and_keeps_the_order),
        cmocka_unit_test(a_full_queue_takes_nothing_until_something_is_taken_out),
        cmocka_unit_test(what_was_never_taken_out_is_freed_with_the_queue),
        cmocka_unit_test(two_threads_lose_nothing_and_see_whole_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
