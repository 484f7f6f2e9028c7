#include "model/optimizers/square_sum.h"

#include "base/arrays/multiversion.h"

enum { LANES = 8 };

/* The square of a float is exact in double. */
PSR_MULTIVERSION static double block_sum(const float *x, size_t count)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

double psr_square_sum_block(const float *x, size_t count)
{
    return block_sum(x, count);
}

double psr_square_sum(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i += PSR_SQUARE_BLOCK)
        sum += psr_square_sum_block(x + i,
                                    count - i < PSR_SQUARE_BLOCK ? count - i : PSR_SQUARE_BLOCK);
    return sum;
}
