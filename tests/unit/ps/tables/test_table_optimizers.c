/* Optimizers as updates of tables: however many arguments they get, the last ones count, and memory
 * does not grow. */
#include "ps/tables/optimizers.h"

#include "tests/unit/network_fixture.h"

#include <malloc.h>

static psr_table_optimizer *sgd(void)
{
    psr_table_optimizer *optimizer = NULL;
    assert_ok(psr_table_optimizer_new(psr_table_optimizer_name(0), &optimizer));
    return optimizer;
}

static void expect_step(psr_table_optimizer *optimizer, int rate)
{
    char arguments[64];
    float value = 0, pushed = -1, state[2] = {0};
    snprintf(arguments, sizeof arguments, "lr=%d", rate);
    assert_ok(psr_table_optimizer_check(optimizer, arguments));
    assert_ok(psr_table_optimizer_apply(optimizer, arguments, &value, &pushed,
                                        (float *const[]){&state[0], &state[1]}, 1, 1));
    assert_true(value == (float)rate);
}

static void many_arguments_take_turns(void **state)
{
    (void)state;
    psr_table_optimizer *optimizer = sgd();
    for (int turn = 0; turn < 3; turn++)
        for (int rate = 1; rate <= 100; rate++)
            expect_step(optimizer, rate);
    psr_table_optimizer_free(optimizer);
}

/* As a learning rate that is set before every step. */
static void memory_does_not_grow_with_the_arguments(void **state)
{
    (void)state;
    psr_table_optimizer *optimizer = sgd();
    expect_step(optimizer, 1);
    const size_t before = mallinfo2().uordblks;
    for (int rate = 1; rate <= 5000; rate++)
        expect_step(optimizer, rate);
    assert_true(mallinfo2().uordblks < before + 4096);
    psr_table_optimizer_free(optimizer);
}

static void what_are_no_arguments_is_refused_whenever_it_comes(void **state)
{
    (void)state;
    float value = 0, pushed = 1, kept = 0;
    psr_table_optimizer *optimizer = sgd();
    static const char *const wrong[] = {"", "lr=x", "lr=1 beta=2", "nesterov lr=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(psr_table_optimizer_check(optimizer, wrong[i]), PSR_ERR_USAGE);
        assert_int_equal(psr_table_optimizer_apply(optimizer, wrong[i], &value, &pushed,
                                                   (float *const[]){&kept, &kept}, 1, 1),
                         PSR_ERR_USAGE);
    }
    assert_true(value == 0);
    psr_table_optimizer_free(optimizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_arguments_take_turns),
        cmocka_unit_test(memory_does_not_grow_with_the_arguments),
        cmocka_unit_test(what_are_no_arguments_is_refused_whenever_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
