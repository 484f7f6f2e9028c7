/* deploy/launch/hosts/hostfile.h */
#include "deploy/launch/hosts/hostfile.h"

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
    assert_int_equal(
        parse("# all\n\nnode1 slots=2\r\nuser@node2\t# one\n  10.0.0.3 slots=4", &hosts), PSR_OK);
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

#define FORM "a line is 'HOST slots=N max_slots=M', N and M from 1 to 1024"

static void a_bad_line_is_named_by_its_number(void **state)
{
    (void)state;
    refuse("a\nb slotz=2\n", "hosts line 2: 'slotz=2' is not understood; " FORM);
    refuse("a slots=0\n", "hosts line 1: 'slots=0' is not understood; " FORM);
    refuse("a slots=99999999999999999999\n",
           "hosts line 1: 'slots=99999999999999999999' is not understood; " FORM);
    refuse("a slots=2x\n", "hosts line 1: 'slots=2x' is not understood; " FORM);
    refuse("a slots=\n", "hosts line 1: 'slots=' is not understood; " FORM);
    refuse("a slots\n", "hosts line 1: 'slots' is not understood; " FORM);
    refuse("a slots=2 slots=3\n", "hosts line 1: 'slots=3' is not understood; " FORM);
    refuse("a:2 slots=3\n", "hosts line 1: 'a:2' and slots=3 say the same thing twice; give one");
    refuse("a slots=1000\na slots=1000\n", "hosts line 2: host a has more than 1024 slots");
    refuse("# nothing\n", "hosts names no host; " FORM);
    refuse("", "hosts names no host; " FORM);
}

static void max_slots_is_read_and_bounds_slots(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(
        parse("a slots=8 max_slots=8\nb max-slots=4 slots=2\nc max_slots = 3\nd cpus=2", &hosts),
        PSR_OK);
    static const uint32_t slots[] = {8, 2, 3, 2}, room[] = {8, 4, 3, 2};
    for (size_t i = 0; i < hosts.count; i++) {
        assert_int_equal(hosts.items[i].slots, slots[i]);
        assert_int_equal(psr_host_room(&hosts.items[i]), room[i]);
    }
    assert_int_equal(psr_hosts_room(&hosts), 17);
    psr_hosts_done(&hosts);
    assert_int_equal(parse("a slots=2 max_slots=4\na slots=2\n", &hosts), PSR_OK);
    assert_int_equal(hosts.items[0].slots, 4);
    psr_hosts_done(&hosts);
    refuse("a slots=3 max_slots=2\n", "hosts line 1: host a has 3 slots, more than its "
                                      "max_slots=2; give fewer slots or more max_slots");
    refuse("a slots=2 max_slots=3\na slots=2\n", "hosts line 2: host a has 4 slots, more than its "
                                                 "max_slots=3; give fewer slots or more max_slots");
}

static void a_word_can_name_several_hosts(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(
        parse("node[01-03] slots=2 max_slots=3\nme@node[02,04]:1 # two more\nnode03\n", &hosts),
        PSR_OK);
    assert_int_equal(hosts.count, 5);
    assert_string_equal(hosts.items[2].name, "node03");
    assert_int_equal(hosts.items[2].slots, 3);
    assert_string_equal(hosts.items[4].name, "me@node04");
    assert_int_equal(psr_hosts_slots(&hosts), 9);
    psr_hosts_done(&hosts);
    refuse("a\nnode[3-1]\n",
           "hosts line 2: 'node[3-1]' is not understood; brackets hold numbers and ranges that go "
           "up, as node[1-4,7]");
    refuse("n[1-4097]\n", "hosts line 1: more than 4096 hosts");
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    char line[5000];
    memset(line, 'a', sizeof line);
    line[sizeof line - 1] = '\0';
    refuse(
        line,
        "hosts line 1: it is longer than 4096 bytes; write one host, or a range of them, a line");
    line[300] = '\0';
    refuse(
        line,
        "hosts line 1: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..' is too long for a host's name");
}

/* Brackets say much in few bytes: it ends soon all the same. */
static void naming_hosts_without_end_is_refused(void **state)
{
    (void)state;
    char text[400] = "";
    for (int i = 0; i < 20; i++)
        strcat(text, "n[1-4096]\n");
    refuse(text, "hosts line 17: hosts are named more than 65536 times");
}

static void names_that_ssh_could_take_for_options_are_refused(void **state)
{
    (void)state;
    refuse("-oProxyCommand=x\n", "hosts line 1: '-oProxyCommand=x' is not a host's name");
    refuse("u@-oX\n", "hosts line 1: 'u@-oX' is not a host's name");
    refuse("a;reboot\n", "hosts line 1: 'a;reboot' is not a host's name");
    refuse("\x01\x02\n", "hosts line 1: '\?\?' is not a host's name");
}

static void a_list_is_read_and_refused_like_a_file(void **state)
{
    (void)state;
    psr_hosts hosts = {0};
    assert_int_equal(psr_hosts_from_list("a:2,n[1-2,4]:3,[::1]:2,b", &hosts), PSR_OK);
    static const char *const names[] = {"a", "n1", "n2", "n4", "::1", "b"};
    static const uint32_t slots[] = {2, 3, 3, 3, 2, 1};
    assert_int_equal(hosts.count, 6);
    for (size_t i = 0; i < hosts.count; i++) {
        assert_string_equal(hosts.items[i].name, names[i]);
        assert_int_equal(hosts.items[i].slots, slots[i]);
    }
    psr_hosts_done(&hosts);
    static const char *const bad[] = {"a:0", "a:x", "", "a,,b", "a:2,", "-x", "n[1-2", "n[1,2]]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(psr_hosts_from_list(bad[i], &hosts), PSR_ERR_USAGE);
    assert_int_equal(psr_hosts_from_list("a:x", &hosts), PSR_ERR_USAGE);
    assert_string_equal(
        psr_err_detail(),
        "-H: 'a:x' is not understood; behind ':' is a number of slots from 1 to 1024, and an IPv6 "
        "address is in brackets; give HOST or HOST:SLOTS, separated by commas");
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
        cmocka_unit_test(max_slots_is_read_and_bounds_slots),
        cmocka_unit_test(a_word_can_name_several_hosts),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(naming_hosts_without_end_is_refused),
        cmocka_unit_test(names_that_ssh_could_take_for_options_are_refused),
        cmocka_unit_test(a_list_is_read_and_refused_like_a_file),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
