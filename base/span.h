/* A run of an array: elements [offset, offset + count). Plain data. */
#ifndef PSR_BASE_SPAN_H
#define PSR_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_span {
    size_t offset, count; /* elements */
} psr_span;

/* A run of the parameters that is exchanged as a unit: a bucket, for dividing buckets among
 * processes. Neighbours with the same `unit` are kept in one place, since an update needs
 * all of them (the pieces of a tensor, with LARS). */
typedef struct psr_part {
    psr_span span;
    uint32_t unit;
} psr_part;

static inline size_t psr_span_end(psr_span span)
{
    return span.offset + span.count;
}

static inline bool psr_span_equal(psr_span a, psr_span b)
{
    return a.offset == b.offset && a.count == b.count;
}

#endif
