/* Batch norm's loops: x[N,C,H,W] is walked in slabs, runs of rows (pixels) of a few columns
 * (vectors of channels). In a blocked layout a column's rows lie side by side; channels last they
 * are C apart.
 *
 * Per channel, with M = N*H*W and every sum over batch and pixels:
 *   forward   mean = sum x / M, var = sum (x - mean)^2 / M
 *             scale = weight / sqrt(var + epsilon), shift = bias
 *             y = relu((x - mean) * scale + shift + r)
 *   backward  g = (dy + dy2) where the ReLU let it through
 *             d_bias = sum g, d_weight = sum g (x - mean) / sqrt(var + epsilon)
 *             dx = scale * (g - d_bias / M - (x - mean) * slope)
 *             slope = sum g (x - mean) / M / (var + epsilon)
 * (Ioffe and Szegedy, "Batch normalization", 2015, section 3). Sums are float32 within a slab's
 * column, which is at most NORM_SLAB_ROWS rows, and double beyond. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_NORM_KERNELS_H
#define PSR_MODEL_ONEDNN_KERNELS_NORM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NORM_SLAB_ROWS 512

/* Strides in elements; channel: the first column's first channel. */
typedef struct norm_slab {
    size_t offset, channel;
    size_t rows, row_stride;
    size_t columns, column_stride;
} norm_slab;

/* Per channel, padded to whole vectors with zeros. */
typedef struct norm_channels {
    const float *mean, *scale, *shift, *slope;
} norm_channels;

/* All values lie alike. Not all are used by every kernel. */
typedef struct norm_pointers {
    bool relu;
    const void *x;
    const void *r;    /* NULL: nothing is added */
    const void *mask; /* y, when the ReLU's mask is read from it; NULL: formed again from x */
    const void *dy, *dy2;
    void *y;
    void *g; /* where the gradient before the batch norm is kept; NULL: nowhere */
    void *dx, *dr;
    norm_channels norm, second; /* second.mean NULL: r is added as it is */
    const float *mean_g;
} norm_pointers;

typedef struct norm_kernels {
    uint32_t lanes;
    void (*centre)(const norm_slab *slab, const void *x, float *centre);
    void (*statistics)(const norm_slab *slab, const void *x, const float *centre, double *sums,
                       double *squares);
    void (*normalise)(const norm_slab *slab, const norm_pointers *p);
    void (*reduce)(const norm_slab *slab, const norm_pointers *p, double *sums, double *products,
                   double *second_products);
    void (*differentiate)(const norm_slab *slab, const norm_pointers *p);
} norm_kernels;

/* type_bytes 2 or 4, lanes 8 or 16; every pair but (2, 8). Static storage. */
const norm_kernels *psr_onednn_norm_kernels(size_t type_bytes, uint32_t lanes);

/* bf16 by 16 elements, and by 32 with the former for what is left over. */
extern const norm_kernels psr_onednn_norm_bf16_single, psr_onednn_norm_bf16_pairs;

#endif
