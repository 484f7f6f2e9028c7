/* psring's own CUDA kernels (model/cuda/kernels/), compiled by the host's compiler: each thread is
 * a fiber, and barriers check that all threads of a block arrive at one line. */
#ifndef PSR_TESTS_EMULATOR_CUDA_EMULATED_KERNEL_H
#define PSR_TESTS_EMULATOR_CUDA_EMULATED_KERNEL_H

#include "model/cuda/kernels/kernels.h"

#include <stdint.h>

/* Runs all blocks and returns. arguments: the kernel's struct, whose pointers this processor may
 * follow. seed: of the order in which blocks and fibers run. Any number of threads at once. A fault
 * of the kernel ends the process with one line. */
void psr_emulated_kernel(psr_cuda_kernel kernel, uint32_t blocks, uint32_t threads,
                         const void *arguments, uint64_t seed);

#endif
