#include "comm/collectives/block.h"

#include <string.h>

bool psr_block_is_dense(const psr_block *block)
{
    return (block->stride[0] | block->stride[1] | block->stride[2] | block->stride[3]) == 0;
}

bool psr_block_count(const psr_block *block, size_t *ret_count)
{
    size_t count = 1;
    for (int d = 0; d < 4; d++)
        if (__builtin_mul_overflow(count, block->shape[d], &count))
            return false;
    *ret_count = count;
    return true;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A row: values whose first three indices are the same. The one that value `first` is in, from
 * there on, at most count of it. */
typedef struct row {
    uint8_t *data;
    size_t count, step_bytes;
} row;

static row row_at(const psr_block *block, size_t value_bytes, size_t first, size_t count)
{
    const size_t *shape = block->shape, *stride = block->stride;
    size_t offset = first;
    row r = {.step_bytes = value_bytes};
    if (psr_block_is_dense(block)) {
        r.count = count;
    } else {
        size_t i3 = first % shape[3], i2 = first / shape[3] % shape[2],
               i1 = first / shape[3] / shape[2] % shape[1];
        size_t i0 = first / shape[3] / shape[2] / shape[1];
        offset = i0 * stride[0] + i1 * stride[1] + i2 * stride[2] + i3 * stride[3];
        r.count = least(count, shape[3] - i3);
        r.step_bytes = stride[3] * value_bytes;
    }
    r.data = (uint8_t *)block->data + offset * value_bytes;
    return r;
}

void psr_block_read(const psr_block *block, size_t value_bytes, size_t first, size_t count,
                    void *to)
{
    uint8_t *out = to;
    if (block->data == NULL) {
        memset(out, 0, count * value_bytes);
        return;
    }
    for (size_t done = 0; done < count;) {
        row r = row_at(block, value_bytes, first + done, count - done);
        if (r.step_bytes == value_bytes)
            memcpy(out, r.data, r.count * value_bytes);
        for (size_t i = 0; r.step_bytes != value_bytes && i < r.count; i++)
            memcpy(out + i * value_bytes, r.data + i * r.step_bytes, value_bytes);
        out += r.count * value_bytes;
        done += r.count;
    }
}

void psr_block_write(const psr_block *block, size_t value_bytes, size_t first, size_t count,
                     const void *from)
{
    const uint8_t *in = from;
    for (size_t done = 0; done < count;) {
        row r = row_at(block, value_bytes, first + done, count - done);
        if (r.step_bytes == value_bytes)
            memcpy(r.data, in, r.count * value_bytes);
        for (size_t i = 0; r.step_bytes != value_bytes && i < r.count; i++)
            memcpy(r.data + i * r.step_bytes, in + i * value_bytes, value_bytes);
        in += r.count * value_bytes;
        done += r.count;
    }
}
