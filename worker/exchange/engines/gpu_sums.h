/* Sums over the GPUs of all workers, through the table of model/cuda/api.h: those of NCCL, or of an
 * emulation.
 *
 * Gradients lie in the host's arena, whose pages may change hands, so that a GPU does not copy
 * from it. A sum takes four steps: into pinned memory of our own, to the GPU, over the GPUs, and
 * back the same way. Where a back end keeps its gradients on the GPU (--update-on device) a sum is
 * one step, in their place. Sums are ordered on one stream, so that copies and sums of buckets
 * follow each other while the backward pass goes on.
 *
 * One thread of its own makes all calls: joining waits for all other processes without a deadline.
 * The thread that has the sockets never calls it, and hears of a peer's death meanwhile.
 *
 * The order in which a sum adds is the library's own, which may be another for another size, number
 * of GPUs or way between them. */
#ifndef PSR_WORKER_EXCHANGE_GPU_SUMS_H
#define PSR_WORKER_EXCHANGE_GPU_SUMS_H

#include "model/cuda/api.h"

typedef struct psr_gpu_sums psr_gpu_sums;

typedef struct psr_gpu_sums_options {
    const psr_cuda_api *api;
    uint32_t device;             /* of the table's; any number of processes may share one */
    bool shares_devices;         /* device is taken modulo how many there are */
    const uint8_t *id;           /* PSR_CUDA_GROUP_ID_BYTES, copied: of all that sum together */
    uint32_t processes, process; /* how many take part, and which of them this is */
    uint32_t most;               /* most sums that may be under way at a time */
    float *arena;                /* what is summed are parts of it; borrowed for life */
    size_t length;
    /* Where, when the first sum is started, the address of the device's memory is of which parts
     * are summed instead; both are borrowed for life. NULL: arena's are. */
    float *const *on_device;
    /* How long a failure of the group is kept back: it may be the trace of another process that was
     * lost, and then whoever watches processes ends the run meanwhile, and names it. */
    int patience_ms;
    void *context;
    /* A sum has ended, or all have failed. Called on the thread, until psr_gpu_sums_free; it may
     * call no function of this header. */
    void (*changed)(void *context);
} psr_gpu_sums_options;

/* Starts the thread, which joins the others. psr_gpu_sums_take returns its failure. The caller owns
 * *ret_sums: psr_gpu_sums_free. NOMEM, IO. */
PSR_MUST_CHECK psr_err psr_gpu_sums_new(const psr_gpu_sums_options *options,
                                        psr_gpu_sums **ret_sums);

/* Replaces arena[first, first + count), or that part of on_device, by their sums over all
 * processes; they are borrowed until the sum has ended. All processes start the same sums in the
 * same order. number: the caller's name for it. USAGE: more than `most` are under way. */
PSR_MUST_CHECK psr_err psr_gpu_sums_start(psr_gpu_sums *sums, uint32_t number, size_t first,
                                          size_t count);

/* The next sum that has ended; *ret_any false: none. Else what the table returns. */
PSR_MUST_CHECK psr_err psr_gpu_sums_take(psr_gpu_sums *sums, bool *ret_any, uint32_t *ret_number);

/* Ends what is under way. If the thread is still joining after linger_ms, it is left behind with
 * what it uses, since the process is about to end. NULL allowed. */
void psr_gpu_sums_free(psr_gpu_sums *sums, int linger_ms);

#endif
