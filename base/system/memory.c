#include "base/system/memory.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

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

void psr_memory_drop(void *at, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    begin = ((uintptr_t)at + page - 1) / page * page,
                    end = ((uintptr_t)at + bytes) / page * page;
    if (end > begin)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}
