/* What the progress bar says at every width. */
#include "tests/unit/expect.h"

#include "base/show/bar.h"

#include <math.h>
#include <string.h>

static const psr_bar training = {
    .step = 1234, .total = 100000, .images_per_s = 20498, .loss = 1.23456, .left_s = 5025};
static const psr_bar evaluating = {.step = 300,
                                   .total = 1000,
                                   .images_per_s = 20498,
                                   .loss = 1.2,
                                   .left_s = 9,
                                   .counted = 3200,
                                   .samples = 10000};

static void expect_text(const psr_bar *bar, unsigned width, const char *expected)
{
    char text[PSR_BAR_TEXT_MAX];
    psr_bar_print(bar, width, text);
    assert_string_equal(text, expected);
}

static void what_does_not_fit_is_left_out_and_the_place_stays(void **state)
{
    (void)state;
    expect_text(
        &training, 120,
        "[..............................] 1234/100000  20498 images/s  loss 1.2346  1:23:45 left");
    expect_text(&training, 80,
                "[......................] 1234/100000  20498 images/s  loss 1.2346  1:23:45 left");
    expect_text(&training, 60, "[..................] 1234/100000  loss 1.2346  1:23:45 left");
    expect_text(&training, 40, "1234/100000  loss 1.2346  1:23:45 left");
    expect_text(&training, 30, "1234/100000  1:23:45 left");
    expect_text(&training, 20, "[.....] 1234/100000");
    expect_text(&training, 10, "1%");
    expect_text(&training, 2, "1");
    expect_text(&training, 0, "");
    expect_text(&evaluating, 80,
                "[#########.....................] 300/1000  evaluating 3200/10000");
    expect_text(&evaluating, 30, "[#....] evaluating 3200/10000");
    expect_text(&evaluating, 20, "eval 3200/10000");
    expect_text(&evaluating, 15, "evaluating 32%");
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    const psr_bar bars[] = {
        training,
        evaluating,
        {.step = 1, .total = 2, .loss = NAN, .left_s = -1},
        {.step = 0x1p40, .total = 0x1p40, .images_per_s = 1e12, .loss = -1e300, .left_s = 359999},
        {.step = 0x1p40, .total = 0x1p40, .counted = 4e9, .samples = 4e9, .left_s = INFINITY},
        {.step = 0, .total = 0, .loss = INFINITY, .left_s = NAN}};
    char text[PSR_BAR_TEXT_MAX];
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++)
        for (unsigned width = 1; width <= 300; width++) {
            psr_bar_print(&bars[i], width, text);
            assert_true(strlen(text) < width);
            assert_true(width == 1 || text[0] != '\0');
        }
}

static void a_line_for_a_log_says_all(void **state)
{
    (void)state;
    char text[PSR_BAR_TEXT_MAX];
    psr_bar_print_line(&training, text);
    assert_string_equal(text, "step 1234/100000  20498 images/s  loss 1.2346  1:23:45 left");
    psr_bar_print_line(&evaluating, text);
    assert_string_equal(text, "step 300/1000  evaluating: 3200 of 10000 samples");
    psr_bar_print_line(
        &(psr_bar){.step = 1, .total = 2, .images_per_s = 1.25, .loss = NAN, .left_s = -1}, text);
    assert_string_equal(text, "step 1/2  1.2 images/s  -:-- left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_left_out_and_the_place_stays),
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(a_line_for_a_log_says_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
