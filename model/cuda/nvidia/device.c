#include "model/cuda/nvidia/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_ARCHITECTURE 80 /* of what psring's kernels are compiled for */

/* The kernels for all architectures (model/cuda/kernels), as nvcc packs them. */
extern const unsigned char psr_cuda_kernels_fatbin[];

/* ---- the libraries, once in a process ---- */

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static psr_cuda_wall wall;

const psr_cuda_wall *psr_nvidia_wall(void)
{
    return &wall;
}

/* A library that failed to load is tried again by the next who needs it. */
static psr_err load_once(psr_err (*load)(psr_cuda_wall *), bool *loaded)
{
    pthread_mutex_lock(&loading);
    const psr_err err = *loaded ? PSR_OK : load(&wall);
    *loaded = *loaded || err == PSR_OK;
    pthread_mutex_unlock(&loading);
    return err;
}

static psr_err load_runtime(void)
{
    static bool loaded;
    PSR_TRY(psr_cuda_wall_load_driver()); /* its reasons are better than the runtime's */
    return load_once(psr_cuda_wall_load_runtime, &loaded);
}

static psr_err load_cudnn(void)
{
    static bool loaded;
    return load_once(psr_cuda_wall_load_cudnn, &loaded);
}

psr_err psr_nvidia_load_nccl(void)
{
    static bool loaded;
    return load_once(psr_cuda_wall_load_nccl, &loaded);
}

/* ---- what a device has made ---- */

psr_err psr_nvidia_own(psr_cuda_device *device, void *what, psr_nvidia_end end)
{
    pthread_mutex_lock(&device->mutex);
    if (device->made_count == device->made_room) {
        const size_t room = 2 * device->made_room + 16;
        psr_nvidia_made *made = realloc(device->made, room * sizeof *made);
        if (made == NULL) {
            pthread_mutex_unlock(&device->mutex);
            end(device, what);
            return psr_fail(PSR_ERR_NOMEM, "no memory for what a GPU has made");
        }
        device->made = made;
        device->made_room = room;
    }
    device->made[device->made_count++] = (psr_nvidia_made){what, end};
    pthread_mutex_unlock(&device->mutex);
    return PSR_OK;
}

void psr_nvidia_disown(psr_cuda_device *device, void *what)
{
    psr_nvidia_made found = {NULL, NULL};
    pthread_mutex_lock(&device->mutex);
    for (size_t i = device->made_count; i-- > 0 && found.end == NULL;) {
        if (device->made[i].what != what)
            continue;
        found = device->made[i];
        memmove(device->made + i, device->made + i + 1,
                (--device->made_count - i) * sizeof *device->made);
    }
    pthread_mutex_unlock(&device->mutex);
    if (found.end != NULL)
        found.end(device, found.what);
}

/* ---- the device ---- */

psr_err psr_nvidia_enter(const psr_cuda_device *device)
{
    static _Thread_local int current = -1;
    if (current == device->index)
        return PSR_OK;
    PSR_TRY(psr_nvidia_check(device->wall, device->wall->cudaSetDevice(device->index),
                             "cudaSetDevice"));
    current = device->index;
    return PSR_OK;
}

psr_err psr_nvidia_device_count(uint32_t *ret_count)
{
    int count = 0;
    psr_err err = load_runtime();
    if (err == PSR_OK)
        err = psr_nvidia_check(&wall, wall.cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    if (err == PSR_OK && count < 1)
        err = psr_fail(PSR_ERR_UNSUPPORTED, "NVIDIA's driver finds none");
    if (err != PSR_OK)
        return psr_fail_context(PSR_ERR_UNSUPPORTED, "no CUDA device");
    *ret_count = (uint32_t)count;
    return PSR_OK;
}

static psr_err find_facts(psr_cuda_device *device)
{
    struct cudaDeviceProp p;
    psr_cuda_device_facts *f = &device->facts;
    char identity[192];
    int runtime = 0;
    const size_t cudnn = wall.cudnnGetVersion();
    PSR_TRY(psr_nvidia_check(&wall, wall.cudaGetDeviceProperties(&p, device->index),
                             "cudaGetDeviceProperties"));
    PSR_TRY(psr_nvidia_check(&wall, wall.cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
    snprintf(f->name, sizeof f->name, "%.90s", p.name);
    f->architecture = (uint32_t)(10 * p.major + p.minor);
    f->bytes = p.totalGlobalMem;
    /* with the name, because plans are chosen by more of a device than its architecture */
    snprintf(identity, sizeof identity, "cuda %d.%d cudnn %zu.%zu.%zu sm_%u %.48s", runtime / 1000,
             runtime % 1000 / 10, cudnn / 10000, cudnn % 10000 / 100, cudnn % 100, f->architecture,
             p.name);
    snprintf(f->identity, sizeof f->identity, "%.95s", identity);
    if (f->architecture < LEAST_ARCHITECTURE)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "%.90s is sm_%u, and psring's kernels are for sm_%d and later", p.name,
                        f->architecture, LEAST_ARCHITECTURE);
    return PSR_OK;
}

#define NAME_OF_KERNEL(name) "psr_kernel_" #name,
static const char *const kernel_names[PSR_CUDA_KERNEL_COUNT] = {PSR_CUDA_KERNELS(NAME_OF_KERNEL)};

/* Asking for the attributes of one makes CUDA look for code for this device now rather than in the
 * middle of the first step. */
static psr_err load_kernels(psr_cuda_device *device)
{
    struct cudaFuncAttributes attributes;
    PSR_TRY(psr_nvidia_check(&wall,
                             wall.cudaLibraryLoadData(&device->library, psr_cuda_kernels_fatbin,
                                                      NULL, NULL, 0, NULL, NULL, 0),
                             "cudaLibraryLoadData"));
    for (int i = 0; i < PSR_CUDA_KERNEL_COUNT; i++)
        PSR_TRY(psr_nvidia_check(
            &wall, wall.cudaLibraryGetKernel(&device->kernels[i], device->library, kernel_names[i]),
            kernel_names[i]));
    return psr_nvidia_check(
        &wall, wall.cudaFuncGetAttributes(&attributes, (const void *)device->kernels[0]),
        "cudaFuncGetAttributes");
}

psr_err psr_nvidia_device_open(uint32_t index, psr_cuda_device **ret_device)
{
    uint32_t count = 0;
    PSR_TRY(psr_nvidia_device_count(&count));
    if (index >= count)
        return psr_fail(PSR_ERR_UNSUPPORTED, "there is no GPU %u: this host has %u, from 0 on",
                        index, count);
    PSR_TRY(load_cudnn());
    psr_cuda_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a device");
    device->wall = &wall;
    device->index = (int)index;
    pthread_mutex_init(&device->mutex, NULL);
    psr_err err = psr_nvidia_enter(device);
    if (err == PSR_OK)
        err = find_facts(device);
    if (err == PSR_OK)
        err = load_kernels(device);
    if (err != PSR_OK) {
        psr_nvidia_device_close(device);
        return psr_fail_context(err, "GPU %u", index);
    }
    *ret_device = device;
    return PSR_OK;
}

void psr_nvidia_device_close(psr_cuda_device *device)
{
    if (device == NULL)
        return;
    while (device->made_count > 0)
        psr_nvidia_disown(device, device->made[device->made_count - 1].what);
    if (device->cudnn != NULL)
        wall.cudnnDestroy(device->cudnn);
    if (device->library != NULL)
        wall.cudaLibraryUnload(device->library);
    pthread_mutex_destroy(&device->mutex);
    free(device->made);
    free(device);
}

psr_err psr_nvidia_device_facts(psr_cuda_device *device, psr_cuda_device_facts *ret_facts)
{
    size_t free_bytes = 0, all_bytes = 0;
    PSR_TRY(psr_nvidia_enter(device));
    PSR_TRY(
        psr_nvidia_check(&wall, wall.cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"));
    *ret_facts = device->facts;
    ret_facts->free_bytes = free_bytes;
    return PSR_OK;
}

psr_err psr_nvidia_device_check(psr_cuda_device *device)
{
    const cudaError_t last = wall.cudaPeekAtLastError();
    if (last != cudaErrorNotReady)
        PSR_TRY(psr_nvidia_check(&wall, last, "the GPU"));
    /* Asking would end a recording. */
    return device->recordings == 0 ? psr_nvidia_streams_check(device) : PSR_OK;
}
