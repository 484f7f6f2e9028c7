/* Convolutions as products of matrices: the values under the window of each output, one row each,
 * times the filters. A block of rows is gathered at a time. */
#include "tests/emulator/cuda/device.h"
#include "tests/emulator/cuda/graph_parts.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 64 /* rows */

/* A window over images x[N,C,H,W] gives y[N,O,OH,OW]; each of the groups has I inputs and P outputs
 * of its own. */
typedef struct convolution {
    int64_t N, C, H, W, O, OH, OW, KH, KW, stride, pad, groups, I, P;
    bool tf32;
} convolution;

static convolution of_tensors(const psr_cuda_window *window, const psr_cuda_tensor *x,
                              const psr_cuda_tensor *w, const psr_cuda_tensor *y, bool tf32)
{
    convolution c = {.N = x->dims[0], .C = x->dims[1], .H = x->dims[2], .W = x->dims[3]};
    c.O = y->dims[1], c.OH = y->dims[2], c.OW = y->dims[3];
    c.KH = window->height, c.KW = window->width, c.stride = window->stride, c.pad = window->pad;
    c.I = w->dims[1];
    c.groups = c.C / c.I;
    c.P = c.O / c.groups;
    c.tf32 = tf32;
    return c;
}

static float *floats(int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    if (values == NULL)
        psr_emulator_fault("no memory is left on the host");
    return values;
}

static void round_factor(const convolution *c, int64_t count, float *values)
{
    if (c->tf32)
        psr_emulator_round_tf32((size_t)count, values);
}

/* rows[r] = x under the window of output first + r: [KH,KW,I] of one group, zero outside. */
static void gather_inputs(const convolution *c, const float *x, int64_t group, int64_t first,
                          int64_t count, float *rows)
{
    float *to = rows;
    for (int64_t r = first; r < first + count; r++) {
        const int64_t n = r / (c->OH * c->OW), oh = r / c->OW % c->OH, ow = r % c->OW;
        for (int64_t kh = 0; kh < c->KH; kh++)
            for (int64_t kw = 0; kw < c->KW; kw++, to += c->I) {
                const int64_t h = oh * c->stride - c->pad + kh, w = ow * c->stride - c->pad + kw;
                if (h >= 0 && h < c->H && w >= 0 && w < c->W)
                    memcpy(to, &x[((n * c->H + h) * c->W + w) * c->C + group * c->I],
                           (size_t)c->I * sizeof *to);
                else
                    memset(to, 0, (size_t)c->I * sizeof *to);
            }
    }
    round_factor(c, count * c->KH * c->KW * c->I, rows);
}

/* rows[r] = dy of the outputs that read input first + r, by their place in the window: [KH,KW,P]
 * of one group, zero where no output reads it there. */
static void gather_outputs(const convolution *c, const float *dy, int64_t group, int64_t first,
                           int64_t count, float *rows)
{
    float *to = rows;
    for (int64_t r = first; r < first + count; r++) {
        const int64_t n = r / (c->H * c->W), h = r / c->W % c->H, w = r % c->W;
        for (int64_t kh = 0; kh < c->KH; kh++)
            for (int64_t kw = 0; kw < c->KW; kw++, to += c->P) {
                const int64_t down = h + c->pad - kh, right = w + c->pad - kw;
                const int64_t oh = down / c->stride, ow = right / c->stride;
                if (down >= 0 && right >= 0 && down % c->stride == 0 && right % c->stride == 0 &&
                    oh < c->OH && ow < c->OW)
                    memcpy(to, &dy[((n * c->OH + oh) * c->OW + ow) * c->O + group * c->P],
                           (size_t)c->P * sizeof *to);
                else
                    memset(to, 0, (size_t)c->P * sizeof *to);
            }
    }
    round_factor(c, count * c->KH * c->KW * c->P, rows);
}

/* to[kh,kw,i,p] = w[p,kh,kw,i] of one group */
static void filters_by_input(const convolution *c, const float *w, int64_t group, float *to)
{
    const int64_t K = c->KH * c->KW * c->I;
    for (int64_t p = 0; p < c->P; p++)
        for (int64_t k = 0; k < K; k++)
            to[k * c->P + p] = w[(group * c->P + p) * K + k];
    round_factor(c, K * c->P, to);
}

/* to[kh,kw,p,i] = w[p,kh,kw,i] of one group */
static void filters_by_output(const convolution *c, const float *w, int64_t group, float *to)
{
    const int64_t window = c->KH * c->KW;
    for (int64_t p = 0; p < c->P; p++)
        for (int64_t k = 0; k < window; k++)
            memcpy(&to[(k * c->P + p) * c->I], &w[((group * c->P + p) * window + k) * c->I],
                   (size_t)c->I * sizeof *to);
    round_factor(c, window * c->P * c->I, to);
}

static int64_t of_block(int64_t first, int64_t rows)
{
    return rows - first < BLOCK ? rows - first : BLOCK;
}

void psr_emulator_conv(const psr_cuda_window *window, const psr_emulator_value *v, bool tf32)
{
    const convolution c = of_tensors(window, v[0].tensor, v[1].tensor, v[2].tensor, tf32);
    const int64_t K = c.KH * c.KW * c.I, rows = c.N * c.OH * c.OW;
    float *filters = floats(K * c.P), *gathered = floats(BLOCK * K);
    for (int64_t g = 0; g < c.groups; g++) {
        filters_by_input(&c, v[1].at, g, filters);
        for (int64_t first = 0; first < rows; first += BLOCK) {
            const int64_t count = of_block(first, rows);
            gather_inputs(&c, v[0].at, g, first, count, gathered);
            psr_emulator_multiply(&(psr_emulator_product){.m = (size_t)count,
                                                          .k = (size_t)K,
                                                          .n = (size_t)c.P,
                                                          .a = gathered,
                                                          .a_m = (size_t)K,
                                                          .a_k = 1,
                                                          .b = filters,
                                                          .b_row = (size_t)c.P,
                                                          .c = &v[2].at[first * c.O + g * c.P],
                                                          .c_row = (size_t)c.O});
        }
    }
    free(filters);
    free(gathered);
}

void psr_emulator_conv_data(const psr_cuda_window *window, const psr_emulator_value *v, bool tf32)
{
    const convolution c = of_tensors(window, v[2].tensor, v[1].tensor, v[0].tensor, tf32);
    const int64_t K = c.KH * c.KW * c.P, rows = c.N * c.H * c.W;
    float *filters = floats(K * c.I), *gathered = floats(BLOCK * K);
    for (int64_t g = 0; g < c.groups; g++) {
        filters_by_output(&c, v[1].at, g, filters);
        for (int64_t first = 0; first < rows; first += BLOCK) {
            const int64_t count = of_block(first, rows);
            gather_outputs(&c, v[0].at, g, first, count, gathered);
            psr_emulator_multiply(&(psr_emulator_product){.m = (size_t)count,
                                                          .k = (size_t)K,
                                                          .n = (size_t)c.I,
                                                          .a = gathered,
                                                          .a_m = (size_t)K,
                                                          .a_k = 1,
                                                          .b = filters,
                                                          .b_row = (size_t)c.I,
                                                          .c = &v[2].at[first * c.C + g * c.I],
                                                          .c_row = (size_t)c.C});
        }
    }
    free(filters);
    free(gathered);
}

/* dw[p,kh,kw,i] = sum over outputs of dy[output,p] x[output,kh,kw,i] */
void psr_emulator_conv_weights(const psr_cuda_window *window, const psr_emulator_value *v,
                               bool tf32)
{
    const convolution c = of_tensors(window, v[0].tensor, v[2].tensor, v[1].tensor, tf32);
    const int64_t K = c.KH * c.KW * c.I, rows = c.N * c.OH * c.OW;
    float *gathered = floats(BLOCK * K), *dy = floats(BLOCK * c.O);
    for (int64_t g = 0; g < c.groups; g++)
        for (int64_t first = 0; first < rows; first += BLOCK) {
            const int64_t count = of_block(first, rows);
            gather_inputs(&c, v[0].at, g, first, count, gathered);
            memcpy(dy, &v[1].at[first * c.O], (size_t)(count * c.O) * sizeof *dy);
            round_factor(&c, count * c.O, dy);
            psr_emulator_multiply(&(psr_emulator_product){.m = (size_t)c.P,
                                                          .k = (size_t)count,
                                                          .n = (size_t)K,
                                                          .a = dy + g * c.P,
                                                          .a_m = 1,
                                                          .a_k = (size_t)c.O,
                                                          .b = gathered,
                                                          .b_row = (size_t)K,
                                                          .c = &v[2].at[g * c.P * K],
                                                          .c_row = (size_t)K,
                                                          .adds = first > 0});
        }
    free(gathered);
    free(dy);
}

/* c[M,N] = a[M,K] b[K,N], each lying by rows or by columns. */
void psr_emulator_matmul(const psr_emulator_value *v, bool tf32)
{
    const int64_t M = v[0].tensor->dims[1], K = v[0].tensor->dims[2], N = v[1].tensor->dims[2];
    float *a = floats(M * K), *b = floats(K * N), *c = floats(M * N);
    for (int64_t m = 0; m < M; m++)
        for (int64_t k = 0; k < K; k++)
            a[m * K + k] = v[0].at[m * v[0].tensor->strides[1] + k * v[0].tensor->strides[2]];
    for (int64_t k = 0; k < K; k++)
        for (int64_t n = 0; n < N; n++)
            b[k * N + n] = v[1].at[k * v[1].tensor->strides[1] + n * v[1].tensor->strides[2]];
    if (tf32) {
        psr_emulator_round_tf32((size_t)(M * K), a);
        psr_emulator_round_tf32((size_t)(K * N), b);
    }
    psr_emulator_multiply(&(psr_emulator_product){.m = (size_t)M,
                                                  .k = (size_t)K,
                                                  .n = (size_t)N,
                                                  .a = a,
                                                  .a_m = (size_t)K,
                                                  .a_k = 1,
                                                  .b = b,
                                                  .b_row = (size_t)N,
                                                  .c = c,
                                                  .c_row = (size_t)N});
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++)
            v[2].at[m * v[2].tensor->strides[1] + n * v[2].tensor->strides[2]] = c[m * N + n];
    free(a);
    free(b);
    free(c);
}
