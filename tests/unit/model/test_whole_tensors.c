#include "tests/unit/expect.h"

#include "model/optimizers/whole_tensors.h"

#include <stdio.h>
#include <string.h>

/* Three tensors of 16, 48 and 32 floats: [0,16) [16,64) [64,96). */
static void make_layout(psr_layout *layout)
{
    *layout = (psr_layout){0};
    expect_ok(psr_layout_add(layout, "a", 1, (uint32_t[]){10}));
    expect_ok(psr_layout_add(layout, "b", 1, (uint32_t[]){48}));
    expect_ok(psr_layout_add(layout, "c", 1, (uint32_t[]){20}));
    assert_int_equal(layout->length, 96);
}

/* What happened, as text: "t1" a tensor is complete, "p2" a part is new. */
static char story[128];
static psr_err updated_err;

static void note(char kind, size_t index)
{
    size_t used = strlen(story);
    snprintf(story + used, sizeof story - used, "%c%zu ", kind, index);
}

static void complete(void *context, size_t tensor)
{
    (void)context;
    note('t', tensor);
}

static psr_err updated(void *context, uint32_t part)
{
    (void)context;
    note('p', part);
    return updated_err;
}

static const psr_whole_tensors_events events = {NULL, complete, updated};

static const char *after(psr_whole_tensors *tensors, uint32_t part)
{
    story[0] = '\0';
    expect_ok(psr_whole_tensors_summed(tensors, part));
    return story;
}

static void a_tensor_waits_for_its_parts_and_a_part_for_its_tensors(void **state)
{
    (void)state;
    psr_layout layout;
    psr_whole_tensors *tensors;
    make_layout(&layout);
    /* Part 0 holds a and a piece of b, part 1 a piece of b, part 2 the rest of b and c. */
    const psr_span parts[] = {{0, 32}, {32, 16}, {48, 48}};
    expect_ok(psr_whole_tensors_new(&layout, parts, 3, &events, &tensors));
    for (int step = 0; step < 3; step++) { /* each step anew */
        assert_string_equal(after(tensors, 1), "");
        assert_string_equal(after(tensors, 0), "t0 ");
        assert_string_equal(after(tensors, 2), "t1 p0 p1 t2 p2 ");
    }
    for (int step = 0; step < 2; step++) {
        assert_string_equal(after(tensors, 2), "t2 ");
        assert_string_equal(after(tensors, 1), "");
        assert_string_equal(after(tensors, 0), "t0 t1 p0 p1 p2 ");
    }
    psr_whole_tensors_free(tensors);
    psr_layout_done(&layout);
}

static void parts_may_leave_whole_tensors_out_but_not_pieces(void **state)
{
    (void)state;
    psr_layout layout;
    psr_whole_tensors *tensors;
    make_layout(&layout);
    const psr_span some[] = {{0, 16}, {64, 32}};
    expect_ok(psr_whole_tensors_new(&layout, some, 2, &events, &tensors));
    assert_string_equal(after(tensors, 1), "t2 p1 ");
    psr_whole_tensors_free(tensors);
    const psr_span torn[] = {{0, 32}, {64, 32}};
    expect_failure(psr_whole_tensors_new(&layout, torn, 2, &events, &tensors), PSR_ERR_USAGE,
                   "tensor b lies only in part in these buckets: its update needs all of it");
    expect_ok(psr_whole_tensors_new(&layout, NULL, 0, &events, &tensors));
    psr_whole_tensors_free(tensors);
    psr_layout_done(&layout);
}

static void a_failure_to_pass_a_part_on_comes_back(void **state)
{
    (void)state;
    psr_layout layout;
    psr_whole_tensors *tensors;
    make_layout(&layout);
    const psr_span parts[] = {{0, 96}};
    expect_ok(psr_whole_tensors_new(&layout, parts, 1, &events, &tensors));
    updated_err = PSR_ERR_PEER;
    assert_int_equal(psr_whole_tensors_summed(tensors, 0), PSR_ERR_PEER);
    updated_err = PSR_OK;
    psr_whole_tensors_free(tensors);
    psr_layout_done(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_waits_for_its_parts_and_a_part_for_its_tensors),
        cmocka_unit_test(parts_may_leave_whole_tensors_out_but_not_pieces),
        cmocka_unit_test(a_failure_to_pass_a_part_on_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
