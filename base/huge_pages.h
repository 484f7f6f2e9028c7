/* Huge pages: memory in steps of 2 MiB. A processor reaches such memory with fewer look-ups of addresses, and its prefetchers stop at a
 * page's end: the sum and the update of large arrays take a quarter less time there. All of this is advice, which a kernel may not follow.
 * Any thread. */
#ifndef PSR_BASE_HUGE_PAGES_H
#define PSR_BASE_HUGE_PAGES_H

#include <stddef.h>

#define PSR_HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Zeroed private memory, touched lazily, for which nothing is reserved. It begins where a huge page may where at least one is asked for. bytes:
 * whole pages. NULL: there is no room. ret: munmap. */
void *psr_huge_pages_map(size_t bytes);

/* What lies in [begin, begin + bytes), which is mapped to be written and not in use yet, lies in huge pages from now on, as far as it
 * consists of whole ones: all of them are memory then, whether or not they had been touched. For memory that is shared too, for which kernels
 * give huge pages to who asks so alone (Linux 6.1). */
void psr_huge_pages_fill(void *begin, size_t bytes);

#endif
