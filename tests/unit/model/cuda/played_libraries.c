/* CUDA's runtime, cuDNN and NCCL, as far as psr_cuda_look asks them: what they answer is in the
 * variable PLAYED_CUDA, "driver=13000 runtime=13000 devices=2 cudnn=91900 nccl=22809". One source
 * for all three: each is built with the functions of its own. With none of them it is the driver,
 * of which nothing but its being there is asked. */
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined PLAYED_RUNTIME || defined PLAYED_CUDNN || defined PLAYED_NCCL
static int played(const char *name)
{
    char word[32];
    const char *all = getenv("PLAYED_CUDA");
    snprintf(word, sizeof word, "%s=", name);
    const char *at = all != NULL ? strstr(all, word) : NULL;
    return at != NULL ? atoi(at + strlen(word)) : 0;
}
#endif

#ifdef PLAYED_RUNTIME
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = played("driver");
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = played("runtime");
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = played("devices");
    if (played("driver") < played("runtime"))
        return cudaErrorInsufficientDriver;
    if (played("broken"))
        return cudaErrorInitializationError;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

/* The last device is another one. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    const int last = device == played("devices") - 1;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, last ? "Played B" : "Played A");
    p->major = last ? 10 : 9;
    p->totalGlobalMem = (size_t)80 << 30;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaErrorInitializationError ? "initialization error" : "played";
}
#endif

#ifdef PLAYED_CUDNN
size_t cudnnGetVersion(void)
{
    return (size_t)played("cudnn");
}

/* Never called, but looked for. */
#define THERE(name)                                                                                \
    void name##_there(void) __asm__(#name);                                                        \
    void name##_there(void)                                                                        \
    {                                                                                              \
    }
THERE(cudnnGetErrorString)
THERE(cudnnGetLastErrorString)
THERE(cudnnBackendCreateDescriptor)
THERE(cudnnBackendDestroyDescriptor)
THERE(cudnnBackendSetAttribute)
THERE(cudnnBackendGetAttribute)
THERE(cudnnBackendFinalize)
#endif

#ifdef PLAYED_NCCL
ncclResult_t ncclGetVersion(int *version)
{
    *version = played("nccl");
    return ncclSuccess;
}
#endif
