/* Softmax cross entropy against numbers worked out elsewhere; its gradient has test_reference.c. */
#include "model/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void assert_near(double found, double expected, double tolerance)
{
    if (!(fabs(found - expected) <= tolerance))
        fail_msg("%.17g is not %.17g within %g", found, expected, tolerance);
}

static void equal_logits_cost_the_logarithm_of_the_classes(void **state)
{
    (void)state;
    const float logits[20] = {0};
    const uint32_t labels[2] = {3, 0};
    psr_pass_result result;
    psr_loss_cross_entropy(logits, labels, NULL, 2, 10, 0, 1, NULL, &result);
    assert_near(result.loss_sum, 2 * log(10), 1e-14);
    assert_int_equal(result.correct, 1); /* among equals the lowest index is the answer */
}

static void the_loss_is_pytorchs(void **state)
{
    (void)state;
    /* torch.nn.functional.cross_entropy(float64, reduction="sum", label_smoothing=0 and 0.1). */
    const float logits[6] = {1, 2, 3, -1, 0.5f, 0.25f};
    const uint32_t labels[2] = {2, 0};
    psr_pass_result result;
    psr_loss_cross_entropy(logits, labels, NULL, 2, 3, 0, 1, NULL, &result);
    assert_near(result.loss_sum, 2.601718150846295, 1e-12);
    assert_int_equal(result.correct, 1);
    psr_loss_cross_entropy(logits, labels, NULL, 2, 3, 0.1, 1, NULL, &result);
    assert_near(result.loss_sum, 2.6100514841796283, 1e-12);
}

/* torch.nn.CrossEntropyLoss(reduction="sum", label_smoothing=0 and 0.1) in float64 with the class
 * probabilities [[0.25, 0, 0.75], [0, 0.7, 0.3]]. */
static void the_loss_of_two_labels_is_pytorchs_of_probabilities(void **state)
{
    (void)state;
    const float logits[6] = {1, 2, 3, 0.5f, -1, 2};
    const uint32_t labels[2] = {0, 1}, second[2] = {2, 2};
    const float shares[2] = {0.25f, 0.7f};
    static const double expected[6] = {-0.15996942682961957, 0.24472847105479764,
                                       -0.08475904422517822, 0.1752903921400367,
                                       -0.6608874267293126,  0.4855970345892759};
    const psr_second_labels both = {second, shares};
    psr_pass_result result;
    float gradient[6];
    psr_loss_cross_entropy(logits, labels, &both, 2, 3, 0, 1, gradient, &result);
    assert_near(result.loss_sum, 3.248917261101538, 1e-6); /* 0.7f */
    for (int i = 0; i < 6; i++)
        assert_near(gradient[i], expected[i], 1e-6);
    psr_loss_cross_entropy(logits, labels, &both, 2, 3, 0.1, 1, NULL, &result);
    assert_near(result.loss_sum, 3.238917261101538, 1e-6);
    assert_int_equal(result.correct, 0);
}

static void the_gradient_is_scaled_and_sums_to_nothing(void **state)
{
    (void)state;
    float logits[3] = {1, 2, 3};
    const uint32_t labels[1] = {1};
    const double sum = exp(1) + exp(2) + exp(3);
    psr_pass_result result;
    psr_loss_cross_entropy(logits, labels, NULL, 1, 3, 0, 0.25f, logits, &result); /* in place */
    assert_near(logits[0], 0.25 * exp(1) / sum, 1e-8);
    assert_near(logits[1], 0.25 * (exp(2) / sum - 1), 1e-8);
    assert_near(logits[2], 0.25 * exp(3) / sum, 1e-8);
}

static void huge_logits_do_not_overflow(void **state)
{
    (void)state;
    const float logits[3] = {3e38f, -3e38f, 0};
    const uint32_t labels[1] = {0};
    float gradient[3];
    psr_pass_result result;
    psr_loss_cross_entropy(logits, labels, NULL, 1, 3, 0, 1, gradient, &result);
    assert_near(result.loss_sum, 0, 0);
    assert_near(gradient[0], 0, 0);
}

static void a_nan_among_the_logits_is_seen_in_the_loss(void **state)
{
    (void)state;
    const float logits[3] = {0, NAN, 0};
    const uint32_t labels[1] = {0};
    psr_pass_result result;
    psr_loss_cross_entropy(logits, labels, NULL, 1, 3, 0, 1, NULL, &result);
    assert_true(isnan(result.loss_sum));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_logits_cost_the_logarithm_of_the_classes),
        cmocka_unit_test(the_loss_is_pytorchs),
        cmocka_unit_test(the_loss_of_two_labels_is_pytorchs_of_probabilities),
        cmocka_unit_test(the_gradient_is_scaled_and_sums_to_nothing),
        cmocka_unit_test(huge_logits_do_not_overflow),
        cmocka_unit_test(a_nan_among_the_logits_is_seen_in_the_loss),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
