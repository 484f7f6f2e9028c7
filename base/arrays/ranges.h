/* A set of index ranges that do not overlap. It tells which elements of a tensor have arrived. The
 * ranges are sorted and neighbours are joined, so a complete set is one range, and a piece that
 * comes in any order costs a binary search. Plain data, one thread at a time. */
#ifndef PSR_BASE_ARRAYS_RANGES_H
#define PSR_BASE_ARRAYS_RANGES_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct psr_ranges { /* all zero: empty */
    psr_span *items;
    size_t count, capacity;
} psr_ranges;

void psr_ranges_done(psr_ranges *ranges);

/* True when any index of [begin, end) is in the set. */
bool psr_ranges_overlap(const psr_ranges *ranges, size_t begin, size_t end);

/* Makes room for one psr_ranges_add, which then cannot fail. NOMEM. */
PSR_MUST_CHECK psr_err psr_ranges_reserve(psr_ranges *ranges);
/* Adds [begin, end), which is not empty and overlaps nothing. */
void psr_ranges_add(psr_ranges *ranges, size_t begin, size_t end);

/* The least index that is not in the set. */
size_t psr_ranges_first_missing(const psr_ranges *ranges);

#endif
