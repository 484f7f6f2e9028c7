#include "model/networks/whitening.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR 5e-4 /* added to eigenvalues */

struct psr_whitening {
    const psr_network *net;
    const psr_network_node *node;
    uint32_t size; /* d */
    uint64_t windows;
    double *sums;   /* [d,d]: of p p^T; its upper triangle */
    double *window; /* [d] */
};

/* ---- eigenvectors ---- */

static double square(double x)
{
    return x * x;
}

static double off_diagonal(const double *a, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++)
            sum += square(a[i * n + j]);
    return sum;
}

/* Makes a[p,q] zero: a = J^T a J, and the rows p and q of vectors turn with it. */
static void rotate(double *a, double *vectors, uint32_t n, uint32_t p, uint32_t q)
{
    if (a[p * n + q] == 0)
        return;
    const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(square(theta) + 1));
    const double c = 1 / sqrt(square(t) + 1), s = t * c;
    for (uint32_t k = 0; k < n; k++) {
        const double kp = a[k * n + p], kq = a[k * n + q];
        a[k * n + p] = c * kp - s * kq;
        a[k * n + q] = s * kp + c * kq;
    }
    for (uint32_t k = 0; k < n; k++) {
        const double pk = a[p * n + k], qk = a[q * n + k];
        a[p * n + k] = c * pk - s * qk;
        a[q * n + k] = s * pk + c * qk;
        const double vp = vectors[p * n + k], vq = vectors[q * n + k];
        vectors[p * n + k] = c * vp - s * vq;
        vectors[q * n + k] = s * vp + c * vq;
    }
}

static void point_up(double *vector, uint32_t n)
{
    uint32_t largest = 0;
    for (uint32_t k = 1; k < n; k++)
        if (fabs(vector[k]) > fabs(vector[largest]))
            largest = k;
    for (uint32_t k = 0; k < n && vector[largest] < 0; k++)
        if (k != largest)
            vector[k] = -vector[k];
    vector[largest] = fabs(vector[largest]);
}

static void swap(double *a, double *b)
{
    const double kept = *a;
    *a = *b;
    *b = kept;
}

static void sort_descending(double *values, double *vectors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t largest = i;
        for (uint32_t j = i + 1; j < n; j++)
            largest = values[j] > values[largest] ? j : largest;
        if (largest == i)
            continue;
        swap(&values[i], &values[largest]);
        for (uint32_t k = 0; k < n; k++)
            swap(&vectors[i * n + k], &vectors[largest * n + k]);
    }
}

void psr_symmetric_eigen(double *a, uint32_t n, double *values, double *vectors)
{
    enum { SWEEPS_MAX = 60 }; /* it converges quadratically: about ten are enough */
    double all = 0;
    for (uint32_t i = 0; i < n * n; i++) {
        all += square(a[i]);
        vectors[i] = i / n == i % n ? 1 : 0;
    }
    for (int sweep = 0; sweep < SWEEPS_MAX && off_diagonal(a, n) > 1e-30 * all; sweep++)
        for (uint32_t p = 0; p < n; p++)
            for (uint32_t q = p + 1; q < n; q++)
                rotate(a, vectors, n, p, q);
    for (uint32_t i = 0; i < n; i++)
        values[i] = a[i * n + i];
    sort_descending(values, vectors, n);
    for (uint32_t i = 0; i < n; i++)
        point_up(vectors + (size_t)i * n, n);
}

/* ---- the layer ---- */

psr_err psr_whitening_new(const psr_network *net, psr_whitening **ret_whitening)
{
    const psr_network_node *node = NULL;
    for (uint32_t i = 0; i < net->node_count && node == NULL; i++)
        if (net->nodes[i].op == PSR_OP_CONV && net->nodes[i].input[0] == 0 &&
            net->inits[net->nodes[i].weight].kind == PSR_INIT_WHITENING)
            node = &net->nodes[i];
    if (node == NULL)
        return psr_fail(PSR_ERR_NOT_FOUND, "no layer of %s whitens", net->name);
    assert(node->stride == 1 && node->pad == 0);
    const uint32_t size = net->channels * node->kernel * node->kernel;
    assert(node->channels == 2 * size);
    psr_whitening *whitening = calloc(1, sizeof *whitening);
    if (whitening == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to whiten");
    *whitening = (psr_whitening){.net = net,
                                 .node = node,
                                 .size = size,
                                 .sums = calloc((size_t)size * size, sizeof(double)),
                                 .window = calloc(size, sizeof(double))};
    if (whitening->sums == NULL || whitening->window == NULL) {
        psr_whitening_free(whitening);
        return psr_fail(PSR_ERR_NOMEM, "no memory to whiten windows of %u values", size);
    }
    *ret_whitening = whitening;
    return PSR_OK;
}

void psr_whitening_free(psr_whitening *whitening)
{
    if (whitening == NULL)
        return;
    free(whitening->sums);
    free(whitening->window);
    free(whitening);
}

static void add_window(psr_whitening *w, const float *image, uint32_t row, uint32_t column)
{
    const uint32_t kernel = w->node->kernel, width = w->net->width;
    const size_t plane = (size_t)w->net->height * width;
    uint32_t at = 0;
    for (uint32_t c = 0; c < w->net->channels; c++)
        for (uint32_t y = row; y < row + kernel; y++)
            for (uint32_t x = column; x < column + kernel; x++)
                w->window[at++] = (double)image[c * plane + (size_t)y * width + x];
    for (uint32_t i = 0; i < w->size; i++)
        for (uint32_t j = i; j < w->size; j++)
            w->sums[i * w->size + j] += w->window[i] * w->window[j];
    w->windows++;
}

void psr_whitening_add(psr_whitening *whitening, const float *images, uint32_t count)
{
    const psr_network *net = whitening->net;
    const size_t size = (size_t)net->channels * net->height * net->width;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t y = 0; y < whitening->node->height; y++)
            for (uint32_t x = 0; x < whitening->node->width; x++)
                add_window(whitening, images + n * size, y, x);
}

psr_err psr_whitening_finish(const psr_whitening *whitening, float *arena)
{
    const uint32_t n = whitening->size;
    double *a = malloc((2 * (size_t)n + 1) * n * sizeof *a);
    if (a == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u eigenvectors", n);
    double *vectors = a + (size_t)n * n, *values = vectors + (size_t)n * n;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i; j < n; j++)
            a[i * n + j] = a[j * n + i] = whitening->sums[i * n + j] / (double)whitening->windows;
    psr_symmetric_eigen(a, n, values, vectors);
    float *weights = arena + whitening->net->params.tensors[whitening->node->weight].offset;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            const float value = (float)(vectors[i * n + k] / sqrt(fmax(values[i], 0) + FLOOR));
            weights[i * n + k] = value;
            weights[(n + i) * n + k] = -value;
        }
    free(a);
    return PSR_OK;
}
