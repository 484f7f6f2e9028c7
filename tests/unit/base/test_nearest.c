#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/text/nearest.h"

#include <string.h>

static void the_distance_counts_insertions_deletions_substitutions_and_swaps(void **state)
{
    (void)state;
    assert_int_equal(psr_edit_distance("ring", "ring"), 0);
    assert_int_equal(psr_edit_distance("ring", "rings"), 1);
    assert_int_equal(psr_edit_distance("ring", "rng"), 1);
    assert_int_equal(psr_edit_distance("ring", "rong"), 1);
    assert_int_equal(psr_edit_distance("bukcet", "bucket"), 1);
    assert_int_equal(psr_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(psr_edit_distance("", "abc"), 3);
    assert_int_equal(psr_edit_distance("abc", ""), 3);
}

static void words_beyond_the_limit_are_as_far_as_can_be(void **state)
{
    (void)state;
    char longer[65];
    memset(longer, 'x', sizeof longer - 1);
    longer[64] = '\0';
    assert_true(psr_edit_distance(longer, "x") == SIZE_MAX);
    longer[63] = '\0';
    assert_int_equal(psr_edit_distance(longer, "x"), 62);
    assert_int_equal(psr_edit_distance("x", longer), 62);
}

static void near_is_within_a_third_and_never_a_wholly_different_word(void **state)
{
    (void)state;
    assert_true(psr_is_near("bukcet-size", "bucket-size"));
    assert_true(psr_is_near("rong", "ring"));
    assert_false(psr_is_near("quux", "ring"));
    assert_false(psr_is_near("xy", "ps"));
    assert_false(psr_is_near("", "ps"));
}

static void of_two_near_words_the_nearer_is_offered_and_of_two_as_near_the_first(void **state)
{
    (void)state;
    assert_null(psr_nearer("quux", NULL, "ring"));
    assert_string_equal(psr_nearer("rong", NULL, "ring"), "ring");
    assert_string_equal(psr_nearer("resnet21", "resnet20", "resnet32"), "resnet20");
    assert_string_equal(psr_nearer("resnet21", "resnet32", "resnet20"), "resnet20");
    assert_string_equal(psr_nearer("resnet21", "resnet20", "resnet22"), "resnet20");
    assert_string_equal(psr_nearer("resnet21", "resnet20", "mlp"), "resnet20");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_distance_counts_insertions_deletions_substitutions_and_swaps),
        cmocka_unit_test(words_beyond_the_limit_are_as_far_as_can_be),
        cmocka_unit_test(near_is_within_a_third_and_never_a_wholly_different_word),
        cmocka_unit_test(of_two_near_words_the_nearer_is_offered_and_of_two_as_near_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
