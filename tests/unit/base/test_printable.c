/* base/text/printable.h: what may reach a terminal. */
#include "tests/unit/expect.h"

#include "base/text/printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_line(const char *text, const char *expected)
{
    char line[128];
    snprintf(line, sizeof line, "%s", text);
    psr_printable_line(line, strlen(line));
    assert_string_equal(line, expected);
    assert_int_equal(psr_is_printable(text, strlen(text)), strcmp(text, expected) == 0);
    assert_true(psr_is_printable(line, strlen(line)));
}

static void text_of_any_language_stays_as_it_is(void **state)
{
    (void)state;
    expect_line("", "");
    expect_line("worker 1 on b: ~}|", "worker 1 on b: ~}|");
    expect_line("Z\xc3\xbcrich, \xe6\x9d\xb1\xe4\xba\xac, \xf0\x9f\x90\x8d",
                "Z\xc3\xbcrich, \xe6\x9d\xb1\xe4\xba\xac, \xf0\x9f\x90\x8d");
    expect_line("\xc2\xa0\xc3\xbf\xe2\x80\xa7\xe2\x81\xaa",
                "\xc2\xa0\xc3\xbf\xe2\x80\xa7\xe2\x81\xaa"); /* next to what is taken out */
}

static void control_characters_become_question_marks(void **state)
{
    (void)state;
    expect_line("\x1b]0;owned\x07\x1b[2J\x7f\r\b", "?]0;owned??[2J???");
    expect_line("a\nb\tc", "a b c");
    for (int c = 0x80; c <= 0x9f; c++) { /* C1, as UTF-8 and alone */
        const char utf8[] = {'<', (char)0xc2, (char)c, '>', '\0'},
                   alone[] = {'<', (char)c, '>', '\0'};
        expect_line(utf8, "<?"
                          "?>");
        expect_line(alone, "<?>");
    }
}

static void a_byte_of_zero_is_a_control_character(void **state)
{
    (void)state;
    char text[] = "a\0b";
    assert_false(psr_is_printable(text, 3));
    psr_printable_line(text, 3);
    assert_string_equal(text, "a?b");
}

static void what_is_not_utf8_becomes_question_marks(void **state)
{
    (void)state;
    expect_line("\xff\xfe\xf8", "???");
    expect_line("\xc0\x9b[2J", "??[2J");      /* ESC, longer than need be */
    expect_line("\xe0\x80\x9b[2J", "???[2J"); /* and longer still */
    expect_line("\xf0\x80\x80\x9b[2J", "????[2J");
    expect_line("\xed\xa0\x80", "???");      /* a surrogate */
    expect_line("\xf4\x90\x80\x80", "????"); /* above U+10FFFF */
    expect_line("cut \xe6\x9d", "cut ??");   /* a character without its end */
    expect_line("\xe6\x1b[2J", "??[2J");     /* which hides no ESC */
}

static void marks_that_turn_or_end_a_line_become_question_marks(void **state)
{
    (void)state;
    expect_line("\xd8\x9c.", "??.");                   /* U+061C */
    expect_line("\xe2\x80\x8e\xe2\x80\x8f", "??????"); /* U+200E, U+200F */
    expect_line("\xe2\x80\xa8\xe2\x80\xae", "??????"); /* U+2028, U+202E */
    expect_line("\xe2\x81\xa6\xe2\x81\xa9", "??????"); /* U+2066, U+2069 */
}

static void of_a_text_newlines_and_tabs_stay(void **state)
{
    (void)state;
    char text[] = "a\n\tb\r\n\x1b[31mc\n";
    psr_printable_text(text, strlen(text));
    assert_string_equal(text, "a\n\tb?\n?[31mc\n");
}

static void what_is_printed_passes_the_filter(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    psr_print(file, "%s: %d\n", "\x1b[31m\xc2\x9b", 7);
    fclose(file);
    assert_string_equal(text, "?[31m??: 7\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_any_language_stays_as_it_is),
        cmocka_unit_test(control_characters_become_question_marks),
        cmocka_unit_test(a_byte_of_zero_is_a_control_character),
        cmocka_unit_test(what_is_not_utf8_becomes_question_marks),
        cmocka_unit_test(marks_that_turn_or_end_a_line_become_question_marks),
        cmocka_unit_test(of_a_text_newlines_and_tabs_stay),
        cmocka_unit_test(what_is_printed_passes_the_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
