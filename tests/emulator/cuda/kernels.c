/* psring's kernels as functions of this processor. Each is compiled from the text that nvcc has. */
#include "tests/emulator/cuda/fibers.h"

#include "model/cuda/kernels/all.cu"

#include <stdio.h>
#include <stdlib.h>

typedef struct emulated_kernel {
    const char *name;
    void (*body)(const void *arguments);
    bool barriers;
} emulated_kernel;

#define BODY(name)                                                                                 \
    static void run_##name(const void *arguments)                                                  \
    {                                                                                              \
        psr_kernel_##name(*(const psr_cuda_##name##_args *)arguments);                             \
    }
BODY(image)
BODY(cast)
BODY(loss)
BODY(loss_total)
BODY(filter)
BODY(filter_gradient)
BODY(flatten)
BODY(product)
BODY(column_sums)
BODY(add)

#define ROW(name, barriers) [PSR_CUDA_KERNEL_##name] = {#name, run_##name, barriers}
static const emulated_kernel kernels[PSR_CUDA_KERNEL_COUNT] = {
    ROW(image, true),       ROW(filter, true),     ROW(filter_gradient, true), ROW(cast, false),
    ROW(loss, true),        ROW(loss_total, true), ROW(flatten, true),         ROW(product, true),
    ROW(column_sums, true), ROW(add, false),
};

void psr_emulated_kernel(psr_cuda_kernel kernel, uint32_t blocks, uint32_t threads,
                         const void *arguments, uint64_t seed)
{
    const emulated_kernel *k = &kernels[kernel];
    const psr_fibers_grid grid = {blocks, threads, seed, k->barriers};
    char problem[PSR_FIBERS_PROBLEM_BYTES];
    if (!psr_fibers_run(&grid, k->body, arguments, problem)) {
        fprintf(stderr, "kernel %s: %s\n", k->name, problem);
        abort();
    }
}
