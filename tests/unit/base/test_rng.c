#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"

#include <math.h>

/* The published known answers of philox4x32-10 (Random123, kat_vectors): counter, key, result. The
 * library's counter is (block, sample, epoch, purpose << 24 | layer) and its key the seed. */
static void the_generator_gives_the_published_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], result[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        psr_rng_at at = {
            .seed = (uint64_t)known[k].key[1] << 32 | known[k].key[0],
            .purpose = (psr_rng_purpose)(known[k].counter[3] >> 24),
            .epoch = known[k].counter[2],
            .sample = known[k].counter[1],
            .layer = known[k].counter[3] & 0xFFFFFF,
        };
        uint32_t words[4];
        psr_rng_block(at, known[k].counter[0], words);
        for (int i = 0; i < 4; i++)
            assert_int_equal(words[i], known[k].result[i]);
    }
}

static const psr_rng_at here = {
    .seed = 42, .purpose = PSR_RNG_TEST, .epoch = 3, .sample = 1000, .layer = 5};

static void a_word_is_its_place_in_its_block(void **state)
{
    (void)state;
    uint32_t words[4];
    psr_rng_block(here, 25, words);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(psr_rng_word(here, 100 + i), words[i]);
}

static void many_blocks_are_each_by_itself(void **state)
{
    (void)state;
    enum { MOST = 70 };
    const psr_rng_at at = {.seed = UINT64_C(0x123456789abcdef0),
                           .purpose = PSR_RNG_TEST,
                           .epoch = 4000000000,
                           .sample = 3000000000,
                           .layer = 0xfedcba};
    const uint32_t firsts[] = {0, 1, 77, UINT32_MAX - 20}; /* the number of a block wraps around */
    for (size_t count = 0; count <= MOST; count++)
        for (int f = 0; f < 4; f++) {
            uint32_t words[4 * MOST + 4], one[4];
            words[4 * count] = 0x5eed;
            psr_rng_blocks(at, firsts[f], count, words);
            assert_int_equal(words[4 * count], 0x5eed);
            for (size_t i = 0; i < count; i++) {
                psr_rng_block(at, firsts[f] + (uint32_t)i, one);
                assert_memory_equal(one, words + 4 * i, sizeof one);
            }
        }
}

static void every_part_of_the_place_changes_the_word(void **state)
{
    (void)state;
    uint32_t word = psr_rng_word(here, 0);
    psr_rng_at at = here;
    at.seed ^= (uint64_t)1 << 40;
    assert_int_not_equal(psr_rng_word(at, 0), word);
    at = here;
    at.purpose = PSR_RNG_DROPOUT;
    assert_int_not_equal(psr_rng_word(at, 0), word);
    at = here;
    at.epoch++;
    assert_int_not_equal(psr_rng_word(at, 0), word);
    at = here;
    at.sample++;
    assert_int_not_equal(psr_rng_word(at, 0), word);
    at = here;
    at.layer++;
    assert_int_not_equal(psr_rng_word(at, 0), word);
    assert_int_not_equal(psr_rng_word(here, 1), word);
}

static void a_uniform_number_is_in_zero_to_one_at_both_ends_of_the_words(void **state)
{
    (void)state;
    assert_true(psr_rng_unit(0) == 0.0f);
    assert_true(psr_rng_unit(UINT32_MAX) < 1.0f);
    assert_true(psr_rng_unit(UINT32_MAX) == 1.0f - 0x1p-24f);
}

static void integers_below_a_bound_are_equally_likely(void **state)
{
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    int seen[BOUND] = {0};
    uint64_t element = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint32_t value = psr_rng_below(here, &element, BOUND);
        assert_in_range(value, 0, BOUND - 1);
        seen[value]++;
    }
    /* Standard deviation of a count: sqrt(70000 * 1/7 * 6/7) = 93; five of them. */
    for (int v = 0; v < BOUND; v++)
        assert_in_range(seen[v], DRAWS / BOUND - 465, DRAWS / BOUND + 465);
    assert_true(element >= DRAWS);
}

static void a_bound_just_above_half_the_range_rejects_and_goes_on(void **state)
{
    (void)state;
    /* 2^32 mod (2^31 + 1) is 2^31 - 1: almost every second word is rejected. */
    uint32_t bound = (UINT32_C(1) << 31) + 1;
    uint64_t element = 0;
    for (int i = 0; i < 1000; i++)
        assert_true(psr_rng_below(here, &element, bound) < bound);
    assert_in_range(element, 1800, 2200);
}

static void a_bound_of_one_gives_zero(void **state)
{
    (void)state;
    uint64_t element = 0;
    assert_int_equal(psr_rng_below(here, &element, 1), 0);
}

static void normal_numbers_have_the_moments_of_the_standard_normal(void **state)
{
    (void)state;
    enum { PAIRS = 100000 };
    double sum = 0, squares = 0, cubes = 0, fourths = 0, products = 0;
    for (uint32_t i = 0; i < PAIRS; i++) {
        double z[2];
        psr_rng_normal_pair(here, i, z);
        products += z[0] * z[1];
        for (int k = 0; k < 2; k++) {
            sum += z[k];
            squares += z[k] * z[k];
            cubes += z[k] * z[k] * z[k];
            fourths += z[k] * z[k] * z[k] * z[k];
        }
    }
    double n = 2.0 * PAIRS;
    /* Five standard errors: of z 1, of z^2 sqrt 2, of z^3 sqrt 15, of z^4 sqrt 96, each over sqrt
     * n. */
    assert_true(fabs(sum / n) < 5 * 1.0 / sqrt(n));
    assert_true(fabs(squares / n - 1) < 5 * sqrt(2.0) / sqrt(n));
    assert_true(fabs(cubes / n) < 5 * sqrt(15.0) / sqrt(n));
    assert_true(fabs(fourths / n - 3) < 5 * sqrt(96.0) / sqrt(n));
    assert_true(fabs(products / PAIRS) < 5 * 1.0 / sqrt((double)PAIRS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_generator_gives_the_published_known_answers),
        cmocka_unit_test(a_word_is_its_place_in_its_block),
        cmocka_unit_test(many_blocks_are_each_by_itself),
        cmocka_unit_test(every_part_of_the_place_changes_the_word),
        cmocka_unit_test(a_uniform_number_is_in_zero_to_one_at_both_ends_of_the_words),
        cmocka_unit_test(integers_below_a_bound_are_equally_likely),
        cmocka_unit_test(a_bound_just_above_half_the_range_rejects_and_goes_on),
        cmocka_unit_test(a_bound_of_one_gives_zero),
        cmocka_unit_test(normal_numbers_have_the_moments_of_the_standard_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
