#include "model/cuda/nvidia/wall.h"

#include <dlfcn.h>
#include <string.h>

typedef struct loading {
    void *library;
    const char *name;
    const char *package; /* what to install */
    const char *lacks;   /* the first function that it lacks; NULL: it has all */
} loading;

/* The library stays loaded: its threads and handlers could outlive it. */
static psr_err load(loading *l)
{
    l->library = dlopen(l->name, RTLD_NOW | RTLD_LOCAL);
    if (l->library == NULL) {
        const char *reason = dlerror();
        const char *shown = reason != NULL ? reason : "it cannot be loaded";
        if (strstr(shown, "cannot open shared object file: No such file") != NULL &&
            strncmp(shown, l->name, strlen(l->name)) == 0)
            return psr_fail(PSR_ERR_NOT_FOUND, "%s is not there: install %s", l->name, l->package);
        return psr_fail(PSR_ERR_NOT_FOUND, "%s cannot be loaded: %.300s", l->name, shown);
    }
    return PSR_OK;
}

/* POSIX has functions and data pointers of one size; memcpy is ISO C's way to say so. */
static void find(loading *l, const char *function, void *to, size_t size)
{
    void *found = dlsym(l->library, function);
    if (found == NULL && l->lacks == NULL)
        l->lacks = function;
    memcpy(to, &found, size);
}

static psr_err check(const loading *l)
{
    if (l->lacks != NULL)
        return psr_fail(PSR_ERR_VERSION, "%s has no function %s: install %s", l->name, l->lacks,
                        l->package);
    return PSR_OK;
}

/* cuDNN and NCCL tell version 2.28.9 as 22809. */
static psr_err refuse_version(const loading *l, size_t version)
{
    return psr_fail(PSR_ERR_VERSION, "%s is version %zu.%zu.%zu: install %s", l->name,
                    version / 10000, version % 10000 / 100, version % 100, l->package);
}

#define FIND(name) find(&l, #name, &wall->name, sizeof wall->name);

psr_err psr_cuda_wall_load_driver(void)
{
    loading l = {.name = "libcuda.so.1", .package = "NVIDIA's driver for CUDA 13"};
    return load(&l);
}

psr_err psr_cuda_wall_load_runtime(psr_cuda_wall *wall)
{
    loading l = {.name = "libcudart.so.13", .package = "CUDA's runtime, version 13"};
    int version = 0;
    PSR_TRY(load(&l));
    PSR_CUDA_RUNTIME_CALLS(FIND)
    PSR_TRY(check(&l));
    if (wall->cudaRuntimeGetVersion(&version) != cudaSuccess || version / 1000 != 13)
        return psr_fail(PSR_ERR_VERSION, "%s is version %d.%d: install %s", l.name, version / 1000,
                        version % 1000 / 10, l.package);
    return PSR_OK;
}

psr_err psr_cuda_wall_load_cudnn(psr_cuda_wall *wall)
{
    loading l = {.name = "libcudnn.so.9", .package = "cuDNN 9.11 or later for CUDA 13"};
    PSR_TRY(load(&l));
    PSR_CUDA_CUDNN_CALLS(FIND)
    PSR_TRY(check(&l));
    const size_t version = wall->cudnnGetVersion();
    if (version < PSR_CUDA_CUDNN_LEAST || version / 10000 != 9)
        return refuse_version(&l, version);
    return PSR_OK;
}

psr_err psr_cuda_wall_load_nccl(psr_cuda_wall *wall)
{
    loading l = {.name = "libnccl.so.2", .package = "NCCL 2 for CUDA 13"};
    int version = 0;
    PSR_TRY(load(&l));
    PSR_CUDA_NCCL_CALLS(FIND)
    PSR_TRY(check(&l));
    if (wall->ncclGetVersion(&version) != ncclSuccess || version / 10000 != 2)
        return refuse_version(&l, (size_t)version);
    return PSR_OK;
}
