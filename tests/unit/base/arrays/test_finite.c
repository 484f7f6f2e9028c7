#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arrays/finite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { COUNT = 133 }; /* whole vectors of every width and a rest */

static void numbers_of_every_size_are_finite(void **state)
{
    (void)state;
    float x[COUNT];
    const float sizes[] = {0, -0.0f, FLT_MAX, -FLT_MAX, FLT_MIN, FLT_TRUE_MIN, 1};
    for (int i = 0; i < COUNT; i++)
        x[i] = sizes[i % 7];
    assert_true(psr_finite(x, COUNT));
    assert_true(psr_finite(x, 0));
}

static void one_number_that_is_not_finite_is_found_wherever_it_stands(void **state)
{
    (void)state;
    const float wrong[] = {INFINITY, -INFINITY, NAN, -NAN};
    for (int i = 0; i < COUNT; i++) {
        float x[COUNT];
        for (int k = 0; k < COUNT; k++)
            x[k] = (float)k;
        x[i] = wrong[i % 4];
        assert_false(psr_finite(x, COUNT));
        assert_true(psr_finite(x, (size_t)i));
    }
}

static void a_nan_is_shown_without_its_sign(void **state)
{
    (void)state;
    const double wrong[] = {NAN, -NAN, INFINITY, -INFINITY, -1.5};
    const char *const words[] = {"nan", "nan", "inf", "-inf", "-1.5"};
    for (int i = 0; i < 5; i++) {
        char text[16];
        snprintf(text, sizeof text, "%g", psr_shown(wrong[i]));
        assert_string_equal(text, words[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_size_are_finite),
        cmocka_unit_test(one_number_that_is_not_finite_is_found_wherever_it_stands),
        cmocka_unit_test(a_nan_is_shown_without_its_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
