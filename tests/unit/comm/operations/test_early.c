#include "tests/unit/network_fixture.h"

#include "comm/operations/early.h"

static unsigned freed;

static void count_freed(psr_message *message)
{
    freed++;
    free(message);
}

static psr_message *numbered(uint64_t number)
{
    psr_message *message = calloc(1, sizeof *message);
    *message = (psr_message){.head = {.sequence = number}, .release = count_freed};
    return message;
}

static void put(psr_early *early, uint32_t key, uint64_t number)
{
    psr_message *message = numbered(number);
    psr_early_put(early, key, &message);
    assert_null(message);
}

static void take(psr_early *early, uint32_t key, uint64_t number)
{
    psr_message *message = psr_early_take(early, key);
    assert_non_null(message);
    assert_int_equal(message->head.sequence, number);
    psr_message_free(&message);
}

static void messages_of_one_key_come_out_in_their_order_whatever_else_waits(void **state)
{
    (void)state;
    psr_early *early = NULL;
    assert_ok(psr_early_new(3, 10, &early));
    assert_false(psr_early_any(early, 1));
    put(early, 1, 10);
    put(early, 0, 20);
    put(early, 1, 11);
    assert_true(psr_early_any(early, 1));
    assert_false(psr_early_any(early, 2));
    assert_null(psr_early_take(early, 2));
    take(early, 1, 10);
    put(early, 1, 12);
    take(early, 1, 11);
    take(early, 1, 12);
    assert_null(psr_early_take(early, 1));
    put(early, 1, 13); /* a queue that was emptied works on */
    take(early, 1, 13);
    take(early, 0, 20);
    psr_early_free(early);
}

static void the_bound_is_over_all_keys_and_what_was_taken_makes_room(void **state)
{
    (void)state;
    psr_early *early = NULL;
    assert_ok(psr_early_new(2, 2, &early));
    put(early, 0, 1);
    assert_false(psr_early_full(early));
    put(early, 1, 2);
    assert_true(psr_early_full(early));
    take(early, 0, 1);
    assert_false(psr_early_full(early));
    psr_early_free(early);
    assert_ok(psr_early_new(1, 0, &early));
    assert_true(psr_early_full(early));
    psr_early_free(early);
}

static void what_was_never_taken_is_freed(void **state)
{
    (void)state;
    psr_early *early = NULL;
    assert_ok(psr_early_new(2, PSR_EARLY_UNBOUNDED, &early));
    freed = 0;
    for (uint64_t i = 0; i < 5; i++)
        put(early, (uint32_t)(i & 1), i);
    psr_early_free(early);
    assert_int_equal(freed, 5);
    psr_early_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_one_key_come_out_in_their_order_whatever_else_waits),
        cmocka_unit_test(the_bound_is_over_all_keys_and_what_was_taken_makes_room),
        cmocka_unit_test(what_was_never_taken_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
