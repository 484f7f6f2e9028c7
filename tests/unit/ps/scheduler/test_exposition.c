/* Figures as Prometheus reads them: what a label may hold, sums and newest values, and what is not
 * known. */
#include "tests/unit/expect.h"
#include "tests/unit/ps/metrics_line.h"

#include "ps/scheduler/prometheus/exposition.h"

#include <stdlib.h>
#include <string.h>

static void take(psr_exposition *e, const char *json)
{
    psr_metrics_line line = read_metrics_line(0, json);
    psr_exposition_take(e, &line);
    free_metrics_line(&line);
}

static char *text_of(psr_exposition *e)
{
    char *text = NULL;
    size_t size = 0;
    expect_ok(psr_exposition_print(e, &text, &size));
    assert_int_equal(strlen(text), size);
    return text;
}

static psr_exposition *begun(const char *run)
{
    psr_exposition *e = NULL;
    expect_ok(psr_exposition_new(2, &e));
    const psr_exposition_about about = {
        .run = run, .mode = "ps", .model = "mlp", .workers = 2, .shards = 1, .planned_steps = 9};
    expect_ok(psr_exposition_begin(e, &about));
    return e;
}

static void expect_text(psr_exposition *e, const char *const *wanted, const char *unwanted)
{
    char *text = text_of(e);
    for (; *wanted != NULL; wanted++)
        if (strstr(text, *wanted) == NULL)
            fail_msg("no '%s' in:\n%s", *wanted, text);
    if (unwanted != NULL && strstr(text, unwanted) != NULL)
        fail_msg("'%s' in:\n%s", unwanted, text);
    free(text);
}

static void before_a_run_there_is_the_process_alone(void **state)
{
    (void)state;
    psr_exposition *e = NULL;
    expect_ok(psr_exposition_new(2, &e));
    expect_text(e, (const char *[]){"# TYPE process_start_time_seconds gauge\n", NULL}, "psring_");
    psr_exposition_free(e);
    psr_exposition_free(NULL);
}

static void labels_are_escaped_and_utf_8(void **state)
{
    (void)state;
    psr_exposition *e = begun("a\"b\\c\nd\x80\xc3\xa9");
    expect_text(e, (const char *[]){"{run=\"a\\\"b\\\\c\\nd?\xc3\xa9\"} 2\n", NULL}, "\x80");
    psr_exposition_free(e);
}

static void counters_add_up_and_gauges_have_the_newest_value(void **state)
{
    (void)state;
    psr_exposition *e = begun("r");
    take(e,
         "{\"rank\": 0, \"step\": 7, \"images\": 4, \"bytes_sent\": 9007199254740, \"loss\": 2.5}");
    take(e, "{\"rank\": 0, \"step\": 8, \"images\": 3, \"bytes_sent\": 1, \"loss\": 1.25}");
    take(e, "{\"rank\": 1, \"step\": 7, \"images\": 0, \"loss\": null}");
    take(e, "{\"rank\": 2, \"step\": 7, \"images\": 1}"); /* there is none */
    expect_text(e,
                (const char *[]){"psring_steps_total{run=\"r\",rank=\"0\"} 8\n",
                                 "psring_images_total{run=\"r\",rank=\"0\"} 7\n"
                                 "psring_images_total{run=\"r\",rank=\"1\"} 0\n",
                                 "psring_sent_bytes_total{run=\"r\",rank=\"0\"} 9007199254741\n",
                                 "psring_loss{run=\"r\",rank=\"0\"} 1.25\n"
                                 "psring_loss{run=\"r\",rank=\"1\"} NaN\n",
                                 NULL},
                "rank=\"2\"");
    psr_exposition_free(e);
}

static void an_evaluation_is_there_once_it_has_been_made(void **state)
{
    (void)state;
    psr_exposition *e = begun("r");
    take(e, "{\"rank\": 0, \"step\": 3}");
    expect_text(e, (const char *[]){NULL}, "psring_test_");
    take(e, "{\"rank\": 1, \"step\": 4, \"test_loss\": 0.5, \"test_accuracy\": 0.75}");
    take(e, "{\"rank\": 1, \"step\": 5}");
    expect_text(e,
                (const char *[]){"psring_test_step{run=\"r\"} 4\n",
                                 "psring_test_accuracy_ratio{run=\"r\"} 0.75\n", NULL},
                NULL);
    psr_exposition_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_a_run_there_is_the_process_alone),
        cmocka_unit_test(labels_are_escaped_and_utf_8),
        cmocka_unit_test(counters_add_up_and_gauges_have_the_newest_value),
        cmocka_unit_test(an_evaluation_is_there_once_it_has_been_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
