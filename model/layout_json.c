#include "model/layout_json.h"

#include "base/text/printable.h"

#include <cjson/cJSON.h>
#include <string.h>

#define TENSORS_MAX 65536
#define RANK_MAX 4

/* ---- writing ---- */

/* Consumes item; false: there was no memory for it. */
static bool append(cJSON *array, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToArray(array, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *tensor_array(const psr_tensor *tensor)
{
    cJSON *array = cJSON_CreateArray();
    bool whole = array != NULL && append(array, cJSON_CreateString(tensor->name));
    for (uint32_t i = 0; whole && i < tensor->rank; i++)
        whole = append(array, cJSON_CreateNumber(tensor->shape[i]));
    if (whole)
        return array;
    cJSON_Delete(array);
    return NULL;
}

cJSON *psr_layout_to_json_array(const psr_layout *layout)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t t = 0; array != NULL && t < layout->tensor_count; t++)
        if (!append(array, tensor_array(&layout->tensors[t]))) {
            cJSON_Delete(array);
            return NULL;
        }
    return array;
}

/* ---- reading ---- */

static psr_err read_name(const cJSON *item, size_t t, const char **ret_name)
{
    const char *name = cJSON_GetStringValue(item);
    if (name == NULL || name[0] == '\0' || !psr_is_printable(name, strlen(name)))
        return psr_fail(PSR_ERR_FORMAT, "tensor %zu of the layout has no printable name", t);
    if (strlen(name) >= PSR_TENSOR_NAME_MAX)
        return psr_fail(PSR_ERR_FORMAT,
                        "tensor %zu of the layout has a name of more than %d characters", t,
                        PSR_TENSOR_NAME_MAX - 1);
    *ret_name = name;
    return PSR_OK;
}

static psr_err read_shape(const cJSON *length, const char *name, uint32_t *ret_rank,
                          uint32_t *shape)
{
    uint32_t rank = 0;
    for (; length != NULL; length = length->next) {
        double value = cJSON_IsNumber(length) ? length->valuedouble : 0;
        if (rank == RANK_MAX || !(value >= 1) || value > UINT32_MAX ||
            value != (double)(uint32_t)value)
            return psr_fail(PSR_ERR_FORMAT, "tensor %s of the layout has an impossible shape",
                            name);
        shape[rank++] = (uint32_t)value;
    }
    if (rank == 0)
        return psr_fail(PSR_ERR_FORMAT, "tensor %s of the layout has no shape", name);
    *ret_rank = rank;
    return PSR_OK;
}

static psr_err read_tensor(const cJSON *array, psr_layout *layout)
{
    const char *name = NULL;
    uint32_t rank = 0, shape[RANK_MAX];
    if (!cJSON_IsArray(array))
        return psr_fail(PSR_ERR_FORMAT, "entry %zu of the layout is not a tensor",
                        layout->tensor_count);
    PSR_TRY(read_name(array->child, layout->tensor_count, &name));
    PSR_TRY(read_shape(array->child->next, name, &rank, shape));
    psr_err err = psr_layout_add(layout, name, rank, shape);
    /* A network that is too large is normally the user's mistake (USAGE). Here it comes in a
     * message, so it is FORMAT. */
    return err == PSR_ERR_USAGE ? psr_fail(PSR_ERR_FORMAT, "%s", psr_err_detail()) : err;
}

psr_err psr_layout_from_json_array(const cJSON *array, psr_layout *ret_layout)
{
    psr_layout layout = {0};
    psr_err err = PSR_OK;
    const cJSON *tensor;
    int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;
    if (count == 0)
        return psr_fail(PSR_ERR_FORMAT, "the layout is missing");
    if (count > TENSORS_MAX)
        return psr_fail(PSR_ERR_FORMAT, "the layout has %d tensors, more than %d", count,
                        TENSORS_MAX);
    cJSON_ArrayForEach(tensor, array)
    {
        if (err == PSR_OK)
            err = read_tensor(tensor, &layout);
    }
    if (err == PSR_OK)
        *ret_layout = layout;
    else
        psr_layout_done(&layout);
    return err;
}
