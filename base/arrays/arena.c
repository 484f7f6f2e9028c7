#include "base/arrays/arena.h"

#include "base/arrays/huge_pages.h"
#include "base/system/memory_limit.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define SMALL_PAGE_BYTES ((size_t)4096)

/* Huge pages, if the arena fills at least one. */
static size_t page_bytes(size_t count)
{
    return count * sizeof(float) >= PSR_HUGE_PAGE_BYTES ? PSR_HUGE_PAGE_BYTES : SMALL_PAGE_BYTES;
}

/* Replaces the mapping at `to`. The kernel does this by itself: see net/sharing/landing.c. */
static bool move_pages(void *from, size_t bytes, void *to)
{
    return (void *)syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
           MAP_FAILED;
}

/* Whole pages. */
static size_t mapped_bytes(size_t count)
{
    size_t bytes = count * sizeof(float), page = page_bytes(count);
    return bytes == 0 ? page : (bytes + page - 1) / page * page;
}

psr_err psr_arena_new(size_t count, float **ret_arena)
{
    bool countable = count <= SIZE_MAX / 2 / sizeof(float) - PSR_HUGE_PAGE_BYTES;
    void *map = countable ? psr_huge_pages_map(mapped_bytes(count)) : NULL;
    if (map == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an arena of %zu floats", count);
    /* This is advice only. A kernel without huge pages refuses it. */
    if (mapped_bytes(count) >= PSR_HUGE_PAGE_BYTES)
        (void)madvise(map, mapped_bytes(count), MADV_HUGEPAGE);
    *ret_arena = map;
    return PSR_OK;
}

void psr_arena_drop(float *arena, size_t count, psr_span run)
{
    size_t page = page_bytes(count);
    size_t begin = (run.offset * sizeof(float) + page - 1) / page * page;
    size_t end = psr_span_end(run) * sizeof(float) / page * page;
    assert(psr_span_end(run) <= count);
    if (begin < end)
        (void)madvise((char *)arena + begin, end - begin, MADV_DONTNEED);
}

psr_err psr_arena_own(float *arena, size_t count)
{
    const size_t bytes = mapped_bytes(count);
    float *own = NULL;
    PSR_TRY(psr_arena_new(count, &own));
    memcpy(own, arena, count * sizeof *own);
    if (move_pages(own, bytes, arena))
        return PSR_OK;
    psr_arena_free(own, count);
    return psr_fail(PSR_ERR_NOMEM, "no memory for the pages of an arena of %zu floats: %s", count,
                    strerror(errno));
}

/* What a control group swaps out does not count against its limit. */
static bool fits_control_group(size_t count)
{
    struct sysinfo system;
    const uint64_t limit = psr_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    if (limit == UINT64_MAX || sysinfo(&system) != 0)
        return true;
    const uint64_t swap = (uint64_t)system.totalswap * system.mem_unit;
    return swap > UINT64_MAX - limit || count <= (limit + swap) / sizeof(float);
}

bool psr_arena_fits(size_t count)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0 &&
        count / ((size_t)page_bytes / sizeof(float)) >= (size_t)pages)
        return false;
    return fits_control_group(count);
}

void psr_arena_free(float *arena, size_t count)
{
    if (arena != NULL)
        munmap(arena, mapped_bytes(count));
}
