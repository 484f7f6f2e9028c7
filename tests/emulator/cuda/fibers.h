/* A GPU's grid of threads on this processor: the threads of a block are fibers, which run one after
 * the other from barrier to barrier, in an order that the seed draws anew each time; blocks come in
 * a drawn order too. So a kernel that needs an order which CUDA does not promise gives another
 * result under another seed.
 *
 * What no order would show is reported: threads that wait at different lines or have ended while
 * others wait, and writes past the end of a shared array. Shared memory holds 0xff when a block
 * begins. Any thread; grids of several threads at once share nothing. */
#ifndef PSR_TESTS_EMULATOR_CUDA_FIBERS_H
#define PSR_TESTS_EMULATOR_CUDA_FIBERS_H

#include <stdbool.h>
#include <stdint.h>

#define PSR_FIBERS_PROBLEM_BYTES 240

typedef struct psr_fibers_grid {
    uint32_t blocks, threads; /* up to 1024 threads */
    uint64_t seed;
    bool barriers; /* false: no thread waits, and each is a plain call, which takes less time */
} psr_fibers_grid;

/* Calls body(arguments) once for each thread of the grid. false: it stopped, and ret_problem says
 * why in one line. */
bool psr_fibers_run(const psr_fibers_grid *grid, void (*body)(const void *arguments),
                    const void *arguments, char ret_problem[PSR_FIBERS_PROBLEM_BYTES]);

#endif
