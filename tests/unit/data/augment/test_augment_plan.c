#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/augment/plan.h"

#include <stdio.h>
#include <string.h>

static psr_augment_plan plan_of(const char *list, uint32_t image_size)
{
    psr_augment_plan plan;
    if (psr_augment_plan_parse(list, image_size, &plan) != PSR_OK)
        fail_msg("%s", psr_err_detail());
    return plan;
}

/* "crop flip resize": the kinds in order. */
static const char *kinds_of(const psr_augment_plan *plan)
{
    static char text[512];
    text[0] = '\0';
    for (uint32_t i = 0; i < plan->count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
                 psr_step_name(plan->steps[i].kind));
    return text;
}

static void a_list_keeps_its_order_and_values(void **state)
{
    (void)state;
    psr_augment_plan plan = plan_of("crop:32:4,flip:0.25,resize:224:plain", 0);
    assert_string_equal(kinds_of(&plan), "crop flip resize");
    assert_int_equal(plan.bytes, 3);
    assert_int_equal(plan.steps[0].as.crop.side, 32);
    assert_int_equal(plan.steps[0].as.crop.padding, 4);
    assert_true(plan.steps[1].as.flip.probability == 0.25);
    assert_int_equal(plan.steps[2].as.resize.side, 224);
    assert_int_equal(plan.steps[2].as.resize.resampling, PSR_RESAMPLE_PLAIN);
    plan = plan_of("random-resized-crop:96:0.25-1:0.5-2,colour-jitter:0.4:0.3:0.2:0.1,lighting,"
                   "rand-augment:3:11,trivial-augment,random-erasing:0.1,cutout:8,mixup:0.2,"
                   "cutmix:1,repeat:3",
                   0);
    assert_int_equal(plan.bytes, 5);
    assert_int_equal(plan.erasing, 2);
    assert_int_equal(plan.mixing, 2);
    assert_int_equal(plan.copies, 3);
    assert_true(plan.steps[0].as.resized_crop.scale.least == 0.25);
    assert_true(plan.steps[0].as.resized_crop.ratio.most == 2);
    assert_true(plan.steps[1].as.jitter.contrast.most == 1.3);
    assert_true(plan.steps[1].as.jitter.hue == 0.1);
    assert_true(plan.steps[2].as.deviation == 0.1);
    assert_int_equal(plan.steps[3].as.policy.magnitude, 11);
    assert_true(plan.steps[5].as.erasing.scale.most == 0.33);
    assert_true(plan.steps[8].as.alpha == 1);
}

static void names_stand_for_lists(void **state)
{
    (void)state;
    psr_augment_plan none = plan_of("none", 0), resized = plan_of("none", 64);
    psr_augment_plan crop_flip = plan_of("crop-flip", 64), imagenet = plan_of("imagenet", 0);
    assert_int_equal(none.count, 0);
    assert_string_equal(kinds_of(&resized), "resize");
    assert_string_equal(kinds_of(&crop_flip), "resize crop flip");
    assert_int_equal(crop_flip.steps[0].as.resize.resampling, PSR_RESAMPLE_EXACT);
    assert_int_equal(crop_flip.steps[1].as.crop.side, 0);
    assert_string_equal(kinds_of(&imagenet), "random-resized-crop flip");
    assert_int_equal(imagenet.steps[0].as.resized_crop.side, 224);
    assert_true(imagenet.steps[0].as.resized_crop.scale.least == 0.08);
}

static void an_evaluation_keeps_sizes_and_drops_chance(void **state)
{
    (void)state;
    static const struct {
        const char *list, *kinds;
        uint32_t first, last; /* sides */
    } cases[] = {
        {"imagenet", "resize-short centre-crop", 256, 224},
        {"random-resized-crop:176,flip,rand-augment,random-erasing,mixup:0.2,repeat:2",
         "resize-short centre-crop", 201, 176},
        {"crop:32:4,flip,resize:224", "centre-crop resize", 32, 224},
        {"resize-short:256,crop:224,flip", "resize-short centre-crop", 256, 224},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_augment_plan plan = plan_of(cases[i].list, 0);
        psr_augment_plan evaluation = psr_augment_plan_evaluation(&plan);
        assert_string_equal(kinds_of(&evaluation), cases[i].kinds);
        assert_int_equal(evaluation.steps[0].as.resize.side, cases[i].first);
        assert_int_equal(evaluation.steps[1].as.resize.side, cases[i].last);
        assert_int_equal(evaluation.copies, 1);
    }
    psr_augment_plan plan = plan_of("crop-flip", 0);
    assert_int_equal(psr_augment_plan_evaluation(&plan).count, 0);
}

static void what_cannot_be_is_refused_by_its_step(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t image_size;
        const char *message;
    } cases[] = {
        {"crop:32:x", 0,
         "--augment crop:32:x: 'x' is not a whole number from 0 to 4096; give "
         "crop:SIDE[:PADDING][:reflect], like crop:32:4"},
        {"flip:1.5", 0,
         "--augment flip:1.5: '1.5' is not a number from 0 to 1; give "
         "flip[:PROBABILITY][:alternate], like flip or flip:0.5"},
        {"flip:0.5:1", 0,
         "--augment flip:0.5:1: '1' is a value too many; give flip[:PROBABILITY][:alternate], like "
         "flip or flip:0.5"},
        {"crop:32:reflect:2", 0,
         "--augment crop:32:reflect:2: 'reflect' is not a whole number from 0 to 4096; give "
         "crop:SIDE[:PADDING][:reflect], like crop:32:4"},
        {"resize:32:exact,crop:32:2:reflect", 0,
         "--augment: a crop with reflect cannot follow an exact resize, which makes no bytes; give "
         "resize without exact"},
        {"resize", 0,
         "--augment resize: a value is missing; give resize:SIDE[:antialias|plain], like "
         "resize:224"},
        {"crop:32:4,,flip", 0,
         "--augment: 'crop:32:4,,flip' has an empty step; give steps joined by commas, like "
         "crop:32:4,flip, or none"},
        {"mixup:0.2,flip", 0,
         "--augment: flip cannot follow mixup, which works on what all such steps have made; put "
         "flip before it"},
        {"mixup:0.2,mixup:0.4", 0, "--augment: mixup twice; give it once"},
        {"crop:32:4,resize:224", 64,
         "--image-size 64 does not go with --augment crop:32:4,resize:224: resize says the size; "
         "leave --image-size out"},
        {"imagenet", 176,
         "--image-size 176 does not go with --augment random-resized-crop:224,flip: "
         "random-resized-crop says the size; leave --image-size out"},
        {"flip,resize:64:exact", 0,
         "--augment: an exact resize must be the first step; give resize without exact"},
        {"resize:64:exact,lighting", 0,
         "--augment: lighting cannot follow an exact resize, which makes no bytes; give resize "
         "without exact"},
        {"random-resized-crop:96:1-0.5", 0,
         "--augment random-resized-crop:96:1-0.5: '1-0.5' is not a span LEAST-MOST of numbers from "
         "1e-06 to 1; give random-resized-crop:SIDE[:SCALE[:RATIO]][:antialias|plain], like "
         "random-resized-crop:224:0.08-1:0.75-1.3333"},
        {"flop", 0,
         "--augment: 'flop' is not a step; give none, crop-flip, imagenet, or a list of these: "
         "crop, flip, resize, resize-short, centre-crop, random-resized-crop, colour-jitter, "
         "lighting, rand-augment, trivial-augment, random-erasing, cutout, mixup, cutmix, repeat"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_augment_plan plan;
        assert_int_equal(psr_augment_plan_parse(cases[i].list, cases[i].image_size, &plan),
                         PSR_ERR_USAGE);
        assert_string_equal(psr_err_detail(), cases[i].message);
    }
}

static void the_side_follows_from_list_and_pictures(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        psr_picture_shape shape;
        uint32_t side;
        const char *message;
    } cases[] = {
        {"none", {32, 32}, 32, NULL},
        {"crop:32:4,flip,resize:224", {32, 32}, 224, NULL},
        {"imagenet", {0, 0}, 224, NULL},
        {"resize-short:256,crop:224", {0, 0}, 224, NULL},
        {"flip",
         {0, 0},
         0,
         "--augment: pictures differ in size, and no step makes them equal; give imagenet, or a "
         "list with resize:SIDE or random-resized-crop:SIDE"},
        {"crop:224:4",
         {0, 0},
         0,
         "--augment crop:224:4: pictures may be smaller (1 pixels at least); put resize-short:224 "
         "before it"},
        {"crop:34:2:reflect", {32, 32}, 34, NULL},
        {"crop:64:32:reflect",
         {32, 32},
         0,
         "--augment crop:64:32:reflect: a padding of 32 pixels cannot be the mirror image of "
         "pictures with a side of 32; give less padding"},
        {"crop:41:4",
         {32, 32},
         0,
         "--augment crop:41:4: pictures of 32x32 with 4 pixels of padding are smaller; give a "
         "smaller crop"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        psr_augment_plan plan = plan_of(cases[i].list, 0);
        uint32_t side = 0;
        psr_err err = psr_augment_plan_side(&plan, 3, cases[i].shape, &side);
        assert_int_equal(err, cases[i].message == NULL ? PSR_OK : PSR_ERR_USAGE);
        assert_int_equal(side, cases[i].side);
        if (cases[i].message != NULL)
            assert_string_equal(psr_err_detail(), cases[i].message);
    }
    psr_augment_plan plan = plan_of("lighting", 0);
    uint32_t side;
    assert_int_equal(psr_augment_plan_side(&plan, 1, (psr_picture_shape){28, 28}, &side),
                     PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "--augment lighting: it is for pictures of three channels, and these have "
                        "1; leave it out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_keeps_its_order_and_values),
        cmocka_unit_test(names_stand_for_lists),
        cmocka_unit_test(an_evaluation_keeps_sizes_and_drops_chance),
        cmocka_unit_test(what_cannot_be_is_refused_by_its_step),
        cmocka_unit_test(the_side_follows_from_list_and_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
