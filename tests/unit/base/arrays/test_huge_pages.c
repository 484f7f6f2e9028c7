#include "tests/unit/expect.h"

#include "base/arrays/huge_pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 4096 };

static size_t resident_bytes(const void *begin, size_t bytes)
{
    static unsigned char pages[(16 << 20) / SMALL];
    size_t count = 0;
    assert_true(bytes <= sizeof pages * SMALL);
    assert_int_equal(mincore((void *)(uintptr_t)begin, bytes, pages), 0);
    for (size_t i = 0; i < bytes / SMALL; i++)
        count += pages[i] & 1;
    return count * SMALL;
}

static void memory_begins_where_a_huge_page_may(void **state)
{
    (void)state;
    static const size_t bytes[] = {SMALL, PSR_HUGE_PAGE_BYTES - SMALL, PSR_HUGE_PAGE_BYTES,
                                   3 * PSR_HUGE_PAGE_BYTES + SMALL};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        char *map = psr_huge_pages_map(bytes[i]);
        assert_non_null(map);
        if (bytes[i] >= PSR_HUGE_PAGE_BYTES)
            assert_int_equal((uintptr_t)map % PSR_HUGE_PAGE_BYTES, 0);
        assert_int_equal(resident_bytes(map, bytes[i]), 0);
        map[0] = map[bytes[i] - 1] = 1; /* all of it may be written */
        assert_int_equal(munmap(map, bytes[i]), 0);
    }
    assert_null(psr_huge_pages_map(SIZE_MAX / SMALL * SMALL));
}

/* What has been written stays as it is, what has not is zero, and what lies beside whole pages is
 * not touched. */
static void what_is_filled_keeps_its_values_in_memory_that_is_shared_too(void **state)
{
    (void)state;
    const size_t page = PSR_HUGE_PAGE_BYTES, bytes = 4 * page;
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    char *map = psr_huge_pages_map(bytes);
    assert_non_null(map);
    assert_ptr_equal(mmap(map, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), map);
    map[page] = 7;
    map[2 * page + 5] = 8;
    psr_huge_pages_fill(map + SMALL, 3 * page); /* of whole ones the second and the third */
    assert_int_equal(map[page], 7);
    assert_int_equal(map[2 * page + 5], 8);
    assert_int_equal(map[page + 1], 0);
    assert_int_equal(resident_bytes(map, page), 0);
    assert_int_equal(resident_bytes(map + 3 * page, page), 0);
    size_t filled = resident_bytes(map + page, 2 * page);
    /* a kernel without, and one with huge pages for it */
    assert_true(filled == 2 * SMALL || filled == 2 * page);
    const char *other = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(other != MAP_FAILED);
    assert_int_equal(other[page], 7);
    assert_int_equal(other[2 * page + 5], 8);
    psr_huge_pages_fill(map, page - 1); /* less than one: nothing */
    assert_int_equal(resident_bytes(map, page), 0);
    munmap((void *)(uintptr_t)other, bytes);
    munmap(map, bytes);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_begins_where_a_huge_page_may),
        cmocka_unit_test(what_is_filled_keeps_its_values_in_memory_that_is_shared_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
