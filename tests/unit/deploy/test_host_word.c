/* deploy/launch/hosts/host_word.h */
#include "tests/unit/expect.h"

#include "deploy/launch/hosts/host_word.h"

#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

typedef struct names {
    char text[1024];
    psr_text_end end;
    size_t most; /* after which on_name fails */
} names;

static psr_err on_name(void *context, const char *name, uint32_t slots)
{
    names *n = context;
    if (n->most-- == 0)
        return psr_fail(PSR_ERR_NOMEM, "enough");
    psr_text_add(&n->end, slots ? "%s:%u " : "%s ", name, slots);
    return PSR_OK;
}

static psr_err expand(const char *word, names *n)
{
    *n = (names){.most = 100};
    n->end = (psr_text_end){n->text, sizeof n->text};
    return psr_host_word_expand(word, strlen(word), on_name, n);
}

static void expect_names(const char *word, const char *text)
{
    names n;
    expect_ok(expand(word, &n));
    assert_string_equal(n.text, text);
}

static void expect_refused(const char *word, const char *detail)
{
    names n;
    assert_int_equal(expand(word, &n), PSR_ERR_FORMAT);
    assert_string_equal(psr_err_detail(), detail);
}

static void a_word_names_a_host(void **state)
{
    (void)state;
    expect_names("node1", "node1 ");
    expect_names("a-b_c.d", "a-b_c.d ");
    expect_names("user@node1:2", "user@node1:2 ");
    expect_names("10.0.0.3:1024", "10.0.0.3:1024 ");
}

static void brackets_name_several_in_order(void **state)
{
    (void)state;
    expect_names("node[1-4]", "node1 node2 node3 node4 ");
    expect_names("node[08-10,15]", "node08 node09 node10 node15 ");
    expect_names("[1-2].c:3", "1.c:3 2.c:3 ");
    expect_names("u@r[1-2]n[3-4]x:2", "u@r1n3x:2 u@r1n4x:2 u@r2n3x:2 u@r2n4x:2 ");
}

static void an_ipv6_address_has_brackets_where_slots_follow(void **state)
{
    (void)state;
    expect_names("::1", "::1 ");
    expect_names("[::1]", "::1 ");
    expect_names("me@[fe80::2%eth0]:2", "me@fe80::2%eth0:2 ");
    expect_names("fe80::2:2", "fe80::2:2 "); /* all of it is the address */
    expect_refused("[::1", "'[::1' lacks a ']'");
    expect_refused("[::zz]:2", "'[::zz]:2' is not a host's name");
    expect_refused("[fe80::1%eth;0]", "'[fe80::1%eth;0]' is not a host's name");
}

static void bad_brackets_are_refused(void **state)
{
    (void)state;
    static const char why[] =
        "is not understood; brackets hold numbers and ranges that go up, as node[1-4,7]";
    static const char *const bad[] = {"n[]",   "n[2-1]", "n[a]",     "n[1-]",        "n[-1]",
                                      "n[1,]", "n[1;2]", "n[1-2-3]", "n[1234567890]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char detail[256];
        snprintf(detail, sizeof detail, "'%s' %s", bad[i], why);
        expect_refused(bad[i], detail);
    }
    expect_refused("n[1", "'n[1' lacks a ']'");
    expect_refused("n[1][1][1][1][1][1][1][1][1]",
                   "'n[1][1][1][1][1][1][1][1][1]' has more than 8 pairs of brackets");
}

static void what_ssh_could_take_for_something_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"-x",  "u@-x", "-u@x", "@x", "u@",  "u@v@w", "a b",
                                      "a;b", "$(a)", "a'b",  "n]", "a%b", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char detail[256];
        snprintf(detail, sizeof detail, "'%s' is not a host's name", bad[i]);
        expect_refused(bad[i], detail);
    }
}

static void the_first_failure_ends_it(void **state)
{
    (void)state;
    names n = {.most = 2};
    n.end = (psr_text_end){n.text, sizeof n.text};
    assert_int_equal(psr_host_word_expand("n[1-999999999]", 14, on_name, &n), PSR_ERR_NOMEM);
    assert_string_equal(n.text, "n1 n2 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_names_a_host),
        cmocka_unit_test(brackets_name_several_in_order),
        cmocka_unit_test(an_ipv6_address_has_brackets_where_slots_follow),
        cmocka_unit_test(bad_brackets_are_refused),
        cmocka_unit_test(what_ssh_could_take_for_something_else_is_refused),
        cmocka_unit_test(the_first_failure_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
