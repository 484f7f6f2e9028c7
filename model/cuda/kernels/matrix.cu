/* Matrices in float32: product, and column_sums. */
#include "model/cuda/kernels/lanes.h"
#include "model/cuda/kernels/values.h"

/* A block computes a tile of c, PSR_PRODUCT_EDGE values wide and high, by PSR_PRODUCT_STEP of the
 * inner index at a time; a thread computes 4 x 4 of them. 256 threads. */
#define PSR_PRODUCT_EDGE 64
#define PSR_PRODUCT_STEP 16
#define PSR_PRODUCT_STRIDE (PSR_PRODUCT_EDGE + 1)

/* tile[k][i] = matrix[i0 + i][k0 + k] of rows x inner, 0 outside. turned: it lies [inner,rows]. Each
 * is read along its lines. */
PSR_DEVICE void psr_product_load(float *tile, const float *matrix, uint32_t turned, uint32_t rows,
                                 uint32_t inner, uint32_t i0, uint32_t k0)
{
    for (uint32_t at = PSR_THREAD; at < PSR_PRODUCT_EDGE * PSR_PRODUCT_STEP; at += PSR_THREADS) {
        const uint32_t k = turned ? at / PSR_PRODUCT_EDGE : at % PSR_PRODUCT_STEP;
        const uint32_t i = turned ? at % PSR_PRODUCT_EDGE : at / PSR_PRODUCT_STEP;
        const uint32_t row = i0 + i, column = k0 + k;
        float value = 0;
        if (row < rows && column < inner)
            value = matrix[turned ? (uint64_t)column * rows + row : (uint64_t)row * inner + column];
        tile[k * PSR_PRODUCT_STRIDE + i] = value;
    }
}

PSR_DEVICE void psr_product_tile(const psr_cuda_product_args *args, float *a, float *b,
                                 uint32_t row0, uint32_t column0)
{
    /* 16 x 16 threads; a thread's rows and columns lie 16 apart. */
    const uint32_t row = PSR_THREAD / 16, column = PSR_THREAD % 16;
    float sums[4][4] = {{0}};
    for (uint32_t k0 = 0; k0 < args->inner; k0 += PSR_PRODUCT_STEP) {
        psr_product_load(a, args->a, args->a_turned, args->rows, args->inner, row0, k0);
        psr_product_load(b, args->b, !args->b_turned, args->columns, args->inner, column0, k0);
        PSR_BARRIER();
        for (uint32_t k = 0; k < PSR_PRODUCT_STEP; k++) {
            const float *of_a = a + k * PSR_PRODUCT_STRIDE, *of_b = b + k * PSR_PRODUCT_STRIDE;
            PSR_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                PSR_UNROLL
            for (uint32_t j = 0; j < 4; j++)
                sums[i][j] =
                    PSR_MULTIPLY_ADD(of_a[row + 16 * i], of_b[column + 16 * j], sums[i][j]);
        }
        PSR_BARRIER();
    }
    PSR_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        PSR_UNROLL
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t r = row0 + row + 16 * i, c = column0 + column + 16 * j;
        if (r < args->rows && c < args->columns)
            args->c[(uint64_t)r * args->columns + c] =
                sums[i][j] + (args->bias != NULL ? args->bias[c] : 0);
    }
}

PSR_KERNEL(product)
{
    PSR_SHARED(float, a, PSR_PRODUCT_STEP *PSR_PRODUCT_STRIDE);
    PSR_SHARED(float, b, PSR_PRODUCT_STEP *PSR_PRODUCT_STRIDE);
    const uint32_t across = (args.columns + PSR_PRODUCT_EDGE - 1) / PSR_PRODUCT_EDGE;
    const uint64_t tiles =
        (uint64_t)across * ((args.rows + PSR_PRODUCT_EDGE - 1) / PSR_PRODUCT_EDGE);
    for (uint64_t tile = PSR_BLOCK; tile < tiles; tile += PSR_BLOCKS)
        psr_product_tile(&args, a, b, (uint32_t)(tile / across) * PSR_PRODUCT_EDGE,
                         (uint32_t)(tile % across) * PSR_PRODUCT_EDGE);
}

PSR_KERNEL(column_sums)
{
    PSR_SHARED(float, sums, PSR_KERNEL_THREADS);
    for (uint32_t c0 = PSR_BLOCK * PSR_LANES; c0 < args.columns; c0 += PSR_BLOCKS * PSR_LANES) {
        const uint32_t c = c0 + PSR_LANE;
        float sum = 0;
        if (c < args.columns)
            for (uint64_t r = PSR_LANE_FIRST; r < args.rows; r += PSR_LANE_STEP)
                sum += psr_device_get(args.x, args.type, r * args.columns + c);
        sum = psr_lanes_sum(sums, sum);
        if (PSR_THREAD < PSR_LANES && c < args.columns)
            args.y[c] = sum;
    }
}
