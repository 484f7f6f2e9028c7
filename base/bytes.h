/* Bytes of whoever hands them over, who says for how long. Plain data. */
#ifndef PSR_BASE_BYTES_H
#define PSR_BASE_BYTES_H

#include <stddef.h>

typedef struct psr_bytes {
    const void *data; /* NULL when size is 0, or not */
    size_t size;
} psr_bytes;

#endif
