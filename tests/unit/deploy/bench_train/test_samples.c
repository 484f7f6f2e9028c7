/* The rule by which two configurations are called different: on numbers worked out by hand, and on
 * recorded repetitions (recorded_rates.h): equal configurations never are, one that is a tenth
 * slower always is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "deploy/bench_train/samples.h"
#include "tests/unit/deploy/bench_train/recorded_rates.h"
#include "tests/unit/seeds.h"

#include <math.h>
#include <string.h>

enum { SIX = 6, DRAWS = 2000 };

static const double low[SIX] = {10, 12, 11, 13, 14, 12}, high[SIX] = {20, 22, 21, 23, 24, 22};

static void medians_and_quartiles_are_interpolated(void **state)
{
    (void)state;
    const double four[] = {4, 1, 3, 2};
    assert_true(psr_samples_median(low, 5) == 12);
    assert_true(psr_samples_spread(low, 5) == 2); /* from 11 to 13 */
    assert_true(psr_samples_median(four, 4) == 2.5);
    assert_true(psr_samples_spread(four, 4) == 1.5); /* from 1.75 to 3.25 */
    assert_true(psr_samples_median(four, 1) == 4 && psr_samples_spread(four, 1) == 0);
    assert_true(isnan(psr_samples_median(four, 0)));
}

/* Of C(10,5) = 252 orders two are as clear as low and high's first five. With one of each in the
 * other's place, as (1 2 3 4 6) against (5 7 8 9 10), four are. */
static void the_probability_counts_orders(void **state)
{
    (void)state;
    const double a[] = {1, 2, 3, 4, 6}, b[] = {5, 7, 8, 9, 10};
    assert_true(fabs(psr_samples_p(low, 5, high, 5) - 2.0 / 252) < 1e-12);
    assert_true(fabs(psr_samples_p(high, 5, low, 5) - 2.0 / 252) < 1e-12);
    assert_true(fabs(psr_samples_p(low, SIX, high, SIX) - 2.0 / 924) < 1e-12);
    assert_true(fabs(psr_samples_p(a, 5, b, 5) - 4.0 / 252) < 1e-12);
    assert_true(psr_samples_p(low, SIX, low, SIX) == 1);
    assert_true(psr_samples_p(low, 0, high, SIX) == 1);
    /* ties: of (1 1) and (1 2) each order has half of the ranks 2, 2, 2, 4 */
    const double ones[] = {1, 1}, one_two[] = {1, 2};
    assert_true(psr_samples_p(ones, 2, one_two, 2) == 1);
    double many_low[PSR_SAMPLES_MAX], many_high[PSR_SAMPLES_MAX];
    for (size_t i = 0; i < PSR_SAMPLES_MAX; i++) {
        many_low[i] = (double)i;
        many_high[i] = (double)i + PSR_SAMPLES_MAX;
    }
    const double p = psr_samples_p(many_low, PSR_SAMPLES_MAX, many_high, PSR_SAMPLES_MAX);
    assert_true(p > 0 && p < 1e-30);
}

static void both_conditions_must_hold(void **state)
{
    (void)state;
    assert_int_equal(psr_samples_compare(low, SIX, high, SIX), PSR_SAMPLES_LOWER);
    assert_int_equal(psr_samples_compare(high, SIX, low, SIX), PSR_SAMPLES_HIGHER);
    assert_int_equal(psr_samples_compare(low, SIX, low, SIX), PSR_SAMPLES_TOGETHER);
    /* in a clear order, but less apart than this spreads: median 16, from 15 to 31 or so */
    const double wide[SIX] = {14.5, 15, 16, 16, 31, 32};
    assert_true(psr_samples_p(low, SIX, wide, SIX) < PSR_SAMPLES_P);
    assert_int_equal(psr_samples_compare(low, SIX, wide, SIX), PSR_SAMPLES_TOGETHER);
    /* far apart, but one of each lies in the other */
    const double mixed[SIX] = {9, 22, 21, 23, 24, 22};
    assert_int_equal(psr_samples_compare(low, SIX, mixed, SIX), PSR_SAMPLES_TOGETHER);
}

static void of_ten_one_may_have_been_disturbed(void **state)
{
    (void)state;
    const double slow[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19},
                 fast[] = {21, 22, 23, 5, 24, 25, 26, 27, 28, 29};
    assert_int_equal(psr_samples_compare(slow, 10, fast, 10), PSR_SAMPLES_LOWER);
    assert_int_equal(psr_samples_compare(slow, 6, fast, 6), PSR_SAMPLES_TOGETHER);
}

static void few_repetitions_call_nothing_different(void **state)
{
    (void)state;
    const double far[SIX] = {1000, 1001, 1002, 1003, 1004, 1005};
    assert_int_equal(psr_samples_compare(low, 5, far, SIX), PSR_SAMPLES_TOO_FEW);
    assert_int_equal(psr_samples_compare(low, SIX, far, 5), PSR_SAMPLES_TOO_FEW);
    assert_int_equal(psr_samples_compare(low, 0, far, 0), PSR_SAMPLES_TOO_FEW);
}

/* ---- recorded ---- */

/* The repetitions of two equal configurations, as they alternate from `at` on; those of b times
 * factor. */
static psr_samples_verdict compare_alternating(const double *series, size_t at, size_t count,
                                               double factor)
{
    double a[RECORDED_RUNS], b[RECORDED_RUNS];
    for (size_t i = 0; i < count; i++) {
        a[i] = series[at + 2 * i];
        b[i] = series[at + 2 * i + 1] * factor;
    }
    return psr_samples_compare(a, count, b, count);
}

static void equal_configurations_are_never_called_different(void **state)
{
    (void)state;
    for (size_t s = 0; s < RECORDED_SERIES; s++)
        for (size_t count = PSR_SAMPLES_LEAST; 2 * count <= RECORDED_RUNS; count++)
            for (size_t at = 0; at + 2 * count <= RECORDED_RUNS; at++)
                assert_int_equal(compare_alternating(recorded[s], at, count, 1),
                                 PSR_SAMPLES_TOGETHER);
}

static void a_tenth_slower_is_called_slower(void **state)
{
    (void)state;
    for (size_t s = 0; s < RECORDED_SERIES; s++) {
        assert_int_equal(compare_alternating(recorded[s], 0, 10, 0.9), PSR_SAMPLES_HIGHER);
        assert_int_equal(compare_alternating(recorded[s], 0, 10, 1 / 0.9), PSR_SAMPLES_LOWER);
    }
}

static uint64_t state_of_draws = 1;

static uint32_t draw(uint32_t below)
{
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state_of_draws >> 33) % below);
}

/* Two groups of one series, none twice. */
static psr_samples_verdict compare_drawn(const double *series, uint32_t count)
{
    double left[RECORDED_RUNS];
    memcpy(left, series, sizeof left);
    for (uint32_t i = 0; i < 2 * count; i++) {
        const uint32_t k = i + draw(RECORDED_RUNS - i);
        const double drawn = left[k];
        left[k] = left[i];
        left[i] = drawn;
    }
    return psr_samples_compare(left, count, left + count, count);
}

/* Equal runs in any order: the test alone would call 5 of 2000 different. */
static void of_any_two_groups_of_equal_runs_few_are_called_different(void **state)
{
    (void)state;
    for (size_t s = 0; s < RECORDED_SERIES; s++)
        for (uint32_t count = PSR_SAMPLES_LEAST; count <= 10; count += 2) {
            uint32_t different = 0;
            for (uint64_t i = 0; i < seeds_of(DRAWS); i++)
                different += compare_drawn(recorded[s], count) != PSR_SAMPLES_TOGETHER;
            assert_true(different <= DRAWS / 200);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_and_quartiles_are_interpolated),
        cmocka_unit_test(the_probability_counts_orders),
        cmocka_unit_test(both_conditions_must_hold),
        cmocka_unit_test(of_ten_one_may_have_been_disturbed),
        cmocka_unit_test(few_repetitions_call_nothing_different),
        cmocka_unit_test(equal_configurations_are_never_called_different),
        cmocka_unit_test(a_tenth_slower_is_called_slower),
        cmocka_unit_test(of_any_two_groups_of_equal_runs_few_are_called_different),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
