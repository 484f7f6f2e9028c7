/* CUDA's runtime, cuDNN and NCCL, as far as psring calls them. What they answer is in the variable
 * PLAYED_CUDA, "driver=13000 runtime=13000 devices=2 cudnn=91900 nccl=22809"; "cudaMalloc=2" there
 * makes that function fail with status 2. A program that defines played_say hears of each call. One
 * source for all three: each is built with the functions of its own. With none of them it is the
 * driver, of which nothing but its being there is asked. */
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nccl.h>

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined PLAYED_RUNTIME || defined PLAYED_CUDNN || defined PLAYED_NCCL
extern void played_say(const char *text) __attribute__((weak));

static int played(const char *name)
{
    char word[300];
    const char *all = getenv("PLAYED_CUDA");
    snprintf(word, sizeof word, " %s=", name);
    if (all == NULL)
        return 0;
    if (strncmp(all, word + 1, strlen(word + 1)) == 0)
        return atoi(all + strlen(word + 1));
    const char *at = strstr(all, word);
    return at != NULL ? atoi(at + strlen(word)) : 0;
}

/* The status of a call, whose name is the first word. */
__attribute__((format(printf, 1, 2))) static int say(const char *format, ...)
{
    char text[256];
    va_list more;
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    if (played_say != NULL)
        played_say(text);
    text[strcspn(text, " ")] = '\0';
    return played(text);
}

/* Handles count from 1 on. */
#define NEW(type) ((type)(uintptr_t)++made)
static uintptr_t made;
#endif

#ifdef PLAYED_RUNTIME
#define NUMBER(handle) ((unsigned)(uintptr_t)(handle))

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
    if (played("old"))
        p->major = 7;
    p->totalGlobalMem = (size_t)80 << 30;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaErrorInitializationError ? "initialization error" : "played";
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
    return (cudaError_t)played("cudaPeekAtLastError");
}

cudaError_t cudaSetDevice(int device)
{
    return (cudaError_t)say("cudaSetDevice %d", device);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *bytes)
{
    *free_bytes = (size_t)3 << 20;
    *bytes = (size_t)8 << 20;
    return (cudaError_t)played("cudaMemGetInfo");
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = NEW(void *);
    return (cudaError_t)say("cudaMalloc %zu", bytes);
}

cudaError_t cudaFree(void *memory)
{
    return (cudaError_t)say("cudaFree %u", NUMBER(memory));
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    *memory = NEW(void *);
    return (cudaError_t)say("cudaHostAlloc %zu flags %u", bytes, flags);
}

cudaError_t cudaFreeHost(void *memory)
{
    return (cudaError_t)say("cudaFreeHost %u", NUMBER(memory));
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)memory;
    return (cudaError_t)say("cudaHostRegister %zu flags %u", bytes, flags);
}

cudaError_t cudaHostUnregister(void *memory)
{
    (void)memory;
    return (cudaError_t)say("cudaHostUnregister");
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    *stream = NEW(cudaStream_t);
    return (cudaError_t)say("cudaStreamCreateWithFlags flags %u", flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return (cudaError_t)say("cudaStreamDestroy %u", NUMBER(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    return (cudaError_t)say("cudaStreamWaitEvent %u for %u", NUMBER(stream), NUMBER(event));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return (cudaError_t)say("cudaStreamSynchronize %u", NUMBER(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return (cudaError_t)say("cudaStreamQuery %u", NUMBER(stream));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned flags)
{
    (void)flags;
    const cudaError_t status = (cudaError_t)say("cudaStreamAddCallback %u", NUMBER(stream));
    if (status == cudaSuccess)
        callback(stream, cudaErrorLaunchFailure, data);
    return status;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = NEW(cudaEvent_t);
    return (cudaError_t)say("cudaEventCreateWithFlags flags %u", flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return (cudaError_t)say("cudaEventDestroy %u", NUMBER(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return (cudaError_t)say("cudaEventRecord %u on %u", NUMBER(event), NUMBER(stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return (cudaError_t)say("cudaEventQuery %u", NUMBER(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return (cudaError_t)say("cudaEventSynchronize %u", NUMBER(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = 1.5f;
    return (cudaError_t)say("cudaEventElapsedTime from %u to %u", NUMBER(from), NUMBER(to));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)to;
    (void)from;
    return (cudaError_t)say("cudaMemcpyAsync %zu kind %d on %u", bytes, (int)kind, NUMBER(stream));
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    (void)to;
    return (cudaError_t)say("cudaMemsetAsync %d times %zu on %u", byte, bytes, NUMBER(stream));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *data)
{
    (void)call;
    (void)data;
    return (cudaError_t)say("cudaLaunchHostFunc %u", NUMBER(stream));
}

/* Kernels are their names. */
cudaError_t cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    (void)shared;
    return (cudaError_t)say("cudaLaunchKernel %s %ux%ux%u of %u threads on %u, first word %u",
                            (const char *)kernel, blocks.x, blocks.y, blocks.z, threads.x,
                            NUMBER(stream), **(unsigned **)arguments);
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit,
                                void **jit_values, unsigned jit_count,
                                enum cudaLibraryOption *options, void **values, unsigned count)
{
    (void)jit;
    (void)jit_values;
    (void)options;
    (void)values;
    *library = NEW(cudaLibrary_t);
    return (cudaError_t)say("cudaLibraryLoadData %s options %u", (const char *)code,
                            jit_count + count);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    return (cudaError_t)say("cudaLibraryUnload %u", NUMBER(library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    (void)library;
    *kernel = (cudaKernel_t)(uintptr_t)name;
    return (cudaError_t)played("cudaLibraryGetKernel");
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    memset(attributes, 0, sizeof *attributes);
    return (cudaError_t)say("cudaFuncGetAttributes %s", (const char *)kernel);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return (cudaError_t)say("cudaStreamBeginCapture %u mode %d", NUMBER(stream), (int)mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = NEW(cudaGraph_t);
    return (cudaError_t)say("cudaStreamEndCapture %u", NUMBER(stream));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *exec = NEW(cudaGraphExec_t);
    return (cudaError_t)say("cudaGraphInstantiate %u", NUMBER(graph));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return (cudaError_t)say("cudaGraphDestroy %u", NUMBER(graph));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return (cudaError_t)say("cudaGraphExecDestroy %u", NUMBER(exec));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    return (cudaError_t)say("cudaGraphLaunch %u on %u", NUMBER(exec), NUMBER(stream));
}
#endif

#ifdef PLAYED_CUDNN
size_t cudnnGetVersion(void)
{
    return (size_t)played("cudnn");
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : "played";
}

void cudnnGetLastErrorString(char *words, size_t bytes)
{
    snprintf(words, bytes, "the words of cuDNN\nand more of them");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = NEW(cudnnHandle_t);
    return (cudnnStatus_t)say("cudnnCreate");
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    (void)handle;
    return (cudnnStatus_t)say("cudnnDestroy");
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    return (cudnnStatus_t)say("cudnnSetStream %u", (unsigned)(uintptr_t)stream);
}

/* What the newest descriptor is, and what the calls since have told. */
static cudnnBackendDescriptorType_t newest;
static int planned_for, heuristics;
static char loaded[64]; /* the text of a plan that is loaded; "": none is */

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor)
{
    newest = type;
    loaded[0] = '\0';
    *descriptor = NEW(cudnnBackendDescriptor_t);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    (void)descriptor;
    return CUDNN_STATUS_SUCCESS;
}

static void say_pack(cudnnBackendAttributeName_t name, int64_t count, const void *values)
{
    char text[200] = "";
    size_t length = 0;
    for (int64_t i = 0; i < count && length < sizeof text - 32; i++)
        if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
            length += (size_t)snprintf(text + length, sizeof text - length, " %d",
                                       (int)((const int64_t *)values)[i]);
    if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
        (void)say("tensors%s", text);
    if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) /* the last is a number's */
        (void)say("the last number %g", (double)*(const float *)((void *const *)values)[count - 1]);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    (void)descriptor;
    (void)type;
    if (name == CUDNN_ATTR_DEVICEPROP_DEVICE_ID)
        (void)say("planned for %d", planned_for = *(const int *)values);
    if (name == CUDNN_ATTR_ENGINEHEUR_MODE)
        (void)say("heuristics %d", heuristics = *(const int *)values);
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
        snprintf(loaded, sizeof loaded, "%.*s", (int)count, (const char *)values);
        (void)say("loaded %s", loaded);
    }
    say_pack(name, count, values);
    return CUDNN_STATUS_SUCCESS;
}

static int engine(void)
{
    return played("engine") != 0 ? played("engine") : 7;
}

/* A device, in several lines as for a person and with the end mark, and a plan as texts;
 * "unwritten=1": of no plan. */
static cudnnStatus_t write_text(cudnnBackendAttributeName_t name, int64_t room, int64_t *count,
                                char *to)
{
    char text[128];
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && played("unwritten"))
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)
        *count = snprintf(text, sizeof text, "{plan:%d}", engine());
    else
        *count = 1 + snprintf(text, sizeof text,
                              "{\n  \"deviceName\": \"Played\",\n  \"cudaDeviceId\": %d,\n"
                              "  \"driverVer\": %d\n}",
                              planned_for, played("driver"));
    if (room > 0)
        memcpy(to, text, (size_t)(*count < room ? *count : room));
    return CUDNN_STATUS_SUCCESS;
}

/* One engine, number 7 or "engine=8", without a note, that needs 512 bytes or "workspace=256". */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *values)
{
    (void)descriptor;
    if (type == CUDNN_TYPE_CHAR)
        return write_text(name, room, count, values);
    *count = 1;
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE || name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)
        *count = 0;
    else if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
        *(int64_t *)values = engine();
    else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)values = played("workspace") != 0 ? played("workspace") : 512;
    return CUDNN_STATUS_SUCCESS;
}

/* "load=3000": a plan's text is refused; "build=4000": the engine of the first list cannot be
 * built. */
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    (void)descriptor;
    if (newest != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return CUDNN_STATUS_SUCCESS;
    if (loaded[0] != '\0')
        return (cudnnStatus_t)played("load");
    return (cudnnStatus_t)(heuristics == CUDNN_HEUR_MODE_A ? played("build") : 0);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    (void)handle;
    (void)plan;
    (void)pack;
    return (cudnnStatus_t)say("cudnnBackendExecute");
}
#endif

#ifdef PLAYED_NCCL
ncclResult_t ncclGetVersion(int *version)
{
    *version = played("nccl");
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t status)
{
    return status == ncclRemoteError ? "remote process exited" : "played";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "the words of NCCL\nand more of them";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 'i', sizeof *id);
    return (ncclResult_t)say("ncclGetUniqueId");
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int members, ncclUniqueId id, int member,
                                    ncclConfig_t *config)
{
    *comm = NEW(ncclComm_t);
    const int status = say("ncclCommInitRankConfig %d of %d by %c, blocking %d", member, members,
                           id.internal[0], config->blocking);
    return status != 0 ? (ncclResult_t)status : ncclInProgress;
}

/* What is asked the third time is through, unless it shall never be. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *status)
{
    static int asked;
    (void)comm;
    const int failed = say("ncclCommGetAsyncError");
    *status = failed != 0 ? (ncclResult_t)failed : played("never") ? ncclInProgress : ncclSuccess;
    if (failed == 0 && played("slow") && ++asked % 3 != 0)
        *status = ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    (void)comm;
    const int status =
        say("ncclAllReduce %zu type %d operation %d %s on %u", count, (int)type, (int)operation,
            from == to ? "in place" : "elsewhere", (unsigned)(uintptr_t)stream);
    return status != 0 ? (ncclResult_t)status : ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    return (ncclResult_t)say("ncclCommAbort");
}
#endif
