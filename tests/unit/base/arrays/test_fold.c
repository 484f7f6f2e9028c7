#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arrays/fold.h"
#include "base/rng.h"

#include <string.h>

static const uint32_t worlds[] = {1, 2, 3, 5, 8, 64};
static const size_t lengths[] = {0, 1, 2, 4, 7, 8, 16, 63, 1000, 1001, 4096};
enum { WORLDS = sizeof worlds / sizeof worlds[0], LENGTHS = sizeof lengths / sizeof lengths[0] };

static void chunks_tile_a_bucket_of_any_length(void **state)
{
    (void)state;
    for (int w = 0; w < WORLDS; w++) {
        for (int l = 0; l < LENGTHS; l++) {
            uint32_t n = worlds[w];
            size_t length = lengths[l];
            assert_int_equal(psr_fold_chunk_begin(length, n, 0), 0);
            assert_int_equal(psr_fold_chunk_begin(length, n, n), length);
            for (uint32_t c = 0; c < n; c++) {
                size_t begin = psr_fold_chunk_begin(length, n, c),
                       end = psr_fold_chunk_begin(length, n, c + 1);
                assert_true(begin <= end);
                assert_in_range(end - begin, length / n, length / n + 1);
            }
        }
    }
}

static void the_chunk_of_an_element_is_the_one_that_holds_it(void **state)
{
    (void)state;
    for (int w = 0; w < WORLDS; w++) {
        for (int l = 0; l < LENGTHS; l++) {
            for (size_t i = 0; i < lengths[l]; i++) {
                uint32_t c = psr_fold_chunk_of(lengths[l], worlds[w], i);
                assert_true(c < worlds[w]);
                assert_true(psr_fold_chunk_begin(lengths[l], worlds[w], c) <= i);
                assert_true(i < psr_fold_chunk_begin(lengths[l], worlds[w], c + 1));
            }
        }
    }
}

static void chunks_of_a_long_bucket_do_not_overflow(void **state)
{
    (void)state;
    size_t length = ((size_t)1 << 40) + 3;
    assert_int_equal(psr_fold_chunk_begin(length, 1024, 1024), length);
    assert_int_equal(psr_fold_chunk_begin(length, 1024, 512), length / 2);
    assert_int_equal(psr_fold_chunk_of(length, 1024, length - 1), 1023);
}

static void a_chunk_is_folded_from_the_next_rank_round_to_its_own(void **state)
{
    (void)state;
    static const uint32_t of_chunk_1_of_5[] = {2, 3, 4, 0, 1};
    for (uint32_t p = 0; p < 5; p++)
        assert_int_equal(psr_fold_rank_at(5, 1, p), of_chunk_1_of_5[p]);
    for (int w = 0; w < WORLDS; w++) {
        uint32_t n = worlds[w];
        for (uint32_t c = 0; c < n; c++)
            assert_int_equal(psr_fold_rank_at(n, c, n - 1), c);
    }
}

enum { COUNT = 1037 }; /* whole vectors of every width and a rest */

static void fill(float *x, uint32_t sample)
{
    psr_rng_at at = {.seed = 7, .purpose = PSR_RNG_TEST, .sample = sample};
    for (size_t i = 0; i < COUNT; i++) {
        double z[2];
        psr_rng_normal_pair(at, (uint32_t)i, z);
        x[i] = (float)(z[0] * (i % 3 == 0 ? 1e-4 : 1e3)); /* so that most sums round */
    }
}

/* One addition, out of reach of the vectoriser. */
static float plus(volatile float a, volatile float b)
{
    volatile float sum = a + b;
    return sum;
}

static void sums_have_the_bits_of_one_addition_per_element(void **state)
{
    (void)state;
    float a[COUNT], b[COUNT], expected[COUNT], out[COUNT];
    fill(a, 1);
    fill(b, 2);
    for (size_t count = 0; count <= COUNT; count += count < 70 ? 1 : 31) {
        for (size_t i = 0; i < count; i++)
            expected[i] = plus(a[i], b[i]);

        psr_fold_sum(out, a, b, count);
        assert_memory_equal(out, expected, count * sizeof *out);
        memcpy(out, a, sizeof out);
        psr_fold_add(out, b, count);
        assert_memory_equal(out, expected, count * sizeof *out);
        assert_memory_equal(out + count, a + count, (COUNT - count) * sizeof *out);
    }
}

static void the_output_of_a_sum_may_be_either_operand_or_both(void **state)
{
    (void)state;
    float a[COUNT], b[COUNT], expected[COUNT], out[COUNT];
    fill(a, 1);
    fill(b, 2);
    psr_fold_sum(expected, a, b, COUNT);
    memcpy(out, a, sizeof out);
    psr_fold_sum(out, out, b, COUNT);
    assert_memory_equal(out, expected, sizeof out);
    memcpy(out, b, sizeof out);
    psr_fold_sum(out, a, out, COUNT);
    assert_memory_equal(out, expected, sizeof out);
    memcpy(out, a, sizeof out);
    psr_fold_sum(out, out, out, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(out[i] == 2 * a[i]);
}

/* What a ring does, hop by hop, against what a shard does with psr_fold_rank_at. */
static void hops_of_a_ring_and_the_fold_give_the_same_bits(void **state)
{
    (void)state;
    enum { MOST = 8 };
    static float x[MOST][COUNT], held[MOST][COUNT];
    for (uint32_t r = 0; r < MOST; r++)
        fill(x[r], 10 + r);

    static const uint32_t sizes[] = {1, 3, 5, 8};
    for (int s = 0; s < 4; s++) {
        uint32_t n = sizes[s];
        for (size_t length = n == 1 ? 1 : 2; length <= COUNT; length = length * 3 + 1) {
            /* After hop h, rank r holds the partial sum of chunk r - h - 1, which began at the rank
             * after it. */
            for (uint32_t r = 0; r < n; r++)
                memcpy(held[r], x[r], sizeof held[r]);
            for (uint32_t hop = 0; hop + 1 < n; hop++) {
                for (uint32_t r = 0; r < n; r++) {
                    uint32_t chunk = (r + 2 * n - hop - 2) % n, from = (r + n - 1) % n;
                    size_t begin = psr_fold_chunk_begin(length, n, chunk);
                    size_t end = psr_fold_chunk_begin(length, n, chunk + 1);
                    psr_fold_add(held[r] + begin, held[from] + begin, end - begin);
                }
            }
            for (uint32_t c = 0; c < n; c++) {
                for (size_t i = psr_fold_chunk_begin(length, n, c);
                     i < psr_fold_chunk_begin(length, n, c + 1); i++) {
                    float sum = x[psr_fold_rank_at(n, c, 0)][i];
                    for (uint32_t p = 1; p < n; p++)
                        sum = plus(sum, x[psr_fold_rank_at(n, c, p)][i]);
                    assert_memory_equal(&held[c][i], &sum, sizeof sum);
                }
            }
        }
    }
}

static void another_order_gives_other_bits(void **state)
{
    (void)state;
    float x[3][COUNT], forward[COUNT], backward[COUNT];
    for (uint32_t r = 0; r < 3; r++)
        fill(x[r], 20 + r);
    psr_fold_sum(forward, x[0], x[1], COUNT);
    psr_fold_add(forward, x[2], COUNT);
    psr_fold_sum(backward, x[2], x[1], COUNT);
    psr_fold_add(backward, x[0], COUNT);
    assert_memory_not_equal(forward, backward, sizeof forward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_tile_a_bucket_of_any_length),
        cmocka_unit_test(the_chunk_of_an_element_is_the_one_that_holds_it),
        cmocka_unit_test(chunks_of_a_long_bucket_do_not_overflow),
        cmocka_unit_test(a_chunk_is_folded_from_the_next_rank_round_to_its_own),
        cmocka_unit_test(sums_have_the_bits_of_one_addition_per_element),
        cmocka_unit_test(the_output_of_a_sum_may_be_either_operand_or_both),
        cmocka_unit_test(hops_of_a_ring_and_the_fold_give_the_same_bits),
        cmocka_unit_test(another_order_gives_other_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
