#include "net/trust/keys/zpl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/expect.h"

#include <czmq.h>

/* What psr_zpl_next reads, as lines "LEVEL NAME=VALUE". NULL: it refuses the text. */
static char *read_by_us(const char *text, size_t size)
{
    psr_zpl zpl = psr_zpl_begin(text, size);
    psr_zpl_item item;
    bool end = false;
    char *lines = strdup("");
    while (psr_zpl_next(&zpl, &item, &end) == PSR_OK && !end) {
        char *more;
        assert_true(asprintf(&more, "%s%d %.*s=%.*s\n", lines, item.level, (int)item.name.length,
                             item.name.at, (int)item.value.length, item.value.at) >= 0);
        free(lines);
        lines = more;
    }
    if (end)
        return lines;
    free(lines);
    return NULL;
}

static int add_line(zconfig_t *item, void *context, int level)
{
    char **lines = context, *more;
    if (level == 0)
        return 0;
    assert_true(asprintf(&more, "%s%d %s=%s\n", *lines, level - 1, zconfig_name(item),
                         zconfig_value(item)) >= 0);
    free(*lines);
    *lines = more;
    return 0;
}

/* The same by czmq, which tells standard output what it refuses. */
static char *read_by_czmq(const char *text)
{
    const int out = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);
    fflush(stdout);
    assert_true(dup2(nowhere, STDOUT_FILENO) >= 0);
    zconfig_t *root = zconfig_str_load(text);
    fflush(stdout);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    close(out);
    close(nowhere);
    if (root == NULL)
        return NULL;
    char *lines = strdup("");
    zconfig_execute(root, add_line, &lines);
    zconfig_destroy(&root);
    return lines;
}

/* "a = #": czmq takes the comment for the value where a space stands before it. We refuse it. */
static bool has_comment_for_value(const char *text)
{
    for (const char *at = text; (at = strchr(at, '=')) != NULL; at++)
        if (at[1 + strspn(at + 1, " \t")] == '#')
            return true;
    return false;
}

static void read_alike(const char *text)
{
    if (has_comment_for_value(text))
        return;
    char *ours = read_by_us(text, strlen(text)), *theirs = read_by_czmq(text);
    if (ours == NULL || theirs == NULL) {
        if (ours != theirs)
            fail_msg("\"%s\" is refused by %s alone", text, ours == NULL ? "us" : "czmq");
    } else {
        assert_string_equal(ours, theirs);
    }
    free(ours);
    free(theirs);
}

static void texts_are_read_as_czmq_reads_them(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "\n",
                                        "a",
                                        "a\n",
                                        "a = 1\nb = 2\n",
                                        "a\n    b = 1\n        c = 2\nd\n    e\n",
                                        "# comment\na = 1 # behind\n",
                                        "a = \"1 # not a comment\"\n",
                                        "a = 'it\"s'\n",
                                        "a = \"it's\" # x\n",
                                        "a=1\n",
                                        "a =1\n",
                                        "a= 1 2 3  \n",
                                        "a = \n",
                                        "a = \"\"\n",
                                        "a = #x\n",
                                        "a # x\n",
                                        "a = 1\r\n    b = 2\r\n",
                                        "    # indented comment\na\n",
                                        "$-_@.&+/x = 1\n",
                                        "a\n\n\n    b\n",
                                        "a = \"x\n",
                                        "a = 'x\"\n",
                                        "a = \"x\" y\n",
                                        "a b\n",
                                        "  a\n",
                                        "   # x\n",
                                        "a\n        b\n",
                                        "    a\n",
                                        "/a\n",
                                        "a/\n",
                                        "= 1\n",
                                        "\"a\" = 1\n",
                                        "a = 1 # \"\n",
                                        "a = x\"y\"\n",
                                        "a\n    b\nc\n        d\n",
                                        "a/b = 1\n",
                                        "a\t=\t1\n",
                                        "\ta\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        read_alike(texts[i]);
}

/* Of random texts of the characters that mean something. */
static void random_texts_are_read_as_czmq_reads_them(void **state)
{
    (void)state;
    static const char alphabet[] = "ab/=\"'#    \n\n";
    uint32_t random = 12345;
    for (int round = 0; round < 20000; round++) {
        char text[25];
        size_t length = (size_t)(round % 24);
        for (size_t i = 0; i < length; i++) {
            random = random * 1664525u + 1013904223u;
            text[i] = alphabet[(random >> 16) % (sizeof alphabet - 1)];
        }
        text[length] = '\0';
        read_alike(text);
    }
}

static void refused(const char *text, size_t size, const char *detail)
{
    psr_zpl zpl = psr_zpl_begin(text, size);
    psr_zpl_item item;
    bool end = false;
    psr_err err;
    while ((err = psr_zpl_next(&zpl, &item, &end)) == PSR_OK && !end)
        ;
    expect_failure(err, PSR_ERR_FORMAT, detail);
}

static void what_is_refused_is_named_by_its_line(void **state)
{
    (void)state;
    refused("a = \"x", 6, "line 1: a value lacks its closing \"");
    refused("a\n\nb = 'x' y", 12, "line 3: something stands behind the value");
    refused("a = # x", 7, "line 1: a comment stands where the value should be");
    refused("a b", 3, "line 1: it should be NAME or NAME = VALUE");
    refused("= 1", 3, "line 1: it should be NAME or NAME = VALUE");
    refused("a/ = 1", 6, "line 1: it should be NAME or NAME = VALUE");
    refused("a\n  b", 5, "line 2: it is indented by 2 spaces, which is no multiple of 4");
    refused("a\n        b", 11, "line 2: it is indented deeper than what it could be an item of");
    refused("a\0b", 3, "line 1: it has a control character");
    refused("a = \x1b[2J", 9, "line 1: it has a control character");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_as_czmq_reads_them),
        cmocka_unit_test(random_texts_are_read_as_czmq_reads_them),
        cmocka_unit_test(what_is_refused_is_named_by_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
