/* How buckets are cut into slices, the unit of one data message: the one place that workers and shards both
 * ask. Slice k of a bucket begins k * psr_slice_floats after it. Any thread. */
#ifndef PSR_COMM_SLICES_H
#define PSR_COMM_SLICES_H

#include "base/config.h"

/* Floats of a whole slice: --slice-size, in runs of 16 floats so that slices begin where cache lines do. */
static inline size_t psr_slice_floats(const psr_config *config)
{
    size_t floats = (size_t)(config->slice_bytes / sizeof(float)) & ~(size_t)15;
    return floats < 16 ? 16 : floats;
}

/* Slices of a bucket of length floats. */
static inline uint32_t psr_slice_count(size_t length, size_t slice_floats)
{
    return (uint32_t)((length + slice_floats - 1) / slice_floats);
}

/* Floats of slice k. */
static inline size_t psr_slice_length(size_t length, size_t slice_floats, uint32_t k)
{
    size_t begin = (size_t)k * slice_floats;
    return length - begin < slice_floats ? length - begin : slice_floats;
}

#endif
