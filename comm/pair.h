/* Pairs of a value and an index, as psring.h has them, and their folds: MINLOC and MAXLOC.
 *
 * A pair's bytes may have a gap between or behind its members. What computes or copies pairs here
 * writes zeros there, so that nothing else of a caller's memory leaves with them.
 * Of two pairs the one with the least (greatest) value wins, of equal values the one with the
 * smallest index. A NaN wins, and -0 is below +0. That orders all pairs (but for the bits of NaNs),
 * so no order of operands shows in a result.
 * Any thread; no state. */
#ifndef PSR_COMM_PAIR_H
#define PSR_COMM_PAIR_H

#include "comm/buffer.h"

#include <stdbool.h>

bool psr_type_is_pair(psr_type type);
bool psr_type_has_gaps(psr_type type);

/* The values and indices; zeros in the gaps. to may be from, else they do not overlap. */
void psr_pair_copy(psr_type type, void *to, const void *from, size_t count);

/* out[i] = which of a[i] and b[i] wins. out may be a or b; else nothing overlaps. */
void psr_pair_least(psr_type type, void *out, const void *a, const void *b, size_t count);
void psr_pair_greatest(psr_type type, void *out, const void *a, const void *b, size_t count);

#endif
