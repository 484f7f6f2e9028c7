/* Norms, pools and operations on single values. Sums over the values of a channel are double. */
#include "tests/emulator/cuda/device.h"
#include "tests/emulator/cuda/graph_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t psr_emulator_count(const psr_cuda_tensor *tensor)
{
    size_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= (size_t)tensor->dims[i];
    return count;
}

static double *doubles(size_t count)
{
    double *values = calloc(count, sizeof *values);
    if (values == NULL)
        psr_emulator_fault("no memory is left on the host");
    return values;
}

/* Values of a channel lie one row after the other. */
static size_t channels_of(const psr_emulator_value *v)
{
    return (size_t)v->tensor->dims[1];
}

static size_t rows_of(const psr_emulator_value *v)
{
    return psr_emulator_count(v->tensor) / channels_of(v);
}

/* ---- norms ---- */

void psr_emulator_statistics(const psr_emulator_value *v)
{
    const size_t C = channels_of(v), rows = rows_of(v);
    double *sums = doubles(2 * C), *squares = sums + C;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < C; c++) {
            const double x = v[0].at[r * C + c];
            sums[c] += x;
            squares[c] += x * x;
        }
    for (size_t c = 0; c < C; c++) {
        v[1].at[c] = (float)sums[c];
        v[2].at[c] = (float)squares[c];
    }
    free(sums);
}

/* Ioffe, Szegedy 2015, algorithm 1; the running variance is the unbiased one. */
void psr_emulator_norm(const psr_emulator_value *v)
{
    const float *x = v[0].at, *scale = v[1].at, *bias = v[2].at;
    const double epsilon = *v[3].at, momentum = *v[6].at;
    const size_t C = channels_of(v), rows = rows_of(v);
    double *mean = doubles(2 * C), *squares = mean + C;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < C; c++)
            mean[c] += x[r * C + c];
    for (size_t c = 0; c < C; c++)
        mean[c] /= (double)rows;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < C; c++)
            squares[c] += (x[r * C + c] - mean[c]) * (x[r * C + c] - mean[c]);
    for (size_t c = 0; c < C; c++) {
        v[8].at[c] = (float)mean[c];
        v[9].at[c] = (float)(1 / sqrt(squares[c] / (double)rows + epsilon));
        v[10].at[c] = (float)((1 - momentum) * v[4].at[c] + momentum * mean[c]);
        v[11].at[c] =
            rows == 1
                ? v[5].at[c]
                : (float)((1 - momentum) * v[5].at[c] + momentum * squares[c] / (double)(rows - 1));
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < C; c++)
            v[7].at[r * C + c] = (x[r * C + c] - v[8].at[c]) * v[9].at[c] * scale[c] + bias[c];
    free(mean);
}

/* dx = scale / deviation (dy - mean(dy) - xn mean(dy xn)) with xn = (x - mean) / deviation */
void psr_emulator_norm_backward(const psr_emulator_value *v)
{
    const float *x = v[0].at, *dy = v[1].at, *mean = v[2].at, *slope = v[3].at, *scale = v[4].at;
    const size_t C = channels_of(v), rows = rows_of(v);
    double *sums = doubles(2 * C), *products = sums + C;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < C; c++) {
            sums[c] += dy[r * C + c];
            products[c] += (double)dy[r * C + c] * ((x[r * C + c] - mean[c]) * slope[c]);
        }
    for (size_t c = 0; c < C; c++) {
        v[6].at[c] = (float)products[c];
        v[7].at[c] = (float)sums[c];
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < C; c++) {
            const double xn = (double)(x[r * C + c] - mean[c]) * slope[c];
            v[5].at[r * C + c] =
                (float)((double)scale[c] * slope[c] *
                        (dy[r * C + c] - sums[c] / (double)rows - xn * products[c] / (double)rows));
        }
    free(sums);
}

/* ---- pools ---- */

/* Of x[N,C,H,W] and y[N,C,OH,OW]: calls for each value of a window that lies in the image. */
typedef struct pool {
    int64_t N, C, H, W, OH, OW;
} pool;

static pool of_images(const psr_cuda_tensor *x, const psr_cuda_tensor *y)
{
    return (pool){x->dims[0], x->dims[1], x->dims[2], x->dims[3], y->dims[2], y->dims[3]};
}

/* Of equal values the first counts; a NaN counts as the largest, so that it reaches the loss. */
static void max_of_window(const pool *p, const psr_cuda_window *window, const float *x, int64_t oh,
                          int64_t ow, float *y, signed char *index)
{
    for (int64_t c = 0; c < p->C; c++) {
        int64_t best = -1;
        for (int64_t k = 0; k < window->height * window->width; k++) {
            const int64_t h = oh * window->stride - window->pad + k / window->width;
            const int64_t w = ow * window->stride - window->pad + k % window->width;
            if (h < 0 || h >= p->H || w < 0 || w >= p->W)
                continue;
            const float value = x[(h * p->W + w) * p->C + c];
            if (best < 0 || value > y[c] || isnan(value)) {
                y[c] = value;
                best = k;
            }
        }
        if (index != NULL)
            index[c] = (signed char)best;
    }
}

void psr_emulator_max_pool(const psr_cuda_window *window, const psr_emulator_value *v)
{
    const pool p = of_images(v[0].tensor, v[1].tensor);
    for (int64_t n = 0; n < p.N; n++)
        for (int64_t oh = 0; oh < p.OH; oh++)
            for (int64_t ow = 0; ow < p.OW; ow++) {
                const int64_t at = ((n * p.OH + oh) * p.OW + ow) * p.C;
                max_of_window(&p, window, v[0].at + n * p.H * p.W * p.C, oh, ow, v[1].at + at,
                              v[2].index != NULL ? v[2].index + at : NULL);
            }
}

void psr_emulator_max_pool_backward(const psr_cuda_window *window, const psr_emulator_value *v)
{
    const pool p = of_images(v[2].tensor, v[0].tensor);
    memset(v[2].at, 0, psr_emulator_count(v[2].tensor) * sizeof(float));
    const float *dy = v[0].at;
    const signed char *index = v[1].index;
    for (int64_t n = 0; n < p.N; n++)
        for (int64_t oh = 0; oh < p.OH; oh++)
            for (int64_t ow = 0; ow < p.OW; ow++)
                for (int64_t c = 0; c < p.C; c++, dy++, index++) {
                    const int64_t h = oh * window->stride - window->pad + *index / window->width;
                    const int64_t w = ow * window->stride - window->pad + *index % window->width;
                    if (*index < 0 || h < 0 || h >= p.H || w < 0 || w >= p.W)
                        psr_emulator_fault("a max pool's index is %d, which lies in no image",
                                           *index);
                    v[2].at[((n * p.H + h) * p.W + w) * p.C + c] += *dy;
                }
}

/* The window lies in the image: planning refuses others. */
void psr_emulator_mean_pool(const psr_cuda_window *window, const psr_emulator_value *v)
{
    const pool p = of_images(v[0].tensor, v[1].tensor);
    const double count = (double)(window->height * window->width);
    double *sums = doubles((size_t)p.C);
    for (int64_t r = 0; r < p.N * p.OH * p.OW; r++) {
        const int64_t n = r / (p.OH * p.OW), oh = r / p.OW % p.OH, ow = r % p.OW;
        memset(sums, 0, (size_t)p.C * sizeof *sums);
        for (int64_t k = 0; k < window->height * window->width; k++) {
            const int64_t h = oh * window->stride + k / window->width;
            const int64_t w = ow * window->stride + k % window->width;
            for (int64_t c = 0; c < p.C; c++)
                sums[c] += v[0].at[((n * p.H + h) * p.W + w) * p.C + c];
        }
        for (int64_t c = 0; c < p.C; c++)
            v[1].at[r * p.C + c] = (float)(sums[c] / count);
    }
    free(sums);
}

void psr_emulator_mean_pool_backward(const psr_cuda_window *window, const psr_emulator_value *v)
{
    const pool p = of_images(v[1].tensor, v[0].tensor);
    const float count = (float)(window->height * window->width);
    memset(v[1].at, 0, psr_emulator_count(v[1].tensor) * sizeof(float));
    for (int64_t r = 0; r < p.N * p.OH * p.OW; r++) {
        const int64_t n = r / (p.OH * p.OW), oh = r / p.OW % p.OH, ow = r % p.OW;
        for (int64_t k = 0; k < window->height * window->width; k++) {
            const int64_t h = oh * window->stride + k / window->width;
            const int64_t w = ow * window->stride + k % window->width;
            for (int64_t c = 0; c < p.C; c++)
                v[1].at[((n * p.H + h) * p.W + w) * p.C + c] += v[0].at[r * p.C + c] / count;
        }
    }
}

/* ---- single values ---- */

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Phi, the distribution function of the standard normal distribution */
static float normal_distribution(float x)
{
    return 0.5f * erfcf(-x * 0.70710678118654752440f);
}

static float gelu_slope(float x)
{
    return normal_distribution(x) + x * 0.39894228040143267794f * expf(-0.5f * x * x);
}

static float point(psr_cuda_pointwise mode, float x, float b)
{
    switch (mode) {
    case PSR_CUDA_ADD:
        return x + b;
    case PSR_CUDA_MULTIPLY:
        return x * b;
    case PSR_CUDA_RELU:
        return x < 0 ? 0 : x;
    case PSR_CUDA_RELU_BACKWARD:
        return x > 0 ? b : 0;
    case PSR_CUDA_SIGMOID:
        return sigmoid(x);
    case PSR_CUDA_SIGMOID_BACKWARD:
        return b * sigmoid(x) * (1 - sigmoid(x));
    case PSR_CUDA_GELU:
        return x * normal_distribution(x);
    case PSR_CUDA_GELU_BACKWARD:
        return b * gelu_slope(x);
    default: /* PSR_CUDA_IDENTITY */
        return x;
    }
}

static inline __attribute__((always_inline)) void points(psr_cuda_pointwise mode, size_t count,
                                                         const float *x, const float *b,
                                                         size_t b_step, float *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = point(mode, x[i], b[i * b_step]);
}

static void points_of_row(psr_cuda_pointwise mode, size_t count, const float *x, const float *b,
                          size_t b_step, float *y)
{
    switch (mode) { /* so that each has a loop of its own */
    case PSR_CUDA_ADD:
        points(PSR_CUDA_ADD, count, x, b, b_step, y);
        break;
    case PSR_CUDA_MULTIPLY:
        points(PSR_CUDA_MULTIPLY, count, x, b, b_step, y);
        break;
    case PSR_CUDA_RELU:
        points(PSR_CUDA_RELU, count, x, b, b_step, y);
        break;
    case PSR_CUDA_RELU_BACKWARD:
        points(PSR_CUDA_RELU_BACKWARD, count, x, b, b_step, y);
        break;
    default:
        points(mode, count, x, b, b_step, y);
        break;
    }
}

/* b is of y's shape, or one value, or one for each column (each channel). */
void psr_emulator_pointwise(psr_cuda_pointwise mode, const psr_emulator_value *v)
{
    const bool two = psr_cuda_reads_two(mode);
    const psr_emulator_value *y = &v[two ? 2 : 1], *b = two ? &v[1] : &v[0];
    const size_t count = psr_emulator_count(y->tensor), of_b = psr_emulator_count(b->tensor);
    if (of_b == count || of_b == 1) {
        points_of_row(mode, count, v[0].at, b->at, of_b == count, y->at);
        return;
    }
    for (size_t i = 0; i < count; i += of_b)
        points_of_row(mode, of_b, v[0].at + i, b->at, 1, y->at + i);
}
