/* Pairs of a value and an index, as in psring.h, and their folds, MINLOC and MAXLOC. A pair may
 * have padding between or after its members. The functions here write zeros there, so that no other
 * bytes of a caller's memory leave the process. Of two pairs the one with the least (greatest)
 * value wins, and with equal values the one with the smallest index. A NaN wins, and -0 is below
 * +0. This orders all pairs (except for the bits of NaNs), so a result does not depend on the order
 * of operands. Any thread; no state. */
#ifndef PSR_COMM_PAIR_H
#define PSR_COMM_PAIR_H

#include "comm/buffer.h"

#include <stdbool.h>

bool psr_type_is_pair(psr_type type);
bool psr_type_has_gaps(psr_type type);

/* Copies the values and indices; padding becomes zero. to may be from, otherwise they do not
 * overlap. */
void psr_pair_copy(psr_type type, void *to, const void *from, size_t count);

/* out[i] = a[i] or b[i], whichever wins. out may be a or b; otherwise nothing overlaps. */
void psr_pair_least(psr_type type, void *out, const void *a, const void *b, size_t count);
void psr_pair_greatest(psr_type type, void *out, const void *a, const void *b, size_t count);

#endif
