#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "model/onednn/choice/rule.h"

static const bool direct_alone[] = {true, false, false}, all[] = {true, true, true},
                  own[] = {true, false, true};

/* 16 images of 14 x 14: 3136 pixels, 256 tiles. */
static const psr_conv_shape middle = {16, 14, 14, 256, 256, 2, false};

static void expect_near(double found, double expected)
{
    assert_true(fabs(found - expected) < 1e-12);
}

static void the_ratio_is_the_formulas(void **state)
{
    (void)state;
    const double tiles = (1 + 20.0 / 256) * 16.0 * 256 / 3136, weights = 256.0 * 2 / 3136,
                 threads = 1e6 / (3136.0 * 256 * 256);
    assert_true(psr_onednn_rule_ratio(&middle, PSR_ONEDNN_FORWARD, PSR_ONEDNN_DIRECT) == 1);
    expect_near(psr_onednn_rule_ratio(&middle, PSR_ONEDNN_FORWARD, PSR_ONEDNN_OWN_WINOGRAD),
                0.40 * tiles + 0.42 * weights + threads);
    expect_near(psr_onednn_rule_ratio(&middle, PSR_ONEDNN_BACKWARD_DATA, PSR_ONEDNN_OWN_WINOGRAD),
                0.40 * tiles + 0.42 * weights + threads);
    expect_near(psr_onednn_rule_ratio(&middle, PSR_ONEDNN_BACKWARD_WEIGHTS, PSR_ONEDNN_WINOGRAD),
                0.35 * tiles + 0.16 * weights + threads);
}

static void bf16_has_smaller_tiles_and_its_own_constants(void **state)
{
    (void)state;
    psr_conv_shape shape = middle;
    shape.bf16 = true;
    const double tiles = (1 + 20.0 / 256) * 4.0 * 784 / 3136, weights = 256.0 * 2 / 3136,
                 threads = 1e6 / (3136.0 * 256 * 256);
    expect_near(psr_onednn_rule_ratio(&shape, PSR_ONEDNN_FORWARD, PSR_ONEDNN_OWN_WINOGRAD),
                0.50 * tiles + 0.20 * weights + threads);
    assert_int_equal(psr_onednn_rule(&shape, PSR_ONEDNN_BACKWARD_DATA, own),
                     PSR_ONEDNN_OWN_WINOGRAD);
    assert_int_equal(psr_onednn_rule(&shape, PSR_ONEDNN_BACKWARD_DATA, direct_alone),
                     PSR_ONEDNN_DIRECT);
    const psr_conv_shape few = {1, 14, 14, 512, 512, 2, true}; /* 196 pixels for all the weights */
    assert_int_equal(psr_onednn_rule(&few, PSR_ONEDNN_FORWARD, own), PSR_ONEDNN_DIRECT);
}

static void the_least_ratio_of_what_exists_is_chosen(void **state)
{
    (void)state;
    for (int d = PSR_ONEDNN_FORWARD; d <= PSR_ONEDNN_BACKWARD_WEIGHTS; d++) {
        const psr_onednn_direction direction = (psr_onednn_direction)d;
        assert_int_equal(psr_onednn_rule(&middle, direction, direct_alone), PSR_ONEDNN_DIRECT);
        assert_int_equal(psr_onednn_rule(&middle, direction, own), PSR_ONEDNN_OWN_WINOGRAD);
    }
    assert_int_equal(psr_onednn_rule(&middle, PSR_ONEDNN_FORWARD, all), PSR_ONEDNN_OWN_WINOGRAD);
    assert_int_equal(psr_onednn_rule(&middle, PSR_ONEDNN_BACKWARD_DATA, all), PSR_ONEDNN_WINOGRAD);
}

static void it_is_direct_where_winograd_has_more_to_do_than_it_saves(void **state)
{
    (void)state;
    const psr_conv_shape edges = {64, 5, 5, 256, 256, 1, false}; /* four tiles for 25 pixels */
    const psr_conv_shape weights = {1,   8, 8,    512,
                                    512, 1, false};             /* 64 pixels for all the weights */
    const psr_conv_shape threads = {1, 8, 8, 64, 64, 2, false}; /* too little for two */
    const psr_conv_shape many_threads = {4,   14, 14,   256,
                                         256, 16, false}; /* the same weights for each */
    const psr_conv_shape *const shapes[] = {&edges, &weights, &threads, &many_threads};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        assert_int_equal(psr_onednn_rule(shapes[i], PSR_ONEDNN_FORWARD, own), PSR_ONEDNN_DIRECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ratio_is_the_formulas),
        cmocka_unit_test(bf16_has_smaller_tiles_and_its_own_constants),
        cmocka_unit_test(the_least_ratio_of_what_exists_is_chosen),
        cmocka_unit_test(it_is_direct_where_winograd_has_more_to_do_than_it_saves),
    };
    return cmocka_run_group_tests_name("onednn_rule", tests, NULL, NULL);
}
