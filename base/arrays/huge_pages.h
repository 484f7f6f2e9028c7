/* Huge pages: memory in steps of 2 MiB. A processor translates fewer addresses for such memory, and
 * its prefetchers, which stop at a page's end, get further: summing and updating large arrays takes
 * a quarter less time. All of this is advice, which a kernel may not follow. Any thread. */
#ifndef PSR_BASE_ARRAYS_HUGE_PAGES_H
#define PSR_BASE_ARRAYS_HUGE_PAGES_H

#include <stddef.h>

#define PSR_HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Maps zeroed private memory, which takes no memory until it is written. From 2 MiB on it begins at
 * a multiple of 2 MiB, so that huge pages fit. bytes: a multiple of the page size. NULL: there is
 * no room. The caller owns the result: munmap. */
void *psr_huge_pages_map(size_t bytes);

/* Backs all whole huge pages within [begin, begin + bytes) with memory now. The range is mapped for
 * writing and not in use yet. Works for shared memory too, which gets huge pages only on such a
 * request (Linux 6.1). */
void psr_huge_pages_fill(void *begin, size_t bytes);

#endif
