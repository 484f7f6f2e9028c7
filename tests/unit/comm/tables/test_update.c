#include "tests/unit/expect.h"

#include "comm/tables/update.h"

#include <string.h>

enum { COUNT = 5 };

/* What an update of that name makes of 1, 2, 3, .. when 10 is pushed to the three in the middle. */
static void apply(const char *name, float *values)
{
    const psr_table_update *update = NULL;
    float pushed[COUNT] = {10, 10, 10};
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)(i + 1);
    expect_ok(psr_table_update_find(name, NULL, 0, &update));
    assert_string_equal(update->name, name);
    assert_int_equal(update->state_count, 0);
    assert_null(update->applied);
    expect_ok(update->apply(
        update->context, &(psr_table_run){.span = {1, 3}, .pushed = pushed, .values = values + 1}));
}

static void sum_adds_what_is_pushed(void **state)
{
    (void)state;
    float values[COUNT];
    const float expected[COUNT] = {1, 12, 13, 14, 5};
    apply("sum", values);
    assert_memory_equal(values, expected, sizeof expected);
}

static void assign_takes_what_is_pushed(void **state)
{
    (void)state;
    float values[COUNT];
    const float expected[COUNT] = {1, 10, 10, 10, 5};
    apply("assign", values);
    assert_memory_equal(values, expected, sizeof expected);
}

static void those_that_are_registered_come_first(void **state)
{
    (void)state;
    const psr_table_update registered[] = {{.name = "mine"}, {.name = "sum"}};
    const psr_table_update *update = NULL;
    expect_ok(psr_table_update_find("mine", registered, 2, &update));
    assert_ptr_equal(update, &registered[0]);
    expect_ok(psr_table_update_find("sum", registered, 2, &update));
    assert_ptr_equal(update, &registered[1]);
    expect_ok(psr_table_update_find("assign", registered, 2, &update));
    assert_non_null(update->apply);
}

static void a_name_that_nobody_knows_is_refused_with_those_that_there_are(void **state)
{
    (void)state;
    const psr_table_update registered[] = {{.name = "sgd"}, {.name = "adam"}};
    const psr_table_update *update = NULL;
    expect_failure(psr_table_update_find("su", registered, 2, &update), PSR_ERR_USAGE,
                   "there is no update \"su\", but sgd, adam, sum, assign");
    assert_null(update);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_adds_what_is_pushed),
        cmocka_unit_test(assign_takes_what_is_pushed),
        cmocka_unit_test(those_that_are_registered_come_first),
        cmocka_unit_test(a_name_that_nobody_knows_is_refused_with_those_that_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
