#include "base/arrays/ranges.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void psr_ranges_done(psr_ranges *ranges)
{
    if (ranges == NULL)
        return;
    free(ranges->items);
    *ranges = (psr_ranges){0};
}

/* The position of the first range that ends at or after index. */
static size_t first_ending_from(const psr_ranges *ranges, size_t index)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (psr_span_end(ranges->items[middle]) < index)
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
    /* a range that ends at begin only touches the new one */
    size_t i = first_ending_from(ranges, begin + 1);
    return i < ranges->count && ranges->items[i].offset < end;
}

psr_err psr_ranges_reserve(psr_ranges *ranges)
{
    if (ranges->count < ranges->capacity)
        return PSR_OK;
    size_t capacity = ranges->capacity ? 2 * ranges->capacity : 4;
    psr_span *grown = realloc(ranges->items, capacity * sizeof *grown);
    if (grown == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu ranges", capacity);
    ranges->items = grown;
    ranges->capacity = capacity;
    return PSR_OK;
}

void psr_ranges_add(psr_ranges *ranges, size_t begin, size_t end)
{
    assert(begin < end && ranges->count < ranges->capacity &&
           !psr_ranges_overlap(ranges, begin, end));
    /* [first, last): the ranges that it touches */
    size_t first = first_ending_from(ranges, begin), last = first;
    for (; last < ranges->count && ranges->items[last].offset <= end; last++) {
        size_t item_end = psr_span_end(ranges->items[last]);
        begin = ranges->items[last].offset < begin ? ranges->items[last].offset : begin;
        end = item_end > end ? item_end : end;
    }
    memmove(&ranges->items[first + 1], &ranges->items[last],
            (ranges->count - last) * sizeof *ranges->items);
    ranges->items[first] = (psr_span){begin, end - begin};
    ranges->count += 1 + first - last;
}

size_t psr_ranges_first_missing(const psr_ranges *ranges)
{
    return ranges->count == 0 || ranges->items[0].offset > 0 ? 0 : psr_span_end(ranges->items[0]);
}
