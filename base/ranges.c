#include "base/ranges.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void psr_ranges_done(psr_ranges *ranges)
{
    if (!ranges)
        return;
    free(ranges->items);
    *ranges = (psr_ranges){0};
}

/* Place of the first range that ends at or after index. */
static size_t first_ending_from(const psr_ranges *ranges, size_t index)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].end < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool psr_ranges_overlap(const psr_ranges *ranges, size_t begin, size_t end)
{
    if (begin >= end)
        return false;
    size_t i = first_ending_from(ranges, begin + 1); /* one that ends at begin only touches */
    return i < ranges->count && ranges->items[i].begin < end;
}

psr_err psr_ranges_reserve(psr_ranges *ranges)
{
    if (ranges->count < ranges->capacity)
        return PSR_OK;
    size_t capacity = ranges->capacity ? 2 * ranges->capacity : 4;
    psr_range *grown = realloc(ranges->items, capacity * sizeof *grown);
    if (!grown)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu ranges", capacity);
    ranges->items = grown;
    ranges->capacity = capacity;
    return PSR_OK;
}

void psr_ranges_add(psr_ranges *ranges, size_t begin, size_t end)
{
    assert(begin < end && ranges->count < ranges->capacity && !psr_ranges_overlap(ranges, begin, end));
    size_t first = first_ending_from(ranges, begin), last = first; /* [first, last): those it touches */
    while (last < ranges->count && ranges->items[last].begin <= end) {
        begin = ranges->items[last].begin < begin ? ranges->items[last].begin : begin;
        end = ranges->items[last].end > end ? ranges->items[last].end : end;
        last++;
    }
    memmove(&ranges->items[first + 1], &ranges->items[last], (ranges->count - last) * sizeof *ranges->items);
    ranges->items[first] = (psr_range){begin, end};
    ranges->count += 1 + first - last;
}

size_t psr_ranges_first_missing(const psr_ranges *ranges)
{
    return ranges->count == 0 || ranges->items[0].begin > 0 ? 0 : ranges->items[0].end;
}
