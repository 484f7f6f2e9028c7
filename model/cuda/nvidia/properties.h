/* What cuDNN knows of a device when it plans for it: told by text or by the device itself, and told
 * as text. Those of tests/unit/model/cuda/devices have the same form. */
#ifndef PSR_MODEL_CUDA_NVIDIA_PROPERTIES_H
#define PSR_MODEL_CUDA_NVIDIA_PROPERTIES_H

#include "model/cuda/nvidia/plan.h"

/* wall: its cuDNN is loaded. *ret_properties is NULL or the caller's to destroy, after a failure
 * too. COMPUTE: cuDNN failed. FORMAT: the target's text are no properties. */
PSR_MUST_CHECK psr_err psr_cudnn_properties_new(const psr_cuda_wall *wall,
                                                const psr_cudnn_plan_target *target,
                                                cudnnBackendDescriptor_t *ret_properties);

/* The properties as JSON, in the form of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. The caller owns
 * *ret_json: free(). As above, and NOMEM. */
PSR_MUST_CHECK psr_err psr_cudnn_properties_read(const psr_cuda_wall *wall,
                                                 const psr_cudnn_plan_target *target,
                                                 char **ret_json);

#endif
