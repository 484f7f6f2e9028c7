/* A GPU that this processor plays (tests/emulator/cuda), for workers of real runs: it is linked into
 * psring-worker in the place of the one that a program offers (the linker's --wrap). */
#include "tests/emulator/cuda/emulator.h"

const psr_cuda_api *__wrap_psr_cuda_offered(void);

const psr_cuda_api *__wrap_psr_cuda_offered(void)
{
    return psr_emulator();
}
