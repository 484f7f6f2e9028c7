/* deploy/agent/program.h: what goes from launcher to agent comes back as it was, and what is none
 * is refused. How it runs: tests/integration/test_run.py. */
#include "deploy/agent/program.h"

#include "tests/unit/expect.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"./a b", "", "--n", "\"\xc3\xa4\xff\t'", NULL};
static const char *const variables[] = {"A=b=c", "D=", NULL};
static const char *const none[] = {NULL};

static void a_program_comes_back_as_it_was(void **state)
{
    (void)state;
    const psr_program program = {.words = words,
                                 .variables = variables,
                                 .directory = "/here",
                                 .output = "/out",
                                 .ranks = 3,
                                 .deadline_s = 0.1,
                                 .transport = "shm"};
    cJSON *object = NULL;
    psr_program read;
    expect_ok(psr_program_check(&program));
    expect_ok(psr_program_to_object(&program, &object));
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    expect_ok(psr_program_from_object(cJSON_Parse(text), &read));
    free(text);
    for (size_t i = 0; i < 5; i++)
        if (words[i] == NULL)
            assert_null(read.words[i]);
        else
            assert_string_equal(read.words[i], words[i]);
    assert_string_equal(read.variables[0], "A=b=c");
    assert_string_equal(read.variables[1], "D=");
    assert_null(read.variables[2]);
    assert_string_equal(read.directory, "/here");
    assert_string_equal(read.output, "/out");
    assert_int_equal(read.ranks, 3);
    assert_true(read.deadline_s == 0.1);
    psr_program_done(&read);
}

static void what_is_no_program_is_refused_by_its_field(void **state)
{
    (void)state;
    static const struct {
        const char *json, *why;
    } cases[] = {
        {"7", "field \"words\" is no array"},
        {"{}", "field \"words\" is no array"},
        {"{\"words\":\"a\"}", "field \"words\" is no array"},
        {"{\"words\":[\"a\",7]}", "field \"words\" holds what is no text"},
        {"{\"words\":[\"a\"]}", "field \"variables\" is no array"},
        {"{\"words\":[],\"variables\":[],\"directory\":\"/"
         "\",\"output\":\"\",\"ranks\":1,\"deadline_s\":1}",
         "\"words\""},
        {"{\"words\":[\"a\"],\"variables\":[],\"output\":\"\",\"ranks\":1,\"deadline_s\":1}",
         "\"directory\""},
        {"{\"words\":[\"a\"],\"variables\":[],\"directory\":\"/"
         "\",\"output\":\"\",\"ranks\":-1,\"deadline_s\":"
         "1}",
         "\"ranks\""},
        {"{\"words\":[\"a\"],\"variables\":[],\"directory\":\"/\",\"output\":\"\",\"ranks\":1}",
         "\"deadline_s\""},
    };
    psr_program read = {.ranks = 77};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(psr_program_from_object(cJSON_Parse(cases[i].json), &read),
                         PSR_ERR_FORMAT);
        assert_non_null(strstr(psr_err_detail(), cases[i].why));
        assert_int_equal(read.ranks, 77);
    }
    assert_int_equal(psr_program_from_object(NULL, &read), PSR_ERR_FORMAT);
}

static void one_that_does_not_fit_a_line_is_refused(void **state)
{
    (void)state;
    char *much = malloc(PSR_PROGRAM_BYTES_MAX + 1);
    assert_non_null(much);
    memset(much, 'x', PSR_PROGRAM_BYTES_MAX);
    much[PSR_PROGRAM_BYTES_MAX] = '\0';
    const char *const one[] = {much, NULL};
    const psr_program program = {.words = one, .variables = none, .directory = "/", .output = ""};
    assert_int_equal(psr_program_check(&program), PSR_ERR_USAGE);
    free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_comes_back_as_it_was),
        cmocka_unit_test(what_is_no_program_is_refused_by_its_field),
        cmocka_unit_test(one_that_does_not_fit_a_line_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
