/* psring's kernels with every access to memory watched: two threads of a grid that touch the same
 * place between the same barriers, one of them writing, are reported in any order of the threads;
 * so are two blocks. Ten times as slow as psr_emulated_kernel. */
#ifndef PSR_TESTS_EMULATOR_CUDA_WATCH_H
#define PSR_TESTS_EMULATOR_CUDA_WATCH_H

#include "model/cuda/kernels/kernels.h"
#include "tests/emulator/cuda/fibers.h"

/* false: ret_problem says in one line what was found. without, seen: as of psr_fibers_grid. */
bool psr_watched_kernel(psr_cuda_kernel kernel, uint32_t blocks, uint32_t threads,
                        const void *arguments, uint64_t seed, const psr_fibers_barrier *without,
                        psr_fibers_barrier *seen, char ret_problem[PSR_FIBERS_PROBLEM_BYTES]);

/* What was remembered of the grids of this thread of the operating system is freed. */
void psr_watch_forget(void);

#endif
