/* The loops of model/onednn/kernels/image_lanes.h over sixteen images, for one width of vector. */
#ifndef PSR_MODEL_ONEDNN_KERNELS_IMAGE_LANES_KERNELS_H
#define PSR_MODEL_ONEDNN_KERNELS_IMAGE_LANES_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_LANES = 16 };

/* to[o][row][column] = bias[o] + sum over i, r, c of
 *     weights[o w_out + i w_in + r w_row + c w_column] from[i][row +- r][column + c]:
 * plus, or minus where it is turned; rows beyond from's count as zero. */
typedef struct image_lanes_sum {
    const float *from;
    size_t in, from_rows, from_width;
    const float *weights, *bias; /* bias NULL: zero */
    ptrdiff_t w_out, w_in, w_row, w_column;
    float *to;
    size_t out, rows, width;
    size_t kernel;
    bool turned;
} image_lanes_sum;

/* sums[o][i][r][c] += sum over row, column of dy[o][row][column] x[i][row + r][column + c], each a
 * vector of lanes; bias_sums[o] += sum of dy[o]. */
typedef struct image_lanes_product {
    const float *x, *dy;
    size_t in, x_rows, x_width;
    size_t out, rows, width;
    size_t kernel;
    float *sums, *bias_sums;
} image_lanes_product;

typedef struct image_lanes_kernels {
    void (*sum)(const image_lanes_sum *sum);
    void (*multiply)(const image_lanes_product *product);
} image_lanes_kernels;

/* lanes: 8 or 16, of a vector. Static storage. */
const image_lanes_kernels *psr_image_lanes_kernels(uint32_t lanes);

#endif
