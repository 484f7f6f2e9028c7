/* Blocks that keep their memory. */
#include "tests/unit/expect.h"

#include "base/arrays/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BYTES = 100000, MANY = 30 };

static void a_block_that_was_given_back_is_the_next_one(void **state)
{
    (void)state;
    psr_blocks *blocks;
    void *one, *other, *again;
    expect_ok(psr_blocks_new(BYTES, &blocks));
    expect_ok(psr_blocks_take(blocks, &one));
    expect_ok(psr_blocks_take(blocks, &other));
    assert_ptr_not_equal(one, other);
    psr_blocks_give(one);
    expect_ok(psr_blocks_take(blocks, &again));
    assert_ptr_equal(again, one);
    psr_blocks_give(again);
    psr_blocks_give(other);
    psr_blocks_free(blocks);
}

static void blocks_are_apart_and_aligned(void **state)
{
    (void)state;
    psr_blocks *blocks;
    unsigned char *taken[MANY];
    expect_ok(psr_blocks_new(BYTES, &blocks));
    for (int i = 0; i < MANY; i++) {
        void *block;
        expect_ok(psr_blocks_take(blocks, &block));
        assert_int_equal((uintptr_t)block % 64, 0);
        taken[i] = block;
        memset(block, i, BYTES);
    }
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < BYTES; k += BYTES - 1)
            assert_int_equal(taken[i][k], i);
    for (int i = 0; i < MANY; i++)
        psr_blocks_give(taken[i]);
    psr_blocks_free(blocks);
}

/* Whether all pages that have some of it are in memory. */
static bool is_there(void *block)
{
    unsigned char pages[BYTES / 4096 + 2];
    const uintptr_t first = (uintptr_t)block / 4096 * 4096;
    const size_t bytes = (uintptr_t)block + BYTES - first;
    assert_int_equal(mincore((void *)first, bytes, pages), 0);
    size_t here = 0;
    for (size_t i = 0; i < (bytes + 4095) / 4096; i++)
        here += pages[i] & 1;
    return here == (bytes + 4095) / 4096;
}

static void what_was_reserved_is_in_memory(void **state)
{
    (void)state;
    psr_blocks *blocks;
    void *taken[MANY];
    expect_ok(psr_blocks_new(BYTES, &blocks));
    expect_ok(psr_blocks_reserve(blocks, MANY));
    for (int i = 0; i < MANY; i++) {
        expect_ok(psr_blocks_take(blocks, &taken[i]));
        assert_true(is_there(taken[i]));
    }
    for (int i = 0; i < MANY; i++)
        psr_blocks_give(taken[i]);
    psr_blocks_free(blocks);
}

static void memory_of_the_callers_is_taken_first(void **state)
{
    (void)state;
    psr_blocks *blocks;
    void *taken[3];
    expect_ok(psr_blocks_new(BYTES, &blocks));
    const size_t bytes = psr_blocks_bytes(blocks, 2);
    unsigned char *memory = aligned_alloc(64, bytes);
    assert_non_null(memory);
    psr_blocks_lend(blocks, memory, bytes);
    expect_ok(psr_blocks_reserve(blocks, 2)); /* there are two */
    for (int i = 0; i < 3; i++) {
        expect_ok(psr_blocks_take(blocks, &taken[i]));
        memset(taken[i], i, BYTES);
        const bool lies_there = (unsigned char *)taken[i] >= memory &&
                                (unsigned char *)taken[i] + BYTES <= memory + bytes;
        assert_true(lies_there == (i < 2));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(((unsigned char *)taken[i])[BYTES - 1], i);
        psr_blocks_give(taken[i]);
    }
    psr_blocks_free(blocks);
    free(memory);
}

static void *give(void *block)
{
    memset(block, 1, BYTES); /* it is still there */
    psr_blocks_give(block);
    return NULL;
}

static void a_block_outlives_its_owner_until_another_thread_gives_it_back(void **state)
{
    (void)state;
    psr_blocks *blocks;
    void *block;
    pthread_t thread;
    expect_ok(psr_blocks_new(BYTES, &blocks));
    expect_ok(psr_blocks_take(blocks, &block));
    psr_blocks_free(blocks);
    assert_int_equal(pthread_create(&thread, NULL, give, block), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    psr_blocks_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_was_given_back_is_the_next_one),
        cmocka_unit_test(blocks_are_apart_and_aligned),
        cmocka_unit_test(what_was_reserved_is_in_memory),
        cmocka_unit_test(memory_of_the_callers_is_taken_first),
        cmocka_unit_test(a_block_outlives_its_owner_until_another_thread_gives_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
