#include "worker/start/gpu.h"

#include "base/system/child.h"

#include <string.h>

const char psr_gpu_program[] = "psring-worker";

bool psr_gpu_begin(int count, char **words, int *ret_status)
{
    (void)count;
    (void)words;
    (void)ret_status;
    return false;
}

psr_err psr_gpu_enter(const char *device, char *const *words)
{
    if (strncmp(device, "cuda", 4) != 0)
        return PSR_OK;
    return psr_program_become("psring-worker-cuda", words);
}
