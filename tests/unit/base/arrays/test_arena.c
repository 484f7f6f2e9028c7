#include "tests/unit/expect.h"

#include "base/arrays/arena.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static void an_arena_is_zeroed_and_aligned_whatever_its_size(void **state)
{
    (void)state;
    static const size_t counts[] = {
        0, 1, 1000, (2 << 20) / 4 - 1, (2 << 20) / 4, (2 << 20) / 4 + 1, 3000017};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        float *arena = NULL;
        expect_ok(psr_arena_new(counts[c], &arena));
        assert_int_equal((uintptr_t)arena % 64, 0);
        for (size_t i = 0; i < counts[c]; i++)
            if (arena[i] != 0)
                fail_msg("element %zu of %zu is not zero", i, counts[c]);
        for (size_t i = 0; i < counts[c]; i++)
            arena[i] = 1;
        psr_arena_free(arena, counts[c]);
    }
    psr_arena_free(NULL, 17);
}

static void an_arena_costs_memory_where_it_is_touched_only(void **state)
{
    (void)state;
    enum { COUNT = 16 << 20, PAGES = COUNT / 1024 };
    static unsigned char resident[PAGES];
    float *arena = NULL;
    expect_ok(psr_arena_new(COUNT, &arena));
    arena[COUNT / 2] = 1;
    assert_int_equal(mincore(arena, COUNT * sizeof *arena, resident), 0);
    size_t pages = 0;
    for (size_t i = 0; i < PAGES; i++)
        pages += resident[i] & 1;
    assert_true(pages >= 1 && pages <= 512); /* one huge page at most */
    psr_arena_free(arena, COUNT);
}

static void what_is_dropped_of_an_arena_costs_nothing_and_is_zero(void **state)
{
    (void)state;
    enum { COUNT = 16 << 20, PAGES = COUNT / 1024, HUGE = (2 << 20) / 4 };
    static unsigned char resident[PAGES];
    float *arena = NULL;
    expect_ok(psr_arena_new(COUNT, &arena));
    for (size_t i = 0; i < COUNT; i++)
        arena[i] = 1;
    psr_arena_drop(arena, COUNT, (psr_span){3, HUGE});                     /* no whole page */
    psr_arena_drop(arena, COUNT, (psr_span){2 * HUGE - 5, 2 * HUGE + 10}); /* two */
    assert_int_equal(mincore(arena, COUNT * sizeof *arena, resident), 0);
    size_t pages = 0;
    for (size_t i = 0; i < PAGES; i++)
        pages += resident[i] & 1;
    assert_int_equal(pages, PAGES - 2 * 512);
    for (size_t i = 0; i < COUNT; i++)
        if (arena[i] != (i >= 2 * HUGE && i < 4 * HUGE ? 0 : 1))
            fail_msg("element %zu is %g", i, (double)arena[i]);
    psr_arena_free(arena, COUNT);
}

/* Pages of another's memory lie in an arena's place, of few floats and of many. */
static void pages_of_anothers_memory_become_an_arenas_own_with_what_is_in_them(void **state)
{
    (void)state;
    static const size_t counts[] = {3 * 1024 + 5, (3 << 20) / 4 + 7};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        enum { PAGE_FLOATS = 1024, PAGE_BYTES = 4096 };
        const size_t count = counts[c];
        float *arena = NULL, *others = NULL;
        const int fd = memfd_create("others", MFD_CLOEXEC);
        assert_int_equal(ftruncate(fd, PAGE_BYTES), 0);
        others = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(others != MAP_FAILED);
        expect_ok(psr_arena_new(count, &arena));
        for (size_t i = 0; i < count; i++)
            arena[i] = (float)i;
        for (size_t i = 0; i < PAGE_FLOATS; i++)
            others[i] = -(float)i;
        assert_true(mmap(arena + PAGE_FLOATS, PAGE_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
                         0) == (void *)(arena + PAGE_FLOATS));
        expect_ok(psr_arena_own(arena, count));
        others[1] = 77; /* it is seen here no more */
        for (size_t i = 0; i < count; i++) {
            const bool was_others = i >= PAGE_FLOATS && i < 2 * PAGE_FLOATS;
            const float right = was_others ? -(float)(i - PAGE_FLOATS) : (float)i;
            if (arena[i] != right)
                fail_msg("element %zu of %zu is %g", i, count, (double)arena[i]);
        }
        arena[PAGE_FLOATS + 2] = 5; /* it can be written again, and is not seen there */
        assert_true(others[2] == -2);
        psr_arena_free(arena, count);
        munmap(others, PAGE_BYTES);
        close(fd);
    }
}

static void a_size_beyond_the_address_space_is_refused(void **state)
{
    (void)state;
    float *arena = NULL;
    expect_failure(psr_arena_new((size_t)1 << 46, &arena), PSR_ERR_NOMEM,
                   "no memory for an arena of 70368744177664 floats");
    expect_failure(psr_arena_new(SIZE_MAX, &arena), PSR_ERR_NOMEM,
                   "no memory for an arena of 18446744073709551615 floats");
    assert_null(arena);
}

static void only_so_much_fits_as_there_is_memory(void **state)
{
    (void)state;
    assert_true(psr_arena_fits(0));
    assert_true(psr_arena_fits(1 << 10));
    assert_false(psr_arena_fits((size_t)1 << 50));
    assert_false(psr_arena_fits(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_is_zeroed_and_aligned_whatever_its_size),
        cmocka_unit_test(an_arena_costs_memory_where_it_is_touched_only),
        cmocka_unit_test(what_is_dropped_of_an_arena_costs_nothing_and_is_zero),
        cmocka_unit_test(pages_of_anothers_memory_become_an_arenas_own_with_what_is_in_them),
        cmocka_unit_test(only_so_much_fits_as_there_is_memory),
        cmocka_unit_test(a_size_beyond_the_address_space_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
