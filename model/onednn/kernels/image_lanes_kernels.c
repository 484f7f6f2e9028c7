#include "model/onednn/kernels/image_lanes_kernels.h"

#include <assert.h>
#include <string.h>

#include "model/onednn/kernels/image_lanes.h"

/* The compiler may not fuse by itself: -ffp-contract=off holds for the whole tree. */
#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define FUSED_8(a, b, c) ((VECTOR)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define FUSED_16(a, b, c) ((VECTOR)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define SPREAD_8(a) ((VECTOR)_mm256_set1_ps(a))
#define SPREAD_16(a) ((VECTOR)_mm512_set1_ps(a))

/* Of sixteen registers. */
#define INSTANCE static const image_lanes_kernels of_8
#define LANES 8
#define TARGET AVX2
#define FUSED FUSED_8
#define SPREAD SPREAD_8
#define CHANNELS 5
#define COLUMNS 2
#define CHANNELS_OF_TAPS 2
#define TAPS 5
#define KERNEL(name) name##_8
#include "model/onednn/kernels/image_lanes_kernel.h"

/* Of thirty-two. */
#define INSTANCE static const image_lanes_kernels of_16
#define LANES 16
#define TARGET AVX512
#define FUSED FUSED_16
#define SPREAD SPREAD_16
#define CHANNELS 5
#define COLUMNS 4
#define CHANNELS_OF_TAPS 5
#define TAPS 5
#define KERNEL(name) name##_16
#include "model/onednn/kernels/image_lanes_kernel.h"

uint32_t psr_image_lanes_widest(void)
{
    if (__builtin_cpu_supports("avx512f"))
        return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}

const image_lanes_kernels *psr_image_lanes_kernels(uint32_t lanes)
{
    assert(lanes == 8 || lanes == 16);
    return lanes == 16 ? &of_16 : &of_8;
}
#else
uint32_t psr_image_lanes_widest(void)
{
    return 0;
}

const image_lanes_kernels *psr_image_lanes_kernels(uint32_t lanes)
{
    (void)lanes;
    return NULL;
}
#endif
