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

#include <math.h>
#include <string.h>

enum { FIVE = 5, DRAWS = 20000 };

static const double low[FIVE] = {10, 12, 11, 13, 14}, high[FIVE] = {20, 22, 21, 23, 24};

static void medians_and_quartiles_are_interpolated(void **state)
{
    (void)state;
    const double four[] = {4, 1, 3, 2};
    assert_true(psr_samples_median(low, FIVE) == 12);
    assert_true(psr_samples_spread(low, FIVE) == 2); /* from 11 to 13 */
    assert_true(psr_samples_median(four, 4) == 2.5);
    assert_true(psr_samples_spread(four, 4) == 1.5); /* from 1.75 to 3.25 */
    assert_true(psr_samples_median(four, 1) == 4 && psr_samples_spread(four, 1) == 0);
    assert_true(isnan(psr_samples_median(four, 0)));
}

/* Of C(10,5) = 252 orders two are as clear as these. With one of each in the other's place, as
 * (1 2 3 4 6) against (5 7 8 9 10), four are. */
static void the_probability_counts_orders(void **state)
{
    (void)state;
    const double a[FIVE] = {1, 2, 3, 4, 6}, b[FIVE] = {5, 7, 8, 9, 10};
    assert_true(fabs(psr_samples_p(low, FIVE, high, FIVE) - 2.0 / 252) < 1e-12);
    assert_true(fabs(psr_samples_p(high, FIVE, low, FIVE) - 2.0 / 252) < 1e-12);
    assert_true(fabs(psr_samples_p(a, FIVE, b, FIVE) - 4.0 / 252) < 1e-12);
    assert_true(psr_samples_p(low, FIVE, low, FIVE) == 1);
    assert_true(psr_samples_p(low, 0, high, FIVE) == 1);
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
    assert_int_equal(psr_samples_compare(low, FIVE, high, FIVE), PSR_SAMPLES_LOWER);
    assert_int_equal(psr_samples_compare(high, FIVE, low, FIVE), PSR_SAMPLES_HIGHER);
    assert_int_equal(psr_samples_compare(low, FIVE, low, FIVE), PSR_SAMPLES_TOGETHER);
    /* in a clear order, but less apart than this spreads: median 16, from 15 to 31 */
    const double wide[FIVE] = {14.5, 15, 16, 31, 32};
    assert_true(psr_samples_p(low, FIVE, wide, FIVE) < PSR_SAMPLES_P);
    assert_int_equal(psr_samples_compare(low, FIVE, wide, FIVE), PSR_SAMPLES_TOGETHER);
    /* far apart, but one of each lies in the other */
    const double mixed[FIVE] = {9, 22, 21, 23, 24};
    assert_int_equal(psr_samples_compare(low, FIVE, mixed, FIVE), PSR_SAMPLES_TOGETHER);
}

static void few_repetitions_call_nothing_different(void **state)
{
    (void)state;
    const double far[FIVE] = {1000, 1001, 1002, 1003, 1004};
    assert_int_equal(psr_samples_compare(low, 4, far, FIVE), PSR_SAMPLES_TOO_FEW);
    assert_int_equal(psr_samples_compare(low, FIVE, far, 4), PSR_SAMPLES_TOO_FEW);
    assert_int_equal(psr_samples_compare(low, 0, far, 0), PSR_SAMPLES_TOO_FEW);
}

/* ---- recorded ---- */

static uint64_t state_of_draws = 1;

static uint32_t draw(uint32_t below)
{
    state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state_of_draws >> 33) % below);
}

/* Two groups of five of one series of equal runs, none twice, the second one by `factor`. */
static psr_samples_verdict compare_drawn(const double *series, uint32_t count, double factor)
{
    double left[RECORDED_MOST], a[FIVE], b[FIVE];
    memcpy(left, series, count * sizeof *left);
    for (uint32_t i = 0; i < 2 * FIVE; i++) {
        const uint32_t k = i + draw(count - i);
        const double drawn = left[k];
        left[k] = left[i];
        if (i < FIVE)
            a[i] = drawn;
        else
            b[i - FIVE] = drawn * factor;
    }
    return psr_samples_compare(a, FIVE, b, FIVE);
}

static uint32_t count_different(const double *series, uint32_t count, double factor)
{
    uint32_t different = 0;
    for (uint32_t i = 0; i < DRAWS; i++)
        different += compare_drawn(series, count, factor) != PSR_SAMPLES_TOGETHER;
    return different;
}

/* As they were measured: repetitions alternate, so the two are odd and even ones. */
static void equal_configurations_are_never_called_different(void **state)
{
    (void)state;
    for (size_t s = 0; s < RECORDED_SERIES; s++)
        for (uint32_t at = 0; at + 2 * FIVE <= recorded[s].count; at++) {
            double a[FIVE], b[FIVE];
            for (uint32_t i = 0; i < FIVE; i++) {
                a[i] = recorded[s].rates[at + 2 * i];
                b[i] = recorded[s].rates[at + 2 * i + 1];
            }
            assert_int_equal(psr_samples_compare(a, FIVE, b, FIVE), PSR_SAMPLES_TOGETHER);
        }
}

/* Any ten of them, in any two halves: the test gives 2 in 252, the second condition less. */
static void any_halves_of_equal_runs_are_called_different_less_than_once_in_a_hundred(void **state)
{
    (void)state;
    for (size_t s = 0; s < RECORDED_SERIES; s++)
        assert_true(count_different(recorded[s].rates, recorded[s].count, 1) < DRAWS / 100);
}

static void a_tenth_slower_is_called_slower(void **state)
{
    (void)state;
    for (size_t s = 0; s < RECORDED_SERIES; s++)
        for (uint32_t at = 0; at + 2 * FIVE <= recorded[s].count; at++) {
            double a[FIVE], b[FIVE];
            for (uint32_t i = 0; i < FIVE; i++) {
                a[i] = recorded[s].rates[at + 2 * i];
                b[i] = recorded[s].rates[at + 2 * i + 1] * 0.9;
            }
            assert_int_equal(psr_samples_compare(b, FIVE, a, FIVE), PSR_SAMPLES_LOWER);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_and_quartiles_are_interpolated),
        cmocka_unit_test(the_probability_counts_orders),
        cmocka_unit_test(both_conditions_must_hold),
        cmocka_unit_test(few_repetitions_call_nothing_different),
        cmocka_unit_test(equal_configurations_are_never_called_different),
        cmocka_unit_test(any_halves_of_equal_runs_are_called_different_less_than_once_in_a_hundred),
        cmocka_unit_test(a_tenth_slower_is_called_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
