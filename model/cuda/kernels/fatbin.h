/* psring's own kernels as nvcc made them: one fatbin for sm_80, sm_90 and sm_100 with PTX for what
 * comes later, which cudaLibraryLoadData takes. Kernel NAME of kernels.h is the function
 * psr_kernel_NAME, whose one parameter is psr_cuda_NAME_args. Only where the build has nvcc. */
#ifndef PSR_MODEL_CUDA_KERNELS_FATBIN_H
#define PSR_MODEL_CUDA_KERNELS_FATBIN_H

#include <stdint.h>

extern const unsigned char psr_cuda_kernels_fatbin[];
extern const uint64_t psr_cuda_kernels_fatbin_bytes;

#endif
