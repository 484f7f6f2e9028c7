#include "model/cuda/api.h"

static const psr_cuda_api *offered;

void psr_cuda_offer(const psr_cuda_api *api)
{
    offered = api;
}

const psr_cuda_api *psr_cuda_offered(void)
{
    return offered;
}
