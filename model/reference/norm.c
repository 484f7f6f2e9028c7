#include "model/reference/ops.h"

#include <math.h>

/* First of the S values of channel c in sample n. */
static size_t row(const psr_batchnorm *norm, uint32_t n, uint32_t c)
{
    return ((size_t)n * norm->C + c) * norm->S;
}

/* y = weight * (x - mean) * scale + bias for one channel. */
static void normalise(const psr_batchnorm *norm, uint32_t c, const psr_real *x, double mean,
                      double scale, double weight, double bias, psr_real *y)
{
    for (uint32_t n = 0; n < norm->N; n++)
        for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++)
            y[i] = (psr_real)((x[i] - mean) * scale * weight + bias);
}

/* Two passes: the variance is computed from the differences to the mean, not as the difference of
 * two large sums. */
static void channel_statistics(const psr_batchnorm *norm, uint32_t c, const psr_real *x,
                               double *ret_mean, double *ret_squares)
{
    const double m = (double)norm->N * norm->S;
    double sum = 0, squares = 0;
    for (uint32_t n = 0; n < norm->N; n++)
        for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++)
            sum += x[i];
    const double mean = sum / m;
    for (uint32_t n = 0; n < norm->N; n++)
        for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++)
            squares += (x[i] - mean) * (x[i] - mean);
    *ret_mean = mean;
    *ret_squares = squares;
}

void psr_ref_batchnorm_forward(const psr_batchnorm *norm, const psr_real *x, const psr_real *weight,
                               const psr_real *bias, psr_real *running_mean,
                               psr_real *running_variance, psr_real *y, double *ret_mean,
                               double *ret_scale)
{
    const double m = (double)norm->N * norm->S;
    const double momentum = norm->momentum;
    for (uint32_t c = 0; c < norm->C; c++) {
        double mean, squares;
        channel_statistics(norm, c, x, &mean, &squares);
        ret_mean[c] = mean;
        ret_scale[c] = 1 / sqrt(squares / m + norm->epsilon);
        normalise(norm, c, x, mean, ret_scale[c], weight[c], bias[c], y);

        running_mean[c] = (psr_real)((1 - momentum) * running_mean[c] + momentum * mean);
        if (m > 1)
            running_variance[c] =
                (psr_real)((1 - momentum) * running_variance[c] + momentum * squares / (m - 1));
    }
}

void psr_ref_batchnorm_infer(const psr_batchnorm *norm, const psr_real *x, const psr_real *weight,
                             const psr_real *bias, const psr_real *running_mean,
                             const psr_real *running_variance, psr_real *y)
{
    for (uint32_t c = 0; c < norm->C; c++)
        normalise(norm, c, x, running_mean[c], 1 / sqrt(running_variance[c] + norm->epsilon),
                  weight[c], bias[c], y);
}

/* With xn = (x - mean) * scale, where mean and scale depend on x too:
 *     dx = weight * scale * (dy - mean(dy) - xn * mean(dy * xn)),
 *     dweight = sum dy * xn,  dbias = sum dy. */
void psr_ref_batchnorm_backward(const psr_batchnorm *norm, const psr_real *x,
                                const psr_real *weight, const double *mean, const double *scale,
                                const psr_real *dy, psr_real *dx, psr_real *dweight,
                                psr_real *dbias)
{
    const double m = (double)norm->N * norm->S;
    for (uint32_t c = 0; c < norm->C; c++) {
        double sum_dy = 0, sum_dy_xn = 0;
        for (uint32_t n = 0; n < norm->N; n++)
            for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++) {
                sum_dy += dy[i];
                sum_dy_xn += dy[i] * (x[i] - mean[c]) * scale[c];
            }
        if (dweight != NULL)
            dweight[c] = (psr_real)sum_dy_xn;
        if (dbias != NULL)
            dbias[c] = (psr_real)sum_dy;
        for (uint32_t n = 0; n < norm->N && dx != NULL; n++)
            for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++) {
                const double xn = (x[i] - mean[c]) * scale[c];
                dx[i] +=
                    (psr_real)(weight[c] * scale[c] * (dy[i] - sum_dy / m - xn * sum_dy_xn / m));
            }
    }
}

void psr_ref_batchnorm_backward_held(const psr_batchnorm *norm, const psr_real *weight,
                                     const psr_real *running_variance, const psr_real *dy,
                                     psr_real *dx)
{
    for (uint32_t c = 0; c < norm->C && dx != NULL; c++) {
        const double slope = weight[c] / sqrt(running_variance[c] + norm->epsilon);
        for (uint32_t n = 0; n < norm->N; n++)
            for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++)
                dx[i] += (psr_real)(slope * dy[i]);
    }
}

/* ---- with the statistics of all workers ---- */

/* Around the channel's first value, so that many roundings are as small as the differences to
 * it. */
void psr_ref_batchnorm_sums(const psr_batchnorm *norm, const psr_real *x, double *sums,
                            double *squares)
{
    const double m = (double)norm->N * norm->S;
    for (uint32_t c = 0; c < norm->C; c++) {
        const double centre = x[row(norm, 0, c)];
        double off = 0, square = 0;
        for (uint32_t n = 0; n < norm->N; n++)
            for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++) {
                off += x[i] - centre;
                square += (x[i] - centre) * (x[i] - centre);
            }
        sums[c] = off + m * centre;
        squares[c] = square + 2 * centre * off + m * centre * centre;
    }
}

void psr_ref_batchnorm_normalise(const psr_batchnorm *norm, const psr_real *x,
                                 const psr_real *weight, const psr_real *bias, const double *mean,
                                 const double *scale, psr_real *y)
{
    for (uint32_t c = 0; c < norm->C; c++)
        normalise(norm, c, x, mean[c], scale[c], weight[c], bias[c], y);
}

void psr_ref_batchnorm_products(const psr_batchnorm *norm, const psr_real *x, const double *mean,
                                const psr_real *dy, double *sum_dy, double *products)
{
    for (uint32_t c = 0; c < norm->C; c++) {
        double sum = 0, product = 0;
        for (uint32_t n = 0; n < norm->N; n++)
            for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++) {
                sum += dy[i];
                product += dy[i] * (x[i] - mean[c]);
            }
        sum_dy[c] = sum;
        products[c] = product;
    }
}

void psr_ref_batchnorm_differentiate(const psr_batchnorm *norm, double M, const psr_real *x,
                                     const psr_real *weight, const double *mean,
                                     const double *scale, const double *sum_dy,
                                     const double *products, const psr_real *dy, psr_real *dx)
{
    for (uint32_t c = 0; c < norm->C; c++) {
        const double mean_dy = sum_dy[c] / M, slope = products[c] / M * scale[c] * scale[c];
        for (uint32_t n = 0; n < norm->N && dx != NULL; n++)
            for (size_t i = row(norm, n, c), end = i + norm->S; i < end; i++)
                dx[i] +=
                    (psr_real)(weight[c] * scale[c] * (dy[i] - mean_dy - (x[i] - mean[c]) * slope));
    }
}
