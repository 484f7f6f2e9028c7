/* A run of an array: elements [offset, offset + count). Plain data. */
#ifndef PSR_BASE_SPAN_H
#define PSR_BASE_SPAN_H

#include <stddef.h>

typedef struct psr_span {
    size_t offset, count; /* elements */
} psr_span;

static inline size_t psr_span_end(psr_span span)
{
    return span.offset + span.count;
}

#endif
