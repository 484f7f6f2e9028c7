/* A command line as text: what a shell reads back. */
#include "tests/unit/expect.h"

#include "base/text/command_text.h"

#include <string.h>

static void words_that_a_shell_would_change_are_quoted(void **state)
{
    (void)state;
    char text[PSR_COMMAND_MAX];
    const char *const words[] = {"psring train", "--lr=0.1", "--out", "a b", "", "it's", "$x\x1b"};
    psr_command_text(7, words, text);
    assert_string_equal(text, "psring train --lr=0.1 --out 'a b' '' 'it'\\''s' '$x?'");
}

static void what_does_not_fit_is_cut_and_said(void **state)
{
    (void)state;
    static char large[PSR_COMMAND_MAX + 1], text[PSR_COMMAND_MAX];
    memset(large, 'x', sizeof large - 1);
    const char *const words[] = {"psring", "--a", large, "--b"};
    psr_command_text(4, words, text);
    assert_string_equal(text, "psring --a  ...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_a_shell_would_change_are_quoted),
        cmocka_unit_test(what_does_not_fit_is_cut_and_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
