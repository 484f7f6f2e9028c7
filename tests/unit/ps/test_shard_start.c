#include "tests/unit/expect.h"

#include "ps/shard_start.h"

#include <stdlib.h>
#include <string.h>

static psr_bytes bytes_of(const char *json)
{
    return (psr_bytes){json, strlen(json)};
}

static void it_comes_back_as_it_was(void **state)
{
    (void)state;
    psr_shard_start start = {.first_step = 40,
                             .total_steps = UINT64_C(999999999999999),
                             .skipped_steps = 3},
                    again;
    char *json = NULL;
    expect_ok(psr_layout_add(&start.layout, "conv.weight", 4, (uint32_t[]){2, 3, 5, 5}));
    expect_ok(psr_layout_add(&start.layout, "conv.bias", 1, (uint32_t[]){2}));
    expect_ok(psr_shard_start_to_json(&start, &json));
    expect_ok(psr_shard_start_from_json(bytes_of(json), &again));
    assert_int_equal(again.first_step, 40);
    assert_int_equal(again.total_steps, UINT64_C(999999999999999));
    assert_int_equal(again.skipped_steps, 3);
    assert_int_equal(again.layout.tensor_count, 2);
    assert_int_equal(again.layout.length, start.layout.length);
    for (size_t t = 0; t < 2; t++) { /* test_layout_json looks at all of it */
        assert_string_equal(again.layout.tensors[t].name, start.layout.tensors[t].name);
        assert_int_equal(again.layout.tensors[t].offset, start.layout.tensors[t].offset);
        assert_int_equal(again.layout.tensors[t].count, start.layout.tensors[t].count);
    }
    psr_shard_start_done(&again);
    psr_shard_start_done(&start);
    free(json);
}

static void each_field_that_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *json, *detail;
    } wrong[] = {
        {"", "not a JSON object"},
        {"{}", "field \"first_step\" is missing or no number"},
        {"{\"first_step\": -1}",
         "field \"first_step\" is no count of at most 18446744073709551615"},
        {"{\"first_step\": 0}", "field \"total_steps\" is missing or no number"},
        {"{\"first_step\": 0, \"total_steps\": 1}", "the layout is missing"},
        {"{\"first_step\": 0, \"total_steps\": 1, \"layout\": [[\"a\", 0]]}",
         "tensor a of the layout has an impossible shape"},
    };
    psr_shard_start start;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_failure(psr_shard_start_from_json(bytes_of(wrong[i].json), &start), PSR_ERR_FORMAT,
                       wrong[i].detail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_as_it_was),
        cmocka_unit_test(each_field_that_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
