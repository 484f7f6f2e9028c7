#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/expect.h"
#include "worker/metrics.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cJSON *parse(const char *line)
{
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithOpts(line, &end, 1);
    assert_non_null(object);
    assert_true(cJSON_IsObject(object));
    assert_null(strchr(line, '\n'));
    return object;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void a_line_is_one_json_object_with_every_field(void **state)
{
    (void)state;
    const psr_metrics metrics = {.step = 20,
                                 .rank = 3,
                                 .epoch = 2,
                                 .loss = 2.241283893585205,
                                 .lr = 0.1f,
                                 .unix_s = 1763777307.125,
                                 .train_s = 12.25,
                                 .images = 64,
                                 .images_per_s = 123.5,
                                 .compute_s = 0.25,
                                 .exchange_s = 0.125,
                                 .wait_s = 0.0625,
                                 .hidden_s = 0.03125,
                                 .exposed_s = 0.015625,
                                 .drain_s = 0.0078125,
                                 .load_wait_s = 0.5,
                                 .pause_s = 0.375,
                                 .sync_bn_wait_s = 0.03,
                                 .bytes_sent = 7,
                                 .bytes_received = 9,
                                 .gradient_bytes = 5,
                                 .gradient_float32_bytes = 20,
                                 .bytes_lent = 5,
                                 .staleness = 4};
    char line[PSR_METRICS_LINE_MAX];
    psr_metrics_print(&metrics, line);
    cJSON *object = parse(line);
    assert_true(number(object, "step") == 20);
    assert_true(number(object, "rank") == 3);
    assert_true(number(object, "epoch") == 2);
    assert_true(number(object, "loss") == 2.241283893585205); /* to the same bits */
    assert_true((float)number(object, "lr") == 0.1f);
    assert_true(number(object, "unix_s") == 1763777307.125);
    assert_true(number(object, "train_s") == 12.25);
    assert_true(number(object, "images") == 64);
    assert_true(number(object, "images_per_s") == 123.5);
    assert_true(number(object, "compute_s") == 0.25);
    assert_true(number(object, "exchange_s") == 0.125);
    assert_true(number(object, "wait_s") == 0.0625);
    assert_true(number(object, "load_wait_s") == 0.5);
    assert_true(number(object, "pause_s") == 0.375);
    assert_true(number(object, "sync_bn_wait_s") == 0.03);
    assert_true(number(object, "hidden_s") == 0.03125);
    assert_true(number(object, "exposed_s") == 0.015625);
    assert_true(number(object, "drain_s") == 0.0078125);
    assert_true(number(object, "bytes_sent") == 7);
    assert_true(number(object, "bytes_received") == 9);
    assert_true(number(object, "gradient_bytes") == 5);
    assert_true(number(object, "gradient_float32_bytes") == 20);
    assert_true(number(object, "bytes_lent") == 5);
    assert_true(number(object, "staleness") == 4);
    assert_null(cJSON_GetObjectItemCaseSensitive(object, "hash"));
    assert_null(cJSON_GetObjectItemCaseSensitive(object, "test_accuracy"));
    cJSON_Delete(object);
}

static void a_hash_is_sixteen_hex_digits(void **state)
{
    (void)state;
    const psr_metrics metrics = {.has_hash = true, .hash = 0xab};
    char line[PSR_METRICS_LINE_MAX];
    psr_metrics_print(&metrics, line);
    cJSON *object = parse(line);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(object, "hash")->valuestring,
                        "00000000000000ab");
    cJSON_Delete(object);
}

static void a_rank_without_samples_has_a_null_loss(void **state)
{
    (void)state;
    const psr_metrics metrics = {.loss = NAN, .images_per_s = INFINITY};
    char line[PSR_METRICS_LINE_MAX];
    psr_metrics_print(&metrics, line);
    cJSON *object = parse(line);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, "loss")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, "images_per_s")));
    assert_null(cJSON_GetObjectItemCaseSensitive(object, "pause_s"));
    assert_null(cJSON_GetObjectItemCaseSensitive(object, "sync_bn_wait_s"));
    cJSON_Delete(object);
}

static void the_scale_of_the_loss_is_told_where_there_is_one(void **state)
{
    (void)state;
    const psr_metrics none = {.loss = 1}, skipped = {.loss = 1, .loss_scale = 512, .skipped = true};
    char line[PSR_METRICS_LINE_MAX];
    psr_metrics_print(&none, line);
    cJSON *object = parse(line);
    assert_null(cJSON_GetObjectItemCaseSensitive(object, "loss_scale"));
    assert_null(cJSON_GetObjectItemCaseSensitive(object, "skipped"));
    cJSON_Delete(object);
    psr_metrics_print(&skipped, line);
    object = parse(line);
    assert_true(number(object, "loss_scale") == 512);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "skipped")));
    cJSON_Delete(object);
    const psr_outcome outcome = {.steps = 3, .loss_scale = 256, .skipped_steps = 2};
    char *json = NULL;
    expect_ok(psr_outcome_to_json(&outcome, "[]", &json));
    object = parse(json);
    free(json);
    assert_true(number(object, "loss_scale") == 256);
    assert_true(number(object, "skipped_steps") == 2);
    cJSON_Delete(object);
}

static void the_longest_line_fits(void **state)
{
    (void)state;
    const double longest = -DBL_MAX;
    const psr_metrics metrics = {.step = UINT64_MAX,
                                 .rank = UINT32_MAX,
                                 .epoch = UINT32_MAX,
                                 .loss = longest,
                                 .lr = -FLT_MAX,
                                 .unix_s = 1e12,
                                 .train_s = 1e9,
                                 .images = UINT32_MAX,
                                 .images_per_s = longest,
                                 .compute_s = 1e9,
                                 .exchange_s = 1e9,
                                 .wait_s = 1e9,
                                 .load_wait_s = 1e9,
                                 .pause_s = 1e9,
                                 .sync_bn_wait_s = 1e9,
                                 .bytes_sent = UINT64_MAX,
                                 .bytes_received = UINT64_MAX,
                                 .gradient_bytes = UINT64_MAX,
                                 .gradient_float32_bytes = UINT64_MAX,
                                 .bytes_lent = UINT64_MAX,
                                 .staleness = UINT64_MAX,
                                 .has_norm = true,
                                 .norm = -DBL_MAX,
                                 .loss_scale = UINT32_MAX,
                                 .has_hash = true,
                                 .hash = UINT64_MAX,
                                 .has_test = true,
                                 .test = {longest, longest, longest},
                                 .has_ema = true,
                                 .ema = {longest, longest, longest}};
    char line[PSR_METRICS_LINE_MAX];
    psr_metrics_print(&metrics, line);
    cJSON *object = parse(line);
    assert_true(number(object, "test_accuracy") == longest);
    cJSON_Delete(object);

    const psr_outcome outcome = {.steps = UINT64_MAX,
                                 .train_s = 1e9,
                                 .wait_s = 1e9,
                                 .hidden_s = 1e9,
                                 .exposed_s = 1e9,
                                 .drain_s = 1e9,
                                 .gradient_bytes = UINT64_MAX,
                                 .gradient_float32_bytes = UINT64_MAX,
                                 .load_wait_s = 1e9,
                                 .compute_s = 1e9,
                                 .loss = longest,
                                 .test = {longest, longest, longest},
                                 .has_ema = true,
                                 .ema = {longest, longest, longest},
                                 .test_count = UINT64_MAX,
                                 .loss_scale = UINT32_MAX,
                                 .skipped_steps = UINT64_MAX,
                                 .hash = UINT64_MAX};
    char *json = NULL;
    expect_ok(psr_outcome_to_json(&outcome, "[[\"shard\",0,1,2]]", &json));
    object = parse(json);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(object, "links")), 1);
    cJSON_Delete(object);
    free(json);
}

static void an_outcome_is_of_this_worker(void **state)
{
    (void)state;
    const psr_outcome outcome = {.steps = 10,
                                 .train_s = 4,
                                 .wait_s = 0.25,
                                 .loss = 0.5,
                                 .test = {.accuracy = 0.75, .loss = 0.625},
                                 .test_count = 100,
                                 .hash = 0x1234,
                                 .stopped = true};
    char *json = NULL;
    expect_ok(psr_outcome_to_json(&outcome, "[]", &json));
    cJSON *object = parse(json);
    free(json);
    assert_true(number(object, "steps") == 10);
    assert_true(number(object, "train_s") == 4);
    assert_true(number(object, "wait_s") == 0.25);
    assert_true(number(object, "test_accuracy") == 0.75);
    assert_true(number(object, "loss") == 0.5);
    assert_true(number(object, "test_count") == 100);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "stopped")));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(object, "hash")->valuestring,
                        "0000000000001234");
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_json_object_with_every_field),
        cmocka_unit_test(a_hash_is_sixteen_hex_digits),
        cmocka_unit_test(a_rank_without_samples_has_a_null_loss),
        cmocka_unit_test(the_scale_of_the_loss_is_told_where_there_is_one),
        cmocka_unit_test(the_longest_line_fits),
        cmocka_unit_test(an_outcome_is_of_this_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
