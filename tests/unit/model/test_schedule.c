#include "tests/unit/expect.h"

#include "model/optimizers/optimizer.h"

#include <math.h>

static psr_config config_of(psr_schedule_kind kind, uint64_t warmup)
{
    return (psr_config){.schedule = {.kind = kind, .gamma = 0.1, .every = {30, 0}, .power = 2},
                        .lr = 0.4,
                        .warmup = {warmup, 0}};
}

/* The closed form, rounded once, must be met to the bit. */
static void expect_lr(const psr_config *config, uint64_t step, uint64_t total, double lr)
{
    float is = psr_schedule_lr(config, step, total);
    if (is != (float)lr)
        fail_msg("step %d of %d: %a instead of %a", (int)step, (int)total, (double)is,
                 (double)(float)lr);
}

static void a_constant_rate_stays(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_SCHEDULE_CONSTANT, 0);
    for (uint64_t step = 0; step < 100; step += 9)
        expect_lr(&config, step, 100, 0.4);
}

static void warm_up_is_linear_and_reaches_the_rate_at_its_last_step(void **state)
{
    (void)state;
    for (int kind = PSR_SCHEDULE_CONSTANT; kind <= PSR_SCHEDULE_POLY; kind++) {
        psr_config config = config_of((psr_schedule_kind)kind, 5);
        for (uint64_t step = 0; step < 5; step++)
            expect_lr(&config, step, 100, 0.4 * (double)(step + 1) / 5);
        expect_lr(&config, 4, 100, 0.4);
        expect_lr(&config, 5, 100, 0.4); /* every schedule begins at the whole rate */
    }
}

static void steps_multiply_the_rate_by_gamma(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_SCHEDULE_STEP, 10);
    expect_lr(&config, 10 + 29, 100, 0.4);
    expect_lr(&config, 10 + 30, 100, 0.4 * 0.1);
    expect_lr(&config, 10 + 59, 100, 0.4 * 0.1);
    expect_lr(&config, 10 + 60, 100, 0.4 * pow(0.1, 2));
}

static void a_cosine_halves_the_rate_in_the_middle_and_ends_at_zero(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_SCHEDULE_COSINE, 20);
    expect_lr(&config, 20, 120, 0.4);
    assert_true(fabs((double)psr_schedule_lr(&config, 70, 120) - 0.2) < 1e-8);
    expect_lr(&config, 45, 120, 0.4 * (0.5 * (1 + cos(acos(-1.0) * 0.25))));
    expect_lr(&config, 120, 120, 0);
    for (uint64_t step = 20; step < 119; step++)
        assert_true(psr_schedule_lr(&config, step, 120) > psr_schedule_lr(&config, step + 1, 120));
}

static void a_polynomial_is_a_power_of_what_is_left(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_SCHEDULE_POLY, 0);
    for (uint64_t step = 0; step <= 64; step++)
        expect_lr(&config, step, 64, 0.4 * ((1 - (double)step / 64) * (1 - (double)step / 64)));
    config.schedule.power = 1;
    expect_lr(&config, 16, 64, 0.3);
}

static void past_the_end_the_last_rate_stays(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_SCHEDULE_COSINE, 10);
    expect_lr(&config, 1000, 100, 0);
    config.schedule.kind = PSR_SCHEDULE_POLY;
    expect_lr(&config, 1000, 100, 0);
    config.schedule.kind = PSR_SCHEDULE_CONSTANT;
    expect_lr(&config, 1000, 100, 0.4);
}

static void a_warm_up_longer_than_the_run_is_all_there_is(void **state)
{
    (void)state;
    psr_config config = config_of(PSR_SCHEDULE_COSINE, 200);
    expect_lr(&config, 49, 50, 0.4 * 50 / 200);
    expect_lr(&config, 199, 50, 0.4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_rate_stays),
        cmocka_unit_test(warm_up_is_linear_and_reaches_the_rate_at_its_last_step),
        cmocka_unit_test(steps_multiply_the_rate_by_gamma),
        cmocka_unit_test(a_cosine_halves_the_rate_in_the_middle_and_ends_at_zero),
        cmocka_unit_test(a_polynomial_is_a_power_of_what_is_left),
        cmocka_unit_test(past_the_end_the_last_rate_stays),
        cmocka_unit_test(a_warm_up_longer_than_the_run_is_all_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
