#include "model/cuda/nvidia/device.h"

#define MIB (1024.0 * 1024.0)

static void end_memory(psr_cuda_device *device, void *memory)
{
    (void)device->wall->cudaFree(memory);
}

static void end_pinned(psr_cuda_device *device, void *memory)
{
    (void)device->wall->cudaFreeHost(memory);
}

static void end_registered(psr_cuda_device *device, void *memory)
{
    (void)device->wall->cudaHostUnregister(memory);
}

static psr_err refuse(const psr_cuda_device *device, size_t bytes)
{
    size_t free_bytes = 0, all_bytes = 0;
    (void)device->wall->cudaGetLastError();
    if (device->wall->cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess)
        return psr_fail(PSR_ERR_NOMEM, "the GPU has no %.1f MiB more", (double)bytes / MIB);
    return psr_fail(PSR_ERR_NOMEM,
                    "the GPU's memory: %.1f MiB are wanted, and %.1f of %.1f MiB free",
                    (double)bytes / MIB, (double)free_bytes / MIB, (double)all_bytes / MIB);
}

psr_err psr_nvidia_memory_new(psr_cuda_device *device, size_t bytes, void **ret_memory)
{
    void *memory = NULL;
    PSR_TRY(psr_nvidia_enter(device));
    const cudaError_t status = device->wall->cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (status == cudaErrorMemoryAllocation)
        return refuse(device, bytes);
    PSR_TRY(psr_nvidia_check(device->wall, status, "cudaMalloc"));
    PSR_TRY(psr_nvidia_own(device, memory, end_memory));
    *ret_memory = memory;
    return PSR_OK;
}

psr_err psr_nvidia_pinned_new(psr_cuda_device *device, size_t bytes, void **ret_memory)
{
    void *memory = NULL;
    PSR_TRY(psr_nvidia_enter(device));
    const cudaError_t status =
        device->wall->cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation)
        return psr_fail(PSR_ERR_NOMEM, "the host has no %.1f MiB of memory that can be pinned",
                        (double)bytes / MIB);
    PSR_TRY(psr_nvidia_check(device->wall, status, "cudaHostAlloc"));
    PSR_TRY(psr_nvidia_own(device, memory, end_pinned));
    *ret_memory = memory;
    return PSR_OK;
}

psr_err psr_nvidia_host_register(psr_cuda_device *device, void *memory, size_t bytes)
{
    PSR_TRY(psr_nvidia_enter(device));
    PSR_TRY(psr_nvidia_check(
        device->wall, device->wall->cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
        "cudaHostRegister"));
    return psr_nvidia_own(device, memory, end_registered);
}
