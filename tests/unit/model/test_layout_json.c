#include "tests/unit/expect.h"

#include "model/layout_json.h"
#include "model/networks/network.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static void expect_same_tensor(const psr_tensor *a, const psr_tensor *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->count, b->count);
}

static void expect_same(const psr_layout *a, const psr_layout *b)
{
    assert_int_equal(a->tensor_count, b->tensor_count);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->count, b->count);
    for (size_t t = 0; t < a->tensor_count; t++)
        expect_same_tensor(&a->tensors[t], &b->tensors[t]);
}

static void a_layout_reads_back_as_it_was(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp", "convnet", "resnet20", "resnet50"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        psr_network *network;
        psr_layout layout;
        expect_ok(psr_network_new(models[i], 10, 3, 64, 64, PSR_SHORTCUT_A, &network));
        cJSON *array = psr_layout_to_json_array(&network->params);
        char *text = cJSON_PrintUnformatted(array);
        cJSON *again = cJSON_Parse(text);
        expect_ok(psr_layout_from_json_array(again, &layout));
        expect_same(&layout, &network->params);
        psr_layout_done(&layout);
        cJSON_Delete(array);
        cJSON_Delete(again);
        free(text);
        psr_network_free(network);
    }
}

static void it_is_names_and_lengths(void **state)
{
    (void)state;
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "conv.weight", 4, (uint32_t[]){2, 3, 5, 5}));
    expect_ok(psr_layout_add(&layout, "conv.bias", 1, (uint32_t[]){2}));
    cJSON *array = psr_layout_to_json_array(&layout);
    char *text = cJSON_PrintUnformatted(array);
    assert_string_equal(text, "[[\"conv.weight\",2,3,5,5],[\"conv.bias\",2]]");
    free(text);
    cJSON_Delete(array);
    psr_layout_done(&layout);
}

/* Consumes array. ret_layout is untouched. */
static void expect_refused(cJSON *array, const char *detail)
{
    psr_layout layout = {.length = 7};
    expect_failure(psr_layout_from_json_array(array, &layout), PSR_ERR_FORMAT, detail);
    assert_null(layout.tensors);
    assert_int_equal(layout.length, 7);
    cJSON_Delete(array);
}

static void what_is_no_layout_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *detail;
    } wrong[] = {
        {"{}", "the layout is missing"},
        {"[]", "the layout is missing"},
        {"[7]", "entry 0 of the layout is not a tensor"},
        {"[[]]", "tensor 0 of the layout has no printable name"},
        {"[[3,4]]", "tensor 0 of the layout has no printable name"},
        {"[[\"a\",1],[\"\",4]]", "tensor 1 of the layout has no printable name"},
        {"[[\"a\\u001b[2J\",4]]", "tensor 0 of the layout has no printable name"},
        {"[[\"1234567890123456789012345678901234567890123456789012345678901234\",1]]",
         "tensor 0 of the layout has a name of more than 63 characters"},
        {"[[\"a\"]]", "tensor a of the layout has no shape"},
        {"[[\"a\",1,1,1,1,1]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",\"3\"]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",0]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",-1]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",1.5]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",4294967296]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",1e999]]", "tensor a of the layout has an impossible shape"},
        {"[[\"a\",4294967295,4294967295,4294967295]]",
         "tensor a: shape is empty or larger than memory can be"},
        {"[[\"a\",4294967295,268435456],[\"b\",4294967295,268435456]]",
         "tensor b: shape is empty or larger than memory can be"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_refused(cJSON_Parse(wrong[i].text), wrong[i].detail);
    expect_refused(NULL, "the layout is missing");
}

static void more_tensors_than_a_network_has_are_refused(void **state)
{
    (void)state;
    psr_layout layout = {0};
    for (int i = 0; i < 65537; i++)
        expect_ok(psr_layout_add(&layout, "a", 1, (uint32_t[]){1}));
    cJSON *array = psr_layout_to_json_array(&layout);
    expect_refused(array, "the layout has 65537 tensors, more than 65536");
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_reads_back_as_it_was),
        cmocka_unit_test(it_is_names_and_lengths),
        cmocka_unit_test(what_is_no_layout_is_refused_by_name),
        cmocka_unit_test(more_tensors_than_a_network_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
