#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/expect.h"

#include "data/augment/mix.h"

#include <math.h>

static psr_augment_key key_of(uint32_t sample)
{
    return (psr_augment_key){.seed = 5, .epoch = 1, .sample = sample};
}

/* Beta(a, a) has mean 1/2 and variance 1 / (8 a + 4). 20000 draws; bounds of five deviations. */
static void beta_numbers_have_their_mean_and_variance(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    static const double alphas[] = {0.01, 0.2, 1, 4};
    for (int a = 0; a < 4; a++) {
        const psr_augment_step step = {.kind = PSR_STEP_MIXUP, .as.alpha = alphas[a]};
        double sum = 0, squares = 0;
        for (uint32_t i = 0; i < DRAWS; i++) {
            psr_augment_key key = key_of(i);
            psr_draws draws = psr_draws_of(&key, &step);
            double x = psr_draw_beta(&draws, alphas[a]);
            assert_true(x >= 0 && x <= 1);
            sum += x;
            squares += (x - 0.5) * (x - 0.5);
        }
        const double variance = 1 / (8 * alphas[a] + 4);
        assert_float_equal(sum / DRAWS, 0.5, 5 * sqrt(variance / DRAWS));
        assert_float_equal(squares / DRAWS, variance, 0.02 * variance + 0.003);
    }
}

static void crops_of_a_random_area_stay_inside_and_within_bounds(void **state)
{
    (void)state;
    psr_augment_step step = {.kind = PSR_STEP_RANDOM_RESIZED_CROP};
    step.as.resized_crop.scale = (psr_bounds){0.08, 1};
    step.as.resized_crop.ratio = (psr_bounds){0.75, 4.0 / 3};
    static const psr_picture_shape shapes[] = {{375, 500}, {1, 1}, {10, 1000}, {32, 32}};
    for (int s = 0; s < 4; s++) {
        for (uint32_t i = 0; i < 2000; i++) {
            psr_augment_key key = key_of(i);
            psr_box box = psr_draw_resized_crop(&key, &step, shapes[s]);
            assert_true(box.height > 0 && box.width > 0);
            assert_true(box.top + box.height <= shapes[s].height);
            assert_true(box.left + box.width <= shapes[s].width);
            if (s == 0) { /* rounded sides: some slack */
                const double area = (double)box.height * box.width / (375.0 * 500);
                const double ratio = (double)box.width / box.height;
                assert_true(area > 0.079 && ratio > 0.74 && ratio < 1.345);
            }
        }
    }
}

static void half_of_the_samples_go_by_either_of_mixup_and_cutmix(void **state)
{
    (void)state;
    enum { DRAWS = 4000, COUNT = 100, SIDE = 32 };
    psr_augment_plan plan;
    uint32_t boxes = 0, partners[COUNT] = {0};
    assert_int_equal(psr_augment_plan_parse("mixup:0.2,cutmix:1", 0, &plan), PSR_OK);
    for (uint32_t i = 0; i < DRAWS; i++) {
        psr_augment_key key = key_of(i);
        psr_mix mix = psr_draw_mix(&plan, &key, COUNT, SIDE);
        assert_true(mix.partner < COUNT && mix.share >= 0 && mix.share <= 1);
        partners[mix.partner]++;
        boxes += mix.has_box;
        if (mix.has_box)
            assert_true(mix.share ==
                        (float)(1 - (double)mix.box.height * mix.box.width / (SIDE * SIDE)));
    }
    assert_in_range(boxes, 2000 - 160, 2000 + 160); /* five deviations */
    for (int i = 0; i < COUNT; i++)
        assert_in_range(partners[i], 8, 75); /* of 40 */
}

static void a_mix_is_a_weighted_sum_or_a_box(void **state)
{
    (void)state;
    float image[2 * 3 * 3], partner[2 * 3 * 3];
    for (int i = 0; i < 18; i++) {
        image[i] = (float)i;
        partner[i] = (float)(100 + i);
    }
    psr_mix_apply(&(psr_mix){.share = 0.25f}, 2, 3, image, partner);
    for (int i = 0; i < 18; i++)
        assert_true(image[i] == 75 + (float)i);
    psr_mix_apply(&(psr_mix){.has_box = true, .box = {1, 0, 2, 1}}, 2, 3, image, partner);
    for (int i = 0; i < 18; i++)
        assert_true(image[i] == (i % 9 == 3 || i % 9 == 6 ? 100 : 75) + (float)i);
}

static void an_alternating_flip_is_drawn_once_and_turns_with_each_epoch(void **state)
{
    (void)state;
    psr_augment_plan plan;
    expect_ok(psr_augment_plan_parse("flip:alternate", 0, &plan));
    uint32_t flipped = 0;
    for (uint32_t sample = 0; sample < 1000; sample++) {
        const bool first = psr_draw_flip(&(psr_augment_key){3, 0, sample, 0}, &plan.steps[0]);
        for (uint32_t epoch = 1; epoch < 5; epoch++) {
            const psr_augment_key key = {3, epoch, sample, 0};
            assert_true(psr_draw_flip(&key, &plan.steps[0]) == (first != (epoch % 2 == 1)));
        }
        flipped += first;
    }
    assert_in_range(flipped, 400, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_alternating_flip_is_drawn_once_and_turns_with_each_epoch),
        cmocka_unit_test(beta_numbers_have_their_mean_and_variance),
        cmocka_unit_test(crops_of_a_random_area_stay_inside_and_within_bounds),
        cmocka_unit_test(half_of_the_samples_go_by_either_of_mixup_and_cutmix),
        cmocka_unit_test(a_mix_is_a_weighted_sum_or_a_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
