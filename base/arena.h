/* Arenas: large float arrays straight from the kernel.
 *
 * Zeroed, at least 64-byte aligned, and touched lazily: pages cost memory once written, so a whole-arena
 * array of which a tenth is used costs a tenth (in steps of 2 MiB, since huge pages are asked for; a
 * kernel that has none gives small ones). Any thread. */
#ifndef PSR_BASE_ARENA_H
#define PSR_BASE_ARENA_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* ret owns count floats (0 allowed): psr_arena_free with the same count. NOMEM. */
PSR_MUST_CHECK psr_err psr_arena_new(size_t count, float **ret_arena);
/* Nobody needs a run of an arena of count floats any more: what of it is whole pages costs no memory from now on, and is zeros. */
void psr_arena_drop(float *arena, size_t count, psr_span run);
/* Could so many floats all be in use: are they not more than this machine's memory? An arena itself is only addresses. */
bool psr_arena_fits(size_t count);
/* NULL allowed. */
void psr_arena_free(float *arena, size_t count);

#endif
