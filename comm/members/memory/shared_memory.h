/* The memory that a member shares with others on its host (net/sharing/sharing.h). It is set up
 * before any other member can connect, and holds the arenas from which values are lent. If memory
 * cannot be shared, values go as messages, and a line says so. One thread. */
#ifndef PSR_COMM_SHARED_MEMORY_H
#define PSR_COMM_SHARED_MEMORY_H

#include "base/arrays/blocks.h"
#include "comm/view/plan.h"
#include "net/sharing/shared_arena.h"
#include "net/transport.h"

#define PSR_SHARED_MEMORY_ARENAS 3

/* Not copied or moved once begun. */
typedef struct psr_shared_memory {
    psr_shared_arena arenas[PSR_SHARED_MEMORY_ARENAS];
    uint32_t arena_count;     /* 0: nothing is lent from an arena */
    psr_transport *transport; /* NULL: nothing is shared */
    bool asked;               /* sharing was asked for by name, so its lack is worth a warning */
    void (*say)(bool warning, const char *line);
} psr_shared_memory;

#define PSR_SHARED_MEMORY_NONE ((psr_shared_memory){.arena_count = 0})

/* Call it before WELCOME, after which others connect. transport and memory are borrowed until the
 * transport ends. say is called once for every peer on this host, with whether memory is shared
 * with it, or once with why none is shared. */
void psr_shared_memory_begin(psr_shared_memory *memory, psr_transport *transport, bool asked,
                             void (*say)(bool warning, const char *line));
/* Makes an arena of count floats. Returns its values, which are borrowed; NULL: there is none. At
 * most PSR_SHARED_MEMORY_ARENAS calls. */
float *psr_shared_memory_arena(psr_shared_memory *memory, size_t count);
/* Calls psr_shared_arena_keep or _fill on the arena that has these values. values NULL: does
 * nothing. */
PSR_MUST_CHECK psr_err psr_shared_memory_keep(psr_shared_memory *memory, const float *values,
                                              psr_span run);
/* The same with psr_shared_arena_own. */
PSR_MUST_CHECK psr_err psr_shared_memory_own(psr_shared_memory *memory, const float *values);
void psr_shared_memory_fill(psr_shared_memory *memory, const float *values, psr_span run);
/* Fills the runs of values that this member holds according to the plan. */
void psr_shared_memory_fill_held(psr_shared_memory *memory, const float *values,
                                 const psr_plan *plan, psr_peer self);
/* Pieces of a checkpoint below this size are copied where they are sent; larger ones go into blocks
 * that are kept from one checkpoint to the next. */
#define PSR_KEPT_PIECE_BYTES_MIN ((size_t)256 << 10)
/* How many blocks a run of so many floats takes, cut into pieces of PSR_PAYLOAD_BYTES_MAX. */
size_t psr_kept_pieces(size_t floats);
/* Makes an arena with room for so many blocks, and lends it to the pool. backed: with memory, so
 * that a first use waits for none. Where there is no such arena, the pool has blocks of its own.
 * One of the calls of psr_shared_memory_arena. */
void psr_shared_memory_blocks(psr_shared_memory *memory, psr_blocks *blocks, size_t count,
                              bool backed);
/* Call it after the transport has ended, and all blocks have been given back. */
void psr_shared_memory_done(psr_shared_memory *memory);

#endif
