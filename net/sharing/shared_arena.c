#include "net/sharing/shared_arena.h"

#include "base/arrays/huge_pages.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)
/* the file system of a memfd; huge pages have another one, and may not be available when they are
 * read */
#define TMPFS ((unsigned long)0x01021994)

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3, where vm.memfd_noexec may ask for it */
#endif

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int open_memory(void)
{
    int fd = memfd_create("psring-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create("psring-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                                     : fd;
}

/* So that what lies in huge pages is mapped as such. NULL: errno says why. */
static void *map(int fd, size_t bytes, int protection)
{
    void *at = psr_huge_pages_map(bytes);
    if (at == NULL)
        return NULL;
    if (mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
        return at;
    int reason = errno;
    munmap(at, bytes);
    errno = reason;
    return NULL;
}

/* The last seal comes after the owner's mapping, which it leaves as it is. */
static psr_err map_and_seal(psr_shared_arena *arena)
{
    if (ftruncate(arena->fd, (off_t)arena->bytes) != 0)
        return psr_fail(PSR_ERR_NOMEM, "no shared memory for %zu floats: %s", arena->count,
                        strerror(errno));
    if (fcntl(arena->fd, F_ADD_SEALS, SIZE_SEALS) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "memory cannot be sealed: %s", strerror(errno));
    arena->values = map(arena->fd, arena->bytes, PROT_READ | PROT_WRITE);
    arena->again = arena->values != NULL
                       ? mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0)
                       : MAP_FAILED;
    if (arena->again == MAP_FAILED) {
        arena->again = NULL;
        return psr_fail(PSR_ERR_NOMEM, "no shared memory for %zu floats: %s", arena->count,
                        strerror(errno));
    }
    if (fcntl(arena->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "memory cannot be sealed against other writers: %s",
                        strerror(errno));
    return PSR_OK;
}

psr_err psr_shared_arena_new(size_t count, psr_shared_arena *ret_arena)
{
    if (count > SIZE_MAX / 4 / sizeof(float))
        return psr_fail(PSR_ERR_NOMEM, "no shared memory for %zu floats", count);
    size_t bytes = (count * sizeof(float) + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
    psr_shared_arena arena = {.count = count, .bytes = bytes, .fd = open_memory()};
    if (arena.fd < 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "no memory that can be shared (memfd): %s",
                        strerror(errno));
    psr_err err = map_and_seal(&arena);
    if (err != PSR_OK) {
        psr_shared_arena_done(&arena);
        return err;
    }
    *ret_arena = arena;
    return PSR_OK;
}

psr_err psr_shared_arena_keep(psr_shared_arena *arena, psr_span run)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (run.offset * sizeof(float) + page - 1) / page * page;
    size_t end = psr_span_end(run) * sizeof(float) / page * page;
    assert(psr_span_end(run) <= arena->count);
    if (end < begin + PSR_SHARED_ARENA_KEPT_LEAST)
        return PSR_OK;
    if (mmap((uint8_t *)arena->values + begin, end - begin, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu floats beside those that are shared: %s",
                        run.count, strerror(errno));
    /* Advice only: refused where huge pages are compiled out. */
    (void)madvise((uint8_t *)arena->values + begin, end - begin, MADV_HUGEPAGE);
    return PSR_OK;
}

/* The seal allows no mapping that writes any more, but a copy of one that there is. The kernel's
 * own call: see net/sharing/landing.c. */
psr_err psr_shared_arena_own(psr_shared_arena *arena)
{
    memcpy(arena->again, arena->values, arena->count * sizeof *arena->values);
    if ((void *)syscall(SYS_mremap, arena->again, (size_t)0, arena->bytes,
                        MREMAP_MAYMOVE | MREMAP_FIXED, arena->values) == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu floats that lay elsewhere: %s",
                        arena->count, strerror(errno));
    return PSR_OK;
}

void psr_shared_arena_fill(const psr_shared_arena *arena, psr_span run)
{
    assert(psr_span_end(run) <= arena->count);
    psr_huge_pages_fill(arena->values + run.offset, run.count * sizeof(float));
}

/* As of a filter of system calls that knows no fallocate: then pages come as they are written. */
static bool is_refusal(int reason)
{
    return reason == ENOSPC || reason == ENOMEM;
}

static int back_run(const psr_shared_arena *arena, size_t begin, size_t bytes)
{
    int reason;
    do
        reason = posix_fallocate(arena->fd, (off_t)begin, (off_t)bytes);
    while (reason == EINTR);
    return reason;
}

/* The kernel makes huge pages of runs in which it finds a page. */
psr_err psr_shared_arena_back(const psr_shared_arena *arena)
{
    int reason = 0;
    for (size_t at = 0; at < arena->bytes && !is_refusal(reason); at += PSR_HUGE_PAGE_BYTES)
        reason = back_run(arena, at, PAGE_BYTES);
    if (!is_refusal(reason)) {
        psr_shared_arena_fill(arena, (psr_span){0, arena->count});
        reason = back_run(arena, 0, arena->bytes);
    }
    if (is_refusal(reason))
        return psr_fail(PSR_ERR_NOMEM, "no shared memory for %zu bytes: %s", arena->bytes,
                        strerror(reason));
    return PSR_OK;
}

void psr_shared_arena_done(psr_shared_arena *arena)
{
    if (arena->values != NULL)
        munmap(arena->values, arena->bytes);
    if (arena->again != NULL)
        munmap(arena->again, arena->bytes);
    if (arena->fd >= 0)
        close(arena->fd);
    *arena = PSR_SHARED_ARENA_NONE;
}

psr_err psr_shared_arena_map(int fd, size_t bytes, const void **ret_data)
{
    struct stat file;
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || fstatfs(fd, &system) != 0 ||
        (unsigned long)system.f_type != TMPFS)
        return psr_fail(PSR_ERR_FORMAT, "what it passed is no memory that can be sealed");
    if ((seals & SIZE_SEALS) != SIZE_SEALS)
        return psr_fail(PSR_ERR_FORMAT,
                        "the memory that it passed is not sealed against another size");
    if (bytes == 0 || file.st_size < 0 || (uint64_t)file.st_size != bytes)
        return psr_fail(PSR_ERR_FORMAT, "the memory that it passed has %lld bytes, not %zu",
                        (long long)file.st_size, bytes);
    if (bytes % PAGE_BYTES != 0)
        return psr_fail(PSR_ERR_FORMAT,
                        "the memory that it passed has %zu bytes, which are not whole pages",
                        bytes);
    const void *data = map(fd, bytes, PROT_READ);
    if (data == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no room to map %zu bytes: %s", bytes, strerror(errno));
    *ret_data = data;
    return PSR_OK;
}
