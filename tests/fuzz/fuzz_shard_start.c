/* With what a shard begins, over hostile bytes. A layout that is accepted lies within its arena,
 * tensor after tensor, and all of it goes to JSON and back to the same. */
#include "ps/shard_start.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const psr_layout *layout)
{
    size_t end = 0;
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        assert(tensor->offset >= end && tensor->offset % PSR_TENSOR_ALIGN == 0 &&
               tensor->count > 0);
        end = tensor->offset + tensor->count;
    }
    assert(end > 0 && end <= layout->length && layout->count <= end);
}

/* Field by field: between them lie bytes that mean nothing. */
static bool are_equal(const psr_tensor *a, const psr_tensor *b)
{
    return strcmp(a->name, b->name) == 0 && a->rank == b->rank &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 && a->offset == b->offset &&
           a->count == b->count;
}

static bool are_layouts_equal(const psr_layout *a, const psr_layout *b)
{
    if (a->tensor_count != b->tensor_count || a->length != b->length || a->count != b->count)
        return false;
    for (size_t t = 0; t < a->tensor_count; t++)
        if (!are_equal(&a->tensors[t], &b->tensors[t]))
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_shard_start start, again;
    char *json = NULL;
    if (psr_shard_start_from_json((psr_bytes){data, size}, &start) != PSR_OK)
        return 0;
    check(&start.layout);
    if (psr_shard_start_to_json(&start, &json) != PSR_OK ||
        psr_shard_start_from_json((psr_bytes){json, strlen(json)}, &again) != PSR_OK ||
        again.first_step != start.first_step || again.total_steps != start.total_steps ||
        !are_layouts_equal(&again.layout, &start.layout))
        abort();
    psr_shard_start_done(&again);
    psr_shard_start_done(&start);
    free(json);
    return 0;
}
