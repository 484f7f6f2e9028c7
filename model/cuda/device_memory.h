/* The memory that a back end has on its GPU and, pinned, on the host: arenas, the batch, results,
 * the room that programs share, and a workspace. What programs share grows when one needs more.
 *
 * One thread. */
#ifndef PSR_MODEL_CUDA_DEVICE_MEMORY_H
#define PSR_MODEL_CUDA_DEVICE_MEMORY_H

#include "model/backend.h"
#include "model/cuda/api.h"
#include "model/cuda/program.h"

/* What of the batch lies where in a block of max_batch samples. */
typedef struct psr_cuda_batch_block {
    size_t images, labels, second_labels, shares, samples;
    size_t pixels, placed, values; /* images that come as bytes: the three of psr_byte_images */
    size_t bytes;
} psr_cuda_batch_block;

typedef struct psr_cuda_device_memory {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    const psr_network *net;
    uint32_t max_batch;
    psr_cuda_batch_block block;
    void *at[PSR_CUDA_MEMORY_COUNT]; /* of the device */
    void *workspace;
    size_t room_bytes, workspace_bytes, other_bytes;
    /* pinned */
    char *batch;
    float *buffers, *logits;
    psr_cuda_result *result;
    size_t pinned_bytes;
} psr_cuda_device_memory;

/* All is borrowed for life. NOMEM: the detail tells what batch the device has memory for. The
 * caller calls psr_cuda_device_memory_done, also after a failure. */
PSR_MUST_CHECK psr_err psr_cuda_device_memory_init(psr_cuda_device_memory *memory,
                                                   const psr_cuda_api *api, psr_cuda_device *device,
                                                   const psr_network *net, uint32_t max_batch);
void psr_cuda_device_memory_done(psr_cuda_device_memory *memory);

/* Room for a program, which is for this type and pass, and a workspace. *ret_moved: addresses have
 * changed. Nothing is under way on the device. NOMEM, likewise. */
PSR_MUST_CHECK psr_err psr_cuda_device_memory_grow(psr_cuda_device_memory *memory,
                                                   const psr_cuda_program *program,
                                                   size_t workspace_bytes, bool *ret_moved);

#endif
