#include "model/dropout.h"
#include "model/reference/ops.h"

#include <math.h>

void psr_ref_relu_forward(size_t count, const psr_real *x, psr_real *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

void psr_ref_relu_backward(size_t count, const psr_real *y, const psr_real *dy, psr_real *dx)
{
    for (size_t i = 0; i < count; i++)
        if (y[i] > 0)
            dx[i] += dy[i];
}

static double normal_distribution(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

void psr_ref_gelu_forward(size_t count, const psr_real *x, psr_real *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (psr_real)((double)x[i] * normal_distribution((double)x[i]));
}

void psr_ref_gelu_backward(size_t count, const psr_real *x, const psr_real *dy, psr_real *dx)
{
    const double at_0 = 0.39894228040143267794; /* 1 / sqrt(2 pi) */
    for (size_t i = 0; i < count; i++) {
        const double v = (double)x[i];
        dx[i] +=
            (psr_real)((double)dy[i] * (normal_distribution(v) + v * at_0 * exp(-0.5 * v * v)));
    }
}

void psr_ref_add_forward(size_t count, const psr_real *a, const psr_real *b, psr_real *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

void psr_ref_accumulate(size_t count, const psr_real *dy, psr_real *dx)
{
    for (size_t i = 0; i < count; i++)
        dx[i] += dy[i];
}

void psr_ref_sigmoid_forward(size_t count, const psr_real *x, psr_real *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (psr_real)(1 / (1 + exp(-(double)x[i])));
}

void psr_ref_sigmoid_backward(size_t count, const psr_real *y, const psr_real *dy, psr_real *dx)
{
    for (size_t i = 0; i < count; i++)
        dx[i] += dy[i] * y[i] * (1 - y[i]);
}

void psr_ref_gate_forward(size_t R, size_t S, const psr_real *x, const psr_real *gate, psr_real *y)
{
    for (size_t r = 0; r < R; r++)
        for (size_t s = 0; s < S; s++)
            y[r * S + s] = x[r * S + s] * gate[r];
}

void psr_ref_gate_backward(size_t R, size_t S, const psr_real *x, const psr_real *gate,
                           const psr_real *dy, psr_real *dx, psr_real *dgate)
{
    for (size_t r = 0; r < R; r++) {
        double sum = 0;
        for (size_t s = 0; s < S; s++) {
            sum += (double)dy[r * S + s] * x[r * S + s];
            if (dx != NULL)
                dx[r * S + s] += dy[r * S + s] * gate[r];
        }
        if (dgate != NULL)
            dgate[r] += (psr_real)sum;
    }
}

void psr_ref_scale_forward(size_t count, double factor, const psr_real *x, psr_real *y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (psr_real)factor * x[i];
}

void psr_ref_scale_backward(size_t count, double factor, const psr_real *dy, psr_real *dx)
{
    for (size_t i = 0; i < count; i++)
        dx[i] += (psr_real)factor * dy[i];
}

/* The mask of sample n: one byte per element, or per channel. */
static void sample_mask(const psr_dropout *dropout, const psr_batch *batch, uint32_t n,
                        uint8_t *keep)
{
    const size_t count = dropout->whole_channels ? dropout->C : (size_t)dropout->C * dropout->S;
    psr_dropout_keep(batch, n, dropout->node, dropout->drop, keep, count);
}

void psr_ref_dropout_forward(const psr_dropout *dropout, const psr_batch *batch, uint8_t *keep,
                             const psr_real *x, psr_real *y)
{
    const size_t count = (size_t)dropout->C * dropout->S;
    const float scale = psr_dropout_scale(dropout->drop);
    for (uint32_t n = 0; n < batch->count; n++, x += count, y += count) {
        sample_mask(dropout, batch, n, keep);
        for (size_t i = 0; i < count; i++)
            y[i] = keep[dropout->whole_channels ? i / dropout->S : i] ? x[i] * scale : 0;
    }
}

void psr_ref_dropout_backward(const psr_dropout *dropout, const psr_batch *batch, uint8_t *keep,
                              const psr_real *dy, psr_real *dx)
{
    const size_t count = (size_t)dropout->C * dropout->S;
    const float scale = psr_dropout_scale(dropout->drop);
    for (uint32_t n = 0; n < batch->count; n++, dy += count, dx += count) {
        sample_mask(dropout, batch, n, keep);
        for (size_t i = 0; i < count; i++)
            if (keep[dropout->whole_channels ? i / dropout->S : i])
                dx[i] += dy[i] * scale;
    }
}
