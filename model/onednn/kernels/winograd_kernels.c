#include "model/onednn/kernels/winograd_kernels.h"

#include <assert.h>
#include <string.h>

#include "model/onednn/kernels/winograd.h"

/* The points 0, +-P, +-Q; and one over the product of a point's distances from the others, by which
 * G is scaled. */
#define P 0.625f
#define Q 1.5f
#define PP (P * P)
#define QQ (Q * Q)
#define SCALE_0 (1 / (PP * QQ))
#define SCALE_P (1 / (2 * PP * (PP - QQ)))
#define SCALE_Q (1 / (2 * QQ * (QQ - PP)))

/* A tile of one block of channels: floats from x to its image, and its first pixel there. */
typedef struct tile_place {
    size_t image;
    ptrdiff_t y, x;
} tile_place;

static inline __attribute__((always_inline)) tile_place
place_of(const winograd_tiles *tiles, size_t t, size_t block, size_t lanes)
{
    const size_t across = (tiles->width + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    const size_t down = (tiles->height + WINOGRAD_OUT - 1) / WINOGRAD_OUT;
    const size_t image = (tiles->first + t) / (across * down),
                 place = (tiles->first + t) % (across * down);
    return (tile_place){
        .image = (image * (tiles->channels / lanes) + block) * tiles->height * tiles->width * lanes,
        .y = (ptrdiff_t)(place / across * WINOGRAD_OUT),
        .x = (ptrdiff_t)(place % across * WINOGRAD_OUT),
    };
}

/* The compiler may not fuse by itself: -ffp-contract=off holds for the whole tree. */
#define UNFUSED(a, b, c) ((c) + (a) * (b))
#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f")))
#define FUSED_8(a, b, c) ((VECTOR)_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)(b), (__m256)(c)))
#define FUSED_16(a, b, c) ((VECTOR)_mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)(b), (__m512)(c)))
#else
#define AVX2
#define AVX512
#define FUSED_8 UNFUSED
#define FUSED_16 UNFUSED
#endif

#define INSTANCE static const winograd_kernels of_8
#define LANES 8
#define TARGET AVX2
#define FUSED FUSED_8
#define KERNEL(name) name##_8
#include "model/onednn/kernels/winograd_kernel.h"

/* Blocks of 16 are AVX-512's, but a processor without it can take them too. */
#define INSTANCE static const winograd_kernels of_16_halves
#define LANES 16
#define TARGET AVX2
#define FUSED UNFUSED
#define KERNEL(name) name##_16_halves
#include "model/onednn/kernels/winograd_kernel.h"

#define INSTANCE static const winograd_kernels of_16
#define LANES 16
#define TARGET AVX512
#define FUSED FUSED_16
#define KERNEL(name) name##_16
#include "model/onednn/kernels/winograd_kernel.h"

#if defined(__x86_64__)
bool psr_winograd_supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
bool psr_winograd_supported(void)
{
    return true;
}

static bool has_avx512(void)
{
    return false;
}
#endif

const winograd_kernels *psr_winograd_kernels(uint32_t lanes)
{
    assert(lanes == 8 || lanes == 16);
    if (lanes == 8)
        return &of_8;
    return has_avx512() ? &of_16 : &of_16_halves;
}
