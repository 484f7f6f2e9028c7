/* What the parts of the table over NVIDIA's libraries share: a device and what it has made.
 * Functions here are as api.h has them in the table. */
#ifndef PSR_MODEL_CUDA_NVIDIA_DEVICE_H
#define PSR_MODEL_CUDA_NVIDIA_DEVICE_H

#include "model/cuda/api.h"
#include "model/cuda/nvidia/cudnn_graph.h"
#include "model/cuda/nvidia/plan.h"
#include "model/cuda/nvidia/status.h"

#include <pthread.h>

/* Ends one thing that a device has made. */
typedef void (*psr_nvidia_end)(psr_cuda_device *device, void *what);

typedef struct psr_nvidia_made {
    void *what;
    psr_nvidia_end end;
} psr_nvidia_made;

struct psr_cuda_device {
    const psr_cuda_wall *wall;
    int index;
    psr_cuda_device_facts facts; /* free_bytes is asked for each time */
    cudnnHandle_t cudnn;         /* NULL: nothing was planned yet */
    cudaStream_t cudnn_stream;   /* the one that it was given */
    cudaLibrary_t library;
    cudaKernel_t kernels[PSR_CUDA_KERNEL_COUNT];
    uint32_t recordings; /* under way */
    pthread_mutex_t mutex;
    /* under the mutex, in the order in which they were made */
    psr_nvidia_made *made;
    size_t made_count, made_room;
};

struct psr_cuda_stream {
    psr_cuda_device *device;
    cudaStream_t stream;
};

/* Makes the device the thread's. */
PSR_MUST_CHECK psr_err psr_nvidia_enter(const psr_cuda_device *device);
/* Loads NCCL for the device, once in a process. */
PSR_MUST_CHECK psr_err psr_nvidia_load_nccl(void);
const psr_cuda_wall *psr_nvidia_wall(void);

/* Notes what was made, so that it ends with the device. Any thread. NOMEM: it was ended. */
PSR_MUST_CHECK psr_err psr_nvidia_own(psr_cuda_device *device, void *what, psr_nvidia_end end);
/* Ends it now. Any thread. */
void psr_nvidia_disown(psr_cuda_device *device, void *what);

psr_err psr_nvidia_device_count(uint32_t *ret_count);
psr_err psr_nvidia_device_open(uint32_t index, psr_cuda_device **ret_device);
void psr_nvidia_device_close(psr_cuda_device *device);
psr_err psr_nvidia_device_facts(psr_cuda_device *device, psr_cuda_device_facts *ret_facts);
psr_err psr_nvidia_device_check(psr_cuda_device *device);

psr_err psr_nvidia_memory_new(psr_cuda_device *device, size_t bytes, void **ret_memory);
psr_err psr_nvidia_pinned_new(psr_cuda_device *device, size_t bytes, void **ret_memory);
psr_err psr_nvidia_host_register(psr_cuda_device *device, void *memory, size_t bytes);

psr_err psr_nvidia_stream_new(psr_cuda_device *device, psr_cuda_stream **ret_stream);
void psr_nvidia_stream_free(psr_cuda_stream *stream);
psr_err psr_nvidia_stream_wait(psr_cuda_stream *stream, psr_cuda_event *event);
psr_err psr_nvidia_stream_synchronize(psr_cuda_stream *stream);
/* Of those that have come to an end, or are still busy: what has failed. */
psr_err psr_nvidia_streams_check(psr_cuda_device *device);
psr_err psr_nvidia_event_new(psr_cuda_device *device, psr_cuda_event **ret_event);
psr_err psr_nvidia_event_new_timed(psr_cuda_device *device, psr_cuda_event **ret_event);
void psr_nvidia_event_free(psr_cuda_event *event);
psr_err psr_nvidia_event_record(psr_cuda_event *event, psr_cuda_stream *stream);
psr_err psr_nvidia_event_passed(psr_cuda_event *event, bool *ret_passed);
psr_err psr_nvidia_event_synchronize(psr_cuda_event *event);
psr_err psr_nvidia_event_elapsed(psr_cuda_event *from, psr_cuda_event *to, int64_t *ret_ns);

psr_err psr_nvidia_copy(psr_cuda_stream *stream, void *to, const void *from, size_t bytes);
psr_err psr_nvidia_fill(psr_cuda_stream *stream, void *to, uint8_t byte, size_t bytes);
psr_err psr_nvidia_call_host(psr_cuda_stream *stream, void (*call)(void *context), void *context);
psr_err psr_nvidia_launch(psr_cuda_stream *stream, psr_cuda_kernel kernel, uint32_t blocks,
                          uint32_t threads, const void *arguments, size_t argument_bytes);
psr_err psr_nvidia_record_begin(psr_cuda_stream *stream);
psr_err psr_nvidia_record_end(psr_cuda_stream *stream, psr_cuda_recording **ret_recording);
psr_err psr_nvidia_recording_run(psr_cuda_stream *stream, const psr_cuda_recording *recording);
void psr_nvidia_recording_free(psr_cuda_recording *recording);

psr_err psr_nvidia_plan_new(psr_cuda_device *device, const psr_cuda_graph *graph,
                            const psr_cuda_plan_limits *limits, psr_cuda_plan **ret_plan);
void psr_nvidia_plan_free(psr_cuda_plan *plan);
size_t psr_nvidia_plan_workspace(const psr_cuda_plan *plan);
int64_t psr_nvidia_plan_engine(const psr_cuda_plan *plan);
psr_err psr_nvidia_plan_run(psr_cuda_stream *stream, const psr_cuda_plan *plan,
                            const psr_cuda_plan_tensors *tensors, void *workspace);

psr_err psr_nvidia_group_id(uint8_t ret_id[PSR_CUDA_GROUP_ID_BYTES]);
psr_err psr_nvidia_group_join(psr_cuda_device *device, const uint8_t id[PSR_CUDA_GROUP_ID_BYTES],
                              uint32_t members, uint32_t member, psr_cuda_group **ret_group);
psr_err psr_nvidia_group_sum(psr_cuda_group *group, psr_cuda_stream *stream, float *values,
                             size_t count);
psr_err psr_nvidia_group_check(psr_cuda_group *group);
void psr_nvidia_group_end(psr_cuda_group *group);

#endif
