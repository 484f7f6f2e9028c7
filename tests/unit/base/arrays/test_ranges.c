#include "tests/unit/expect.h"

#include "base/rng.h"
#include "base/arrays/ranges.h"

#include <string.h>

static void add(psr_ranges *ranges, size_t begin, size_t end)
{
    expect_ok(psr_ranges_reserve(ranges));
    psr_ranges_add(ranges, begin, end);
}

static void an_empty_set_has_nothing(void **state)
{
    (void)state;
    psr_ranges ranges = {0};
    assert_int_equal(psr_ranges_first_missing(&ranges), 0);
    assert_false(psr_ranges_overlap(&ranges, 0, SIZE_MAX));
    psr_ranges_done(&ranges);
    psr_ranges_done(NULL);
}

static void neighbours_are_joined_from_both_sides(void **state)
{
    (void)state;
    psr_ranges ranges = {0};
    add(&ranges, 0, 5);
    add(&ranges, 10, 15);
    assert_int_equal(ranges.count, 2);
    assert_int_equal(psr_ranges_first_missing(&ranges), 5);
    add(&ranges, 5, 10);
    assert_int_equal(ranges.count, 1);
    assert_int_equal(psr_ranges_first_missing(&ranges), 15);
    psr_ranges_done(&ranges);
}

static void what_only_touches_does_not_overlap(void **state)
{
    (void)state;
    psr_ranges ranges = {0};
    add(&ranges, 10, 20);
    assert_false(psr_ranges_overlap(&ranges, 0, 10));
    assert_false(psr_ranges_overlap(&ranges, 20, 30));
    assert_false(psr_ranges_overlap(&ranges, 15, 15)); /* empty */
    assert_true(psr_ranges_overlap(&ranges, 0, 11));
    assert_true(psr_ranges_overlap(&ranges, 19, 30));
    assert_true(psr_ranges_overlap(&ranges, 12, 13));
    assert_true(psr_ranges_overlap(&ranges, 0, 30));
    psr_ranges_done(&ranges);
}

/* Against a set kept as one flag per index. */
static void random_pieces_agree_with_a_table_of_flags(void **state)
{
    (void)state;
    enum { SIZE = 200 };
    for (uint32_t round = 0; round < 100; round++) {
        psr_rng_at at = {.seed = 3, .purpose = PSR_RNG_TEST, .sample = round};
        uint64_t element = 0;
        psr_ranges ranges = {0};
        bool flags[SIZE + 1] = {false};
        size_t added = 0;
        while (added < SIZE) {
            size_t begin = psr_rng_below(at, &element, SIZE);
            size_t end = begin + 1 + psr_rng_below(at, &element, 12);
            end = end < SIZE ? end : SIZE;
            bool overlap = memchr(flags + begin, true, end - begin) != NULL;
            assert_int_equal(psr_ranges_overlap(&ranges, begin, end), overlap);
            if (overlap)
                continue;
            add(&ranges, begin, end);
            memset(flags + begin, true, end - begin);
            added += end - begin;
            assert_int_equal(psr_ranges_first_missing(&ranges),
                             (bool *)memchr(flags, false, SIZE + 1) - flags);
        }
        assert_int_equal(ranges.count, 1);
        psr_ranges_done(&ranges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_set_has_nothing),
        cmocka_unit_test(neighbours_are_joined_from_both_sides),
        cmocka_unit_test(what_only_touches_does_not_overlap),
        cmocka_unit_test(random_pieces_agree_with_a_table_of_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
