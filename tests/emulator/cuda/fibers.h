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

/* A line of a kernel's text at which threads wait. */
typedef struct psr_fibers_barrier {
    const char *file;
    int line;
} psr_fibers_barrier;

#define PSR_FIBERS_BARRIERS 32

typedef struct psr_fibers_grid {
    uint32_t blocks, threads; /* up to 1024 threads */
    uint64_t seed;
    bool barriers; /* false: no thread waits, and each is a plain call, which takes less time */
    /* For tests of the tests. */
    const psr_fibers_barrier *without; /* NULL, or a barrier at which nobody waits */
    psr_fibers_barrier *seen;          /* NULL, or room for PSR_FIBERS_BARRIERS, the rest NULL */
} psr_fibers_grid;

/* Calls body(arguments) once for each thread of the grid. false: it stopped, and ret_problem says
 * why in one line. */
bool psr_fibers_run(const psr_fibers_grid *grid, void (*body)(const void *arguments),
                    const void *arguments, char ret_problem[PSR_FIBERS_PROBLEM_BYTES]);

/* ---- for who watches what threads read and write (watch.c) ---- */

/* Of the grid that this thread of the operating system plays; false: none. */
typedef struct psr_fibers_now {
    uint32_t run;          /* the number of the grid, of all that this thread played */
    uint32_t block, round; /* round: how often all of the block have waited */
    uint32_t thread;
} psr_fibers_now;
bool psr_fibers_are_at(psr_fibers_now *ret_now);
/* Whether an address is a thread's own, or of the block's shared memory. */
bool psr_fibers_own(const void *at);
bool psr_fibers_shared(const void *at);
/* The first problem of a grid is told by psr_fibers_run. */
void psr_fibers_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
