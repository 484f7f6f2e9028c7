#include "model/onednn/kernels/max_pool.h"

#include "base/arrays/multiversion.h"
#include "model/onednn/kernels/bf16.h"

#include <string.h>

enum { TAPS_MOST = UINT8_MAX + 1 };

bool psr_max_pool_fits(const psr_max_pool *p)
{
    return p->kernel * p->kernel <= TAPS_MOST && p->pad < p->kernel && p->out_height > 0 &&
           p->out_width > 0 && (p->out_height - 1) * p->stride < p->height + p->pad &&
           (p->out_width - 1) * p->stride < p->width + p->pad;
}

static size_t plane_size(const psr_max_pool *p)
{
    return (size_t)p->height * p->width;
}

/* A thread's: a plane in float32, a row of outputs, and which taps they are. */
static size_t thread_floats(const psr_max_pool *p)
{
    return plane_size(p) + 2 * (size_t)p->out_width;
}

size_t psr_max_pool_scratch(const psr_max_pool *p)
{
    return p->threads * thread_floats(p);
}

/* ---- the forward pass ---- */

static inline void take_larger(const float *x, size_t stride, uint32_t tap, size_t count,
                               float *best, uint32_t *taps)
{
    for (size_t i = 0; i < count; i++) {
        const float value = x[i * stride];
        const bool larger = (value > best[i]) | (value != value);
        best[i] = larger ? value : best[i];
        taps[i] = larger ? tap : taps[i];
    }
}

/* best and taps where x[i * stride] is larger; a loop of its own for the strides that there are. */
PSR_MULTIVERSION static void take_tap(const float *x, size_t stride, uint32_t tap, size_t count,
                                      float *best, uint32_t *taps)
{
    if (stride == 1)
        take_larger(x, 1, tap, count, best, taps);
    else if (stride == 2)
        take_larger(x, 2, tap, count, best, taps);
    else
        take_larger(x, stride, tap, count, best, taps);
}

/* The first number of steps of `stride` from -pad + tap that is not below 0. */
static size_t first_inside(uint32_t pad, uint32_t tap, uint32_t stride)
{
    return tap >= pad ? 0 : (pad - tap + stride - 1) / stride;
}

/* How many of count such steps end below size. */
static size_t count_inside(uint32_t pad, uint32_t tap, uint32_t stride, size_t size, size_t count)
{
    const size_t last = size + pad; /* tap + i stride < last */
    const size_t fit = tap >= last ? 0 : (last - tap + stride - 1) / stride;
    return fit < count ? fit : count;
}

/* The first tap of each window of output row `row` that meets the image. */
static void take_first_taps(const psr_max_pool *p, const float *plane, size_t row, float *best,
                            uint32_t *taps)
{
    const size_t top = row * p->stride, first_row = top < p->pad ? p->pad - top : 0;
    const float *x = plane + (top + first_row - p->pad) * p->width;
    for (size_t i = 0; i < p->out_width; i++) {
        const size_t left = i * p->stride, first = left < p->pad ? p->pad - left : 0;
        best[i] = x[left + first - p->pad];
        taps[i] = (uint32_t)(first_row * p->kernel + first);
    }
}

static void make_row(const psr_max_pool *p, const float *plane, size_t row, float *best,
                     uint32_t *taps)
{
    take_first_taps(p, plane, row, best, taps);
    for (uint32_t kh = 0; kh < p->kernel; kh++) {
        const size_t below = row * p->stride + kh; /* the image's row, and pad */
        if (below < p->pad || below - p->pad >= p->height)
            continue;
        const float *x = plane + (below - p->pad) * p->width;
        for (uint32_t kw = 0; kw < p->kernel; kw++) {
            const size_t first = first_inside(p->pad, kw, p->stride);
            const size_t end = count_inside(p->pad, kw, p->stride, p->width, p->out_width);
            if (first < end)
                take_tap(x + first * p->stride + kw - p->pad, p->stride, kh * p->kernel + kw,
                         end - first, best + first, taps + first);
        }
    }
}

static void widen(const uint16_t *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = psr_bf16_to_float(from[i]);
}

static void round_all(const float *from, size_t count, uint16_t *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = psr_bf16_from_float(from[i]);
}

static void note(const uint32_t *taps, size_t count, uint8_t *noted)
{
    for (size_t i = 0; i < count; i++)
        noted[i] = (uint8_t)taps[i];
}

static void forward_plane(const psr_max_pool *p, size_t plane, const void *x, void *y,
                          uint8_t *noted, float *scratch)
{
    const size_t size = plane_size(p);
    const float *values = (const float *)x + plane * size;
    float *best = scratch + size;
    uint32_t *taps = (uint32_t *)(best + p->out_width);
    if (p->bf16) {
        widen((const uint16_t *)x + plane * size, size, scratch);
        values = scratch;
    }
    for (size_t row = 0; row < p->out_height; row++) {
        const size_t at = (plane * p->out_height + row) * p->out_width;
        float *made = p->bf16 ? best : (float *)y + at;
        make_row(p, values, row, made, taps);
        if (p->bf16)
            round_all(made, p->out_width, (uint16_t *)y + at);
        if (noted != NULL)
            note(taps, p->out_width, noted + at);
    }
}

void psr_max_pool_forward(const psr_max_pool *p, const void *x, void *y, uint8_t *noted,
                          float *scratch)
{
    const size_t threads = p->threads;
#pragma omp parallel for num_threads(p->threads) schedule(static)
    for (size_t thread = 0; thread < threads; thread++)
        for (size_t i = p->planes * thread / threads; i < p->planes * (thread + 1) / threads; i++)
            forward_plane(p, i, x, y, noted, scratch + thread * thread_floats(p));
}

/* ---- the gradient ---- */

static inline float gradient_at(const psr_max_pool *p, const void *dy, size_t at)
{
    return p->bf16 ? psr_bf16_to_float(((const uint16_t *)dy)[at]) : ((const float *)dy)[at];
}

/* Where in the image a tap is from a window's first one. */
static void tap_offsets(const psr_max_pool *p, ptrdiff_t offsets[TAPS_MOST])
{
    for (uint32_t tap = 0; tap < p->kernel * p->kernel; tap++)
        offsets[tap] = (ptrdiff_t)(tap / p->kernel * p->width + tap % p->kernel);
}

static void backward_plane(const psr_max_pool *p, size_t plane, const ptrdiff_t *offsets,
                           const void *dy, const uint8_t *noted, void *dx, float *scratch)
{
    const size_t size = plane_size(p);
    float *sums = p->bf16 ? scratch : (float *)dx + plane * size;
    memset(sums, 0, size * sizeof *sums);
    for (size_t row = 0; row < p->out_height; row++) {
        const size_t at = (plane * p->out_height + row) * p->out_width;
        const ptrdiff_t first =
            ((ptrdiff_t)(row * p->stride) - p->pad) * (ptrdiff_t)p->width - p->pad;
        for (size_t i = 0; i < p->out_width; i++)
            sums[first + (ptrdiff_t)(i * p->stride) + offsets[noted[at + i]]] +=
                gradient_at(p, dy, at + i);
    }
    if (p->bf16)
        round_all(sums, size, (uint16_t *)dx + plane * size);
}

void psr_max_pool_backward(const psr_max_pool *p, const void *dy, const uint8_t *noted, void *dx,
                           float *scratch)
{
    const size_t threads = p->threads;
    ptrdiff_t offsets[TAPS_MOST];
    tap_offsets(p, offsets);
#pragma omp parallel for num_threads(p->threads) schedule(static)
    for (size_t thread = 0; thread < threads; thread++)
        for (size_t i = p->planes * thread / threads; i < p->planes * (thread + 1) / threads; i++)
            backward_plane(p, i, offsets, dy, noted, dx, scratch + thread * thread_floats(p));
}
