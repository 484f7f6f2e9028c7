/* The weights' gradient of a 1x1 convolution of stride 1 in bf16, for processors with bf16 dot
 * products (bf16_product.h), straight into the arena:
 *
 *   dw[o][i] = sum over p of dy[p][o] x[p][i]      p = 0..N*H*W-1, the pixels of all images
 *
 * The pixels are taken in chunks that all threads share. First they pack x and dy of a chunk into
 * words of two neighbouring pixels, X[p / 2][i] and D[p / 2][o]; then each sums up some rows and
 * columns of dw. Bytes: x and dy read once, X and D as many again, written once and read from the
 * cache; dw read and written once for each chunk.
 *
 * No result depends on the number of threads: a sum runs over the pixels in order within runs of 256
 * and then over the runs in order. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_POINTWISE_BF16_H
#define PSR_MODEL_ONEDNN_KERNELS_POINTWISE_BF16_H

#include "model/onednn/kernels/bf16_product.h"

/* Of x[N][in/16][H][W][16] and dy[N][out/16][H][W][16]. */
typedef struct psr_pointwise {
    uint32_t images, in, out; /* N; channels, multiples of 32 */
    uint32_t pixels;          /* H * W */
    uint32_t threads;
} psr_pointwise;

/* dw (overwritten) from x and dy. scratch: psr_pointwise_scratch() floats, on a cache line. */
void psr_pointwise_weights_gradient(const psr_pointwise *p, const uint16_t *x, const uint16_t *dy,
                                    float *dw, float *scratch);
size_t psr_pointwise_scratch(const psr_pointwise *p);

/* Words of `count` pairs of pixels of all `blocks` * 16 channels of values, from pixel `first` on;
 * zero behind the last pixel. Rows of words are `row` apart. */
void psr_pointwise_pack(const uint16_t *values, uint32_t images, uint32_t blocks, uint32_t pixels,
                        size_t first, size_t count, uint32_t *words, size_t row);

#endif
