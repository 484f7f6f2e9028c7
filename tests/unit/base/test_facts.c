/* What training tells of itself while it joins: there and back, and hostile bytes. Which facts
 * agree is test_scheduler's. */
#include "tests/unit/expect.h"

#include "base/facts.h"

#include <stdlib.h>
#include <string.h>

static psr_bytes bytes_of(const char *json)
{
    return (psr_bytes){json, strlen(json)};
}

static const psr_facts facts = {
    .identity = "x",
    .data_name = "y",
    .content = {"0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"},
    .train_count = UINT32_MAX,
    .test_count = 1,
    .channels = 3,
    .height = 4,
    .width = 5,
    .classes = 6,
    .steps_per_epoch = 7,
    .total_steps = UINT64_C(999999999999999),
    .parameter_count = 9,
    .mean = {0.1f, 0.25f, -1e-7f},
    .deviation = {0.5f, 0.3333f, 2},
    .memory_fixed_bytes = 10,
    .memory_sample_bytes = 11,
    .memory_host_bytes = 12,
    .memory_free_bytes = UINT64_C(1) << 49,
    .processor = "A processor @ 3 GHz",
    .class_names = "T-shirt/top\nkočka\n"};

static void facts_come_back_as_they_were(void **state)
{
    (void)state;
    char *json = NULL;
    psr_facts again;
    expect_ok(psr_facts_to_json(&facts, &json));
    expect_ok(psr_facts_from_json(bytes_of(json), &again));
    assert_memory_equal(&facts, &again, sizeof facts);
    free(json);
}

static void a_workers_start_comes_back_as_it_was(void **state)
{
    (void)state;
    char *json = NULL;
    const psr_worker_start worker = {.first_step = 40,
                                     .total_steps = 41,
                                     .loss_scale = 4096,
                                     .loss_scale_taken = 12,
                                     .skipped_steps = 5};
    psr_worker_start worker_again;
    expect_ok(psr_worker_start_to_json(&worker, &json));
    expect_ok(psr_worker_start_from_json(bytes_of(json), &worker_again));
    assert_memory_equal(&worker, &worker_again, sizeof worker);
    free(json);

    /* it was in fp16, and is not any more */
    const psr_worker_start other = {.first_step = 40, .total_steps = 41, .skipped_steps = 5};
    expect_ok(psr_worker_start_to_json(&other, &json));
    expect_ok(psr_worker_start_from_json(bytes_of(json), &worker_again));
    assert_memory_equal(&other, &worker_again, sizeof other);
    free(json);
}

static void each_field_that_is_wrong_is_named(void **state)
{
    (void)state;
    psr_facts read;
    expect_failure(psr_facts_from_json((psr_bytes){NULL, 0}, &read), PSR_ERR_FORMAT,
                   "not a JSON object");
    expect_failure(psr_facts_from_json(bytes_of("{\"identity\": 3}"), &read), PSR_ERR_FORMAT,
                   "field \"identity\" is missing or no text");
    expect_failure(
        psr_facts_from_json(bytes_of("{\"identity\": \"\", \"data_name\": \"\\u001b[2J\"}"), &read),
        PSR_ERR_FORMAT, "field \"data_name\" holds control characters: \"?[2J\"");
    expect_failure(
        psr_facts_from_json(
            bytes_of("{\"identity\": \"\", \"data_name\": \"\", \"data_train\": \"0123\"}"), &read),
        PSR_ERR_FORMAT, "field \"data_train\" is no hash of samples");
    expect_failure(
        psr_facts_from_json(bytes_of("{\"identity\": \"\", \"data_name\": \"\", \"data_train\": "
                                     "\"\", \"data_test\": \"\", \"train_count\": 4294967296}"),
                            &read),
        PSR_ERR_FORMAT, "field \"train_count\" is no count of at most 4294967295");
    psr_worker_start worker;
    expect_failure(psr_worker_start_from_json(bytes_of("{\"first_step\": 0}"), &worker),
                   PSR_ERR_FORMAT, "field \"total_steps\" is missing or no number");
    expect_failure(psr_worker_start_from_json(bytes_of("{\"first_step\": -1}"), &worker),
                   PSR_ERR_FORMAT,
                   "field \"first_step\" is no count of at most 18446744073709551615");
    expect_failure(
        psr_worker_start_from_json(
            bytes_of("{\"first_step\": 3, \"total_steps\": 9, \"evaluates_first\": 0, "
                     "\"loss_scale\": 24, \"loss_scale_taken\": 1, \"skipped_steps\": 2}"),
            &worker),
        PSR_ERR_FORMAT, "field loss_scale: not a power of two");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_come_back_as_they_were),
        cmocka_unit_test(a_workers_start_comes_back_as_it_was),
        cmocka_unit_test(each_field_that_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
