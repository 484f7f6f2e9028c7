/* What a program for GPUs links: NVIDIA's libraries (model/cuda/nvidia/), in psring-worker-cuda, or
 * an emulation (tests/emulator/cuda/), in a test's program of that name. Each defines what is
 * declared here; psring's other programs link neither. One thread. */
#ifndef PSR_MODEL_CUDA_LINKED_H
#define PSR_MODEL_CUDA_LINKED_H

#include "model/cuda/api.h"

/* What main offers (psr_cuda_offer). Static. */
const psr_cuda_api *psr_cuda_linked(void);

/* What is on this machine, as text for a person: `psring doctor` shows it. */
typedef struct psr_cuda_devices {
    char devices[256]; /* "2 x NVIDIA H100 80GB HBM3 (sm_90, 79.1 GiB)"; "": none */
    /* "driver 13.0, runtime 13.0, cuDNN 9.19.0, NCCL 2.28.3": those that are there. "driver" alone
     * where there is no runtime to ask for its version. */
    char libraries[128];
    /* What is missing for a run on them, and what to do, "; " between; "": nothing. */
    char missing[512];
} psr_cuda_devices;

/* It loads NVIDIA's libraries where there is a driver, and computes nothing. */
void psr_cuda_look(psr_cuda_devices *ret_devices);

/* What cuDNN would plan for on device `index`: its properties as JSON, in the form of
 * tests/unit/model/cuda/devices. The caller owns *ret_json: free(). UNSUPPORTED: there is no such
 * device, or it is too old; NOT_FOUND, VERSION: a library; COMPUTE: cuDNN failed. */
PSR_MUST_CHECK psr_err psr_cuda_properties(uint32_t index, char **ret_json);

#endif
