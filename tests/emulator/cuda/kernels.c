/* psring's kernels as functions of this processor, from the text that nvcc has: plain, and a second
 * time with PSR_WATCHED and a call before each access to memory (watch.c). */
#include "tests/emulator/cuda/emulated_kernel.h"

#include "tests/emulator/cuda/fibers.h"
#include "tests/emulator/cuda/watch.h"

#include "model/cuda/kernels/all.cu"

#include <stdio.h>
#include <stdlib.h>

typedef struct emulated_kernel {
    const char *name;
    void (*body)(const void *arguments);
} emulated_kernel;

#define BODY(name)                                                                                 \
    static void run_##name(const void *arguments)                                                  \
    {                                                                                              \
        psr_kernel_##name(*(const psr_cuda_##name##_args *)arguments);                             \
    }
PSR_CUDA_KERNELS(BODY)

#ifndef PSR_WATCHED
/* Those in which no thread waits for another. */
static bool without_barriers(psr_cuda_kernel kernel)
{
    switch (kernel) {
    case PSR_CUDA_KERNEL_images_of_bytes:
    case PSR_CUDA_KERNEL_cast:
    case PSR_CUDA_KERNEL_dropout:
    case PSR_CUDA_KERNEL_gate:
    case PSR_CUDA_KERNEL_shortcut:
    case PSR_CUDA_KERNEL_shortcut_backward:
    case PSR_CUDA_KERNEL_scale_of_norm:
    case PSR_CUDA_KERNEL_add:
    case PSR_CUDA_KERNEL_relu:
    case PSR_CUDA_KERNEL_sgd:
    case PSR_CUDA_KERNEL_adam:
    case PSR_CUDA_KERNEL_finite:
        return true;
    default:
        return false;
    }
}

#endif

#define ROW(name) {#name, run_##name},
static const emulated_kernel kernels[] = {PSR_CUDA_KERNELS(ROW)};

#ifdef PSR_WATCHED
bool psr_watched_kernel(psr_cuda_kernel kernel, uint32_t blocks, uint32_t threads,
                        const void *arguments, uint64_t seed, const psr_fibers_barrier *without,
                        psr_fibers_barrier *seen, char ret_problem[PSR_FIBERS_PROBLEM_BYTES])
{
    const psr_fibers_grid grid = {blocks, threads, seed, true, without, seen};
    return psr_fibers_run(&grid, kernels[kernel].body, arguments, ret_problem);
}
#else
void psr_emulated_kernel(psr_cuda_kernel kernel, uint32_t blocks, uint32_t threads,
                         const void *arguments, uint64_t seed)
{
    const emulated_kernel *k = &kernels[kernel];
    const psr_fibers_grid grid = {blocks, threads, seed, !without_barriers(kernel), NULL, NULL};
    char problem[PSR_FIBERS_PROBLEM_BYTES];
    if (!psr_fibers_run(&grid, k->body, arguments, problem)) {
        fprintf(stderr, "kernel %s: %s\n", k->name, problem);
        abort();
    }
}
#endif
