#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/finite.h"

#include <float.h>
#include <math.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_size_are_finite),
        cmocka_unit_test(one_number_that_is_not_finite_is_found_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
