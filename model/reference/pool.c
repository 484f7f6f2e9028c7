/* Operators that move values around a plane or take one of them: max pool, mean, option A's
 * shortcut. */
#include "model/reference/ops.h"

#include <math.h>
#include <string.h>

/* Index in the plane of the largest value in the window of output (oh, ow). Of equal values the
 * first counts. A NaN counts as the largest, so that it reaches the loss. */
static size_t window_argmax(const psr_window *v, const psr_real *plane, uint32_t oh, uint32_t ow)
{
    size_t best = SIZE_MAX;
    for (uint32_t kh = 0; kh < v->K; kh++) {
        const int64_t h = (int64_t)oh * v->stride - v->pad + kh;
        if (h < 0 || h >= v->H)
            continue;
        for (uint32_t kw = 0; kw < v->K; kw++) {
            const int64_t i = (int64_t)ow * v->stride - v->pad + kw;
            if (i < 0 || i >= v->W)
                continue;
            const size_t at = (size_t)(h * v->W + i);
            if (best == SIZE_MAX || plane[at] > plane[best] || isnan(plane[at]))
                best = at;
        }
    }
    return best;
}

void psr_ref_maxpool_forward(const psr_window *v, const psr_real *x, psr_real *y)
{
    for (uint32_t n = 0; n < v->N; n++)
        for (uint32_t c = 0; c < v->C; c++, x += (size_t)v->H * v->W)
            for (uint32_t oh = 0; oh < v->OH; oh++)
                for (uint32_t ow = 0; ow < v->OW; ow++)
                    *y++ = x[window_argmax(v, x, oh, ow)];
}

void psr_ref_maxpool_backward(const psr_window *v, const psr_real *x, const psr_real *dy,
                              psr_real *dx)
{
    const size_t size = (size_t)v->H * v->W;
    for (uint32_t n = 0; n < v->N; n++)
        for (uint32_t c = 0; c < v->C; c++, x += size, dx += size)
            for (uint32_t oh = 0; oh < v->OH; oh++)
                for (uint32_t ow = 0; ow < v->OW; ow++)
                    dx[window_argmax(v, x, oh, ow)] += *dy++;
}

void psr_ref_avgpool_forward(uint32_t N, uint32_t C, uint32_t H, uint32_t W, const psr_real *x,
                             psr_real *y)
{
    const size_t size = (size_t)H * W;
    for (size_t nc = 0; nc < (size_t)N * C; nc++) {
        double sum = 0;
        for (size_t s = 0; s < size; s++)
            sum += x[nc * size + s];
        y[nc] = (psr_real)(sum / (double)size);
    }
}

void psr_ref_avgpool_backward(uint32_t N, uint32_t C, uint32_t H, uint32_t W, const psr_real *dy,
                              psr_real *dx)
{
    const size_t size = (size_t)H * W;
    for (size_t nc = 0; nc < (size_t)N * C; nc++)
        for (size_t s = 0; s < size; s++)
            dx[nc * size + s] += (psr_real)(dy[nc] / (double)size);
}

/* Where x[n,c,oh*stride,ow*stride] of a shortcut lies in x, and where its copy lies in y. */
static size_t shortcut_from(const psr_window *v, uint32_t n, uint32_t c, uint32_t oh, uint32_t ow)
{
    return (((size_t)n * v->C + c) * v->H + (size_t)oh * v->stride) * v->W + (size_t)ow * v->stride;
}

static size_t shortcut_to(const psr_window *v, uint32_t n, uint32_t c, uint32_t oh, uint32_t ow)
{
    const uint32_t zeros_before = (v->O - v->C) / 2;
    return (((size_t)n * v->O + zeros_before + c) * v->OH + oh) * v->OW + ow;
}

void psr_ref_shortcut_forward(const psr_window *v, const psr_real *x, psr_real *y)
{
    memset(y, 0, (size_t)v->N * v->O * v->OH * v->OW * sizeof(*y));
    for (uint32_t n = 0; n < v->N; n++)
        for (uint32_t c = 0; c < v->C; c++)
            for (uint32_t oh = 0; oh < v->OH; oh++)
                for (uint32_t ow = 0; ow < v->OW; ow++)
                    y[shortcut_to(v, n, c, oh, ow)] = x[shortcut_from(v, n, c, oh, ow)];
}

void psr_ref_shortcut_backward(const psr_window *v, const psr_real *dy, psr_real *dx)
{
    for (uint32_t n = 0; n < v->N; n++)
        for (uint32_t c = 0; c < v->C; c++)
            for (uint32_t oh = 0; oh < v->OH; oh++)
                for (uint32_t ow = 0; ow < v->OW; ow++)
                    dx[shortcut_from(v, n, c, oh, ow)] += dy[shortcut_to(v, n, c, oh, ow)];
}
