/* deploy/lab/load.h */
#include "tests/unit/expect.h"

#include "deploy/lab/load.h"

#include <math.h>
#include <string.h>

static const char stat_text[] = "cpu  300 0 100 1600 0 0 0 0 0 0\n"
                                "cpu0 100 10 20 700 30 1 2 37 50 50\n"
                                "cpu1 200 0 50 700 50 0 0 0 0 0\n"
                                "intr 1 2 3\n";
/* columns: packets, dropped, .. in hexadecimal */
static const char softnet_text[] = "0000ffff 0000000a 00000001 00000000\n"
                                   "0000ffff 00000001 00000000 00000000\n";

static bool only(const void *context, unsigned processor)
{
    return processor == *(const unsigned *)context;
}

static void ticks_are_those_of_the_processors_that_may_be_used(void **state)
{
    (void)state;
    psr_lab_ticks ticks;
    const unsigned one = 1;
    expect_ok(psr_lab_ticks_parse(stat_text, softnet_text, NULL, NULL, &ticks));
    /* what waits for a disk is idle, what another machine stole is busy, guests count once */
    assert_int_equal(ticks.all, 900 + 1000);
    assert_int_equal(ticks.busy, 170 + 250);
    assert_int_equal(ticks.input_drops, 11);
    expect_ok(psr_lab_ticks_parse(stat_text, softnet_text, only, &one, &ticks));
    assert_int_equal(ticks.all, 1000);
    assert_int_equal(ticks.busy, 250);
    expect_failure(psr_lab_ticks_parse("cpu0 1 2 3\n", "", NULL, NULL, &ticks), PSR_ERR_FORMAT,
                   "/proc/stat: a processor has fewer than 8 numbers");
    expect_failure(psr_lab_ticks_parse("", "", NULL, NULL, &ticks), PSR_ERR_FORMAT,
                   "/proc/stat tells of no processor");
    expect_ok(psr_lab_ticks_read(&ticks));
    assert_true(ticks.all >= ticks.busy);
}

/* A second for each of busy's numbers, in percent, the first ending at 1. */
static psr_lab_load recorded(const int *busy, size_t count)
{
    psr_lab_load load = {0};
    psr_lab_ticks ticks = {.busy = 5, .all = 1000, .input_drops = 3};
    expect_ok(psr_lab_load_add(&load, &ticks, 0));
    for (size_t i = 0; i < count; i++) {
        ticks.busy += (uint64_t)busy[i];
        ticks.all += 100;
        expect_ok(psr_lab_load_add(&load, &ticks, (double)i + 1));
    }
    return load;
}

static void figures_of(const psr_lab_load *load, double from_s, double to_s,
                       psr_lab_load_figures *ret_figures)
{
    const psr_lab_span span = {from_s, to_s};
    psr_lab_load_figures_of(load, &span, 1, ret_figures);
}

static void shares_are_those_of_the_time_that_is_asked_for(void **state)
{
    (void)state;
    const int busy[] = {100, 100, 20, 40, 95, 90, 100};
    psr_lab_load load = recorded(busy, 7);
    psr_lab_load_figures f;
    figures_of(&load, 2.5, 6.5, &f);
    assert_int_equal(f.samples, 4);
    assert_true(fabs(f.busy_share - 0.6125) < 1e-6);
    assert_true(f.saturated_share == 0.25); /* 90 is not above 90 */
    figures_of(&load, -INFINITY, INFINITY, &f);
    assert_int_equal(f.samples, 7);
    figures_of(&load, 100, 200, &f);
    assert_int_equal(f.samples, 0);
    assert_true(f.busy_share == 0 && f.saturated_share == 0);
    const psr_lab_span runs[] = {{2.5, 3.5}, {3, 4.5}, {5.5, 6.5}}; /* two of them overlap */
    psr_lab_load_figures_of(&load, runs, 3, &f);
    assert_int_equal(f.samples, 3);
    assert_true(fabs(f.busy_share - 0.5) < 1e-6);
    psr_lab_load_done(&load);
}

static void a_result_is_invalid_when_this_machine_was_the_limit(void **state)
{
    (void)state;
    char why[PSR_LAB_WHY_BYTES];
    int busy[40];
    for (size_t i = 0; i < 40; i++)
        busy[i] = i == 7 ? 100 : 60;
    psr_lab_load load = recorded(busy, 40);
    psr_lab_load_figures f;
    figures_of(&load, 0, 100, &f);
    assert_true(psr_lab_is_valid(&f, 0, why)); /* one of 40 */
    assert_string_equal(why, "");
    psr_lab_load_done(&load);

    busy[8] = 91; /* two of 40: 5% */
    load = recorded(busy, 40);
    figures_of(&load, 0, 100, &f);
    assert_false(psr_lab_is_valid(&f, 0, why));
    assert_string_equal(why, "this machine's processors were all busy for 5% of it; take fewer "
                             "hosts, slower links, or --backend played:PROFILE");
    psr_lab_load_done(&load);
}

static void a_result_is_invalid_when_packets_were_lost_outside_the_lab(void **state)
{
    (void)state;
    char why[PSR_LAB_WHY_BYTES];
    psr_lab_load_figures f = {.samples = 40};
    assert_true(psr_lab_is_valid(&f, 0, why));
    assert_false(psr_lab_is_valid(&f, 2, why));
    assert_string_equal(why, "the hosts' own ends of their links dropped 2 packets, which no "
                             "network card does");
    f.input_drops = 7;
    assert_false(psr_lab_is_valid(&f, 0, why));
    assert_string_equal(why, "this machine's kernel dropped 7 packets before a host saw them "
                             "(net.core.netdev_max_backlog)");
}

static void a_short_result_is_not_called_valid(void **state)
{
    (void)state;
    char why[PSR_LAB_WHY_BYTES];
    const psr_lab_load_figures f = {.samples = PSR_LAB_SAMPLES_LEAST - 1};
    assert_false(psr_lab_is_valid(&f, 0, why));
    assert_string_equal(why, "it took less than 2 s, too short to tell how busy this machine was");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_those_of_the_processors_that_may_be_used),
        cmocka_unit_test(shares_are_those_of_the_time_that_is_asked_for),
        cmocka_unit_test(a_result_is_invalid_when_this_machine_was_the_limit),
        cmocka_unit_test(a_result_is_invalid_when_packets_were_lost_outside_the_lab),
        cmocka_unit_test(a_short_result_is_not_called_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
