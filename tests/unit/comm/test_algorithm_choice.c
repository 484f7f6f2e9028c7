#include "tests/unit/expect.h"

#include "comm/collectives/algorithm_choice.h"

#include <string.h>

/* Ranks of a host follow one another, as many on each. */
static psr_rank_hosts on(uint32_t hosts, uint32_t each)
{
    return (psr_rank_hosts){hosts * each, hosts, each, hosts > 1};
}

static void on_one_host_the_choice_is_the_documented_table(void **state)
{
    (void)state;
    static const struct {
        psr_kind kind;
        uint64_t bytes;
        uint32_t ranks;
        psr_algorithm want;
    } rows[] = {
        {PSR_KIND_ALL_REDUCE, 1024, 8, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_REDUCE, 1025, 8, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 1024, 9, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 0, 9, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 65536, 2, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_REDUCE, 65537, 2, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_REDUCE, 16384, 4, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_REDUCE, 16385, 3, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 65536, 9, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 65537, 4, PSR_ALGORITHM_HALVING},
        {PSR_KIND_ALL_REDUCE, 65537, 3, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_REDUCE, 1048577, 4, PSR_ALGORITHM_RING},
        {PSR_KIND_REDUCE, 65536, 9, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_REDUCE, 65537, 9, PSR_ALGORITHM_CHAIN},
        {PSR_KIND_REDUCE, 65537, 2, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_SCAN, 65536, 9, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_SCAN, 65537, 2, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_EXSCAN, 65537, 3, PSR_ALGORITHM_CHAIN},
        {PSR_KIND_BROADCAST, 65536, 9, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_BROADCAST, 65537, 9, PSR_ALGORITHM_CHAIN},
        {PSR_KIND_REDUCE_SCATTER, 65536, 9, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_REDUCE_SCATTER, 65537, 9, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_GATHER, 65536, 8, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_GATHER, 65536, 9, PSR_ALGORITHM_BRUCK},
        {PSR_KIND_ALL_GATHER, 65537, 9, PSR_ALGORITHM_RING},
        {PSR_KIND_GATHER, 8 * 4096, 8, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_GATHER, 7 * 4096, 7, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_SCATTER, 8 * 4097, 8, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_BARRIER, 0, 5, PSR_ALGORITHM_DISSEMINATION},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const psr_rank_hosts at = on(1, rows[i].ranks);
        psr_algorithm is = psr_algorithm_choose(rows[i].kind, rows[i].bytes, &at);
        if (is != rows[i].want)
            fail_msg("row %zu: %s, not %s", i, psr_algorithm_name(is),
                     psr_algorithm_name(rows[i].want));
    }
}

static void over_links_what_the_busiest_link_carries_decides(void **state)
{
    (void)state;
    static const struct {
        psr_kind kind;
        uint64_t bytes;
        uint32_t hosts, each;
        psr_algorithm want;
    } rows[] = {
        /* 4 hosts of 2: ring 14 steps and 1.75 M, halving 6 and 3 M, doubling 3 and 4 M, direct 1
         * and 12 M */
        {PSR_KIND_ALL_REDUCE, 8, 4, 2, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_REDUCE, 2048, 4, 2, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 16384, 4, 2, PSR_ALGORITHM_HALVING},
        {PSR_KIND_ALL_REDUCE, 25599, 4, 2, PSR_ALGORITHM_HALVING},
        {PSR_KIND_ALL_REDUCE, 25601, 4, 2, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_REDUCE, 4 << 20, 4, 2, PSR_ALGORITHM_RING},
        /* a link for each rank: halving and ring carry the same, and halving has fewer steps */
        {PSR_KIND_ALL_REDUCE, 4 << 20, 8, 1, PSR_ALGORITHM_HALVING},
        {PSR_KIND_ALL_REDUCE, 4 << 20, 7, 1, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_REDUCE, 1024, 2, 1, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_ALL_REDUCE, 1 << 20, 2, 1, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_REDUCE, UINT64_MAX, 128, 8, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_REDUCE, 8, 128, 8, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_BROADCAST, 4096, 4, 2, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_BROADCAST, 4 << 20, 4, 2, PSR_ALGORITHM_CHAIN},
        {PSR_KIND_REDUCE, 4 << 20, 2, 1, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_SCAN, 4096, 4, 1, PSR_ALGORITHM_DOUBLING},
        {PSR_KIND_EXSCAN, 4 << 20, 4, 2, PSR_ALGORITHM_CHAIN},
        {PSR_KIND_REDUCE_SCATTER, 4096, 4, 1, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_REDUCE_SCATTER, 4 << 20, 4, 2, PSR_ALGORITHM_RING},
        {PSR_KIND_ALL_GATHER, 4096, 4, 1, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_GATHER, 4096, 32, 2, PSR_ALGORITHM_BRUCK},
        {PSR_KIND_ALL_GATHER, 1 << 20, 4, 2, PSR_ALGORITHM_RING},
        {PSR_KIND_GATHER, 8 * 16384, 4, 2, PSR_ALGORITHM_BINOMIAL},
        {PSR_KIND_SCATTER, 8 * 16385, 4, 2, PSR_ALGORITHM_DIRECT},
        {PSR_KIND_ALL_TO_ALL, 1000000, 5, 1, PSR_ALGORITHM_DIRECT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const psr_rank_hosts at = on(rows[i].hosts, rows[i].each);
        psr_algorithm is = psr_algorithm_choose(rows[i].kind, rows[i].bytes, &at);
        if (is != rows[i].want)
            fail_msg("row %zu: %s, not %s", i, psr_algorithm_name(is),
                     psr_algorithm_name(rows[i].want));
    }
    /* Ranks dealt out in turns: each hop of a ring is between hosts, and halving's large parts are
     * within one. */
    const psr_rank_hosts in_turns = {8, 4, 2, 2};
    assert_int_equal(psr_algorithm_choose(PSR_KIND_ALL_REDUCE, 4 << 20, &in_turns),
                     PSR_ALGORITHM_HALVING);
}

static void where_ranks_are_is_counted(void **state)
{
    (void)state;
    static const struct {
        uint32_t host_of[6], ranks;
        psr_rank_hosts want;
    } rows[] = {
        {{7}, 1, {1, 1, 1, 0}},
        {{3, 3, 3}, 3, {3, 1, 3, 0}},
        {{0, 0, 1, 1}, 4, {4, 2, 2, 1}},
        {{0, 1, 0, 1}, 4, {4, 2, 2, 2}},
        {{2, 2, 2, 0, 5, 5}, 6, {6, 3, 3, 1}},
        {{1, 0, 0, 0, 1, 0}, 6, {6, 2, 4, 2}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const psr_rank_hosts at = psr_rank_hosts_of(rows[i].host_of, rows[i].ranks);
        assert_memory_equal(&at, &rows[i].want, sizeof at);
    }
}

static void what_is_chosen_is_there(void **state)
{
    (void)state;
    for (psr_kind kind = 0; kind < PSR_KINDS; kind++)
        for (uint64_t bytes = 0; bytes < (uint64_t)1 << 40; bytes = 3 * bytes + 1)
            for (uint32_t ranks = 1; ranks < 100; ranks++) {
                const psr_rank_hosts at = on(1 + ranks % 3, ranks);
                assert_true(psr_algorithm_fits(psr_algorithm_choose(kind, bytes, &at), kind));
            }
}

static void each_is_found_by_its_name(void **state)
{
    (void)state;
    psr_algorithm found;
    for (psr_kind kind = 0; kind < PSR_KINDS; kind++)
        for (psr_algorithm algorithm = 0; algorithm < PSR_ALGORITHMS; algorithm++)
            if (algorithm == PSR_ALGORITHM_AUTO || psr_algorithm_fits(algorithm, kind)) {
                expect_ok(psr_algorithm_find(kind, psr_algorithm_name(algorithm), &found));
                assert_int_equal(found, algorithm);
            }
    expect_failure(
        psr_algorithm_find(PSR_KIND_ALL_REDUCE, "bruck", &found), PSR_ERR_USAGE,
        "all_reduce has no algorithm bruck: there are auto, ring, direct, doubling, halving, root");
    expect_failure(psr_algorithm_find(PSR_KIND_BARRIER, "?", &found), PSR_ERR_USAGE,
                   "barrier has no algorithm ?: there are auto, dissemination, root");
    assert_false(psr_algorithm_fits(PSR_ALGORITHM_AUTO, PSR_KIND_ALL_REDUCE));
    assert_false(psr_algorithm_fits((psr_algorithm)99, PSR_KIND_ALL_REDUCE));
    assert_false(psr_algorithm_fits(PSR_ALGORITHM_RING, (psr_kind)99));
}

static void a_call_is_told_in_words_whoever_sent_it(void **state)
{
    (void)state;
    char text[128];
    psr_call call = {
        PSR_KIND_REDUCE, PSR_ALGORITHM_CHAIN, PSR_TYPE_BFLOAT16, PSR_REDUCTION_MEAN, 7, false, 12,
        {.encoding = 0}};
    psr_msg_call says = psr_call_message(&call);
    psr_call_describe(&says, false, text, sizeof text);
    assert_string_equal(text, "reduce(count 12, bfloat16, mean, root 7, chain)");
    call = (psr_call){.kind = PSR_KIND_RECEIVE,
                      .algorithm = PSR_ALGORITHM_DIRECT,
                      .type = PSR_TYPE_INT8,
                      .count = 3};
    says = psr_call_message(&call);
    psr_call_describe(&says, false, text, sizeof text); /* the one call has two names */
    assert_string_equal(text, "send(count 3, int8, direct)");
    psr_call_describe(&says, true, text, sizeof text);
    assert_string_equal(text, "receive(count 3, int8, direct)");
    says.word = UINT64_MAX;
    says.count = 12;
    psr_call_describe(&says, false, text, sizeof text);
    assert_string_equal(text, "?(counts #000c, ?, ?, ?)");
    /* Every field changes what is compared. */
    call = (psr_call){
        PSR_KIND_REDUCE, PSR_ALGORITHM_CHAIN, PSR_TYPE_BFLOAT16, PSR_REDUCTION_MEAN, 7, false, 12,
        {.encoding = 0}};
    const psr_msg_call same = psr_call_message(&call);
    call.type = PSR_TYPE_FLOAT16;
    assert_true(psr_call_message(&call).word != same.word);
    const size_t counts[] = {1, 2}, others[] = {2, 1};
    assert_true(psr_call_digest(counts, 2) != psr_call_digest(others, 2));
}

static void slices_grow_with_what_is_as_large_on_all_ranks(void **state)
{
    (void)state;
    static const struct {
        psr_kind kind;
        uint64_t bytes;
        size_t most, want;
    } rows[] = {
        {PSR_KIND_ALL_REDUCE, 0, 1024, 256},
        {PSR_KIND_ALL_REDUCE, 32 * 512 - 1, 1024, 256},
        {PSR_KIND_ALL_REDUCE, 32 * 512, 1024, 512},
        {PSR_KIND_BROADCAST, 32 * 1024 - 1, 1024, 512},
        {PSR_KIND_EXSCAN, 32 * 1024, 1024, 1024},
        {PSR_KIND_SEND, 32 * 1024, 1024, 1024},
        {PSR_KIND_RECEIVE, UINT64_MAX, 1024, 1024},
        {PSR_KIND_ALL_REDUCE, UINT64_MAX, 0, 256},
        {PSR_KIND_ALL_REDUCE, UINT64_MAX, 1000, 512},
        {PSR_KIND_ALL_TO_ALL_V, UINT64_MAX, 1024, 256},
        {PSR_KIND_HALO, UINT64_MAX, 1024, 256},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(psr_slice_choose(rows[i].kind, rows[i].bytes, 256, rows[i].most),
                         rows[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_host_the_choice_is_the_documented_table),
        cmocka_unit_test(over_links_what_the_busiest_link_carries_decides),
        cmocka_unit_test(where_ranks_are_is_counted),
        cmocka_unit_test(slices_grow_with_what_is_as_large_on_all_ranks),
        cmocka_unit_test(what_is_chosen_is_there),
        cmocka_unit_test(each_is_found_by_its_name),
        cmocka_unit_test(a_call_is_told_in_words_whoever_sent_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
