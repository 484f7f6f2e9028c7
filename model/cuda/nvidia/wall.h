/* The functions of CUDA's libraries that psring calls, in one table. The libraries are no part of
 * psring's programs: they are loaded when this table is opened, so that one build runs on machines
 * with and without them. Only headers are needed to compile.
 *
 * Whoever is behind the names libcudart.so.13, libcudnn.so.9, libnccl.so.2 and libcuda.so.1 on the
 * dynamic linker's path is called: NVIDIA's libraries, or a test's. model/cuda/nvidia alone
 * includes this. */
#ifndef PSR_MODEL_CUDA_WALL_H
#define PSR_MODEL_CUDA_WALL_H

#include "base/err.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#define PSR_CUDA_CUDNN_LEAST 91100 /* 9.11.0: the first that plans without a device */

#define PSR_CUDA_RUNTIME_CALLS(CALL)                                                               \
    CALL(cudaDriverGetVersion)                                                                     \
    CALL(cudaRuntimeGetVersion)                                                                    \
    CALL(cudaGetDeviceCount)                                                                       \
    CALL(cudaGetDeviceProperties)                                                                  \
    CALL(cudaGetErrorString)                                                                       \
    CALL(cudaGetLastError)                                                                         \
    CALL(cudaPeekAtLastError)                                                                      \
    CALL(cudaSetDevice)                                                                            \
    CALL(cudaMemGetInfo)                                                                           \
    CALL(cudaMalloc)                                                                               \
    CALL(cudaFree)                                                                                 \
    CALL(cudaHostAlloc)                                                                            \
    CALL(cudaFreeHost)                                                                             \
    CALL(cudaHostRegister)                                                                         \
    CALL(cudaHostUnregister)                                                                       \
    CALL(cudaStreamCreateWithFlags)                                                                \
    CALL(cudaStreamDestroy)                                                                        \
    CALL(cudaStreamWaitEvent)                                                                      \
    CALL(cudaStreamSynchronize)                                                                    \
    CALL(cudaStreamQuery)                                                                          \
    CALL(cudaStreamAddCallback)                                                                    \
    CALL(cudaEventCreateWithFlags)                                                                 \
    CALL(cudaEventDestroy)                                                                         \
    CALL(cudaEventRecord)                                                                          \
    CALL(cudaEventQuery)                                                                           \
    CALL(cudaEventSynchronize)                                                                     \
    CALL(cudaEventElapsedTime)                                                                     \
    CALL(cudaMemcpyAsync)                                                                          \
    CALL(cudaMemsetAsync)                                                                          \
    CALL(cudaLaunchHostFunc)                                                                       \
    CALL(cudaLaunchKernel)                                                                         \
    CALL(cudaLibraryLoadData)                                                                      \
    CALL(cudaLibraryUnload)                                                                        \
    CALL(cudaLibraryGetKernel)                                                                     \
    CALL(cudaFuncGetAttributes)                                                                    \
    CALL(cudaStreamBeginCapture)                                                                   \
    CALL(cudaStreamEndCapture)                                                                     \
    CALL(cudaGraphInstantiate)                                                                     \
    CALL(cudaGraphDestroy)                                                                         \
    CALL(cudaGraphExecDestroy)                                                                     \
    CALL(cudaGraphLaunch)

#define PSR_CUDA_CUDNN_CALLS(CALL)                                                                 \
    CALL(cudnnGetVersion)                                                                          \
    CALL(cudnnGetErrorString)                                                                      \
    CALL(cudnnGetLastErrorString)                                                                  \
    CALL(cudnnCreate)                                                                              \
    CALL(cudnnDestroy)                                                                             \
    CALL(cudnnSetStream)                                                                           \
    CALL(cudnnBackendCreateDescriptor)                                                             \
    CALL(cudnnBackendDestroyDescriptor)                                                            \
    CALL(cudnnBackendSetAttribute)                                                                 \
    CALL(cudnnBackendGetAttribute)                                                                 \
    CALL(cudnnBackendFinalize)                                                                     \
    CALL(cudnnBackendExecute)

#define PSR_CUDA_NCCL_CALLS(CALL)                                                                  \
    CALL(ncclGetVersion)                                                                           \
    CALL(ncclGetErrorString)                                                                       \
    CALL(ncclGetLastError)                                                                         \
    CALL(ncclGetUniqueId)                                                                          \
    CALL(ncclCommInitRankConfig)                                                                   \
    CALL(ncclCommGetAsyncError)                                                                    \
    CALL(ncclAllReduce)                                                                            \
    CALL(ncclCommAbort)

#define PSR_CUDA_MEMBER(name) __typeof__(name) *name;
typedef struct psr_cuda_wall {
    PSR_CUDA_RUNTIME_CALLS(PSR_CUDA_MEMBER)
    PSR_CUDA_CUDNN_CALLS(PSR_CUDA_MEMBER)
    PSR_CUDA_NCCL_CALLS(PSR_CUDA_MEMBER)
} psr_cuda_wall;

/* Each loads one library, checks its version and fills in its functions; what is loaded stays until
 * the process ends. NOT_FOUND: it is not there, or lacks a function; VERSION: another version. The
 * detail is one line that names the library and says what would be right. */
PSR_MUST_CHECK psr_err psr_cuda_wall_load_driver(void); /* it has no function that psring calls */
PSR_MUST_CHECK psr_err psr_cuda_wall_load_runtime(psr_cuda_wall *wall);
PSR_MUST_CHECK psr_err psr_cuda_wall_load_cudnn(psr_cuda_wall *wall);
PSR_MUST_CHECK psr_err psr_cuda_wall_load_nccl(psr_cuda_wall *wall);

#endif
