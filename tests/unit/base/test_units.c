/* base/text/units.h */
#include "tests/unit/expect.h"

#include "base/text/units.h"

#include <string.h>

static bool rate(const char *text, uint64_t *ret_rate)
{
    return psr_rate_parse(text, strlen(text), ret_rate);
}

static void rates_are_decimal_bits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t rate;
    } known[] = {
        {"100Mbit", 100000000}, {"1Gbit", 1000000000}, {"2.5gbit", 2500000000},
        {"1500bit", 1500},      {"1.5Kbit", 1500},     {"1000Gbit", 1000000000000},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint64_t read = 0;
        assert_true(rate(known[i].text, &read));
        assert_int_equal(read, known[i].rate);
    }
    static const char *const wrong[] = {"",       "100",      "Mbit",   "-1Mbit",  "1e3Mbit",
                                        "100MB",  "1 Mbit",   "999bit", "0Mbit",   "nanbit",
                                        ".5Gbit", "1..5Mbit", "1Mbits", "1001Gbit"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(rate(wrong[i], &(uint64_t){0}));
}

static void a_printed_rate_reads_back(void **state)
{
    (void)state;
    static const uint64_t rates[] = {1000,       1001,      12345,        100000000,
                                     2500000000, 999999999, 1000000000000};
    char text[PSR_RATE_TEXT_BYTES];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        uint64_t read = 0;
        psr_rate_print(rates[i], text);
        assert_true(rate(text, &read));
        assert_int_equal(read, rates[i]);
    }
    psr_rate_print(2500000000, text);
    assert_string_equal(text, "2.5Gbit");
    psr_rate_print(1234567, text);
    assert_string_equal(text, "1234.567Kbit");
}

static void durations_have_a_unit(void **state)
{
    (void)state;
    double s = 0;
    assert_true(psr_duration_parse("1ms", 3, &s));
    assert_true(s == 1e-3);
    assert_true(psr_duration_parse("250us", 5, &s));
    assert_true(s > 249e-6 && s < 251e-6);
    assert_true(psr_duration_parse("0.5s", 4, &s));
    assert_true(s == 0.5);
    assert_false(psr_duration_parse("5", 1, &s));
    assert_false(psr_duration_parse("3601s", 5, &s));
    assert_false(psr_duration_parse("1min", 4, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_decimal_bits),
        cmocka_unit_test(a_printed_rate_reads_back),
        cmocka_unit_test(durations_have_a_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
