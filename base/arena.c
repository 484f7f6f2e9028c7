#include "base/arena.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL_PAGE_BYTES ((size_t)4096)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Whole pages: huge ones where at least one would be filled. */
static size_t mapped_bytes(size_t count)
{
    size_t bytes = count * sizeof(float);
    size_t page = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : SMALL_PAGE_BYTES;
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

psr_err psr_arena_new(size_t count, float **ret_arena)
{
    if (count > SIZE_MAX / 2 / sizeof(float) - HUGE_PAGE_BYTES)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an arena of %zu floats", count);
    size_t bytes = mapped_bytes(count);
    size_t slack = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *map =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an arena of %zu floats", count);
    if (slack) {
        /* The kernel aligns to small pages: give back what lies before and after the aligned part. */
        size_t before = (HUGE_PAGE_BYTES - (uintptr_t)map % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
        if (before)
            munmap(map, before);
        if (before < slack)
            munmap(map + before + bytes, slack - before);
        map += before;
        /* Advice only: refused where huge pages are compiled out. */
        (void)madvise(map, bytes, MADV_HUGEPAGE);
    }
    *ret_arena = (float *)(void *)map;
    return PSR_OK;
}

bool psr_arena_fits(size_t count)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0)
        return true; /* it does not say */
    return count / ((size_t)page_bytes / sizeof(float)) < (size_t)pages;
}

void psr_arena_free(float *arena, size_t count)
{
    if (arena)
        munmap(arena, mapped_bytes(count));
}
