/* deploy/lab/predicted.h */
#include "tests/unit/expect.h"

#include "deploy/lab/predicted.h"

#include "base/text/text.h"

#include <string.h>

static psr_lab lab;
static psr_lab_predicted told;
static char all[4096];

static psr_err predict(const char *file)
{
    expect_ok(psr_lab_parse("a.lab", file, strlen(file), &lab));
    return psr_lab_predict(&lab, 2, &told);
}

/* All words, with blanks between. */
static const char *predicted(const char *file)
{
    psr_text_end end = {all, sizeof all};
    expect_ok(predict(file));
    for (size_t i = 0; i < told.count; i++)
        psr_text_add(&end, "%s%s", i > 0 ? " " : "", told.words[i]);
    return all;
}

static void expect_refusal(psr_err err, const char *what)
{
    assert_int_equal(err, PSR_ERR_USAGE);
    if (strstr(psr_err_detail(), what) == NULL)
        fail_msg("no '%s' in: %s", what, psr_err_detail());
}

static void a_lab_is_told_in_the_words_of_predict(void **state)
{
    (void)state;
    assert_string_equal(predicted("default rate=1Gbit\nhost a slots=2\nhost b slots=2 slow=3\n"),
                        "--host-links=1Gbit,1Gbit --slow=1,3 --hosts=2 --workers-per-host=2 "
                        "--processors=2 --frame-bytes=66 --latency=20 --loss=0 "
                        "--placement=beside");
}

static void hosts_of_shards_come_behind_those_of_workers(void **state)
{
    (void)state;
    assert_string_equal(
        predicted("default rate=100Mbit\nhost ps shards=1 rate=1Gbit\nhost a\nhost b\n"),
        "--host-links=100Mbit,100Mbit,1Gbit --slow=1,1,1 --hosts=2 --workers-per-host=1 "
        "--processors=2 --frame-bytes=66 --latency=20 --loss=0 --placement=dedicated --shards=1");
    assert_non_null(
        strstr(predicted("default rate=1Gbit loss=0.1%\nhost a\nhost b\n"), " --loss=0.001 "));
}

static void what_is_not_predicted_is_refused(void **state)
{
    (void)state;
    expect_refusal(predict("default rate=1Gbit\nhost a slots=2\nhost b\n"),
                   "different numbers of workers");
    expect_refusal(predict("default rate=1Gbit\nhost a\nhost ps shards=2\n"), "several shards");
    expect_refusal(predict("default rate=1Gbit\nhost a\nhost b loss=0.1%\n"), "lost packets");
    expect_refusal(predict("default rate=1Gbit\nhost a shards=1 slots=1\n"), "several shards");
    expect_refusal(
        predict("default rate=1Gbit\nswitch rack uplink=1Gbit\nhost a\nhost b switch=rack\n"
                "host c switch=rack\n"),
        "uplink");
    expect_ok(predict("default rate=1Gbit\nswitch rack uplink=2Gbit\nhost a\nhost b switch=rack\n"
                      "host c switch=rack\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lab_is_told_in_the_words_of_predict),
        cmocka_unit_test(hosts_of_shards_come_behind_those_of_workers),
        cmocka_unit_test(what_is_not_predicted_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
