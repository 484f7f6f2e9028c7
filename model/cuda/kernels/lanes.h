/* Sums over the rows of what lies [rows,columns], in float32: a block takes 16 columns at a time;
 * thread t sums those rows of column t % 16 that are t / 16 modulo 16, in their order, and a tree
 * adds up the 16 sums of a column. So the order depends on nothing but the number of rows. 256
 * threads. Included by *.cu alone. */
#ifndef PSR_MODEL_CUDA_LANES_H
#define PSR_MODEL_CUDA_LANES_H

#include "model/cuda/kernels/device.h"

#define PSR_LANES 16
#define PSR_LANE (PSR_THREAD % PSR_LANES)
#define PSR_LANE_FIRST (PSR_THREAD / PSR_LANES)
#define PSR_LANE_STEP (PSR_KERNEL_THREADS / PSR_LANES)

/* All threads call it; those below PSR_LANES get the sum of their column, sums[PSR_THREAD]. */
PSR_DEVICE float psr_lanes_sum(float *sums, float value)
{
    sums[PSR_THREAD] = value;
    PSR_BARRIER();
    for (uint32_t half = PSR_KERNEL_THREADS / 2; half >= PSR_LANES; half /= 2) {
        if (PSR_THREAD < half)
            sums[PSR_THREAD] += sums[PSR_THREAD + half];
        PSR_BARRIER();
    }
    const float sum = sums[PSR_LANE];
    PSR_BARRIER();
    return sum;
}

#endif
