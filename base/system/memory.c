#include "base/system/memory.h"

#include <malloc.h>

void psr_memory_keep_pages(void)
{
#ifdef __GLIBC__
    enum { KEEP_BYTES = 1 << 30 };
    mallopt(M_MMAP_THRESHOLD, KEEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
    mallopt(M_TOP_PAD, 64 << 20);
#endif
}

void psr_memory_give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
