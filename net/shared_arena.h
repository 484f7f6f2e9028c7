/* An arena that other processes of this host can be lent from: memory behind a descriptor (memfd), which has no name in any file system
 * and is gone with the last process that holds it, however that ends.
 *
 * Its owner alone writes it. It is sealed: its size is for ever, so that nobody who reads it can be hit by SIGBUS, and after the
 * owner's own mapping nobody can make another that writes. Any thread. */
#ifndef PSR_NET_SHARED_ARENA_H
#define PSR_NET_SHARED_ARENA_H

#include "base/err.h"
#include "base/span.h"

#include <stddef.h>

typedef struct psr_shared_arena {
    float *values; /* count of them, zeroed, page by page touched lazily */
    size_t count;
    size_t bytes; /* of the mapping and of what is behind fd */
    int fd;       /* -1: none */
} psr_shared_arena;

#define PSR_SHARED_ARENA_NONE ((psr_shared_arena){.fd = -1})

/* UNSUPPORTED: this system has no such memory (a kernel before 5.1, a filter of system calls). NOMEM. ret owns: psr_shared_arena_done. */
PSR_MUST_CHECK psr_err psr_shared_arena_new(size_t count, psr_shared_arena *ret_arena);
/* The whole pages of a run that nobody has written become this process's own, and cost what is behind the descriptor nothing: nothing of the run
 * may be lent, since others would read zeros there. A run below PSR_SHARED_ARENA_KEPT_LEAST bytes stays as it is: each costs a mapping. NOMEM: the
 * kernel refuses; the arena is of no more use. */
#define PSR_SHARED_ARENA_KEPT_LEAST ((size_t)256 << 10)
PSR_MUST_CHECK psr_err psr_shared_arena_keep(psr_shared_arena *arena, psr_span run);

/* A run all of whose elements will be written, by its owner, who does not use it yet: it is memory from now on, in huge pages where they fit into
 * it and the kernel gives them (base/huge_pages.h), which who reads it elsewhere has too. */
void psr_shared_arena_fill(const psr_shared_arena *arena, psr_span run);

/* None: does nothing. What others have mapped stays theirs to read. */
void psr_shared_arena_done(psr_shared_arena *arena);

/* Maps what another process passed as its arena of so many bytes, to be read. The descriptor is borrowed for the call. FORMAT: it is not
 * such memory, its size is another or not of whole pages of 4096 bytes, or it is not sealed. NOMEM: there is no room. ret: munmap. */
PSR_MUST_CHECK psr_err psr_shared_arena_map(int fd, size_t bytes, const void **ret_data);

#endif
