/* A buffer: the memory that an operation reads and writes. Its values are dense. Plain data. */
#ifndef PSR_COMM_BUFFER_H
#define PSR_COMM_BUFFER_H

#include "base/arrays/fence.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* float16: IEEE 754 binary16. bfloat16: the upper half of a float32. Both are stored as uint16_t.
 * FLOAT32_INT32 and the types after it are pairs of a value and an index (comm/pair.h). */
typedef enum psr_type {
    PSR_TYPE_UINT8,
    PSR_TYPE_FLOAT32,
    PSR_TYPE_FLOAT64,
    PSR_TYPE_FLOAT16,
    PSR_TYPE_BFLOAT16,
    PSR_TYPE_INT8,
    PSR_TYPE_INT32,
    PSR_TYPE_INT64,
    PSR_TYPE_INT16,
    PSR_TYPE_UINT16,
    PSR_TYPE_UINT32,
    PSR_TYPE_UINT64,
    PSR_TYPE_FLOAT32_INT32,
    PSR_TYPE_FLOAT64_INT32,
    PSR_TYPE_INT16_INT32,
    PSR_TYPE_INT32_INT32,
    PSR_TYPE_INT64_INT32,
} psr_type;
#define PSR_TYPES (PSR_TYPE_INT64_INT32 + 1)

/* The memory that it is in. The operations of this build take memory of the host only. */
typedef enum psr_space { PSR_SPACE_HOST, PSR_SPACE_CUDA, PSR_SPACE_SHARED } psr_space;

typedef struct psr_buffer {
    void *data;
    size_t count; /* number of values */
    psr_type type;
    psr_space space;
    psr_fence *fence; /* passes when data may be read; NULL: now, which is always so on a CPU */
} psr_buffer;

static inline size_t psr_type_bytes(psr_type type)
{
    static const uint8_t bytes[PSR_TYPES] = {1, 4, 8, 2, 2, 1, 4, 8, 2, 2, 4, 8, 8, 16, 8, 8, 16};
    return bytes[type];
}

static inline size_t psr_type_alignment(psr_type type)
{
    static const uint8_t alignments[PSR_TYPES] = {1, 4, 8, 2, 2, 1, 4, 8, 2,
                                                  2, 4, 8, 4, 8, 4, 4, 8};
    return alignments[type];
}

static inline const char *psr_type_name(psr_type type)
{
    static const char *const names[PSR_TYPES] = {
        "uint8",         "float32",       "float64",     "float16",     "bfloat16",   "int8",
        "int32",         "int64",         "int16",       "uint16",      "uint32",     "uint64",
        "float32_int32", "float64_int32", "int16_int32", "int32_int32", "int64_int32"};
    return (unsigned)type < PSR_TYPES ? names[type] : "?";
}

/* The data of a buffer for an operation on this processor: of that type, in the host's memory,
 * complete. Whoever starts an operation has waited for the fence (comm/operations/fences.h). */
static inline void *psr_buffer_data(const psr_buffer *buffer, psr_type type)
{
    assert(buffer->type == type && buffer->space == PSR_SPACE_HOST && buffer->fence == NULL);
    (void)type;
    return buffer->data;
}

#endif
