/* The memory that a member shares with others on its host (net/sharing.h): set up before anybody can connect, and one arena that what is
 * sent comes from. Where it cannot be had messages go, which is said. One thread. */
#ifndef PSR_COMM_SHARED_MEMORY_H
#define PSR_COMM_SHARED_MEMORY_H

#include "net/shared_arena.h"
#include "net/transport.h"

/* In place. */
typedef struct psr_shared_memory {
    psr_shared_arena arena;   /* none: nothing is lent from */
    psr_transport *transport; /* NULL: nothing is shared */
    bool asked;               /* for, by name: that it cannot be had is worth a warning */
    void (*say)(bool warning, const char *line);
} psr_shared_memory;

#define PSR_SHARED_MEMORY_NONE ((psr_shared_memory){.arena = {.fd = -1}})

/* Before WELCOME, after which others connect. transport is borrowed, memory too, until the transport ends. say hears once of every peer on
 * this host how it is with it, or why nothing is shared. */
void psr_shared_memory_begin(psr_shared_memory *memory, psr_transport *transport, bool asked,
                             void (*say)(bool warning, const char *line));
/* Makes the arena, of so many floats. Returns its values, borrowed; NULL: there is none. Once. */
float *psr_shared_memory_arena(psr_shared_memory *memory, size_t count);
/* After the transport. */
void psr_shared_memory_done(psr_shared_memory *memory);

#endif
