/* The operators of the reference back end: plain loops, with one pair of functions for each
 * operator.
 *
 * Every array is plain and contiguous: x[N,C,H,W] the operator's input, y its output, w[O,C,K,K] or
 * w[O,C] weights, b biases; dx, dy, dw, db the gradients of the loss by them. Sums over more than
 * two terms are made in double and rounded once to psr_real.
 *
 * The backward functions add to dx, since a value may have several readers; the caller sets it to
 * zero first. They write dw and db. A gradient that nobody wants is NULL: of a convolution, a
 * linear layer, batch norm and a gate. All arrays are the caller's, borrowed for the call. Any
 * thread; no state. */
#ifndef PSR_MODEL_REFERENCE_OPS_H
#define PSR_MODEL_REFERENCE_OPS_H

#include "model/backend.h"
#include "model/real.h"

/* The sizes of an operator that slides a window over images: x[N,C,H,W] to y[N,O,OH,OW]. Output
 * (oh, ow) reads the rows oh * stride - pad + 0 .. K-1, and columns likewise. Positions outside of
 * the image are left out. */
typedef struct psr_window {
    uint32_t N, C, H, W;
    uint32_t O, OH, OW;
    uint32_t K, stride, pad;
    uint32_t groups; /* of a convolution */
} psr_window;

/* Convolution (cross-correlation, as every framework's): y[n,o,oh,ow] = b[o] + sum_{c,kh,kw} x[n,
 * first + c, oh*stride-pad+kh, ow*stride-pad+kw] * w[o,c,kh,kw], c below C / groups, first = C /
 * groups times the group of o, which is floor(o / (O / groups)). b, db: NULL when there is no
 * bias. */
void psr_ref_conv_forward(const psr_window *window, const psr_real *x, const psr_real *w,
                          const psr_real *b, psr_real *y);
void psr_ref_conv_backward(const psr_window *window, const psr_real *x, const psr_real *w,
                           const psr_real *dy, psr_real *dx, psr_real *dw, psr_real *db);

/* Maximum of each window. Of equal values the first in row order counts, as in PyTorch. O = C. */
void psr_ref_maxpool_forward(const psr_window *window, const psr_real *x, psr_real *y);
void psr_ref_maxpool_backward(const psr_window *window, const psr_real *x, const psr_real *dy,
                              psr_real *dx);

/* Mean over H and W: y[N,C]. */
void psr_ref_avgpool_forward(uint32_t N, uint32_t C, uint32_t H, uint32_t W, const psr_real *x,
                             psr_real *y);
void psr_ref_avgpool_backward(uint32_t N, uint32_t C, uint32_t H, uint32_t W, const psr_real *dy,
                              psr_real *dx);

/* He et al. (2015), section 4.2, option A: y[n, c + (O-C)/2, oh, ow] = x[n, c, oh*stride,
 * ow*stride], the other channels are zero. K and pad are not used. */
void psr_ref_shortcut_forward(const psr_window *window, const psr_real *x, psr_real *y);
void psr_ref_shortcut_backward(const psr_window *window, const psr_real *dy, psr_real *dx);

/* y[n,o] = b[o] + sum_c x[n,c] * w[o,c]. b may be NULL, as for the convolution. */
void psr_ref_linear_forward(uint32_t N, uint32_t C, uint32_t O, const psr_real *x,
                            const psr_real *w, const psr_real *b, psr_real *y);
void psr_ref_linear_backward(uint32_t N, uint32_t C, uint32_t O, const psr_real *x,
                             const psr_real *w, const psr_real *dy, psr_real *dx, psr_real *dw,
                             psr_real *db);

/* Batch norm of x[N,C,S] (S = H*W) with the batch's own statistics (Ioffe, Szegedy 2015, algorithm
 * 1): with m = N*S values per channel, mean and the biased variance (divided by m),
 *     y = weight * (x - mean) / sqrt(variance + epsilon) + bias.
 * Updates running = (1 - momentum) * running + momentum * batch's, where the batch's variance is
 * the unbiased one (divided by m - 1), as in PyTorch. With m = 1 there is no unbiased variance, and
 * the running variance does not change. The backward pass needs ret_mean[C] and ret_scale[C] (1 /
 * sqrt(variance + epsilon)). */
typedef struct psr_batchnorm {
    uint32_t N, C, S;
    double epsilon, momentum;
} psr_batchnorm;
void psr_ref_batchnorm_forward(const psr_batchnorm *norm, const psr_real *x, const psr_real *weight,
                               const psr_real *bias, psr_real *running_mean,
                               psr_real *running_variance, psr_real *y, double *ret_mean,
                               double *ret_scale);
/* The same with the running statistics instead of the batch's. */
void psr_ref_batchnorm_infer(const psr_batchnorm *norm, const psr_real *x, const psr_real *weight,
                             const psr_real *bias, const psr_real *running_mean,
                             const psr_real *running_variance, psr_real *y);
void psr_ref_batchnorm_backward(const psr_batchnorm *norm, const psr_real *x,
                                const psr_real *weight, const double *mean, const double *scale,
                                const psr_real *dy, psr_real *dx, psr_real *dweight,
                                psr_real *dbias);
/* The same with the statistics of all workers (model/norm_sums.h), in the parts between which those
 * are summed. sums, squares, sum_dy and products: [C], this worker's; differentiate wants those of
 * all workers, and M of them. Only differentiate adds to dx. */
void psr_ref_batchnorm_sums(const psr_batchnorm *norm, const psr_real *x, double *sums,
                            double *squares);
void psr_ref_batchnorm_normalise(const psr_batchnorm *norm, const psr_real *x,
                                 const psr_real *weight, const psr_real *bias, const double *mean,
                                 const double *scale, psr_real *y);
/* products: sum of dy * (x - mean). */
void psr_ref_batchnorm_products(const psr_batchnorm *norm, const psr_real *x, const double *mean,
                                const psr_real *dy, double *sum_dy, double *products);
void psr_ref_batchnorm_differentiate(const psr_batchnorm *norm, double M, const psr_real *x,
                                     const psr_real *weight, const double *mean,
                                     const double *scale, const double *sum_dy,
                                     const double *products, const psr_real *dy, psr_real *dx);
/* Behind psr_ref_batchnorm_infer, whose statistics depend on no x, and where weight and bias are
 * frozen: dx += weight / sqrt(running variance + epsilon) * dy. */
void psr_ref_batchnorm_backward_held(const psr_batchnorm *norm, const psr_real *weight,
                                     const psr_real *running_variance, const psr_real *dy,
                                     psr_real *dx);

/* max(x, 0). NaN stays NaN. The derivative at 0 is 0. The backward function needs only y. */
void psr_ref_relu_forward(size_t count, const psr_real *x, psr_real *y);
void psr_ref_relu_backward(size_t count, const psr_real *y, const psr_real *dy, psr_real *dx);

/* x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2 (Hendrycks, Gimpel, "Gaussian error linear units",
 * 2016). The backward function needs x: dx += dy (Phi(x) + x phi(x)), phi(x) = exp(-x^2 / 2) /
 * sqrt(2 pi). */
void psr_ref_gelu_forward(size_t count, const psr_real *x, psr_real *y);
void psr_ref_gelu_backward(size_t count, const psr_real *x, const psr_real *dy, psr_real *dx);

/* y = a + b; backward is psr_ref_accumulate into both. */
void psr_ref_add_forward(size_t count, const psr_real *a, const psr_real *b, psr_real *y);

/* 1 / (1 + exp(-x)). The backward function needs only y. */
void psr_ref_sigmoid_forward(size_t count, const psr_real *x, psr_real *y);
void psr_ref_sigmoid_backward(size_t count, const psr_real *y, const psr_real *dy, psr_real *dx);

/* y[r,s] = x[r,s] * gate[r], r a channel of a sample, R = N*C of them, of S = H*W values. The
 * backward function adds to both gradients. */
void psr_ref_gate_forward(size_t R, size_t S, const psr_real *x, const psr_real *gate, psr_real *y);
void psr_ref_gate_backward(size_t R, size_t S, const psr_real *x, const psr_real *gate,
                           const psr_real *dy, psr_real *dx, psr_real *dgate);

/* y = factor * x; the backward function is dx += factor * dy. */
void psr_ref_scale_forward(size_t count, double factor, const psr_real *x, psr_real *y);
void psr_ref_scale_backward(size_t count, double factor, const psr_real *dy, psr_real *dx);

/* dx += dy: the backward function of add, flatten and all operators that only copy. */
void psr_ref_accumulate(size_t count, const psr_real *dy, psr_real *dx);

/* Inverted dropout of x[N,C,S] at node, in the pass of batch. An element (with whole_channels: all
 * S elements of a channel) is multiplied by 0 with probability drop, and otherwise by 1 / (1 -
 * drop). The backward pass computes the same masks again. keep: scratch, C*S bytes. */
typedef struct psr_dropout {
    uint32_t C, S;
    double drop;
    uint32_t node;
    bool whole_channels;
} psr_dropout;
void psr_ref_dropout_forward(const psr_dropout *dropout, const psr_batch *batch, uint8_t *keep,
                             const psr_real *x, psr_real *y);
void psr_ref_dropout_backward(const psr_dropout *dropout, const psr_batch *batch, uint8_t *keep,
                              const psr_real *dy, psr_real *dx);

/* The images of a batch of bytes, by their definition (base/arrays/byte_images.h): y[N,C,H,W]. */
void psr_ref_images_of_bytes(uint32_t N, uint32_t C, uint32_t H, uint32_t W,
                             const psr_byte_images *x, psr_real *y);

#endif
