/* Durations, and the place of a run in its data. */
#include "tests/unit/expect.h"

#include "base/config/config.h"
#include "base/config/pace.h"

#include <stdio.h>
#include <string.h>

static void durations_read_back(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
        uint64_t steps; /* of epochs of 7 */
    } right[] = {{"0", "0", 0},           {"1000", "1000", 1000}, {"1e3", "1000", 1000},
                 {"30e", "30e", 210},     {"0.5e", "0.5e", 4},    {"0.50e", "0.5e", 4},
                 {"0.125e", "0.125e", 1}, {"2.000e", "2e", 14}};
    static const char *const wrong[] = {"",    "e",    "-1",  "1.5",      "0.1234e", ".5e",
                                        "5.e", "1e5e", "1 e", "1000001e", "30E",     "30ee"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        psr_duration d, again;
        char text[64];
        assert_true(psr_duration_read(right[i].text, &d));
        psr_duration_print(d, text, sizeof text);
        assert_string_equal(text, right[i].printed);
        assert_true(psr_duration_read(text, &again));
        assert_memory_equal(&d, &again, sizeof d);
        assert_int_equal(psr_duration_steps(d, 7), right[i].steps);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        psr_duration d;
        if (psr_duration_read(wrong[i], &d))
            fail_msg("'%s'", wrong[i]);
    }
}

static psr_duration duration(const char *text)
{
    psr_duration d;
    assert_true(psr_duration_read(text, &d));
    return d;
}

/* next_due says what due says, from every step on. */
static void expect_due(const psr_pace *pace, const char *every, const uint64_t *right, size_t count,
                       uint64_t last)
{
    const psr_duration d = duration(every);
    size_t at = 0;
    for (uint64_t step = 1; step <= last; step++) {
        const bool is = at < count && right[at] == step;
        if (psr_pace_due(pace, d, step) != is)
            fail_msg("every %s: step %d is%s due", every, (int)step, is ? " not" : "");
        if (at < count)
            assert_int_equal(psr_pace_next_due(pace, d, step - 1), right[at]);
        at += is;
    }
    assert_int_equal(at, count);
}
#define EXPECT_DUE(pace, every, last, ...)                                                         \
    expect_due(pace, every, (const uint64_t[]){__VA_ARGS__},                                       \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), last)

static void epochs_fall_due_with_the_step_in_which_they_are_over(void **state)
{
    (void)state;
    const psr_deal deal = {.count = 50, .workers = 2, .batch_size = 4}; /* 7 steps */
    const psr_pace pace = psr_pace_of(&deal, false);
    EXPECT_DUE(&pace, "1e", 22, 7, 14, 21);
    EXPECT_DUE(&pace, "0.5e", 22, 4, 7, 11, 14, 18, 21);
    EXPECT_DUE(&pace, "3e", 22, 21);
    EXPECT_DUE(&pace, "5", 22, 5, 10, 15, 20);
    EXPECT_DUE(&pace, "0.001e", 4, 1, 2, 3, 4); /* several in a step count once */
    assert_false(psr_pace_due(&pace, (psr_duration){0}, 7));
    assert_true(psr_pace_next_due(&pace, (psr_duration){0}, 7) == UINT64_MAX);
}

static void steps_are_those_of_the_deal(void **state)
{
    (void)state;
    psr_deal deal = {.count = 50, .workers = 3, .batch_size = 4};
    assert_int_equal(psr_deal_steps(&deal, 0), 5); /* shares of 17, 17, 16 */
    assert_int_equal(psr_deal_steps(&deal, 12), 4);
    assert_int_equal(psr_deal_steps(&deal, 48), 1);
    assert_int_equal(psr_deal_steps(&deal, 50), 0);
    deal.partition = PSR_PARTITION_DROP;
    assert_int_equal(psr_deal_steps(&deal, 0), 4);
    assert_int_equal(psr_deal_steps(&deal, 48), 0);
    deal.partition = PSR_PARTITION_EXACT;
    deal.drop_last = true;
    assert_int_equal(psr_deal_steps(&deal, 0), 4);
    assert_int_equal(psr_deal_steps(&deal, 48), 0);
}

static void expect_place(const psr_pace *pace, uint64_t steps, uint64_t epoch, uint32_t used)
{
    uint64_t is_epoch;
    uint32_t is_used;
    psr_pace_place(pace, steps, &is_epoch, &is_used);
    if (is_epoch != epoch || is_used != used)
        fail_msg("after %d steps: epoch %d, %d samples", (int)steps, (int)is_epoch, (int)is_used);
}

/* From four workers to two in the middle of an epoch, and from these to three. */
static void the_rest_of_an_epoch_is_dealt_out_anew(void **state)
{
    (void)state;
    const psr_deal four = {.count = 49, .workers = 4, .batch_size = 4},
                   two = {.count = 49, .workers = 2, .batch_size = 4},
                   three = {.count = 49, .workers = 3, .batch_size = 4};
    const psr_pace begun = psr_pace_of(&four, false); /* 4 steps */
    expect_place(&begun, 6, 1, 32);
    expect_place(&begun, 8, 2, 0);
    const psr_pace same = psr_pace_after(&begun, &four, 6);
    assert_memory_equal(&same, &begun, sizeof same);
    const psr_pace halved = psr_pace_after(&begun, &two, 6);
    assert_int_equal(halved.rest_steps, 3); /* 17 samples: 9 and 8 */
    expect_place(&halved, 6, 1, 32);
    expect_place(&halved, 8, 1, 48);
    expect_place(&halved, 9, 2, 0);
    expect_place(&halved, 9 + 7 + 1, 3, 8);
    assert_int_equal(psr_pace_total(&halved, 4), 9 + 2 * 7);
    assert_true(psr_pace_clock(&halved, 6) == 6 && psr_pace_clock(&halved, 9) == 8 &&
                psr_pace_clock(&halved, 16) == 12);
    EXPECT_DUE(&halved, "2e", 23, 9, 23);
    const psr_pace again = psr_pace_after(&halved, &three, 8);
    assert_int_equal(again.rest_steps, 1); /* one sample */
    expect_place(&again, 9, 2, 0);
    assert_true(psr_pace_clock(&again, 9) == 8);
    assert_int_equal(psr_pace_total(&again, 3), 9 + 5);
}

static void a_pace_reads_back(void **state)
{
    (void)state;
    const psr_deal four = {.count = 49, .workers = 4, .batch_size = 4},
                   three = {.count = 49, .workers = 3, .batch_size = 4, .drop_last = true};
    const psr_pace begun = psr_pace_of(&four, true), pace = psr_pace_after(&begun, &three, 6);
    psr_pace again;
    char text[PSR_PACE_TEXT_MAX], cut[PSR_PACE_TEXT_MAX];
    psr_pace_print(&pace, text);
    expect_ok(psr_pace_read(text, &again));
    psr_pace_print(&again, cut);
    assert_string_equal(text, cut);
    for (uint64_t step = 6; step < 40; step++)
        assert_true(psr_pace_clock(&pace, step) == psr_pace_clock(&again, step));
    for (size_t i = 0; text[i] != '\0'; i++) { /* cut anywhere before its last number */
        snprintf(cut, sizeof cut, "%.*s", (int)i, text);
        if (strstr(cut, "clock=") == NULL || cut[i - 1] == '=')
            assert_int_equal(psr_pace_read(cut, &again), PSR_ERR_FORMAT);
    }
    static const char *const wrong[] = {"count=49 workers=0 batch=4 partition=0 drop=0 by-steps=0 "
                                        "unit=4 step=6 epoch=1 used=32 clock=6",
                                        "count=49 workers=4 batch=4 partition=3 drop=0 by-steps=0 "
                                        "unit=4 step=6 epoch=1 used=32 clock=6",
                                        "count=49 workers=4 batch=4 partition=0 drop=0 by-steps=0 "
                                        "unit=0 step=6 epoch=1 used=32 clock=6",
                                        "count=49 workers=4 batch=4 partition=0 drop=0 by-steps=0 "
                                        "unit=4 step=6 epoch=1 used=49 clock=6",
                                        "count=49 workers=4 batch=4 partition=0 drop=0 by-steps=0 "
                                        "unit=4 step=6 epoch=1 used=32 clock=nan",
                                        "count=0 workers=4 batch=4 partition=0 drop=0 by-steps=0 "
                                        "unit=4 step=6 epoch=1 used=0 clock=6"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(psr_pace_read(wrong[i], &again), PSR_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_read_back),
        cmocka_unit_test(epochs_fall_due_with_the_step_in_which_they_are_over),
        cmocka_unit_test(steps_are_those_of_the_deal),
        cmocka_unit_test(the_rest_of_an_epoch_is_dealt_out_anew),
        cmocka_unit_test(a_pace_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
