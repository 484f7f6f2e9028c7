/* Max pooling of values that lie plain, x[N][C][H][W], and its gradient, in float32 or bf16:
 *
 *   y[p] = the largest of x[s p - pad + k] over the window's taps k that meet the image
 *   dx[i] = sum of dy[p] over the windows p whose largest value is x[i]
 *
 * Of equal values the first tap counts, and a NaN counts as the largest, as in the reference
 * (model/reference/pool.c). oneDNN has for plain values but loops without vectors, below AVX-512 or
 * where images are large.
 *
 * A thread takes whole planes. A row of outputs is made tap by tap, so that its loops run over
 * columns. Sums are float32, in the order of the windows: the bits depend neither on the
 * instructions nor on the number of threads. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_MAX_POOL_H
#define PSR_MODEL_ONEDNN_KERNELS_MAX_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct psr_max_pool {
    size_t planes; /* N C */
    uint32_t height, width, out_height, out_width;
    uint32_t kernel, stride, pad;
    bool bf16; /* the values and their gradients; else float32 */
    uint32_t threads;
} psr_max_pool;

/* Whether a tap's number fits a byte, and every window meets the image. */
bool psr_max_pool_fits(const psr_max_pool *p);

/* Floats of scratchpad that both passes need. */
size_t psr_max_pool_scratch(const psr_max_pool *p);

/* y from x; noted[planes][out_height][out_width]: which tap was the largest, or NULL. */
void psr_max_pool_forward(const psr_max_pool *p, const void *x, void *y, uint8_t *noted,
                          float *scratch);
/* dx (overwritten) from dy and what the forward pass noted. */
void psr_max_pool_backward(const psr_max_pool *p, const void *dy, const uint8_t *noted, void *dx,
                           float *scratch);

#endif
