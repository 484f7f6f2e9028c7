#include "model/onednn/kernels/norm_kernels.h"

#include "base/arrays/multiversion.h"

#include <assert.h>
#include <string.h>

#define INSTANCE static const norm_kernels norm_f32x16
#define LANES 16
#define BF16 0
#define KERNEL(name) name##_f32x16
#include "model/onednn/kernels/norm_kernel.h"

#define INSTANCE static const norm_kernels norm_f32x8
#define LANES 8
#define BF16 0
#define KERNEL(name) name##_f32x8
#include "model/onednn/kernels/norm_kernel.h"

#define INSTANCE const norm_kernels psr_onednn_norm_bf16_single
#define LANES 16
#define BF16 1
#define KERNEL(name) name##_bf16x16
#include "model/onednn/kernels/norm_kernel.h"

const norm_kernels *psr_onednn_norm_kernels(size_t type_bytes, uint32_t lanes)
{
    if (type_bytes == 2) {
        assert(lanes == 16);
        return &psr_onednn_norm_bf16_pairs;
    }
    return lanes == 8 ? &norm_f32x8 : &norm_f32x16;
}
