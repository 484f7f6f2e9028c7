/* An arena from which other processes of this host can borrow: memory behind a descriptor (memfd).
 * It has no name in any file system, and is gone when the last process that holds it ends, however
 * that happens.
 *
 * Only its owner writes it. It is sealed: its size cannot change, so a reader is never hit by
 * SIGBUS, and no other writable mapping can be made after the owner's. Any thread. */
#ifndef PSR_NET_SHARING_SHARED_ARENA_H
#define PSR_NET_SHARING_SHARED_ARENA_H

#include "base/err.h"
#include "base/span.h"

#include <stddef.h>

typedef struct psr_shared_arena {
    float *values; /* [count], zeroed; pages are allocated when they are first touched */
    size_t count;
    size_t bytes; /* size of the mapping and of the memory behind fd */
    int fd;       /* -1: none */
    void *again;  /* a second mapping of the same memory: see psr_shared_arena_own */
} psr_shared_arena;

#define PSR_SHARED_ARENA_NONE ((psr_shared_arena){.fd = -1})

/* UNSUPPORTED: this system has no such memory (a kernel before 5.1, a filter of system calls).
 * NOMEM. The caller owns *ret_arena: psr_shared_arena_done. */
PSR_MUST_CHECK psr_err psr_shared_arena_new(size_t count, psr_shared_arena *ret_arena);
/* Makes the whole pages of a run private to this process, so that they take no shared memory. The
 * run must not have been written, and nothing of it may be lent afterwards: others would read zeros
 * there. A run below PSR_SHARED_ARENA_KEPT_LEAST bytes stays shared, since each private run costs a
 * mapping. NOMEM: the kernel refuses; the arena can only be freed then. */
#define PSR_SHARED_ARENA_KEPT_LEAST ((size_t)256 << 10)
PSR_MUST_CHECK psr_err psr_shared_arena_keep(psr_shared_arena *arena, psr_span run);

/* Copies what is mapped in place of the arena's own pages (psr_shared_arena_keep,
 * net/sharing/landing.h) into these pages and makes them visible again, so that all of the arena
 * can be lent. Nobody may read or write it meanwhile, here or in another process. NOMEM: nothing
 * has changed. */
PSR_MUST_CHECK psr_err psr_shared_arena_own(psr_shared_arena *arena);

/* Backs a run with memory now, in huge pages where they fit and the kernel gives them
 * (base/arrays/huge_pages.h); processes that map the run elsewhere have huge pages too. For a run
 * that its owner does not use yet and will write whole. */
void psr_shared_arena_fill(const psr_shared_arena *arena, psr_span run);

/* The same for the whole arena, in small pages where there are no huge ones: so no later write ends
 * the process by SIGBUS. NOMEM: the system does not have so much. (Beyond the limit of a control
 * group the kernel does not refuse, but ends a process of the group.) */
PSR_MUST_CHECK psr_err psr_shared_arena_back(const psr_shared_arena *arena);

/* Frees the arena; other processes keep what they have mapped. On PSR_SHARED_ARENA_NONE it does
 * nothing. */
void psr_shared_arena_done(psr_shared_arena *arena);

/* Maps, for reading, an arena of `bytes` bytes that another process passed. The descriptor is
 * borrowed for the call. FORMAT: it is no such memory, it is not sealed, its size is another one or
 * not a multiple of 4096 bytes. NOMEM: there is no room. The caller owns *ret_data: munmap. */
PSR_MUST_CHECK psr_err psr_shared_arena_map(int fd, size_t bytes, const void **ret_data);

#endif
