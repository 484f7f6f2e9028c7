/* Slots of shared memory for payloads that lie elsewhere. */
#include "net/sharing/stage.h"

#include "tests/unit/expect.h"

#include <string.h>

enum { BYTES = 100000 };

static int returned;

static void count(void *context)
{
    (void)context;
    returned++;
}

static void a_payload_is_copied_into_memory_that_can_be_lent(void **state)
{
    (void)state;
    static char values[BYTES];
    psr_stage *stage = NULL;
    expect_ok(psr_stage_new(&stage));
    const psr_shared_arena *arena = psr_stage_arena(stage);
    memset(values, 7, sizeof values);
    const psr_payload payload = {values, sizeof values, count, NULL};
    psr_payload staged;
    returned = 0;
    assert_true(psr_stage_put(stage, &payload, &staged));
    assert_int_equal(returned, 0); /* the caller's to end */
    assert_int_equal(staged.bytes, sizeof values);
    const uint8_t *at = staged.data, *begin = (const uint8_t *)arena->values;
    assert_true(at >= begin && at + sizeof values <= begin + arena->bytes);
    assert_int_equal((uintptr_t)at % 64, 0);
    memset(values, 8, sizeof values);
    assert_true(at[0] == 7 && at[BYTES - 1] == 7);
    staged.release(staged.context);
    psr_stage_free(stage);
}

static void the_slot_that_came_back_last_is_given_out_first(void **state)
{
    (void)state;
    static char values[BYTES];
    psr_stage *stage = NULL;
    expect_ok(psr_stage_new(&stage));
    const psr_payload payload = {values, sizeof values, NULL, NULL};
    psr_payload staged[PSR_STAGE_SLOTS], again, more;
    for (unsigned i = 0; i < PSR_STAGE_SLOTS; i++) {
        assert_true(psr_stage_put(stage, &payload, &staged[i]));
        for (unsigned k = 0; k < i; k++) /* none lies over another */
            assert_true((const char *)staged[k].data + BYTES <= (const char *)staged[i].data ||
                        (const char *)staged[i].data + BYTES <= (const char *)staged[k].data);
    }
    assert_false(psr_stage_put(stage, &payload, &more));
    staged[3].release(staged[3].context);
    staged[5].release(staged[5].context);
    assert_true(psr_stage_put(stage, &payload, &again));
    assert_ptr_equal(again.data, staged[5].data);
    again.release(again.context);
    for (unsigned i = 0; i < PSR_STAGE_SLOTS; i++)
        if (i != 3 && i != 5)
            staged[i].release(staged[i].context);
    psr_stage_free(stage);
}

static void what_is_larger_than_a_slot_goes_another_way(void **state)
{
    (void)state;
    static char values[PSR_STAGE_SLOT_BYTES + 1];
    psr_stage *stage = NULL;
    psr_payload staged;
    expect_ok(psr_stage_new(&stage));
    assert_false(
        psr_stage_put(stage, &(psr_payload){.data = values, .bytes = sizeof values}, &staged));
    assert_true(
        psr_stage_put(stage, &(psr_payload){.data = values, .bytes = sizeof values - 1}, &staged));
    staged.release(staged.context);
    psr_stage_free(stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_payload_is_copied_into_memory_that_can_be_lent),
        cmocka_unit_test(the_slot_that_came_back_last_is_given_out_first),
        cmocka_unit_test(what_is_larger_than_a_slot_goes_another_way),
    };
    return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
