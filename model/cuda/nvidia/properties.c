#include "model/cuda/nvidia/properties.h"

#include "model/cuda/nvidia/cudnn_graph.h"

#include <string.h>

#define TEXT_BYTES_MAX (1 << 20) /* that of one device has 900 */

static const char what[] = "the device's properties";

psr_err psr_cudnn_properties_new(const psr_cuda_wall *wall, const psr_cudnn_plan_target *target,
                                 cudnnBackendDescriptor_t *ret_properties)
{
    const char *json = target->json;
    *ret_properties = NULL;
    PSR_TRY(psr_cudnn_check(
        wall,
        wall->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, ret_properties),
        what));
    const cudnnStatus_t status =
        json != NULL
            ? wall->cudnnBackendSetAttribute(*ret_properties,
                                             CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                             CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json)
            : wall->cudnnBackendSetAttribute(*ret_properties, CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                                             CUDNN_TYPE_INT32, 1, &target->index);
    psr_err err = psr_cudnn_check(wall, status, what);
    if (err == PSR_OK)
        err = psr_cudnn_check(wall, wall->cudnnBackendFinalize(*ret_properties), what);
    return err == PSR_ERR_COMPUTE && json != NULL ? psr_fail_context(PSR_ERR_FORMAT, "%.60s", json)
                                                  : err;
}

psr_err psr_cudnn_properties_read(const psr_cuda_wall *wall, const psr_cudnn_plan_target *target,
                                  char **ret_json)
{
    cudnnBackendDescriptor_t properties = NULL;
    size_t bytes;
    psr_err err = psr_cudnn_properties_new(wall, target, &properties);
    if (err == PSR_OK)
        err = psr_cudnn_read_text(wall, properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                  TEXT_BYTES_MAX, what, ret_json, &bytes);
    if (properties != NULL)
        wall->cudnnBackendDestroyDescriptor(properties);
    return err;
}
