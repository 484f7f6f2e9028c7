/* Of a build without CUDA's headers. */
#include "model/cuda/devices.h"

#include <stdio.h>

void psr_cuda_look(psr_cuda_devices *ret_devices)
{
    *ret_devices = (psr_cuda_devices){.devices = ""};
    snprintf(ret_devices->missing, sizeof ret_devices->missing,
             "this psring was built without CUDA's headers");
}
