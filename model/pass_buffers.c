#include "model/pass_buffers.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#define ALIGN_BYTES ((size_t)4096)

psr_err psr_pass_buffer_add(psr_pass_buffers *buffers, size_t bytes, uint32_t *ret_buffer)
{
    if (buffers->count == buffers->capacity) {
        uint32_t capacity = buffers->capacity ? 2 * buffers->capacity : 64;
        psr_pass_buffer *items = realloc(buffers->items, capacity * sizeof *items);
        if (items == NULL)
            return psr_fail(PSR_ERR_NOMEM, "out of memory while planning buffers");
        buffers->items = items;
        buffers->capacity = capacity;
    }
    buffers->items[buffers->count] = (psr_pass_buffer){bytes, buffers->now, buffers->now, 0};
    *ret_buffer = buffers->count++;
    return PSR_OK;
}

void psr_pass_buffer_use(psr_pass_buffers *buffers, uint32_t buffer)
{
    assert(buffer < buffers->count);
    psr_pass_buffer *item = &buffers->items[buffer];
    if (item->last < buffers->now)
        item->last = buffers->now;
}

void psr_pass_buffer_keep(psr_pass_buffers *buffers, uint32_t buffer)
{
    assert(buffer < buffers->count);
    buffers->items[buffer].first = 0;
    buffers->items[buffer].last = UINT32_MAX;
}

void psr_pass_buffer_grow(psr_pass_buffers *buffers, uint32_t buffer, size_t bytes)
{
    assert(buffer < buffers->count);
    if (buffers->items[buffer].bytes < bytes)
        buffers->items[buffer].bytes = bytes;
}

static bool lives_with(const psr_pass_buffer *a, const psr_pass_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static int by_falling_size(const void *left, const void *right)
{
    const psr_pass_buffer *a = *(psr_pass_buffer *const *)left,
                          *b = *(psr_pass_buffer *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : a > b; /* qsort is not stable */
}

static int by_offset(const void *left, const void *right)
{
    const psr_pass_buffer *a = *(psr_pass_buffer *const *)left,
                          *b = *(psr_pass_buffer *const *)right;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static size_t occupied(const psr_pass_buffer *buffer)
{
    return (buffer->bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* The lowest offset that no neighbour (placed, alive at the same time, by rising offset) covers. */
static size_t first_fit(const psr_pass_buffer *buffer, psr_pass_buffer *const *neighbours,
                        uint32_t count)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (neighbours[i]->offset >= offset + occupied(buffer))
            break;
        size_t end = neighbours[i]->offset + occupied(neighbours[i]);
        if (offset < end)
            offset = end;
    }
    return offset;
}

psr_err psr_pass_buffers_place(psr_pass_buffers *buffers)
{
    buffers->bytes = 0;
    if (buffers->count == 0)
        return PSR_OK;
    psr_pass_buffer **order = malloc(2 * buffers->count * sizeof(psr_pass_buffer *));
    if (order == NULL)
        return psr_fail(PSR_ERR_NOMEM, "out of memory while placing buffers");
    psr_pass_buffer **neighbours = order + buffers->count;
    for (uint32_t i = 0; i < buffers->count; i++)
        order[i] = &buffers->items[i];
    qsort(order, buffers->count, sizeof *order, by_falling_size);
    for (uint32_t i = 0; i < buffers->count; i++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < i; j++)
            if (lives_with(order[i], order[j]))
                neighbours[count++] = order[j];
        qsort(neighbours, count, sizeof *neighbours, by_offset);
        order[i]->offset = first_fit(order[i], neighbours, count);
        if (buffers->bytes < order[i]->offset + occupied(order[i]))
            buffers->bytes = order[i]->offset + occupied(order[i]);
    }
    free(order);
    return PSR_OK;
}

void psr_pass_buffers_done(psr_pass_buffers *buffers)
{
    free(buffers->items);
    *buffers = (psr_pass_buffers){0};
}
