#include "model/cuda/nvidia/properties.h"

#include "model/cuda/nvidia/cudnn_graph.h"

#include <stdlib.h>
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

static psr_err get_text(const psr_cuda_wall *wall, cudnnBackendDescriptor_t properties,
                        int64_t room, int64_t *ret_size, char *to)
{
    return psr_cudnn_check(wall,
                           wall->cudnnBackendGetAttribute(properties,
                                                          CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                          CUDNN_TYPE_CHAR, room, ret_size, to),
                           what);
}

/* cuDNN tells the size where there is no room. */
static psr_err read_text(const psr_cuda_wall *wall, cudnnBackendDescriptor_t properties,
                         char **ret_json)
{
    int64_t size = 0, got = 0;
    PSR_TRY(get_text(wall, properties, 0, &size, NULL));
    if (size < 1 || size > TEXT_BYTES_MAX)
        return psr_fail(PSR_ERR_COMPUTE, "%s: cuDNN has %lld bytes of them", what, (long long)size);
    char *json = calloc(1, (size_t)size + 1);
    if (json == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", what);
    const psr_err err = get_text(wall, properties, size, &got, json);
    if (err != PSR_OK) {
        free(json);
        return err;
    }
    *ret_json = json;
    return PSR_OK;
}

psr_err psr_cudnn_properties_read(const psr_cuda_wall *wall, const psr_cudnn_plan_target *target,
                                  char **ret_json)
{
    cudnnBackendDescriptor_t properties = NULL;
    psr_err err = psr_cudnn_properties_new(wall, target, &properties);
    if (err == PSR_OK)
        err = read_text(wall, properties, ret_json);
    if (properties != NULL)
        wall->cudnnBackendDestroyDescriptor(properties);
    return err;
}
