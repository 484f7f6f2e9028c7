#include "tests/unit/expect.h"

#include "model/loss_scale.h"

#include <math.h>
#include <string.h>

static psr_config config_of(const char *text)
{
    psr_config config;
    psr_config_defaults(&config);
    expect_ok(psr_config_set(&config, "precision", "fp16"));
    expect_ok(psr_config_set(&config, "loss-scale", text));
    return config;
}

static const psr_loss_scale nothing;

/* torch.amp.GradScaler(init_scale=1024, growth_interval=3) after each of these steps. */
static void it_goes_up_and_down_as_pytorchs(void **state)
{
    (void)state;
    static const struct {
        bool taken;
        uint32_t scale;
    } steps[] = {{false, 512}, {true, 512},  {true, 512}, {false, 256}, {true, 256},
                 {true, 256},  {true, 512},  {true, 512}, {true, 512},  {true, 1024},
                 {false, 512}, {false, 256}, {true, 256}};
    const psr_config config = config_of("1024:3");
    psr_loss_scale scale = psr_loss_scale_first(&config, &nothing);
    assert_int_equal(scale.scale, 1024);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        expect_ok(psr_loss_scale_step(&config, steps[i].taken, &scale));
        if (scale.scale != steps[i].scale)
            fail_msg("step %zu: %u rather than %u", i, scale.scale, steps[i].scale);
    }
    assert_int_equal(scale.skipped, 4);
}

static void it_stays_within_its_bounds(void **state)
{
    (void)state;
    const psr_config most = config_of("16777216:1"), least = config_of("2");
    psr_loss_scale scale = psr_loss_scale_first(&most, &nothing);
    expect_ok(psr_loss_scale_step(&most, true, &scale));
    assert_int_equal(scale.scale, PSR_LOSS_SCALE_MOST);
    scale = psr_loss_scale_first(&least, &nothing);
    expect_ok(psr_loss_scale_step(&least, false, &scale));
    assert_int_equal(scale.scale, 1);
    expect_failure(psr_loss_scale_step(&least, false, &scale), PSR_ERR_NUMERIC,
                   "the gradient is not finite in fp16, though the loss is not scaled any more; a "
                   "lower --lr, --warmup or --precision bf16 would be right");
}

static void other_precisions_have_none(void **state)
{
    (void)state;
    psr_config config;
    psr_config_defaults(&config);
    const psr_loss_scale scale = psr_loss_scale_first(&config, &nothing);
    assert_int_equal(scale.scale, 0);
    assert_false(psr_loss_scale_is_saved(&scale));
}

/* From fp16 to float32 and back: steps that were left out stay so. */
static void it_goes_on_in_fp16_and_begins_again_behind_another_precision(void **state)
{
    (void)state;
    const psr_config half = config_of("1024:3");
    const psr_loss_scale saved = {256, 2, 7};
    psr_config config;
    psr_config_defaults(&config);
    psr_loss_scale scale = psr_loss_scale_first(&half, &saved);
    assert_true(scale.scale == 256 && scale.taken == 2 && scale.skipped == 7);
    scale = psr_loss_scale_first(&config, &saved);
    assert_true(scale.scale == 0 && scale.taken == 0 && scale.skipped == 7);
    assert_true(psr_loss_scale_is_saved(&scale));
    scale = psr_loss_scale_first(&half, &scale);
    assert_true(scale.scale == 1024 && scale.taken == 0 && scale.skipped == 7);
}

static void a_checkpoint_has_all_of_it(void **state)
{
    (void)state;
    const psr_loss_scale scales[] = {
        {65536, 1999, 7}, {1, 0, (UINT64_C(5) << 24) + 16777215}, {0, 0, 3}};
    float numbers[PSR_LOSS_SCALE_NUMBERS];
    psr_loss_scale again;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        psr_loss_scale_to_floats(&scales[i], numbers);
        assert_true(psr_loss_scale_from_floats(numbers, &again));
        assert_int_equal(again.scale, scales[i].scale);
        assert_int_equal(again.taken, scales[i].taken);
        assert_int_equal(again.skipped, scales[i].skipped);
    }
}

static void what_no_scale_has_is_refused(void **state)
{
    (void)state;
    static const float wrong[][PSR_LOSS_SCALE_NUMBERS] = {
        {0, 0, 0, 0},  {3, 0, 0, 0},     {33554432, 0, 0, 0}, {NAN, 0, 0, 0},      {1, 0.5f, 0, 0},
        {1, -1, 0, 0}, {1, 0, 1e30f, 0}, {1, 0, 0, 16777216}, {1, 0, 0, INFINITY}, {0, 1, 0, 3}};
    psr_loss_scale scale;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (psr_loss_scale_from_floats(wrong[i], &scale))
            fail_msg("numbers %zu were taken", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_up_and_down_as_pytorchs),
        cmocka_unit_test(it_stays_within_its_bounds),
        cmocka_unit_test(other_precisions_have_none),
        cmocka_unit_test(it_goes_on_in_fp16_and_begins_again_behind_another_precision),
        cmocka_unit_test(a_checkpoint_has_all_of_it),
        cmocka_unit_test(what_no_scale_has_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
