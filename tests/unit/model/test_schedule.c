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

/* ---- beside torch.optim.lr_scheduler (PyTorch 2.15), whose numbers these are ---- */

typedef struct at_step {
    uint64_t step;
    double lr;
} at_step;

/* torch goes from step to step by products, so its last digits differ. */
static void expect_torchs(const psr_config *config, uint64_t total, const at_step *right,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const double is = (double)psr_schedule_lr(config, right[i].step, total);
        if (fabs(is - right[i].lr) > 1e-7 * right[i].lr)
            fail_msg("step %d: %.9g instead of %.9g", (int)right[i].step, is, right[i].lr);
    }
}
#define EXPECT_TORCHS(config, total, right)                                                        \
    expect_torchs(config, total, right, sizeof(right) / sizeof *(right))

static psr_config config_by_text(const char *schedule)
{
    psr_config config = {.lr = 0.4, .workers = 4};
    expect_ok(psr_config_set(&config, "lr-schedule", schedule));
    return config;
}

static void milestones_are_those_of_torchs_multi_step(void **state)
{
    (void)state;
    const psr_config config = config_by_text("multistep:3,7,8:0.1");
    static const at_step right[] = {{0, 0.4},   {2, 0.4},    {3, 0.04},  {6, 0.04},
                                    {7, 0.004}, {8, 0.0004}, {9, 0.0004}};
    EXPECT_TORCHS(&config, 10, right);
}

static void a_cosine_with_an_end_is_torchs(void **state)
{
    (void)state;
    const psr_config config = config_by_text("cosine:0.02");
    static const at_step right[] = {{0, 0.4},
                                    {3, 0.3792912395957899},
                                    {6, 0.32167919793557},
                                    {9, 0.23972254835764395},
                                    {12, 0.15128677106876004},
                                    {15, 0.075649711574556},
                                    {18, 0.029299261903920827}};
    EXPECT_TORCHS(&config, 20, right);
    expect_lr(&config, 20, 20, 0.02);
    expect_lr(&config, 99, 20, 0.02);
}

static void one_cycle_is_torchs(void **state)
{
    (void)state;
    psr_config config = config_by_text("onecycle");
    static const at_step right[] = {
        {0, 0.016},      {1, 0.05266873708001013},  {3, 0.2673312629199899},
        {5, 0.4},        {6, 0.39498560249403497},  {9, 0.3246982615799052},
        {12, 0.2000008}, {16, 0.04363512897158001}, {18, 0.005015997505965022},
        {19, 1.6e-06}};
    EXPECT_TORCHS(&config, 20, right);
    config = config_by_text("onecycle:0.25:10:100");
    static const at_step other[] = {{0, 0.04},
                                    {4, 0.24912075937949765},
                                    {8, 0.3990952901301023},
                                    {12, 0.3647705809696806},
                                    {20, 0.1906931332184163},
                                    {28, 0.02560489446145697},
                                    {32, 0.0004}};
    EXPECT_TORCHS(&config, 33, other);
}

/* ---- epochs, workers and runs that are dealt out anew ---- */

static void epochs_are_as_many_steps_as_the_data_make(void **state)
{
    (void)state;
    psr_config config = config_by_text("multistep:1e,2.5e:0.1");
    const psr_deal deal = {.count = 64, .workers = 2, .batch_size = 4}; /* 8 steps */
    config.pace = psr_pace_of(&deal, false);
    expect_ok(psr_config_set(&config, "warmup", "0.5e"));
    expect_lr(&config, 3, 32, 0.4);
    expect_lr(&config, 0, 32, 0.1);
    expect_lr(&config, 4 + 7, 32, 0.4);
    expect_lr(&config, 4 + 8, 32, 0.4 * 0.1);
    expect_lr(&config, 4 + 20, 32, 0.4 * pow(0.1, 2));
}

/* Goyal et al., 2.2: from the rate of one worker up to that of all. */
static void a_scaled_rate_warms_up_from_the_rate_of_one_worker(void **state)
{
    (void)state;
    psr_config config = config_by_text("constant");
    expect_ok(psr_config_set(&config, "scale-lr", "linear"));
    expect_ok(psr_config_set(&config, "warmup", "4"));
    expect_lr(&config, 0, 100, 0.4 + 1.2 * 1 / 4);
    expect_lr(&config, 3, 100, 1.6);
    expect_lr(&config, 50, 100, 1.6);
    expect_ok(psr_config_set(&config, "scale-lr", "sqrt"));
    expect_lr(&config, 50, 100, 0.8);
}

/* After the same samples the rate is the same, with half the workers and so twice the steps. */
static void other_workers_go_on_at_the_same_fraction(void **state)
{
    (void)state;
    psr_config config = config_by_text("cosine"), resized = config;
    const psr_deal four = {.count = 64, .workers = 4, .batch_size = 4},
                   two = {.count = 64, .workers = 2, .batch_size = 4};
    config.pace = psr_pace_of(&four, false);
    resized.pace = psr_pace_after(&config.pace, &two, 6); /* in the middle of the second epoch */
    const uint64_t total = psr_pace_total(&resized.pace, 5);
    assert_int_equal(total, 6 + 4 + 3 * 8);
    for (uint64_t more = 0; more <= 14; more++)
        expect_lr(&resized, 6 + 2 * more, total,
                  (double)psr_schedule_lr(&config, 6 + more, psr_pace_total(&config.pace, 5)));
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
        cmocka_unit_test(milestones_are_those_of_torchs_multi_step),
        cmocka_unit_test(a_cosine_with_an_end_is_torchs),
        cmocka_unit_test(one_cycle_is_torchs),
        cmocka_unit_test(epochs_are_as_many_steps_as_the_data_make),
        cmocka_unit_test(a_scaled_rate_warms_up_from_the_rate_of_one_worker),
        cmocka_unit_test(other_workers_go_on_at_the_same_fraction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
