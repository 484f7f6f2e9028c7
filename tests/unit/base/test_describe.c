#include "tests/unit/expect.h"

#include "base/config/describe.h"
#include "base/config/manual.h"
#include "base/config/options_argp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What fills a file in memory. */
typedef struct page {
    char *text;
    size_t size;
    FILE *to;
} page;

static void open_page(page *p)
{
    *p = (page){0};
    p->to = open_memstream(&p->text, &p->size);
    assert_non_null(p->to);
}

static void expect_page(page *p, const char *text)
{
    assert_int_equal(fclose(p->to), 0);
    assert_string_equal(p->text, text);
    free(p->text);
}

static void words_of_an_argument_are_what_is_typed_and_what_stands_for_files(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *words;
    } cases[] = {
        {"N", ""},
        {"rank|arrival", "rank arrival"},
        {"bsp|ssp:K|async", "bsp ssp: async"},
        {"DIR|fashion-mnist|synthetic[:SPEC]", "@directory fashion-mnist synthetic"},
        {"none|topk:R|1bit", "none topk: 1bit"},
        {"RUN|FILE", "@directory @file"},
        {"HOST:PORT|SOCKET", "@file"},
        {"HOST:N,HOST:N", ""},
        {"M[,M,M]", ""},
        {"-", ""},
        {"CMD", "@command"},
        {"DIR...", "@directory"},
        {"DIR\n--shared FILE", "@directory"},
        {"-- PROGRAM [ARGUMENT...]", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[64];
        assert_true(psr_describe_argument(cases[i].argument, words, sizeof words));
        assert_string_equal(words, cases[i].words);
    }
    char little[8];
    assert_false(psr_describe_argument("rank|arrival", little, sizeof little));
}

static void a_text_is_shown_as_it_is(void **state)
{
    (void)state;
    static const char text[] = ".so of lines, -1 and a--b, well-known \\n\n'quoted'\n\nnew\n  "
                               "psring train \\\n    -x\nbehind\n";
    page p;
    open_page(&p);
    psr_manual_text(p.to, text, strlen(text));
    expect_page(
        &p, "\\&.so of lines, \\-1 and a\\-\\-b, well-known \\en\n\\&'quoted'\n.PP\nnew\n.PP\n.RS "
            "2\n.EX\npsring train \\e\n  \\-x\n.EE\n.RE\n.PP\nbehind\n");
}

static void a_page_begins_with_name_and_first_sentence(void **state)
{
    (void)state;
    page p;
    open_page(&p);
    psr_manual_begin(p.to, "psring train", "Trains by 1.5 means, or ends. More.", "2026-01-02");
    expect_page(&p, ".TH PSRING\\-TRAIN 1 \"2026-01-02\" \"psring " PSR_VERSION
                    "\" \"psring\"\n.SH NAME\npsring\\-train \\- trains by 1.5 means, or ends\n");
    open_page(&p);
    psr_manual_see_also(p.to, "psring psring-run");
    expect_page(&p, ".SH SEE ALSO\n.BR psring (1),\n.BR psring\\-run (1)\n");
}

/* ---- a program with options of its own and the table ---- */

static error_t parse(int key, char *text, struct argp_state *state)
{
    (void)key;
    (void)text;
    (void)state;
    return ARGP_ERR_UNKNOWN;
}

static const struct argp_option own[] = {{"name", 'n', "FILE", 0, "what it is called", 0},
                                         {"called", 0, NULL, OPTION_ALIAS, NULL, 0},
                                         {"secret", 1, NULL, OPTION_HIDDEN, "nobody's", 0},
                                         {NULL, 0, NULL, 0, "More:", 1},
                                         {NULL, 'H', "HOST", 0, "where", 1},
                                         {"level", 2, "low|high", OPTION_ARG_OPTIONAL, "how", 1},
                                         {0}};

static char *described(const struct argp *argp, bool manual)
{
    page p;
    open_page(&p);
    if (manual)
        psr_describe_manual(argp, "psring test", "2026-01-02", p.to);
    else
        psr_describe_completion(argp, "psring test", p.to);
    assert_int_equal(fclose(p.to), 0);
    return p.text;
}

static void expect_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, part);
}

static void a_manual_has_each_row_with_its_names_and_value(void **state)
{
    (void)state;
    static const struct argp argp = {
        own,      parse,
        "DIR...", "Tests.\vBeware.\n\nExample:\n  psring test\n\nExit status: 0 done.\n",
        NULL,     NULL,
        NULL};
    char *text = described(&argp, true);
    expect_in(text, ".SH SYNOPSIS\n.B psring test\n[OPTION...] DIR...\n.SH DESCRIPTION\nTests.\n");
    expect_in(text, ".TP\n\\fB\\-n\\fR, \\fB\\-\\-name\\fR=\\fIFILE\\fR, "
                    "\\fB\\-\\-called\\fR=\\fIFILE\\fR\nwhat it is called\n");
    expect_in(text, ".SS More\n.TP\n\\fB\\-H\\fR "
                    "\\fIHOST\\fR\nwhere\n.TP\n\\fB\\-\\-level\\fR[=\\fIlow|high\\fR]\nhow\n");
    expect_in(text, "\\fB\\-\\-help\\fR");
    expect_in(
        text,
        ".SH NOTES\nBeware.\n.SH EXAMPLES\nExample:\n.PP\n.RS 2\n.EX\npsring test\n.EE\n.RE\n");
    expect_in(text, ".SH EXIT STATUS\nExit status: 0 done.\n.SH SEE ALSO\n.BR psring (1)\n");
    assert_null(strstr(text, "secret"));
    free(text);
}

static void a_completion_has_each_name_and_the_words_of_the_table(void **state)
{
    (void)state;
    psr_options_argp *table = psr_options_argp_new("two of them", "alexnet, vgg16");
    assert_non_null(table);
    const struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 0}, {0}};
    const struct argp argp = {own, parse, "DIR", "Tests.", children, NULL, NULL};
    char *text = described(&argp, false);
    expect_in(text, "_psring_options['psring test']=' --name= -n --called= -H --level --mode= ");
    expect_in(text, " --shuffle --no-shuffle ");
    expect_in(text, "_psring_values['psring test']='@directory'\n");
    expect_in(text, "_psring_values['psring test --called']='@file'\n");
    expect_in(text, "_psring_values['psring test -n']='@file'\n");
    expect_in(text, "_psring_values['psring test --level']='low high'\n");
    expect_in(text, "_psring_values['psring test --model']='alexnet vgg16'\n");
    expect_in(text, "_psring_values['psring test --fold']='rank arrival reversed'\n");
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "fault-point"));
    free(text);
    psr_options_argp_free(table);
}

static char *helped(const struct argp *argp, const char *columns)
{
    page p;
    open_page(&p);
    setenv("COLUMNS", columns, 1);
    psr_describe_help(argp, "psring test", p.to);
    unsetenv("COLUMNS");
    assert_int_equal(fclose(p.to), 0);
    return p.text;
}

static void an_example_that_is_too_wide_can_be_copied(void **state)
{
    (void)state;
    static const struct argp argp = {NULL,
                                     parse,
                                     NULL,
                                     "Tests.\vExamples:\n"
                                     "  psring test --first one --second two -- program\n"
                                     "  psring test --last   # of a run that is long\n"
                                     "\n"
                                     "Lines of a file that is wide:\n"
                                     "  host node1 rate=100Mbit queue=256K slots=2\n",
                                     NULL,
                                     NULL,
                                     NULL};
    char *text = helped(&argp, "40");
    expect_in(text, "Examples:\n"
                    "  psring test --first one --second \\\n"
                    "      two -- program\n"
                    "  psring test --last # of a run that is\n"
                    "      # long\n"
                    "\n");
    expect_in(text, "  host node1 rate=100Mbit queue=256K\n      slots=2\n");
    free(text);
    text = helped(&argp, "80");
    expect_in(text, "  psring test --first one --second two -- program\n"
                    "  psring test --last   # of a run that is long\n");
    free(text);
}

static void one_blank_line_stands_above_the_options(void **state)
{
    (void)state;
    static const struct argp_option none[] = {{0}};
    static const struct argp_option headed[] = {
        {NULL, 0, NULL, 0, "What:", 1}, {"name", 'n', "FILE", 0, "what it is called", 1}, {0}};
    const struct argp of_child = {.options = own, .parser = parse};
    const struct argp_child children[] = {{&of_child, 0, NULL, 0}, {0}};
    const struct argp argps[] = {{.parser = parse, .doc = "Tests."},
                                 {.options = none, .parser = parse, .doc = "Tests."},
                                 {.options = own, .parser = parse, .doc = "Tests."},
                                 {.options = headed, .parser = parse, .doc = "Tests."},
                                 {.parser = parse, .doc = "Tests.", .children = children}};
    for (size_t i = 0; i < sizeof argps / sizeof *argps; i++) {
        char *text = helped(&argps[i], "80");
        expect_in(text, "Tests.\n\n");
        assert_null(strstr(text, "\n\n\n"));
        free(text);
    }
}

static void what_asks_for_a_description_is_told_from_other_words(void **state)
{
    (void)state;
    const char *date = NULL;
    const char *words[] = {"p", "--describe", "manual", "2026-01-02", NULL};
    const char *others[] = {"p", "--describe", "completion", NULL};
    char **manual = (char **)(uintptr_t)words, **completion = (char **)(uintptr_t)others;
    assert_int_equal(psr_describe_asked(4, manual, &date), PSR_DESCRIBE_MANUAL);
    assert_string_equal(date, "2026-01-02");
    assert_int_equal(psr_describe_asked(3, completion, &date), PSR_DESCRIBE_COMPLETION);
    /* without a date */
    assert_int_equal(psr_describe_asked(3, manual, &date), PSR_DESCRIBE_NOTHING);
    assert_int_equal(psr_describe_asked(2, manual, &date), PSR_DESCRIBE_NOTHING);
    assert_int_equal(psr_describe_asked(1, manual, &date), PSR_DESCRIBE_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_an_argument_are_what_is_typed_and_what_stands_for_files),
        cmocka_unit_test(a_text_is_shown_as_it_is),
        cmocka_unit_test(a_page_begins_with_name_and_first_sentence),
        cmocka_unit_test(a_manual_has_each_row_with_its_names_and_value),
        cmocka_unit_test(a_completion_has_each_name_and_the_words_of_the_table),
        cmocka_unit_test(an_example_that_is_too_wide_can_be_copied),
        cmocka_unit_test(one_blank_line_stands_above_the_options),
        cmocka_unit_test(what_asks_for_a_description_is_told_from_other_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
