/* Arenas: large float arrays that the kernel maps.
 *
 * An arena is zeroed and at least 64-byte aligned. Its pages take memory only once they are
 * written, so an array of which a tenth is used costs a tenth. (The steps are 2 MiB, since huge
 * pages are asked for; a kernel without them gives small ones.) Any thread. */
#ifndef PSR_BASE_ARRAYS_ARENA_H
#define PSR_BASE_ARRAYS_ARENA_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

/* Makes an arena of count floats (0 allowed). The caller owns *ret_arena: psr_arena_free with the
 * same count. NOMEM. */
PSR_MUST_CHECK psr_err psr_arena_new(size_t count, float **ret_arena);
/* Gives back the memory of a run of an arena of count floats that is no longer needed. The whole
 * pages in the run read as zeros from now on; the rest of the run does not change. */
void psr_arena_drop(float *arena, size_t count, psr_span run);
/* Makes pages that another process's memory has replaced (net/sharing/landing.h) the arena's own
 * again, with their present content; the arena has count floats. Nobody may read or write it
 * meanwhile. NOMEM: nothing has changed. */
PSR_MUST_CHECK psr_err psr_arena_own(float *arena, size_t count);
/* Whether this machine's memory, and the limit of this process's control group, could hold so many
 * floats. (Making an arena does not show that, because an arena takes only addresses until it is
 * written.) */
bool psr_arena_fits(size_t count);
/* NULL allowed. */
void psr_arena_free(float *arena, size_t count);

#endif
