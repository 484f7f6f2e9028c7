#include "model/reference/ops.h"

/* Row (or column) of the image under row k of output o's window: may lie outside. */
static int64_t position(const psr_window *v, uint32_t o, uint32_t k)
{
    return (int64_t)o * v->stride - v->pad + k;
}

static const psr_real *plane(const psr_real *x, uint32_t channels, uint32_t n, uint32_t c,
                             size_t size)
{
    return x + ((size_t)n * channels + c) * size;
}

/* Channels that each output reads. */
static uint32_t inputs_of(const psr_window *v)
{
    return v->C / v->groups;
}

/* The first of those that output o reads. */
static uint32_t first_input(const psr_window *v, uint32_t o)
{
    return o / (v->O / v->groups) * inputs_of(v);
}

void psr_ref_conv_forward(const psr_window *v, const psr_real *x, const psr_real *w,
                          const psr_real *b, psr_real *y)
{
    const uint32_t K = v->K, inputs = inputs_of(v);
    for (uint32_t n = 0; n < v->N; n++)
        for (uint32_t o = 0; o < v->O; o++)
            for (uint32_t oh = 0; oh < v->OH; oh++)
                for (uint32_t ow = 0; ow < v->OW; ow++) {
                    double sum = b != NULL ? b[o] : 0;
                    for (uint32_t c = 0; c < inputs; c++) {
                        const psr_real *xc =
                            plane(x, v->C, n, first_input(v, o) + c, (size_t)v->H * v->W);
                        const psr_real *wc = plane(w, inputs, o, c, (size_t)K * K);
                        for (uint32_t kh = 0; kh < K; kh++) {
                            const int64_t h = position(v, oh, kh);
                            if (h < 0 || h >= v->H)
                                continue;
                            for (uint32_t kw = 0; kw < K; kw++) {
                                const int64_t i = position(v, ow, kw);
                                if (i >= 0 && i < v->W)
                                    sum += (double)xc[h * v->W + i] * wc[kh * K + kw];
                            }
                        }
                    }
                    *y++ = (psr_real)sum;
                }
}

/* dx[n,c,h,i] += sum over the outputs whose window contains it. Output row oh saw row h through
 * kernel row kh where oh * stride = h + pad - kh; columns likewise. */
static void conv_backward_data(const psr_window *v, const psr_real *w, const psr_real *dy,
                               psr_real *dx)
{
    const uint32_t K = v->K, inputs = inputs_of(v), outputs = v->O / v->groups;
    for (uint32_t n = 0; n < v->N; n++)
        for (uint32_t c = 0; c < v->C; c++)
            for (uint32_t h = 0; h < v->H; h++)
                for (uint32_t i = 0; i < v->W; i++) {
                    const uint32_t first = c / inputs * outputs;
                    double sum = 0;
                    for (uint32_t kh = 0; kh < K && kh <= h + v->pad; kh++) {
                        const uint32_t oh = (h + v->pad - kh) / v->stride;
                        if (oh * v->stride + kh != h + v->pad || oh >= v->OH)
                            continue;
                        for (uint32_t kw = 0; kw < K && kw <= i + v->pad; kw++) {
                            const uint32_t ow = (i + v->pad - kw) / v->stride;
                            if (ow * v->stride + kw != i + v->pad || ow >= v->OW)
                                continue;
                            for (uint32_t o = first; o < first + outputs; o++)
                                sum += (double)plane(dy, v->O, n, o,
                                                     (size_t)v->OH * v->OW)[oh * v->OW + ow] *
                                       plane(w, inputs, o, c % inputs, (size_t)K * K)[kh * K + kw];
                        }
                    }
                    *dx++ += (psr_real)sum;
                }
}

/* dw[o,c,kh,kw] = sum_{n,oh,ow} dy[n,o,oh,ow] * x[n, first + c, oh*stride-pad+kh,
 * ow*stride-pad+kw]. */
static void conv_backward_weights(const psr_window *v, const psr_real *x, const psr_real *dy,
                                  psr_real *dw)
{
    const uint32_t inputs = inputs_of(v);
    for (uint32_t o = 0; o < v->O; o++)
        for (uint32_t c = 0; c < inputs; c++)
            for (uint32_t kh = 0; kh < v->K; kh++)
                for (uint32_t kw = 0; kw < v->K; kw++) {
                    double sum = 0;
                    for (uint32_t n = 0; n < v->N; n++) {
                        const psr_real *xc =
                            plane(x, v->C, n, first_input(v, o) + c, (size_t)v->H * v->W);
                        const psr_real *dyo = plane(dy, v->O, n, o, (size_t)v->OH * v->OW);
                        for (uint32_t oh = 0; oh < v->OH; oh++) {
                            const int64_t h = position(v, oh, kh);
                            if (h < 0 || h >= v->H)
                                continue;
                            for (uint32_t ow = 0; ow < v->OW; ow++) {
                                const int64_t i = position(v, ow, kw);
                                if (i >= 0 && i < v->W)
                                    sum += (double)dyo[oh * v->OW + ow] * xc[h * v->W + i];
                            }
                        }
                    }
                    *dw++ = (psr_real)sum;
                }
}

static void conv_backward_bias(const psr_window *v, const psr_real *dy, psr_real *db)
{
    const size_t size = (size_t)v->OH * v->OW;
    for (uint32_t o = 0; o < v->O; o++) {
        double sum = 0;
        for (uint32_t n = 0; n < v->N; n++)
            for (size_t s = 0; s < size; s++)
                sum += plane(dy, v->O, n, o, size)[s];
        db[o] = (psr_real)sum;
    }
}

void psr_ref_conv_backward(const psr_window *v, const psr_real *x, const psr_real *w,
                           const psr_real *dy, psr_real *dx, psr_real *dw, psr_real *db)
{
    if (dx != NULL)
        conv_backward_data(v, w, dy, dx);
    if (dw != NULL)
        conv_backward_weights(v, x, dy, dw);
    if (db != NULL)
        conv_backward_bias(v, dy, db);
}
