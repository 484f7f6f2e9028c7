#include "base/arrays/huge_pages.h"

#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* How many bytes there are up to the beginning of the next huge page. */
static size_t bytes_before_page(const char *at)
{
    return -(uintptr_t)at % PSR_HUGE_PAGE_BYTES;
}

void *psr_huge_pages_map(size_t bytes)
{
    size_t slack = bytes >= PSR_HUGE_PAGE_BYTES ? PSR_HUGE_PAGE_BYTES : 0;
    if (bytes > SIZE_MAX - slack)
        return NULL;
    char *map = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (slack == 0)
        return map;
    /* The kernel aligns to small pages: give back what lies before and after the aligned part. */
    size_t before = bytes_before_page(map);
    if (before > 0)
        munmap(map, before);
    if (before < slack)
        munmap(map + before + bytes, slack - before);
    return map + before;
}

void psr_huge_pages_fill(void *begin, size_t bytes)
{
    char *first = (char *)begin + bytes_before_page(begin), *end = (char *)begin + bytes;
    if (first >= end || (size_t)(end - first) < PSR_HUGE_PAGE_BYTES)
        return;
    size_t whole = (size_t)(end - first) / PSR_HUGE_PAGE_BYTES * PSR_HUGE_PAGE_BYTES;
    /* The kernel makes a huge page out of small ones, and only if at least one of these is
     * present. */
    for (volatile char *page = first; page < first + whole; page += PSR_HUGE_PAGE_BYTES)
        *page = *page;
    (void)madvise(first, whole, MADV_COLLAPSE);
}
