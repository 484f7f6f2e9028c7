/* Runs on a GPU are psring-worker-cuda's, which is psring-worker with what knows GPUs linked to it,
 * and comes with the package psring-cuda. This header has two implementations: gpu_linked.c in that
 * program, gpu_beside.c in psring-worker, which knows nothing of GPUs. Main thread. */
#ifndef PSR_WORKER_START_GPU_H
#define PSR_WORKER_START_GPU_H

#include "base/err.h"

#include <stdbool.h>

/* The name of this program, in messages. */
extern const char psr_gpu_program[];

/* First in main: offers what is linked. words[0..count): true when they are `devices`, by which
 * psring doctor asks for this host's, or `properties I`, by which bench/gpu_check asks what cuDNN
 * knows of GPU I: the answer was printed, and *ret_status is the exit status. */
bool psr_gpu_begin(int count, char **words, int *ret_status);

/* Before a run with this --device. For one on a GPU psring-worker becomes psring-worker-cuda, with
 * words as execv's, and returns only when it cannot: NOT_FOUND, IO. */
PSR_MUST_CHECK psr_err psr_gpu_enter(const char *device, char *const *words);

#endif
