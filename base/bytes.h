/* A run of bytes, borrowed. The function that takes or gives it says for how long. Plain data. */
#ifndef PSR_BASE_BYTES_H
#define PSR_BASE_BYTES_H

#include <stddef.h>

typedef struct psr_bytes {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
} psr_bytes;

#endif
