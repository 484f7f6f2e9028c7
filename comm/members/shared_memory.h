/* The memory that a member shares with others on its host (net/sharing/sharing.h): set up before
 * anybody can connect, and the arenas that what is sent comes from. Where it cannot be had messages
 * go, which is said. One thread. */
#ifndef PSR_COMM_SHARED_MEMORY_H
#define PSR_COMM_SHARED_MEMORY_H

#include "comm/plan.h"
#include "net/sharing/shared_arena.h"
#include "net/transport.h"

#define PSR_SHARED_MEMORY_ARENAS 2

/* In place. */
typedef struct psr_shared_memory {
    psr_shared_arena arenas[PSR_SHARED_MEMORY_ARENAS];
    uint32_t arena_count;     /* 0: nothing is lent from */
    psr_transport *transport; /* NULL: nothing is shared */
    bool asked;               /* for, by name: that it cannot be had is worth a warning */
    void (*say)(bool warning, const char *line);
} psr_shared_memory;

#define PSR_SHARED_MEMORY_NONE ((psr_shared_memory){.arena_count = 0})

/* Before WELCOME, after which others connect. transport is borrowed, memory too, until the
 * transport ends. say hears once of every peer on this host how it is with it, or why nothing is
 * shared. */
void psr_shared_memory_begin(psr_shared_memory *memory, psr_transport *transport, bool asked,
                             void (*say)(bool warning, const char *line));
/* Makes an arena of so many floats. Returns its values, borrowed; NULL: there is none. At most
 * PSR_SHARED_MEMORY_ARENAS times. */
float *psr_shared_memory_arena(psr_shared_memory *memory, size_t count);
/* psr_shared_arena_keep and _fill of the arena with these values; NULL: do nothing. */
PSR_MUST_CHECK psr_err psr_shared_memory_keep(psr_shared_memory *memory, const float *values,
                                              psr_span run);
/* psr_shared_arena_own, likewise. */
PSR_MUST_CHECK psr_err psr_shared_memory_own(psr_shared_memory *memory, const float *values);
void psr_shared_memory_fill(psr_shared_memory *memory, const float *values, psr_span run);
/* Fills what this member holds of values that go by the plan. */
void psr_shared_memory_fill_held(psr_shared_memory *memory, const float *values,
                                 const psr_plan *plan, psr_peer self);
/* After the transport. */
void psr_shared_memory_done(psr_shared_memory *memory);

#endif
