/* What psring asks of a GPU, in one table: memory, streams, events, kernels of its own, graphs that
 * a library plans and runs, and sums over several GPUs. The back end (model/cuda/backend.c) and the
 * exchange call nothing else, and include nothing of CUDA.
 *
 * Behind the table stand NVIDIA's libraries (model/cuda/nvidia/, in the program
 * psring-worker-cuda), or an emulation on this processor (tests/emulator/cuda/). A program offers
 * one of them once, at its start; a program that offers none has no GPU.
 *
 * Device memory is an address that the host never reads or writes. Whatever takes a stream is
 * ordered on it and returns at once; what it reads and writes has to stay until the stream has come
 * to it. Host memory that streams copy from or to is pinned, or was registered.
 *
 * Failures: NOMEM: the device's memory does not suffice, the detail says how much was wanted and is
 * free; COMPUTE: the device failed, after which every call fails; UNSUPPORTED: it cannot do that.
 * The detail is one line. One thread per device, but for event_passed, which any thread calls. What
 * was opened twice by one process is one device twice: streams of one use the other's memory, and
 * the host waits for one before it tells the other. */
#ifndef PSR_MODEL_CUDA_API_H
#define PSR_MODEL_CUDA_API_H

#include "base/err.h"
#include "model/cuda/graph.h"
#include "model/cuda/kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_cuda_device psr_cuda_device;
typedef struct psr_cuda_stream psr_cuda_stream;
typedef struct psr_cuda_event psr_cuda_event;
typedef struct psr_cuda_plan psr_cuda_plan; /* of a graph: how it is computed */
typedef struct psr_cuda_recording
    psr_cuda_recording;                       /* what a stream was given, to be given again */
typedef struct psr_cuda_group psr_cuda_group; /* devices that sum together */

typedef struct psr_cuda_device_facts {
    char name[96];         /* "NVIDIA H100 80GB HBM3" */
    uint32_t architecture; /* 90 for sm_90 */
    size_t bytes, free_bytes;
    /* "cuda 13.0 cudnn 9.19.0 sm_90": what must be equal on all workers for equal bits. */
    char identity[96];
} psr_cuda_device_facts;

typedef struct psr_cuda_plan_limits {
    size_t workspace_bytes; /* the most that a graph may have */
    bool tf32;              /* products of float32 may be computed from 10 bits of each factor */
    bool timed; /* the fastest of several by the clock, instead of the first by heuristics */
    /* Where plans are kept (plan_files.h), so that the same one need not be found again; it changes
     * no choice. NULL: nowhere. */
    const char *kept;
} psr_cuda_plan_limits;

/* A pointer for each tensor of a graph that is neither inner nor by value, by the tensor's index;
 * numbers for those by value. */
typedef struct psr_cuda_plan_tensors {
    void *at[PSR_CUDA_GRAPH_TENSORS];
    float numbers[PSR_CUDA_GRAPH_TENSORS];
} psr_cuda_plan_tensors;

#define PSR_CUDA_GROUP_ID_BYTES 128

typedef struct psr_cuda_api {
    /* Devices are numbered from 0, as the environment lets them be seen. 0 with the reason as the
     * detail: UNSUPPORTED. */
    psr_err (*device_count)(uint32_t *ret_count);
    /* Any number of times for one device, by one process or several. */
    psr_err (*device_open)(uint32_t index, psr_cuda_device **ret_device);
    void (*device_close)(psr_cuda_device *device); /* all that it made is freed; NULL allowed */
    psr_err (*device_facts)(psr_cuda_device *device, psr_cuda_device_facts *ret_facts);
    /* COMPUTE when anything ordered has failed: an ECC error, an Xid. Waits for nothing. */
    psr_err (*device_check)(psr_cuda_device *device);

    /* New memory holds anything. Freeing waits for nothing: the caller has waited. */
    psr_err (*memory_new)(psr_cuda_device *device, size_t bytes, void **ret_memory);
    void (*memory_free)(psr_cuda_device *device, void *memory);
    psr_err (*pinned_new)(psr_cuda_device *device, size_t bytes, void **ret_memory);
    void (*pinned_free)(psr_cuda_device *device, void *memory);
    psr_err (*host_register)(psr_cuda_device *device, void *memory, size_t bytes);
    void (*host_unregister)(psr_cuda_device *device, void *memory);

    psr_err (*stream_new)(psr_cuda_device *device, psr_cuda_stream **ret_stream);
    void (*stream_free)(psr_cuda_stream *stream);
    psr_err (*stream_wait)(psr_cuda_stream *stream, psr_cuda_event *event); /* its last record */
    psr_err (*stream_synchronize)(psr_cuda_stream *stream); /* the host waits for all of it */

    psr_err (*event_new)(psr_cuda_device *device, psr_cuda_event **ret_event);
    /* An event whose records know when they were passed, which makes them slower. */
    psr_err (*event_new_timed)(psr_cuda_device *device, psr_cuda_event **ret_event);
    void (*event_free)(psr_cuda_event *event);
    psr_err (*event_record)(psr_cuda_event *event, psr_cuda_stream *stream);
    psr_err (*event_passed)(psr_cuda_event *event, bool *ret_passed); /* true if never recorded */
    psr_err (*event_synchronize)(psr_cuda_event *event);
    /* How long after the last record of from that of to was passed, by the device's clock. Both are
     * timed events of one device, and have passed. */
    psr_err (*event_elapsed)(psr_cuda_event *from, psr_cuda_event *to, int64_t *ret_ns);

    /* Any two of device memory, pinned and registered memory. */
    psr_err (*copy)(psr_cuda_stream *stream, void *to, const void *from, size_t bytes);
    psr_err (*fill)(psr_cuda_stream *stream, void *to, uint8_t byte, size_t bytes);
    /* call(context) on a thread of the implementation's, when the stream has come to it. It calls
     * nothing of this table. Called also when the device has failed. */
    psr_err (*call_host)(psr_cuda_stream *stream, void (*call)(void *context), void *context);

    /* arguments: the kernel's struct (kernels.h), copied before this returns. */
    psr_err (*launch)(psr_cuda_stream *stream, psr_cuda_kernel kernel, uint32_t blocks,
                      uint32_t threads, const void *arguments, size_t argument_bytes);

    /* The first engine, in the order that the library's heuristics name them, that gives the same
     * bits in every call and keeps within the limits: no clock takes part unless limits say so. */
    psr_err (*plan_new)(psr_cuda_device *device, const psr_cuda_graph *graph,
                        const psr_cuda_plan_limits *limits, psr_cuda_plan **ret_plan);
    void (*plan_free)(psr_cuda_plan *plan);
    size_t (*plan_workspace)(const psr_cuda_plan *plan); /* bytes */
    int64_t (*plan_engine)(const psr_cuda_plan *plan);   /* the library's number of it */
    psr_err (*plan_run)(psr_cuda_stream *stream, const psr_cuda_plan *plan,
                        const psr_cuda_plan_tensors *tensors, void *workspace);

    /* Between begin and end the stream's orders are kept instead of carried out. Streams and events
     * that it waits for and that wait for it take part, as in CUDA. */
    psr_err (*record_begin)(psr_cuda_stream *stream);
    psr_err (*record_end)(psr_cuda_stream *stream, psr_cuda_recording **ret_recording);
    psr_err (*recording_run)(psr_cuda_stream *stream, const psr_cuda_recording *recording);
    void (*recording_free)(psr_cuda_recording *recording);

    /* One member makes the id, and all join with it; joining waits for all. A member that fails
     * leaves the others COMPUTE, or waiting: group_end ends that too, from any thread. */
    psr_err (*group_id)(uint8_t ret_id[PSR_CUDA_GROUP_ID_BYTES]);
    psr_err (*group_join)(psr_cuda_device *device, const uint8_t id[PSR_CUDA_GROUP_ID_BYTES],
                          uint32_t members, uint32_t member, psr_cuda_group **ret_group);
    /* In place, float32. All members call it in one order. */
    psr_err (*group_sum)(psr_cuda_group *group, psr_cuda_stream *stream, float *values,
                         size_t count);
    psr_err (*group_check)(psr_cuda_group *group);
    void (*group_end)(psr_cuda_group *group); /* what is under way ends, failed; NULL allowed */
} psr_cuda_api;

/* Once, by main, before anything else; api stays. */
void psr_cuda_offer(const psr_cuda_api *api);
/* NULL: this program has none. */
const psr_cuda_api *psr_cuda_offered(void);

#endif
