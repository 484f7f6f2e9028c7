#include "tests/unit/network_fixture.h"

#include "net/address/interface.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static void assert_address(const char *name, const char *address)
{
    char found[PSR_ADDRESS_BYTES];
    assert_ok(psr_interface_address(name, found));
    assert_string_equal(found, address);
}

static void a_name_or_an_address_of_this_machine_gives_the_address(void **state)
{
    (void)state;
    assert_address("lo", "127.0.0.1");
    assert_address("127.0.0.1", "127.0.0.1");
    assert_address("127.1.2.3", "127.1.2.3"); /* all of it is this machine's, though not listed */
    assert_address("::1", "::1");
}

static void what_is_none_is_refused_with_those_that_there_are(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "nosuch0",
        "192.0.2.1",
        "127.0.0",
        "fe80::1",
        "lo lo",
        "a name that is longer than that of any interface and of any address that there is"};
    char found[PSR_ADDRESS_BYTES] = "untouched";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_fails(psr_interface_address(names[i], found), PSR_ERR_USAGE,
                     "it has lo (127.0.0.1)");
    assert_string_equal(found, "untouched");
}

static void all_interfaces_at_once_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"*", "0.0.0.0", "::"};
    char found[PSR_ADDRESS_BYTES];
    for (size_t i = 0; i < 3; i++)
        assert_fails(psr_interface_address(names[i], found), PSR_ERR_USAGE, "name one");
}

static void loopback_is_told_from_the_rest(void **state)
{
    (void)state;
    assert_true(psr_address_is_loopback("127.0.0.1"));
    assert_true(psr_address_is_loopback("::1"));
    assert_false(psr_address_is_loopback("localhost"));
    assert_false(psr_address_is_loopback("::ffff:10.0.0.1"));
}

static void an_address_that_another_host_tells_is_one_hosts(void **state)
{
    (void)state;
    static const char *const good[] = {
        "10.0.0.7", "127.0.0.1",    "223.255.255.255", "fd00::7",        "::1",
        "fe80::1",  "fe80::1%eth0", "fe80::1%br-0.7",  "::ffff:10.0.0.7"};
    static const char *const bad[] = {"",
                                      "eth0",
                                      "0.0.0.0",
                                      "0.1.2.3",
                                      "224.0.0.1",
                                      "255.255.255.255",
                                      "010.0.0.7",
                                      "10.0.0",
                                      "10.0.0.7 ",
                                      "127.0.0.1%lo",
                                      "127.0.0.1%\x1b[2J",
                                      "::",
                                      "ff02::1",
                                      "::ffff:0.0.0.0",
                                      "fd00::7%eth0",
                                      "fe80::1%",
                                      "fe80::1%\x1b[2J",
                                      "fe80::1%a b",
                                      "fe80::1%a%b",
                                      "fe80::1%a-name-of-16-byt",
                                      "[::1]",
                                      "10.0.0.7:22"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!psr_address_is_a_hosts(good[i]))
            fail_msg("%s is one", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (psr_address_is_a_hosts(bad[i]))
            fail_msg("'%s' is none", bad[i]);
}

static void endpoints_are_written_for_both_kinds_of_address(void **state)
{
    (void)state;
    char text[64];
    psr_endpoint_format("10.0.0.7", 4242, text, sizeof text);
    assert_string_equal(text, "tcp://10.0.0.7:4242");
    psr_endpoint_format("127.0.0.1", 0, text, sizeof text);
    assert_string_equal(text, "tcp://127.0.0.1:*");
    psr_endpoint_format("fd00::7", 4242, text, sizeof text);
    assert_string_equal(text, "tcp://[fd00::7]:4242");
}

static void an_endpoint_of_this_host_is_told_from_others(void **state)
{
    (void)state;
    static const char *const others[] = {
        "tcp://192.0.2.1:4242", "tcp://lo:4242", "tcp://localhost:4242", "tcp://[2001:db8::1]:4242",
        "tcp://127.0.0.1",      "tcp://[::1",    "ipc:///tmp/127.0.0.1", ""};
    assert_true(psr_endpoint_is_own("tcp://127.0.0.1:4242"));
    assert_true(psr_endpoint_is_own("tcp://[::1]:4242"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(psr_endpoint_is_own(others[i]));
}

/* There may be none, on a machine without a network. */
static void the_address_towards_others_is_ones_own_and_no_loopback(void **state)
{
    (void)state;
    char address[PSR_ADDRESS_BYTES], own[PSR_ADDRESS_BYTES];
    psr_err err = psr_interface_to_others(address);
    if (err == PSR_ERR_NOT_FOUND)
        return;
    assert_ok(err);
    assert_false(psr_address_is_loopback(address));
    assert_ok(psr_interface_address(address, own));
    assert_string_equal(own, address);
    char endpoint[PSR_ADDRESS_BYTES + 16];
    psr_endpoint_format(address, 4242, endpoint, sizeof endpoint);
    assert_true(psr_endpoint_is_own(endpoint));
}

static void a_port_is_kept_until_it_is_given_back(void **state)
{
    (void)state;
    uint16_t port = 0, same;
    int fd = -1, again = -1;
    assert_ok(psr_interface_reserve("127.0.0.1", &port, &fd));
    assert_true(port > 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* who does not share it does not get it */
    assert_int_equal(bind(plain, (struct sockaddr *)&at, sizeof at), -1);
    close(plain);
    close(fd);
    same = port;
    assert_ok(psr_interface_reserve("127.0.0.1", &same, &again));
    assert_int_equal(same, port);
    assert_int_equal(listen(again, 1), 0);
    assert_fails(psr_interface_reserve("127.0.0.1", &same, &fd), PSR_ERR_USAGE,
                 "Address already in use");
    close(again);
    assert_fails(psr_interface_reserve("a name", &port, &fd), PSR_ERR_USAGE, "is no address");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_or_an_address_of_this_machine_gives_the_address),
        cmocka_unit_test(what_is_none_is_refused_with_those_that_there_are),
        cmocka_unit_test(all_interfaces_at_once_are_refused),
        cmocka_unit_test(loopback_is_told_from_the_rest),
        cmocka_unit_test(an_address_that_another_host_tells_is_one_hosts),
        cmocka_unit_test(endpoints_are_written_for_both_kinds_of_address),
        cmocka_unit_test(an_endpoint_of_this_host_is_told_from_others),
        cmocka_unit_test(the_address_towards_others_is_ones_own_and_no_loopback),
        cmocka_unit_test(a_port_is_kept_until_it_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
