/* 3x3 convolutions of stride 1 and padding 1, and their gradients, in bf16 by Winograd's minimal
 * filtering F(2x2, 3x3), for processors with bf16 dot products (bf16_product.h). oneDNN has none in
 * bf16.
 *
 * As winograd.h, with tiles of 2x2 pixels of 4x4 of the source (Lavin and Gray, 2016, section 4.1:
 * points 0, +-1 and infinity) and e = 0..15. Larger tiles would round too much: V, U and W are
 * rounded to bf16 and multiplied in pairs; M, S and all sums are float32. 16 multiplications where
 * the direct sum has 36.
 *
 *   forward and the source's gradient: every thread takes chunks of tiles. It makes V of a chunk,
 *     then goes over panels of 32 output channels: M of a panel, and y from it at once, so that M
 *     stays in the second-level cache.
 *   weights' gradient: all threads share a chunk. V and W hold pairs of tiles, which are what is
 *     summed over.
 *
 * No result depends on the number of threads. An output's sum runs over all channels in order; a
 * weight's runs over t in order within a chunk, whose size depends on the shape alone, and then
 * over the chunks in order. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_BF16_H
#define PSR_MODEL_ONEDNN_KERNELS_WINOGRAD_BF16_H

#include "model/onednn/kernels/bf16_product.h"
#include "model/onednn/kernels/winograd.h"

/* Whether w fits: lanes 16, in and out multiples of 32. */
bool psr_winograd_bf16_fits(const psr_winograd *w);

/* As those of winograd.h; x, y, dx and dy are bf16, weights and dw float32. */
void psr_winograd_bf16_forward(const psr_winograd *w, const uint16_t *x, const float *weights,
                               uint16_t *y, float *scratch);
void psr_winograd_bf16_source_gradient(const psr_winograd *w, const uint16_t *dy,
                                       const float *weights, uint16_t *dx, float *scratch);
size_t psr_winograd_bf16_values_scratch(const psr_winograd *w);
void psr_winograd_bf16_weights_gradient(const psr_winograd *w, const uint16_t *x,
                                        const uint16_t *dy, float *dw, float *scratch);
size_t psr_winograd_bf16_weights_scratch(const psr_winograd *w);

#endif
