/* A run directory becomes a record, and a placement the least that its busiest link carries: what
 * each must come to is worked out in the comments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/expect.h"
#include "tests/unit/folder.h"
#include "deploy/bench_train/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const psr_measure_targets none = {NAN, NAN};

static double least(psr_mode mode, uint32_t workers, const char *hosts)
{
    char text[512];
    psr_config config;
    psr_config_defaults(&config);
    config.mode = mode;
    config.workers = workers;
    snprintf(text, sizeof text, "{\"hosts\":[%s]}", hosts);
    cJSON *placement = cJSON_Parse(text);
    assert_non_null(placement);
    const double bytes = psr_measure_least_bytes(&config, placement, 120);
    cJSON_Delete(placement);
    return bytes;
}

#define HOST(W, S) "{\"host\":\"h\",\"workers\":" #W ",\"shards\":" #S "}"

/* docs/algorithms.md's formulas, M = 120. */
static void the_busiest_link_is_that_of_the_cost_model(void **state)
{
    (void)state;
    /* 2(n-1)/n M */
    assert_true(least(PSR_MODE_RING, 3, HOST(1, 0) "," HOST(1, 0) "," HOST(1, 0)) == 160);
    /* ((n-1)/n + (H-1)/H) M */
    assert_true(least(PSR_MODE_RING, 4, HOST(2, 0) "," HOST(2, 0)) == 150);
    /* dedicated: n M/s, and M/B at a worker's end */
    assert_true(least(PSR_MODE_PS, 3, HOST(1, 0) "," HOST(1, 0) "," HOST(1, 0) "," HOST(0, 1)) ==
                360);
    assert_true(least(PSR_MODE_PS, 2,
                      HOST(1, 0) "," HOST(1, 0) "," HOST(0, 1) "," HOST(0, 1) "," HOST(0, 1)) ==
                120);
    /* beside: M (1 + (n-2)/s) */
    assert_true(least(PSR_MODE_PS, 3, HOST(1, 1) "," HOST(1, 1) "," HOST(1, 0)) == 180);
    assert_true(least(PSR_MODE_PS, 3, HOST(1, 1) "," HOST(1, 1) "," HOST(1, 1)) == 160);
    /* two workers a host, one shard: 2 others push M each */
    assert_true(least(PSR_MODE_PS, 4, HOST(2, 1) "," HOST(2, 0)) == 240);
    assert_true(least(PSR_MODE_PS, 2, HOST(2, 2)) == 0);
    assert_true(least(PSR_MODE_LOCAL, 3, HOST(1, 0) "," HOST(1, 0)) == 0);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static double number(const cJSON *record, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(record, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static const char run_json[] =
    "{\"config\":{\"workers\":\"2\"},\"facts\":{\"parameter_count\":30},\"outcome\":{\"status\":"
    "\"ok\","
    "\"steps\":3,\"own_steps\":3,\"warmup_steps\":1,\"together_images_per_s\":8,\"images_per_s\":6,"
    "\"bytes_sent\":300,\"hash\":\"00000000000000aa\",\"placement\":{\"shards\":\"none\",\"hosts\":"
    "[" HOST(1,
             0) ",{\"host\":\"b\",\"workers\":1,\"shards\":0}]},\"links\":[{\"from\":\"h\",\"to\":"
                "\"b\",\"bytes\":90},{\"from\":\"b\",\"to\":\"h\",\"bytes\":60},{\"from\":\"h\","
                "\"to\":\"h\","
                "\"bytes\":999}]}}";

/* Steps 2 and 3 count. Rank 0 took 2 s for each and half a second more for its last weights; rank 1
 * computes for 2 s and waits for nobody. */
static const char metrics[] =
    "{\"rank\":0,\"step\":1,\"unix_s\":105.5,\"train_s\":5,\"compute_s\":4,\"exposed_s\":9,"
    "\"loss\":9}\n"
    "{\"rank\":1,\"step\":1,\"train_s\":5,\"compute_s\":4,\"exposed_s\":9,\"loss\":9}\n"
    "{\"rank\":0,\"step\":2,\"train_s\":7,\"compute_s\":1,\"hidden_s\":0.5,\"exposed_s\":1,"
    "\"loss\":3}\n"
    "{\"rank\":1,\"step\":2,\"train_s\":7,\"compute_s\":1.75,\"hidden_s\":0.5,\"exposed_s\":0.25,"
    "\"loss\":3}\n"
    "{\"rank\":0,\"step\":3,\"train_s\":9.5,\"compute_s\":1,\"hidden_s\":0.5,\"exposed_s\":1.5,"
    "\"drain_s\":0.5,\"unix_s\":110,\"loss\":1,\"test_accuracy\":0.75}\n"
    "{\"rank\":1,\"step\":3,\"train_s\":9,\"compute_s\":1.75,\"hidden_s\":0.5,\"exposed_s\":0.25,"
    "\"loss\":1}\n"
    "{\"rank\":1,\"step\":4,\"torn";

static void a_step_is_split_and_the_last_drain_left_out(void **state)
{
    (void)state;
    write_file("run.json", run_json);
    write_file("metrics.jsonl", metrics);
    psr_config config;
    psr_config_defaults(&config);
    config.mode = PSR_MODE_RING;
    config.workers = 2;
    cJSON *record = cJSON_CreateObject();
    const psr_measure_targets targets = {.loss = NAN, .accuracy = 0.7};
    expect_ok(psr_measure_run(folder, &config, &targets, record));
    assert_true(number(record, "images_per_s") == 8);
    assert_true(number(record, "step_s") == 2);
    assert_true(number(record, "compute_s") == 1.375);
    assert_true(number(record, "hidden_s") == 0.5);
    assert_true(number(record, "exposed_s") == 0.25); /* rank 1's */
    assert_true(number(record, "waiting_s") == 0.375);
    assert_true(number(record, "exposed_mean_s") == 0.625);
    assert_true(number(record, "to_accuracy_s") == 9.5);
    assert_null(cJSON_GetObjectItem(record, "to_loss_s"));
    assert_true(number(record, "steps_from_unix_s") == 100.5);
    assert_true(number(record, "steps_to_unix_s") == 110);
    assert_true(number(record, "step_bytes") == 100);
    assert_true(number(record, "link_bytes") == 30);
    assert_true(number(record, "least_link_bytes") == 120);
    assert_string_equal(cJSON_GetObjectItem(record, "hash")->valuestring, "00000000000000aa");
    cJSON_Delete(record);
}

static void a_run_that_failed_says_why(void **state)
{
    (void)state;
    psr_config config;
    psr_config_defaults(&config);
    write_file("run.json",
               "{\"config\":{},\"outcome\":{\"status\":\"peer\",\"line\":\"worker 1 is gone\"}}");
    for (int i = 0; i < 2; i++) {
        cJSON *record = cJSON_CreateObject();
        expect_ok(psr_measure_run(i == 0 ? folder : "/nowhere", &config, &none, record));
        assert_string_equal(cJSON_GetObjectItem(record, "status")->valuestring, "failed");
        const char *line = cJSON_GetObjectItem(record, "line")->valuestring;
        assert_non_null(strstr(line, i == 0 ? "worker 1 is gone" : "/nowhere"));
        cJSON_Delete(record);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_link_is_that_of_the_cost_model),
        IN_A_FOLDER(a_step_is_split_and_the_last_drain_left_out),
        IN_A_FOLDER(a_run_that_failed_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
