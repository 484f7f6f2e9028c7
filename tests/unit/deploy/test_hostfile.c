/* deploy/launch/hostfile.h */
#include "deploy/launch/hostfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static psr_err parse(const char *text, psr_hosts *hosts)
{
    return psr_hostfile_parse("hosts", text, strlen(text), hosts);
}

static void hosts_slots_comments_and_blank_lines_are_read(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(parse("# all\n\nnode1 slots=2\r\nuser@node2\t# one\n  10.0.0.3 slots=4", &hosts),
                     PSR_OK);
    assert_int_equal(hosts.count, 3);
    assert_string_equal(hosts.items[0].name, "node1");
    assert_int_equal(hosts.items[0].slots, 2);
    assert_string_equal(hosts.items[1].name, "user@node2");
    assert_int_equal(hosts.items[1].slots, 1);
    assert_string_equal(hosts.items[2].name, "10.0.0.3");
    assert_int_equal(psr_hosts_slots(&hosts), 7);
    psr_hosts_done(&hosts);
}

static void a_host_named_twice_adds_its_slots(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(parse("a slots=2\nb\na slots=3\n", &hosts), PSR_OK);
    assert_int_equal(hosts.count, 2);
    assert_int_equal(hosts.items[0].slots, 5);
    psr_hosts_done(&hosts);
}

static void refuse(const char *text, const char *line)
{
    psr_hosts hosts = {0};
    assert_int_equal(parse(text, &hosts), PSR_ERR_FORMAT);
    assert_string_equal(psr_err_detail(), line);
    assert_null(hosts.items);
}

static void a_bad_line_is_named_by_its_number(void **state)
{
    (void)state;
    refuse("a\nb slotz=2\n",
           "hosts line 2: 'slotz=2' is not understood; a line is 'HOST slots=N', N from 1 to 1024");
    refuse("a slots=0\n",
           "hosts line 1: 'slots=0' is not understood; a line is 'HOST slots=N', N from 1 to 1024");
    refuse("a slots=99999999999999999999\n", "hosts line 1: 'slots=99999999999999999999' is not understood; "
                                             "a line is 'HOST slots=N', N from 1 to 1024");
    refuse("a slots=2x\n",
           "hosts line 1: 'slots=2x' is not understood; a line is 'HOST slots=N', N from 1 to 1024");
    refuse("a slots=1000\na slots=1000\n", "hosts line 2: host a has more than 1024 slots");
    refuse("# nothing\n", "hosts names no host; a line is 'HOST slots=N'");
}

static void names_that_ssh_could_take_for_options_are_refused(void **state)
{
    (void)state;
    refuse("-oProxyCommand=x\n",
           "hosts line 1: '-oProxyCommand=x' is not a host's name; a line is 'HOST slots=N'");
    refuse("u@-oX\n", "hosts line 1: 'u@-oX' is not a host's name; a line is 'HOST slots=N'");
    refuse("a;reboot\n", "hosts line 1: 'a;reboot' is not a host's name; a line is 'HOST slots=N'");
    refuse("\x01\x02\n", "hosts line 1: '\?\?' is not a host's name; a line is 'HOST slots=N'");
}

static void a_list_is_read_and_refused_like_a_file(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(psr_hosts_from_list("a:2,b", &hosts), PSR_OK);
    assert_int_equal(hosts.items[0].slots, 2);
    assert_int_equal(hosts.items[1].slots, 1);
    psr_hosts_done(&hosts);
    static const char *const bad[] = {"a:0", "a:x", "", "a,,b", "a:2,", "-x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(psr_hosts_from_list(bad[i], &hosts), PSR_ERR_USAGE);
    assert_int_equal(psr_hosts_from_list("a:x", &hosts), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(),
                        "-H: 'a:x' is not understood; give HOST or HOST:SLOTS, separated by commas");
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(psr_hostfile_read("/nonexistent/hosts", &hosts), PSR_ERR_NOT_FOUND);
    assert_non_null(strstr(psr_err_detail(), "/nonexistent/hosts"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_slots_comments_and_blank_lines_are_read),
        cmocka_unit_test(a_host_named_twice_adds_its_slots),
        cmocka_unit_test(a_bad_line_is_named_by_its_number),
        cmocka_unit_test(names_that_ssh_could_take_for_options_are_refused),
        cmocka_unit_test(a_list_is_read_and_refused_like_a_file),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
