/* deploy/agent/link_rate.h, as far as one host goes: tests/integration/test_lab.py has links. */
#include "tests/unit/expect.h"

#include "deploy/agent/link_rate.h"

static void the_last_half_of_the_bytes_counts(void **state)
{
    (void)state;
    /* slow at first, then 1000 bytes in 80 us: 100 Mbit/s */
    static const psr_link_sample samples[] = {
        {0, 10}, {1000000, 5000}, {9000000, 10000}, {9800000, 20000}};
    assert_int_equal(psr_link_rate_of(samples, 4), 100000000);
    assert_int_equal(psr_link_rate_of(samples, 2), 39920000); /* all but the first */
}

static void too_few_bytes_tell_nothing(void **state)
{
    (void)state;
    static const psr_link_sample few[] = {{0, 1}, {1000, 4095}};
    static const psr_link_sample at_once[] = {{5, 9000}, {5, 18000}};
    assert_int_equal(psr_link_rate_of(few, 0), 0);
    assert_int_equal(psr_link_rate_of(few, 1), 0);
    assert_int_equal(psr_link_rate_of(few, 2), 0);
    assert_int_equal(psr_link_rate_of(at_once, 2), 0);
}

static void loopback_is_not_measured(void **state)
{
    (void)state;
    psr_link_listener listener;
    uint64_t rate = 7;
    static const char token[] = "0123456789abcdef0123456789abcdef";
    expect_ok(psr_link_listen("127.0.0.1", &listener));
    assert_string_equal(listener.address, "127.0.0.1");
    assert_true(listener.port > 0);
    const psr_link_way way = {listener.address, listener.port, token, token};
    expect_failure(psr_link_measure(&listener, &way, &rate), PSR_ERR_UNSUPPORTED,
                   "127.0.0.1 is this host: there is no link between");
    assert_int_equal(rate, 7);
    psr_link_listener_done(&listener);
    psr_link_listener_done(&listener);
    assert_int_equal(psr_link_listen("nosuch0", &listener), PSR_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_half_of_the_bytes_counts),
        cmocka_unit_test(too_few_bytes_tell_nothing),
        cmocka_unit_test(loopback_is_not_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
