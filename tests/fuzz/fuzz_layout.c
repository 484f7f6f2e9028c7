/* A layout over hostile bytes. What is accepted lies within its arena, tensor after tensor, and goes to JSON and back to the same. */
#include "model/layout_json.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const psr_layout *layout)
{
    size_t end = 0;
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        assert(tensor->offset >= end && tensor->offset % PSR_TENSOR_ALIGN == 0 && tensor->count > 0);
        end = tensor->offset + tensor->count;
    }
    assert(end > 0 && end <= layout->length && layout->count <= end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    psr_layout layout, again;
    cJSON *array = cJSON_ParseWithLength((const char *)data, size);
    psr_err err = psr_layout_from_json_array(array, &layout);
    cJSON_Delete(array);
    if (err != PSR_OK)
        return 0;
    check(&layout);
    array = psr_layout_to_json_array(&layout);
    if (array) {
        err = psr_layout_from_json_array(array, &again);
        assert(err == PSR_OK && again.tensor_count == layout.tensor_count && again.length == layout.length);
        assert(memcmp(again.tensors, layout.tensors, layout.tensor_count * sizeof *layout.tensors) == 0);
        psr_layout_done(&again);
    }
    cJSON_Delete(array);
    psr_layout_done(&layout);
    return 0;
}
