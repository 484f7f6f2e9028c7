/* The file of a benchmark: it goes on where it stopped, and refuses another benchmark by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/expect.h"
#include "deploy/bench_train/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(path, "/tmp/psring-results-XXXXXX");
    int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static psr_err open_as(const char *header, psr_results *results)
{
    cJSON *object = cJSON_Parse(header);
    psr_err err = psr_results_open(path, object, results);
    cJSON_Delete(object);
    return err;
}

static void add(psr_results *results, const char *record)
{
    expect_ok(psr_results_add(results, cJSON_Parse(record)));
}

static void append(const char *text)
{
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static const char header[] =
    "{\"bench\":\"train\",\"options\":{\"steps\":\"20\",\"lr\":\"0.1\"},\"places\":[\"-H\",\"a\"]}";

static void what_was_recorded_is_there_again_and_a_torn_line_is_cut(void **state)
{
    (void)state;
    psr_results results;
    expect_ok(open_as(header, &results));
    add(&results,
        "{\"group\":\"g\",\"configuration\":\"ring\",\"repetition\":1,\"status\":\"failed\"}");
    add(&results,
        "{\"group\":\"g\",\"configuration\":\"ring\",\"repetition\":1,\"status\":\"done\"}");
    add(&results,
        "{\"group\":\"g\",\"configuration\":\"ring\",\"repetition\":2,\"status\":\"failed\"}");
    psr_results_done(&results);
    append("{\"group\":\"g\",\"config"); /* it was killed */
    for (int i = 0; i < 2; i++) {
        expect_ok(open_as(header, &results));
        assert_int_equal(cJSON_GetArraySize(results.records), 3 + i);
        assert_true(psr_results_is_done(psr_results_find(&results, "g", "ring", 1)));
        assert_false(psr_results_is_done(psr_results_find(&results, "g", "ring", 2)));
        assert_null(psr_results_find(&results, "g", "ps:1", 1));
        assert_null(psr_results_find(&results, "h", "ring", 1));
        add(&results, "{\"group\":\"h\",\"configuration\":\"ps:1\",\"repetition\":1}");
        psr_results_done(&results);
    }
}

static void another_benchmark_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *header, *says;
    } cases[] = {
        {"{\"bench\":\"train\",\"options\":{\"steps\":\"30\",\"lr\":\"0.1\"},\"places\":[\"-H\","
         "\"a\"]}",
         "steps is '20' there and '30' here"},
        {"{\"bench\":\"train\",\"options\":{\"steps\":\"20\",\"lr\":\"0.1\"},\"places\":[]}",
         "places is '[\"-H\",\"a\"]' there and '[]' here"},
        {"{\"bench\":\"train\",\"options\":{\"steps\":\"20\",\"lr\":\"0.1\",\"seed\":\"2\"},"
         "\"places\":[\"-H\",\"a\"]}",
         "seed is 'nothing' there and '2' here"},
    };
    psr_results results;
    expect_ok(open_as(header, &results));
    psr_results_done(&results);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(open_as(cases[i].header, &results), PSR_ERR_USAGE);
        if (strstr(psr_err_detail(), cases[i].says) == NULL)
            fail_msg("'%s' has no '%s'", psr_err_detail(), cases[i].says);
    }
    expect_ok(open_as(header, &results)); /* it was left as it was */
    psr_results_done(&results);
}

static void another_file_is_left_as_it_is(void **state)
{
    (void)state;
    static const char *const texts[] = {"hello\n", "hello", "{\"a\":1}\n", "[1]\n",
                                        "{\"bench\":\"\\u001b[2J\"}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        psr_results results;
        char text[64] = "";
        assert_int_equal(truncate(path, 0), 0);
        append(texts[i]);
        assert_int_equal(open_as(header, &results), PSR_ERR_FORMAT);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        (void)!fread(text, 1, sizeof text - 1, file);
        fclose(file);
        assert_string_equal(text, texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_recorded_is_there_again_and_a_torn_line_is_cut,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_benchmark_is_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_file_is_left_as_it_is, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
