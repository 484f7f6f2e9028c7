/* What a failure of CUDA's runtime or of NCCL means, as one line: the call, the library's words,
 * and what to do where that is known. Any thread. */
#ifndef PSR_MODEL_CUDA_NVIDIA_STATUS_H
#define PSR_MODEL_CUDA_NVIDIA_STATUS_H

#include "model/cuda/nvidia/wall.h"

/* call: "cudaStreamSynchronize". NOMEM: there is no memory left; UNSUPPORTED: driver, device or
 * build do not go together; else COMPUTE. What has failed for good stays CUDA's last error. */
PSR_MUST_CHECK psr_err psr_nvidia_check(const psr_cuda_wall *wall, cudaError_t status,
                                        const char *call);

/* comm: whose words are asked for; NULL: there is none yet. ncclInProgress is no failure.
 * COMPUTE. */
PSR_MUST_CHECK psr_err psr_nccl_check(const psr_cuda_wall *wall, ncclResult_t status,
                                      ncclComm_t comm, const char *call);

#endif
