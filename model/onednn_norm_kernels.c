#include "model/onednn_norm_kernels.h"

#include "base/multiversion.h"

#include <assert.h>
#include <string.h>

#define LANES 16
#define BF16 0
#define KERNEL(name) name##_f32x16
#include "model/onednn_norm_kernel.h"

#define LANES 8
#define BF16 0
#define KERNEL(name) name##_f32x8
#include "model/onednn_norm_kernel.h"

#define LANES 16
#define BF16 1
#define KERNEL(name) name##_bf16x16
#include "model/onednn_norm_kernel.h"

const norm_kernels *psr_onednn_norm_kernels(size_t type_bytes, uint32_t lanes)
{
    if (type_bytes == 2) {
        assert(lanes == 16);
        return &kernels_bf16x16;
    }
    return lanes == 8 ? &kernels_f32x8 : &kernels_f32x16;
}
