/* Streams, events and what is ordered on streams. */
#include "model/cuda/nvidia/device.h"

#include <stdlib.h>

struct psr_cuda_event {
    psr_cuda_device *device;
    cudaEvent_t event;
};

struct psr_cuda_recording {
    psr_cuda_device *device;
    cudaGraphExec_t graph;
};

/* ---- streams ---- */

static void end_stream(psr_cuda_device *device, void *what)
{
    psr_cuda_stream *stream = what;
    if (device->cudnn_stream == stream->stream)
        device->cudnn_stream = NULL;
    (void)device->wall->cudaStreamDestroy(stream->stream);
    free(stream);
}

/* Non-blocking: it waits for nothing that is ordered on CUDA's default stream. */
psr_err psr_nvidia_stream_new(psr_cuda_device *device, psr_cuda_stream **ret_stream)
{
    cudaStream_t made = NULL;
    PSR_TRY(psr_nvidia_enter(device));
    psr_cuda_stream *stream = malloc(sizeof *stream);
    if (stream == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a stream");
    psr_err err = psr_nvidia_check(
        device->wall, device->wall->cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
    if (err != PSR_OK) {
        free(stream);
        return err;
    }
    *stream = (psr_cuda_stream){device, made};
    PSR_TRY(psr_nvidia_own(device, stream, end_stream));
    *ret_stream = stream;
    return PSR_OK;
}

void psr_nvidia_stream_free(psr_cuda_stream *stream)
{
    if (stream != NULL)
        psr_nvidia_disown(stream->device, stream);
}

psr_err psr_nvidia_stream_wait(psr_cuda_stream *stream, psr_cuda_event *event)
{
    const psr_cuda_wall *wall = stream->device->wall;
    return psr_nvidia_check(wall, wall->cudaStreamWaitEvent(stream->stream, event->event, 0),
                            "cudaStreamWaitEvent");
}

psr_err psr_nvidia_stream_synchronize(psr_cuda_stream *stream)
{
    const psr_cuda_wall *wall = stream->device->wall;
    return psr_nvidia_check(wall, wall->cudaStreamSynchronize(stream->stream),
                            "cudaStreamSynchronize");
}

psr_err psr_nvidia_streams_check(psr_cuda_device *device)
{
    cudaError_t status = cudaSuccess;
    pthread_mutex_lock(&device->mutex);
    for (size_t i = 0; i < device->made_count && status == cudaSuccess; i++) {
        if (device->made[i].end != end_stream)
            continue;
        const psr_cuda_stream *stream = device->made[i].what;
        status = device->wall->cudaStreamQuery(stream->stream);
        status = status == cudaErrorNotReady ? cudaSuccess : status;
    }
    pthread_mutex_unlock(&device->mutex);
    return psr_nvidia_check(device->wall, status, "the GPU");
}

/* ---- events ---- */

static void end_event(psr_cuda_device *device, void *what)
{
    psr_cuda_event *event = what;
    (void)device->wall->cudaEventDestroy(event->event);
    free(event);
}

static psr_err new_event(psr_cuda_device *device, unsigned flags, psr_cuda_event **ret_event)
{
    cudaEvent_t made = NULL;
    PSR_TRY(psr_nvidia_enter(device));
    psr_cuda_event *event = malloc(sizeof *event);
    if (event == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an event");
    psr_err err =
        psr_nvidia_check(device->wall, device->wall->cudaEventCreateWithFlags(&made, flags),
                         "cudaEventCreateWithFlags");
    if (err != PSR_OK) {
        free(event);
        return err;
    }
    *event = (psr_cuda_event){device, made};
    PSR_TRY(psr_nvidia_own(device, event, end_event));
    *ret_event = event;
    return PSR_OK;
}

/* Without times, which would make records and waits slower. */
psr_err psr_nvidia_event_new(psr_cuda_device *device, psr_cuda_event **ret_event)
{
    return new_event(device, cudaEventDisableTiming, ret_event);
}

psr_err psr_nvidia_event_new_timed(psr_cuda_device *device, psr_cuda_event **ret_event)
{
    return new_event(device, cudaEventDefault, ret_event);
}

void psr_nvidia_event_free(psr_cuda_event *event)
{
    if (event != NULL)
        psr_nvidia_disown(event->device, event);
}

psr_err psr_nvidia_event_record(psr_cuda_event *event, psr_cuda_stream *stream)
{
    const psr_cuda_wall *wall = event->device->wall;
    return psr_nvidia_check(wall, wall->cudaEventRecord(event->event, stream->stream),
                            "cudaEventRecord");
}

psr_err psr_nvidia_event_passed(psr_cuda_event *event, bool *ret_passed)
{
    const psr_cuda_wall *wall = event->device->wall;
    const cudaError_t status = wall->cudaEventQuery(event->event);
    if (status != cudaErrorNotReady)
        PSR_TRY(psr_nvidia_check(wall, status, "cudaEventQuery"));
    *ret_passed = status == cudaSuccess;
    return PSR_OK;
}

psr_err psr_nvidia_event_synchronize(psr_cuda_event *event)
{
    const psr_cuda_wall *wall = event->device->wall;
    return psr_nvidia_check(wall, wall->cudaEventSynchronize(event->event), "cudaEventSynchronize");
}

/* CUDA tells milliseconds. */
psr_err psr_nvidia_event_elapsed(psr_cuda_event *from, psr_cuda_event *to, int64_t *ret_ns)
{
    const psr_cuda_wall *wall = from->device->wall;
    float ms = 0;
    PSR_TRY(psr_nvidia_check(wall, wall->cudaEventElapsedTime(&ms, from->event, to->event),
                             "cudaEventElapsedTime"));
    *ret_ns = (int64_t)((double)ms * 1e6);
    return PSR_OK;
}

/* ---- orders ---- */

psr_err psr_nvidia_copy(psr_cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    const psr_cuda_wall *wall = stream->device->wall;
    return psr_nvidia_check(
        wall, wall->cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->stream),
        "cudaMemcpyAsync");
}

psr_err psr_nvidia_fill(psr_cuda_stream *stream, void *to, uint8_t byte, size_t bytes)
{
    const psr_cuda_wall *wall = stream->device->wall;
    return psr_nvidia_check(wall, wall->cudaMemsetAsync(to, byte, bytes, stream->stream),
                            "cudaMemsetAsync");
}

typedef struct host_call {
    void (*call)(void *context);
    void *context;
} host_call;

static void CUDART_CB called(cudaStream_t stream, cudaError_t status, void *data)
{
    host_call *c = data;
    (void)stream;
    (void)status; /* whoever is called asks device_check */
    c->call(c->context);
    free(c);
}

/* cudaLaunchHostFunc, which would be forgotten when the device fails, is for recordings, which can
 * have no other. */
psr_err psr_nvidia_call_host(psr_cuda_stream *stream, void (*call)(void *context), void *context)
{
    const psr_cuda_wall *wall = stream->device->wall;
    if (stream->device->recordings > 0)
        return psr_nvidia_check(wall, wall->cudaLaunchHostFunc(stream->stream, call, context),
                                "cudaLaunchHostFunc");
    host_call *c = malloc(sizeof *c);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a call");
    *c = (host_call){call, context};
    const psr_err err = psr_nvidia_check(
        wall, wall->cudaStreamAddCallback(stream->stream, called, c, 0), "cudaStreamAddCallback");
    if (err != PSR_OK)
        free(c);
    return err;
}

/* CUDA knows how many bytes the arguments have, and copies them. */
psr_err psr_nvidia_launch(psr_cuda_stream *stream, psr_cuda_kernel kernel, uint32_t blocks,
                          uint32_t threads, const void *arguments, size_t argument_bytes)
{
    const psr_cuda_device *device = stream->device;
    void *of_kernel[] = {(void *)(uintptr_t)arguments};
    (void)argument_bytes;
    PSR_TRY(psr_nvidia_enter(device));
    return psr_nvidia_check(
        device->wall,
        device->wall->cudaLaunchKernel((const void *)device->kernels[kernel], (dim3){blocks, 1, 1},
                                       (dim3){threads, 1, 1}, of_kernel, 0, stream->stream),
        "cudaLaunchKernel");
}

/* ---- recordings: CUDA's graphs ---- */

static void end_recording(psr_cuda_device *device, void *what)
{
    psr_cuda_recording *recording = what;
    (void)device->wall->cudaGraphExecDestroy(recording->graph);
    free(recording);
}

/* Of this thread alone: another one's calls do not end it. */
psr_err psr_nvidia_record_begin(psr_cuda_stream *stream)
{
    const psr_cuda_wall *wall = stream->device->wall;
    PSR_TRY(psr_nvidia_check(
        wall, wall->cudaStreamBeginCapture(stream->stream, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture"));
    stream->device->recordings++;
    return PSR_OK;
}

psr_err psr_nvidia_record_end(psr_cuda_stream *stream, psr_cuda_recording **ret_recording)
{
    psr_cuda_device *device = stream->device;
    const psr_cuda_wall *wall = device->wall;
    cudaGraph_t graph = NULL;
    device->recordings--;
    PSR_TRY(psr_nvidia_check(wall, wall->cudaStreamEndCapture(stream->stream, &graph),
                             "cudaStreamEndCapture"));
    psr_cuda_recording *recording = calloc(1, sizeof *recording);
    psr_err err = recording != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a recording");
    if (err == PSR_OK) {
        recording->device = device;
        err = psr_nvidia_check(wall, wall->cudaGraphInstantiate(&recording->graph, graph, 0),
                               "cudaGraphInstantiate");
    }
    (void)wall->cudaGraphDestroy(graph);
    if (err != PSR_OK) {
        free(recording);
        return err;
    }
    PSR_TRY(psr_nvidia_own(device, recording, end_recording));
    *ret_recording = recording;
    return PSR_OK;
}

psr_err psr_nvidia_recording_run(psr_cuda_stream *stream, const psr_cuda_recording *recording)
{
    const psr_cuda_wall *wall = stream->device->wall;
    PSR_TRY(psr_nvidia_enter(stream->device));
    return psr_nvidia_check(wall, wall->cudaGraphLaunch(recording->graph, stream->stream),
                            "cudaGraphLaunch");
}

void psr_nvidia_recording_free(psr_cuda_recording *recording)
{
    if (recording != NULL)
        psr_nvidia_disown(recording->device, recording);
}
