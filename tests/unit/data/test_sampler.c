#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/sampler.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 1000 };

static psr_sampler sampler_of(uint32_t count, uint32_t workers, psr_partition partition)
{
    return (psr_sampler){.seed = 42,
                         .count = count,
                         .workers = workers,
                         .batch_size = 7,
                         .partition = partition,
                         .shuffle = true};
}

/* How often each sample comes, over all ranks. */
static void count_uses(const psr_sampler *sampler, uint32_t epoch, uint32_t uses[COUNT_MAX])
{
    uint32_t order[COUNT_MAX], share[COUNT_MAX];
    memset(uses, 0, COUNT_MAX * sizeof *uses);
    psr_sampler_order(sampler, epoch, order);
    for (uint32_t rank = 0; rank < sampler->workers; rank++) {
        psr_sampler_select(sampler, order, rank, share);
        for (uint32_t i = 0; i < psr_sampler_share(sampler, rank); i++) {
            assert_true(share[i] < sampler->count);
            uses[share[i]]++;
        }
    }
}

static const uint32_t counts[] = {1, 2, 5, 8, 9, 63, 64, 65, 997, 1000};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static void exact_gives_every_sample_once_across_ranks(void **state)
{
    (void)state;
    uint32_t uses[COUNT_MAX];
    for (uint32_t workers = 1; workers <= 8; workers++) {
        for (int c = 0; c < COUNTS; c++) {
            psr_sampler sampler = sampler_of(counts[c], workers, PSR_PARTITION_EXACT);
            count_uses(&sampler, 3, uses);
            for (uint32_t i = 0; i < counts[c]; i++)
                assert_int_equal(uses[i], 1);
        }
    }
}

/* Some steps by n workers, and the rest of the epoch by m. */
static void an_epoch_dealt_out_anew_gives_every_sample_once(void **state)
{
    (void)state;
    uint32_t uses[COUNT_MAX], order[COUNT_MAX], share[COUNT_MAX];
    for (uint32_t workers = 1; workers <= 5; workers++)
        for (uint32_t others = 1; others <= 5; others++)
            for (uint32_t steps = 0; steps <= 6; steps++) {
                psr_sampler first = sampler_of(65, workers, PSR_PARTITION_EXACT), rest = first;
                rest.workers = others;
                rest.used = workers * 7 * steps;
                count_uses(&rest, 3, uses);
                psr_sampler_order(&first, 3, order);
                for (uint32_t rank = 0; rank < workers; rank++) {
                    psr_sampler_select(&first, order, rank, share);
                    for (uint32_t i = 0; i < 7 * steps && i < psr_sampler_share(&first, rank); i++)
                        uses[share[i]]++;
                }
                for (uint32_t i = 0; i < 65; i++)
                    assert_int_equal(uses[i], 1);
            }
}

static void shares_differ_by_at_most_one_and_the_first_are_the_larger(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers++) {
        for (int c = 0; c < COUNTS; c++) {
            psr_sampler sampler = sampler_of(counts[c], workers, PSR_PARTITION_EXACT);
            uint32_t sum = 0, first = psr_sampler_share(&sampler, 0);
            for (uint32_t rank = 0; rank < workers; rank++) {
                uint32_t share = psr_sampler_share(&sampler, rank);
                assert_true(share == first || share + 1 == first);
                assert_true(rank == 0 || share <= psr_sampler_share(&sampler, rank - 1));
                sum += share;
            }
            assert_int_equal(sum, counts[c]);
        }
    }
}

static void drop_leaves_out_the_tail_that_n_does_not_divide(void **state)
{
    (void)state;
    uint32_t uses[COUNT_MAX], order[COUNT_MAX];
    for (uint32_t workers = 1; workers <= 8; workers++) {
        for (int c = 0; c < COUNTS; c++) {
            psr_sampler sampler = sampler_of(counts[c], workers, PSR_PARTITION_DROP);
            count_uses(&sampler, 0, uses);
            psr_sampler_order(&sampler, 0, order);
            uint32_t kept = counts[c] / workers * workers;
            for (uint32_t i = 0; i < counts[c]; i++)
                assert_int_equal(uses[order[i]], i < kept);
        }
    }
}

/* torch.utils.data.distributed.DistributedSampler.__iter__, line by line. */
static void pytorch_indices(const uint32_t *order, uint32_t count, uint32_t workers, bool drop_last,
                            uint32_t rank, uint32_t *ret_indices, uint32_t *ret_count)
{
    uint32_t num_samples = (count + workers - 1) / workers;
    if (drop_last && count % workers != 0) /* ceil((count - workers) /
                                              workers) of Python's numbers */
        num_samples = count < workers ? 0 : (count - workers + workers - 1) / workers;
    uint32_t total_size = num_samples * workers;
    uint32_t *indices = calloc(2 * (size_t)(count + total_size), sizeof *indices), length = count;
    memcpy(indices, order, count * sizeof *indices);
    if (!drop_last) {
        uint32_t padding_size = total_size - length;
        for (uint32_t i = 0; i < padding_size; i++)
            indices[length + i] = order[i % count];
    }
    *ret_count = 0;
    for (uint32_t i = rank; i < total_size; i += workers)
        ret_indices[(*ret_count)++] = indices[i];
    free(indices);
}

static void drop_and_pad_select_as_pytorch_does(void **state)
{
    (void)state;
    uint32_t order[COUNT_MAX], share[COUNT_MAX], expected[COUNT_MAX], expected_count;
    for (uint32_t workers = 1; workers <= 8; workers++) {
        for (int c = 0; c < COUNTS; c++) {
            for (int drop = 0; drop < 2; drop++) {
                psr_sampler sampler =
                    sampler_of(counts[c], workers, drop ? PSR_PARTITION_DROP : PSR_PARTITION_PAD);
                psr_sampler_order(&sampler, 1, order);
                for (uint32_t rank = 0; rank < workers; rank++) {
                    pytorch_indices(order, counts[c], workers, drop, rank, expected,
                                    &expected_count);
                    assert_int_equal(psr_sampler_share(&sampler, rank), expected_count);
                    psr_sampler_select(&sampler, order, rank, share);
                    if (expected_count > 0)
                        assert_memory_equal(share, expected, expected_count * sizeof *share);
                }
            }
        }
    }
}

static void pad_repeats_the_head_more_than_once_when_ranks_outnumber_samples(void **state)
{
    (void)state;
    psr_sampler sampler = sampler_of(3, 8, PSR_PARTITION_PAD);
    uint32_t order[3], share[1];
    psr_sampler_order(&sampler, 0, order);
    for (uint32_t rank = 0; rank < 8; rank++) {
        assert_int_equal(psr_sampler_share(&sampler, rank), 1);
        psr_sampler_select(&sampler, order, rank, share);
        assert_int_equal(share[0], order[rank % 3]);
    }
}

static void the_order_is_a_function_of_seed_and_epoch(void **state)
{
    (void)state;
    uint32_t first[COUNT_MAX], other[COUNT_MAX];
    psr_sampler sampler = sampler_of(COUNT_MAX, 3, PSR_PARTITION_EXACT);
    psr_sampler_order(&sampler, 5, first);
    psr_sampler_order(&sampler, 5, other);
    assert_memory_equal(first, other, sizeof first);
    sampler.workers = 8;
    sampler.batch_size = 64;
    sampler.partition = PSR_PARTITION_PAD;
    psr_sampler_order(&sampler, 5, other);
    assert_memory_equal(first, other, sizeof first);
    psr_sampler_order(&sampler, 6, other);
    assert_memory_not_equal(first, other, sizeof first);
    sampler.seed++;
    psr_sampler_order(&sampler, 5, other);
    assert_memory_not_equal(first, other, sizeof first);
}

static void without_shuffle_the_order_is_the_files(void **state)
{
    (void)state;
    uint32_t order[100], share[100];
    psr_sampler sampler = sampler_of(100, 3, PSR_PARTITION_EXACT);
    sampler.shuffle = false;
    psr_sampler_order(&sampler, 9, order);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(order[i], i);
    psr_sampler_select(&sampler, order, 1, share);
    for (uint32_t i = 0; i < psr_sampler_share(&sampler, 1); i++)
        assert_int_equal(share[i], 1 + 3 * i);
}

/* Each of the 24 orders of 4 samples comes about as often: 2400 draws, 100 each, deviation 9.8. */
static void every_order_is_as_likely(void **state)
{
    (void)state;
    uint32_t seen[256] = {0}, order[4], orders = 0;
    psr_sampler sampler = sampler_of(4, 1, PSR_PARTITION_EXACT);
    for (uint32_t epoch = 0; epoch < 2400; epoch++) {
        psr_sampler_order(&sampler, epoch, order);
        seen[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    for (int i = 0; i < 256; i++) {
        if (seen[i] == 0)
            continue;
        orders++;
        assert_in_range(seen[i], 60, 140);
    }
    assert_int_equal(orders, 24);
}

/* What a buffer of K gives, written as streaming loaders do: with memory of its own. */
static void a_shuffle_buffer_gives_what_lies_in_it(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 10, 999, 1000, 5000};
    for (int k = 0; k < 6; k++) {
        psr_sampler sampler = sampler_of(COUNT_MAX, 1, PSR_PARTITION_EXACT);
        uint32_t order[COUNT_MAX], uses[COUNT_MAX] = {0}, moved = 0;
        sampler.shuffle_buffer = sizes[k];
        psr_sampler_order(&sampler, 3, order);
        for (uint32_t i = 0; i < COUNT_MAX; i++) {
            assert_true(order[i] < COUNT_MAX);
            uses[order[i]]++;
            /* entry i is given when the first i + K samples have entered */
            assert_true(order[i] < i + sizes[k]);
            moved += order[i] != i;
        }
        for (uint32_t i = 0; i < COUNT_MAX; i++)
            assert_int_equal(uses[i], 1);
        assert_true(sizes[k] == 1 ? moved == 0 : moved > COUNT_MAX / 4);
    }
}

static void repeated_samples_go_to_different_ranks(void **state)
{
    (void)state;
    enum { COUNT = 100, COPIES = 3, WORKERS = 4 };
    psr_sampler sampler = sampler_of(COUNT, WORKERS, PSR_PARTITION_EXACT);
    uint32_t once[COUNT], order[COUNT], share[COUNT], copies[COUNT] = {0};
    psr_sampler_order(&sampler, 1, once);
    sampler.copies = COPIES;
    psr_sampler_order(&sampler, 1, order);
    for (uint32_t p = 0; p < COUNT; p++)
        assert_int_equal(order[p], once[p / COPIES]);
    for (uint32_t rank = 0; rank < WORKERS; rank++) {
        psr_sampler_select(&sampler, order, rank, share);
        for (uint32_t i = 0; i < psr_sampler_share(&sampler, rank); i++) {
            assert_true(i == 0 || share[i] != share[i - 1]);
            /* each copy of a sample comes once */
            copies[share[i]] |= 1u << psr_sampler_copy(&sampler, rank, i);
        }
    }
    for (uint32_t p = 0; p + COPIES <= COUNT; p += COPIES)
        assert_int_equal(copies[order[p]], (1u << COPIES) - 1);
}

static void batches_cover_the_share_and_end_empty(void **state)
{
    (void)state;
    /* 15 samples, 4 ranks: shares 4 4 4 3; batches of 3: rank 3 has 3 and then none. */
    psr_sampler sampler = sampler_of(15, 4, PSR_PARTITION_EXACT);
    sampler.batch_size = 3;
    assert_int_equal(psr_sampler_steps(&sampler), 2);
    assert_int_equal(psr_sampler_batch(&sampler, 0, 0), 3);
    assert_int_equal(psr_sampler_batch(&sampler, 0, 1), 1);
    assert_int_equal(psr_sampler_batch(&sampler, 3, 0), 3);
    assert_int_equal(psr_sampler_batch(&sampler, 3, 1), 0);
    assert_int_equal(psr_sampler_batch(&sampler, 0, 2), 0);
    assert_int_equal(psr_sampler_global_batch(&sampler, 0), 12);
    assert_int_equal(psr_sampler_global_batch(&sampler, 1), 3);
    assert_int_equal(psr_sampler_global_batch(&sampler, 2), 0);
}

static void global_batches_sum_to_what_the_partition_gives(void **state)
{
    (void)state;
    for (psr_partition partition = PSR_PARTITION_EXACT; partition <= PSR_PARTITION_PAD;
         partition++) {
        for (uint32_t workers = 1; workers <= 8; workers++) {
            for (int c = 0; c < COUNTS; c++) {
                psr_sampler sampler = sampler_of(counts[c], workers, partition);
                uint32_t sum = 0, whole = counts[c] / workers * workers;
                for (uint32_t step = 0; step < psr_sampler_steps(&sampler); step++)
                    sum += psr_sampler_global_batch(&sampler, step);
                uint32_t expected = partition == PSR_PARTITION_EXACT  ? counts[c]
                                    : partition == PSR_PARTITION_DROP ? whole
                                    : whole == counts[c]              ? whole
                                                                      : whole + workers;
                assert_int_equal(sum, expected);
            }
        }
    }
}

static void large_numbers_do_not_wrap(void **state)
{
    (void)state;
    psr_sampler sampler = sampler_of(UINT32_MAX, 2, PSR_PARTITION_PAD);
    sampler.batch_size = UINT32_MAX;
    assert_int_equal(psr_sampler_steps(&sampler), 1);
    assert_int_equal(psr_sampler_batch(&sampler, 1, 0), 0x80000000u);
    assert_int_equal(psr_sampler_batch(&sampler, 1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_gives_every_sample_once_across_ranks),
        cmocka_unit_test(an_epoch_dealt_out_anew_gives_every_sample_once),
        cmocka_unit_test(shares_differ_by_at_most_one_and_the_first_are_the_larger),
        cmocka_unit_test(drop_leaves_out_the_tail_that_n_does_not_divide),
        cmocka_unit_test(drop_and_pad_select_as_pytorch_does),
        cmocka_unit_test(pad_repeats_the_head_more_than_once_when_ranks_outnumber_samples),
        cmocka_unit_test(the_order_is_a_function_of_seed_and_epoch),
        cmocka_unit_test(without_shuffle_the_order_is_the_files),
        cmocka_unit_test(every_order_is_as_likely),
        cmocka_unit_test(a_shuffle_buffer_gives_what_lies_in_it),
        cmocka_unit_test(repeated_samples_go_to_different_ranks),
        cmocka_unit_test(batches_cover_the_share_and_end_empty),
        cmocka_unit_test(global_batches_sum_to_what_the_partition_gives),
        cmocka_unit_test(large_numbers_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
