/* What psring inspect, export, eval and classify have in common: words of their help, and their
 * defaults. No state; any thread. */
#ifndef PSR_DEPLOY_STORED_STORED_WORDS_H
#define PSR_DEPLOY_STORED_STORED_WORDS_H

#include <stdint.h>
#include <unistd.h>

#define PSR_STORED_CKPT                                                                            \
    "CKPT is a run's directory (its newest checkpoint), checkpoints/step-N, or a .safetensors "    \
    "file."
#define PSR_STORED_NO_CKPT                                                                         \
    "no checkpoint is named; give a run's directory, a checkpoint, or a .safetensors file"

#define PSR_STORED_THREADS_MAX 1024
#define PSR_STORED_THREADS_HELP "threads that compute (default: one for each processor)"

/* given: of --threads; 0: it was not. */
static inline uint32_t psr_stored_threads(uint32_t given)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t all =
        processors > 0 && processors <= PSR_STORED_THREADS_MAX ? (uint32_t)processors : 1;
    return given > 0 ? given : all;
}

#endif
