/* Convolutions of few channels, stride 1 and no padding, and their gradients: direct sums in
 * float32 with sixteen images in the lanes of the vectors, so that no lane is lost whatever the
 * number of channels. oneDNN has for them a product of matrices of ten or twenty rows, which reads
 * each value as often as the window has taps.
 *
 * Values lie in memory plain, x[N][I][H][W] and y[N][O][H-K+1][W-K+1], and their gradients
 * likewise, in float32 or bf16; weights and their gradients are float32. Each thread takes sixteen
 * images at a time (lanes beyond the last image are zero) and turns them into x[I][H][W][16]:
 *
 *   forward:             y[o][p] = b[o] + sum over i, k of w[o][i][k] x[i][p + k]
 *   source's gradient:   dx[i][p] = sum over o, k of w[o][i][k] dy[o][p - k]
 *   weights' gradient:   dw[o][i][k] = sum over p of dy[o][p] x[i][p + k], then over the lanes
 *
 * Cost: the direct sum's multiplications; the source's gradient multiplies zeros too, K - 1 columns
 * of them on both sides of dy. Each value is turned once in a pass.
 *
 * All instruction sets give the same bits. The weights' gradient depends on the number of threads:
 * each thread sums its images in order, and the threads' sums are added in order. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_IMAGE_LANES_H
#define PSR_MODEL_ONEDNN_KERNELS_IMAGE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_image_lanes {
    uint32_t images, in, out; /* N, I, O */
    uint32_t height, width;   /* H, W: of the source */
    uint32_t kernel;          /* K */
    bool bf16;                /* the values and their gradients; else float32 */
    uint32_t lanes;           /* of a vector: psr_image_lanes_widest(), or 8 */
    uint32_t threads;
} psr_image_lanes;

/* 16 or 8, as this processor has vectors; 0: it has none, on x86-64 without AVX2 and FMA. */
uint32_t psr_image_lanes_widest(void);

/* Whether it is of a kind for which this is fast: few channels, small images that stay in a
 * thread's cache, and sixteen of them for each thread. */
bool psr_image_lanes_fit(const psr_image_lanes *c);

/* y from x, the weights w[O][I][K][K] and bias[O] (NULL: none). scratch of all three:
 * psr_image_lanes_scratch() floats, on a cache line. */
void psr_image_lanes_forward(const psr_image_lanes *c, const void *x, const float *weights,
                             const float *bias, void *y, float *scratch);
/* dx from dy and the weights. */
void psr_image_lanes_source_gradient(const psr_image_lanes *c, const void *dy, const float *weights,
                                     void *dx, float *scratch);
/* dw and, if it is not NULL, dbias (overwritten) from x and dy. */
void psr_image_lanes_weights_gradient(const psr_image_lanes *c, const void *x, const void *dy,
                                      float *dw, float *dbias, float *scratch);
size_t psr_image_lanes_scratch(const psr_image_lanes *c);

#endif
