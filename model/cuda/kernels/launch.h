/* Orders a kernel on a stream, with the blocks that its arguments ask for. */
#ifndef PSR_MODEL_CUDA_KERNELS_LAUNCH_H
#define PSR_MODEL_CUDA_KERNELS_LAUNCH_H

#include "model/cuda/api.h"

/* How a kernel is started. The same arguments give the same grid on every device. */
typedef struct psr_cuda_grid {
    uint32_t blocks, threads;
    size_t argument_bytes; /* of its struct */
} psr_cuda_grid;
psr_cuda_grid psr_cuda_kernel_grid(psr_cuda_kernel kernel, const void *arguments);

/* arguments: the struct of that kernel. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_kernel_launch(const psr_cuda_api *api, psr_cuda_stream *stream,
                                              psr_cuda_kernel kernel, const void *arguments);

#endif
