#include "model/cuda/linked.h"

#include "base/text/text.h"
#include "model/cuda/nvidia/wall.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GIB (1024.0 * 1024.0 * 1024.0)

typedef struct looking {
    psr_cuda_wall wall;
    psr_cuda_devices *found;
    psr_text_end devices, libraries, missing;
} looking;

static void miss(looking *l, const char *text)
{
    psr_text_add(&l->missing, "%s%s", l->found->missing[0] ? "; " : "", text);
}

static void add_library(looking *l, const char *text)
{
    psr_text_add(&l->libraries, "%s%s", l->found->libraries[0] ? ", " : "", text);
}

static void add_version(looking *l, const char *name, int version)
{
    char text[64];
    snprintf(text, sizeof text, "%s %d.%d", name, version / 1000, version % 1000 / 10);
    add_library(l, text);
}

/* The runtime loads the driver too, but gives no reason where it cannot. */
static bool find_driver(looking *l)
{
    char text[400];
    if (psr_cuda_wall_load_driver() == PSR_OK)
        return true;
    snprintf(text, sizeof text, "no CUDA device: %.380s", psr_err_detail());
    miss(l, text);
    return false;
}

/* Devices that are alike and follow each other are one text. */
static void describe_devices(looking *l, int count)
{
    char text[128], before[128] = "";
    int alike = 0;
    for (int i = 0; i <= count; i++) {
        struct cudaDeviceProp p;
        text[0] = '\0';
        if (i < count && l->wall.cudaGetDeviceProperties(&p, i) == cudaSuccess)
            snprintf(text, sizeof text, "%.64s (sm_%d%d, %.1f GiB)", p.name, p.major, p.minor,
                     (double)p.totalGlobalMem / GIB);
        else if (i < count)
            snprintf(text, sizeof text, "a device that gives no properties");
        if (alike > 0 && strcmp(text, before) != 0) {
            psr_text_add(&l->devices, "%s%d x %s", l->found->devices[0] ? ", " : "", alike, before);
            alike = 0;
        }
        alike++;
        memcpy(before, text, sizeof before);
    }
}

static void find_devices(looking *l)
{
    char text[160];
    int driver = 0, runtime = 0, count = 0;
    if (psr_cuda_wall_load_runtime(&l->wall) != PSR_OK) {
        miss(l, psr_err_detail());
        add_library(l, "driver"); /* of what version, the runtime would say */
        return;
    }
    if (l->wall.cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
        add_version(l, "driver", driver);
    if (l->wall.cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        add_version(l, "runtime", runtime);
    const cudaError_t status = l->wall.cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver)
        snprintf(text, sizeof text,
                 "NVIDIA's driver is too old: it is for CUDA %d.%d; install one for CUDA 13",
                 driver / 1000, driver % 1000 / 10);
    else if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
        snprintf(text, sizeof text, "no CUDA device: NVIDIA's driver finds none");
    else if (status != cudaSuccess)
        snprintf(text, sizeof text, "no CUDA device: %.100s", l->wall.cudaGetErrorString(status));
    else {
        describe_devices(l, count);
        return;
    }
    miss(l, text);
}

static void find_libraries(looking *l)
{
    char text[64];
    int version = 0;
    if (psr_cuda_wall_load_cudnn(&l->wall) == PSR_OK) {
        const size_t cudnn = l->wall.cudnnGetVersion();
        snprintf(text, sizeof text, "cuDNN %zu.%zu.%zu", cudnn / 10000, cudnn % 10000 / 100,
                 cudnn % 100);
        add_library(l, text);
    } else {
        miss(l, psr_err_detail());
    }
    if (psr_cuda_wall_load_nccl(&l->wall) == PSR_OK &&
        l->wall.ncclGetVersion(&version) == ncclSuccess) {
        snprintf(text, sizeof text, "NCCL %d.%d.%d", version / 10000, version % 10000 / 100,
                 version % 100);
        add_library(l, text);
    } else {
        miss(l, psr_err_detail());
    }
}

void psr_cuda_look(psr_cuda_devices *ret_devices)
{
    *ret_devices = (psr_cuda_devices){.devices = ""};
    looking l = {.found = ret_devices,
                 .devices = {ret_devices->devices, sizeof ret_devices->devices},
                 .libraries = {ret_devices->libraries, sizeof ret_devices->libraries},
                 .missing = {ret_devices->missing, sizeof ret_devices->missing}};
    if (!find_driver(&l))
        return;
    find_devices(&l);
    find_libraries(&l);
}
