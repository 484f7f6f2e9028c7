#include "model/cuda/nvidia/status.h"

#include <string.h>

typedef struct meaning {
    cudaError_t status;
    psr_err err;
    const char *advice;
} meaning;

static const char a_kernel_went_wrong[] =
    "a kernel went wrong; the kernel's log has the Xid (dmesg | grep Xid)";
static const char no_image[] =
    "psring's kernels are for sm_80 and later, so the GPU is too old or the driver cannot compile "
    "for it";

static const meaning meanings[] = {
    {cudaErrorMemoryAllocation, PSR_ERR_NOMEM, "give a smaller --batch-size"},
    {cudaErrorInsufficientDriver, PSR_ERR_UNSUPPORTED,
     "NVIDIA's driver is too old; install one for CUDA 13"},
    {cudaErrorCallRequiresNewerDriver, PSR_ERR_UNSUPPORTED,
     "NVIDIA's driver is too old; install one for CUDA 13"},
    {cudaErrorNoDevice, PSR_ERR_UNSUPPORTED,
     "NVIDIA's driver finds no GPU; CUDA_VISIBLE_DEVICES may hide them"},
    {cudaErrorInvalidDevice, PSR_ERR_UNSUPPORTED, "there is no GPU of that number"},
    {cudaErrorNoKernelImageForDevice, PSR_ERR_UNSUPPORTED, no_image},
    {cudaErrorUnsupportedPtxVersion, PSR_ERR_UNSUPPORTED, no_image},
    {cudaErrorJitCompilerNotFound, PSR_ERR_UNSUPPORTED, no_image},
    {cudaErrorDevicesUnavailable, PSR_ERR_UNSUPPORTED,
     "another process has the GPU for itself (nvidia-smi -q -d COMPUTE)"},
    {cudaErrorSystemNotReady, PSR_ERR_UNSUPPORTED,
     "the GPUs are not ready: is nvidia-fabricmanager running?"},
    {cudaErrorSystemDriverMismatch, PSR_ERR_UNSUPPORTED,
     "the driver and its libraries are of two versions; start the machine again"},
    {cudaErrorECCUncorrectable, PSR_ERR_COMPUTE,
     "the GPU's memory has an error that ECC cannot correct (Xid 48); leave this GPU out, or reset "
     "it (nvidia-smi -r)"},
    {cudaErrorContained, PSR_ERR_COMPUTE,
     "the GPU's memory has an error that was contained (Xid 94); start again"},
    {cudaErrorNvlinkUncorrectable, PSR_ERR_COMPUTE,
     "an NVLink failed (Xid 74); nvidia-smi nvlink -e tells which"},
    {cudaErrorLaunchTimeout, PSR_ERR_COMPUTE,
     "a kernel ran longer than the driver allows on a GPU with a screen"},
    {cudaErrorIllegalAddress, PSR_ERR_COMPUTE, a_kernel_went_wrong},
    {cudaErrorLaunchFailure, PSR_ERR_COMPUTE, a_kernel_went_wrong},
    {cudaErrorHardwareStackError, PSR_ERR_COMPUTE, a_kernel_went_wrong},
    {cudaErrorIllegalInstruction, PSR_ERR_COMPUTE, a_kernel_went_wrong},
    {cudaErrorMisalignedAddress, PSR_ERR_COMPUTE, a_kernel_went_wrong},
    {cudaErrorInvalidPc, PSR_ERR_COMPUTE, a_kernel_went_wrong},
    {cudaErrorUnknown, PSR_ERR_COMPUTE,
     "the GPU may have fallen off the bus (Xid 79); dmesg | grep Xid"},
};

psr_err psr_nvidia_check(const psr_cuda_wall *wall, cudaError_t status, const char *call)
{
    if (status == cudaSuccess)
        return PSR_OK;
    psr_err err = PSR_ERR_COMPUTE;
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].status == status) {
            err = meanings[i].err;
            advice = meanings[i].advice;
        }
    /* What was only refused must not be found again by who asks whether the device has failed. */
    (void)wall->cudaGetLastError();
    return psr_fail(err, "%s: %s%s%s", call, wall->cudaGetErrorString(status),
                    advice != NULL ? ": " : "", advice != NULL ? advice : "");
}

psr_err psr_nccl_check(const psr_cuda_wall *wall, ncclResult_t status, ncclComm_t comm,
                       const char *call)
{
    char words[200] = "";
    if (status == ncclSuccess || status == ncclInProgress)
        return PSR_OK;
    const char *last = wall->ncclGetLastError(comm);
    if (last != NULL)
        strncat(words, last, sizeof words - 1);
    words[strcspn(words, "\n")] = '\0';
    return psr_fail(PSR_ERR_COMPUTE, "%s: %s%s%s%s", call, wall->ncclGetErrorString(status),
                    words[0] ? ": " : "", words,
                    status == ncclRemoteError ? "; another worker has ended" : "");
}
