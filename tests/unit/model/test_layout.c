#include "tests/unit/expect.h"

#include "model/layout.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

static psr_layout three_tensors(void)
{
    psr_layout layout = {0};
    expect_ok(psr_layout_add(&layout, "conv.weight", 4, (uint32_t[]){2, 3, 5, 5}));
    expect_ok(psr_layout_add(&layout, "conv.bias", 1, (uint32_t[]){16}));
    expect_ok(psr_layout_add(&layout, "fc.weight", 2, (uint32_t[]){1, 1}));
    return layout;
}

static void tensors_begin_at_64_byte_boundaries_in_the_order_of_adding(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    assert_int_equal(layout.tensor_count, 3);
    assert_int_equal(layout.tensors[0].offset, 0);
    assert_int_equal(layout.tensors[0].count, 150);
    assert_int_equal(layout.tensors[1].offset, 160);
    assert_int_equal(layout.tensors[2].offset, 176);
    assert_int_equal(layout.length, 192);
    assert_int_equal(layout.count, 167);
    psr_layout_done(&layout);
    assert_null(layout.tensors);
}

static void unused_dimensions_are_one(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    const psr_tensor *tensor = psr_layout_find(&layout, "conv.bias");
    assert_non_null(tensor);
    assert_int_equal(tensor->rank, 1);
    assert_int_equal(tensor->shape[0], 16);
    for (int i = 1; i < 4; i++)
        assert_int_equal(tensor->shape[i], 1);
    psr_layout_done(&layout);
}

static void elements_are_counted_without_the_padding_between_them(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    assert_int_equal(psr_layout_elements_in(&layout, 0, 192), 167);
    assert_int_equal(psr_layout_elements_in(&layout, 0, 0), 0);
    assert_int_equal(psr_layout_elements_in(&layout, 149, 11), 1);
    assert_int_equal(psr_layout_elements_in(&layout, 150, 10), 0);
    assert_int_equal(psr_layout_elements_in(&layout, 140, 25), 15);
    assert_int_equal(psr_layout_elements_in(&layout, 170, 22), 7);
    psr_layout_done(&layout);
}

static void padding_alone_is_cleared(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    const size_t offset = 140, count = 35; /* elements, padding, elements, padding */
    float values[192];
    for (size_t i = 0; i < 192; i++)
        values[i] = 1;
    psr_layout_clear_padding(&layout, offset, count, values + offset);
    for (size_t i = 0; i < 192; i++) {
        const bool cleared =
            i >= offset && i < offset + count && psr_layout_elements_in(&layout, i, 1) == 0;
        assert_true(values[i] == (cleared ? 0 : 1));
    }
    psr_layout_done(&layout);
}

static void a_name_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    assert_null(psr_layout_find(&layout, "conv"));
    assert_null(psr_layout_find(&layout, ""));
    assert_ptr_equal(psr_layout_find(&layout, "fc.weight"), &layout.tensors[2]);
    psr_layout_done(&layout);
}

static void a_name_that_is_too_long_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    char name[65];
    memset(name, 'n', 64);
    name[64] = '\0';
    expect_failure(
        psr_layout_add(&layout, name, 1, (uint32_t[]){1}), PSR_ERR_USAGE,
        "tensor name \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\" is "
        "longer than 63 characters");
    name[63] = '\0';
    expect_ok(psr_layout_add(&layout, name, 1, (uint32_t[]){1}));
    assert_int_equal(layout.tensor_count, 4);
    psr_layout_done(&layout);
}

static void a_shape_that_is_empty_or_overflows_is_refused(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    static const char detail[] = "tensor x: shape is empty or larger than memory can be";
    expect_failure(psr_layout_add(&layout, "x", 2, (uint32_t[]){3, 0}), PSR_ERR_USAGE, detail);
    expect_failure(psr_layout_add(&layout, "x", 2, (uint32_t[]){UINT32_MAX, UINT32_MAX}),
                   PSR_ERR_USAGE, detail);
    expect_failure(psr_layout_add(&layout, "x", 3, (uint32_t[]){UINT32_MAX, UINT32_MAX, 7}),
                   PSR_ERR_USAGE, detail);
    assert_int_equal(layout.tensor_count, 3);
    assert_int_equal(layout.length, 192);
    psr_layout_done(&layout);
}

/* The arena of the layout, every element a different number, padding too. */
static float *numbered_arena(const psr_layout *layout)
{
    float *arena = malloc(layout->length * sizeof *arena);
    assert_non_null(arena);
    for (size_t i = 0; i < layout->length; i++)
        arena[i] = (float)i + 0.5f;
    return arena;
}

static void the_hash_is_xxh3_of_the_elements_one_after_the_other(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    float *arena = numbered_arena(&layout);
    float packed[167];
    size_t packed_count = 0;
    for (size_t t = 0; t < layout.tensor_count; t++)
        for (size_t i = 0; i < layout.tensors[t].count; i++)
            packed[packed_count++] = arena[layout.tensors[t].offset + i];
    assert_int_equal(packed_count, layout.count);
    assert_true(psr_layout_hash(&layout, arena) == XXH3_64bits(packed, sizeof packed));
    free(arena);
    psr_layout_done(&layout);
}

static void the_hash_sees_every_element_and_no_padding(void **state)
{
    (void)state;
    psr_layout layout = three_tensors();
    float *arena = numbered_arena(&layout);
    uint64_t hash = psr_layout_hash(&layout, arena);
    size_t seen = 0;
    for (size_t i = 0; i < layout.length; i++) {
        float kept = arena[i];
        arena[i] = -kept;
        seen += psr_layout_hash(&layout, arena) != hash;
        arena[i] = kept;
    }
    assert_int_equal(seen, layout.count);
    assert_true(psr_layout_hash(&layout, arena) == hash);
    free(arena);
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_begin_at_64_byte_boundaries_in_the_order_of_adding),
        cmocka_unit_test(unused_dimensions_are_one),
        cmocka_unit_test(elements_are_counted_without_the_padding_between_them),
        cmocka_unit_test(padding_alone_is_cleared),
        cmocka_unit_test(a_name_that_is_not_there_is_not_found),
        cmocka_unit_test(a_name_that_is_too_long_is_refused_and_changes_nothing),
        cmocka_unit_test(a_shape_that_is_empty_or_overflows_is_refused),
        cmocka_unit_test(the_hash_is_xxh3_of_the_elements_one_after_the_other),
        cmocka_unit_test(the_hash_sees_every_element_and_no_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
