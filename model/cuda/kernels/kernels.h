/* psring's own kernels: what no library's graph computes. Each takes one struct, by value, and is
 * written once (*.cu, in the part of C++ that nvcc and the host's compiler share): nvcc compiles it
 * for GPUs, the host's compiler for the emulation and the tests, where threads are fibers.
 *
 * Activations x[N,C,H,W] lie as NHWC and filters w[O,I,KH,KW] as OHWI, as in model/cuda/graph.h;
 * "plain" ones lie in the order in which they are written, as on the CPU. All pointers are device
 * memory. type: that of the tensors declared void. Sums are float32 and in an order that does not
 * depend on the launch; where the CPU's back end has the same formula, the same random numbers are
 * used. count, rows and so on may be any number but 0; tensors do not overlap unless it is said.
 *
 * psr_cuda_kernel_launch (model/cuda/kernels/launch.h) knows how many blocks each takes. */
#ifndef PSR_MODEL_CUDA_KERNELS_H
#define PSR_MODEL_CUDA_KERNELS_H

#include "base/arrays/byte_images.h"

#include <stdint.h>

#define PSR_CUDA_KERNELS(K)                                                                        \
    K(images_of_bytes) /* a batch of bytes as floats, base/arrays/byte_images.h */                 \
    K(image)           /* y = x, another layout and type; further channels become zero */          \
    K(filter)          /* w as a graph reads it, from the arena */                                 \
    K(filter_gradient) /* dw into the arena, as a graph wrote it */                                \
    K(cast)            /* y = x, another type */                                                   \
    K(loss)            /* softmax cross entropy, model/loss.h */                                   \
    K(loss_total)      /* the batch's sums of what loss gave */                                    \
    K(dropout)         /* y = x kept / (1 - drop), model/dropout.h; both passes */                 \
    K(gate)            /* y = x s */                                                               \
    K(gate_backward)   /* dx = dy s; ds = sum over the image of dy x */                            \
    K(shortcut)        /* option A: subsampling, new channels zero */                              \
    K(shortcut_backward)                                                                           \
    K(flatten)       /* NHWC to plain rows, and back */                                            \
    K(scale_of_norm) /* y = scale x + shift of batch norm by running statistics */                 \
    K(norm_gradient) /* of batch norm by running statistics (frozen): dx, dscale, dbias */         \
    K(product)       /* c = a b in float32, without tensor cores */                                \
    K(column_sums)   /* sum of a matrix's rows */                                                  \
    K(add)           /* y = a + b */                                                               \
    K(relu)          /* of one number a sample: cuDNN has no engine; and backward */               \
    K(sgd)           /* the optimizer's update of a run of the arena */                            \
    K(adam)                                                                                        \
    K(finite) /* whether all is finite; multiplies by a factor (fp16's loss scale) */

#define PSR_CUDA_KERNEL_NAME(name) PSR_CUDA_KERNEL_##name,
typedef enum psr_cuda_kernel {
    PSR_CUDA_KERNELS(PSR_CUDA_KERNEL_NAME) PSR_CUDA_KERNEL_COUNT
} psr_cuda_kernel;

typedef struct psr_cuda_images_of_bytes_args {
    const uint8_t *bytes;         /* those of a sample begin where its y does */
    const psr_byte_image *images; /* [samples] */
    const float *values;          /* [channels,PSR_BYTE_VALUES] */
    float *y;                     /* plain [samples,channels,height,width] */
    uint32_t samples, channels, height, width;
} psr_cuda_images_of_bytes_args;

typedef struct psr_cuda_image_args {
    const float *x; /* plain [samples,channels,height,width] */
    void *y;        /* [samples,channels_wide,height,width] */
    uint32_t type, samples, channels, channels_wide, height, width;
} psr_cuda_image_args;

/* One tensor. */
typedef struct psr_cuda_filter_args {
    const float *w; /* plain [out,in,height,width] */
    void *y;        /* [out,in_wide,height,width]; further inputs are zero */
    uint32_t type, out, in, in_wide, height, width;
} psr_cuda_filter_args;

typedef struct psr_cuda_filter_gradient_args {
    const float *x; /* [out,in_wide,height,width], float32 */
    float *dw;      /* plain [out,in,height,width] */
    uint32_t out, in, in_wide, height, width;
} psr_cuda_filter_gradient_args;

typedef struct psr_cuda_cast_args {
    const void *x;
    void *y;
    uint32_t from, to; /* psr_cuda_type */
    uint64_t count;
} psr_cuda_cast_args;

/* One block a sample. The arithmetic within a sample is double, as the CPU's; its sum is taken by
 * one fixed tree. */
typedef struct psr_cuda_loss_args {
    const float *logits;           /* [samples,classes] */
    const uint32_t *labels;        /* [samples] */
    const uint32_t *second_labels; /* NULL: one label each */
    const float *shares;
    void *gradient;           /* [samples,classes]; NULL: inference */
    double *losses;           /* [samples] */
    uint32_t *correct, *top5; /* [samples]: 0 or 1 */
    double label_smoothing;
    float scale;
    uint32_t type, samples, classes;
} psr_cuda_loss_args;

typedef struct psr_cuda_loss_total_args {
    const double *losses;
    const uint32_t *correct, *top5;
    double *ret_loss;
    uint32_t *ret_counts; /* [2]: correct, top5 */
    uint32_t samples;
} psr_cuda_loss_total_args;

typedef struct psr_cuda_dropout_args {
    const void *x;
    void *y;                 /* may be x */
    const uint32_t *samples; /* [count]: indices in the data set */
    uint64_t seed;
    float drop, scale;
    uint32_t whole_channels; /* dropout2d */
    uint32_t epoch, node;
    uint32_t type, count, channels, height, width; /* count: samples */
} psr_cuda_dropout_args;

typedef struct psr_cuda_gate_args {
    const void *x, *s; /* [samples,channels,height,width], [samples,channels] */
    void *y;
    uint32_t type, samples, channels, pixels;
} psr_cuda_gate_args;

typedef struct psr_cuda_gate_backward_args {
    const void *x, *s, *dy;
    void *dx, *ds; /* dx NULL or ds NULL: nobody wants it */
    uint32_t type, samples, channels, pixels;
} psr_cuda_gate_backward_args;

typedef struct psr_cuda_shortcut_args {
    const void *x; /* [samples,in,height,width]; backward: dy, of the output's shape */
    void *y;       /* [samples,out,(height-1)/stride+1,..]; backward: dx */
    uint32_t type, samples, in, out, height, width, stride;
} psr_cuda_shortcut_args;
typedef psr_cuda_shortcut_args psr_cuda_shortcut_backward_args;

typedef struct psr_cuda_flatten_args {
    const void *x;
    void *y;
    uint32_t back; /* from plain rows to NHWC */
    uint32_t type, samples, channels, pixels;
} psr_cuda_flatten_args;

typedef struct psr_cuda_scale_of_norm_args {
    const float *weight, *bias, *mean, *variance; /* [channels] */
    float *scale, *shift;
    float epsilon;
    uint32_t channels;
} psr_cuda_scale_of_norm_args;

typedef struct psr_cuda_norm_gradient_args {
    const void *x, *dy;
    const float *weight, *mean, *variance;
    void *dx;              /* NULL: nobody wants it */
    float *dscale, *dbias; /* both NULL: nobody wants them */
    float epsilon;
    uint32_t type, channels;
    uint64_t rows; /* samples * pixels */
} psr_cuda_norm_gradient_args;

/* c[rows,columns] = a[rows,inner] b[inner,columns] + bias[columns]; inner is summed in order. */
typedef struct psr_cuda_product_args {
    const float *a, *b, *bias; /* bias: NULL or [columns] */
    float *c;
    uint32_t rows, inner, columns;
    uint32_t a_turned, b_turned; /* 1: it lies as [inner,rows], [columns,inner] */
} psr_cuda_product_args;

typedef struct psr_cuda_column_sums_args {
    const void *x; /* [rows,columns] */
    float *y;      /* [columns] */
    uint64_t rows;
    uint32_t type, columns;
} psr_cuda_column_sums_args;

typedef struct psr_cuda_add_args {
    const void *a, *b;
    void *y; /* may be a or b */
    uint32_t type;
    uint64_t count;
} psr_cuda_add_args;

typedef struct psr_cuda_relu_args {
    const void *x;
    const void *dy; /* NULL: y = x where it is above 0; otherwise y = dy there */
    void *y;
    uint32_t type;
    uint64_t count;
} psr_cuda_relu_args;

/* model/optimizers/sgd.c, operation by operation: the same bits. */
typedef struct psr_cuda_sgd_args {
    float *w, *momentum_buffer; /* momentum_buffer: NULL without momentum; it begins as 0 */
    const float *g;
    float lr, momentum, decay;
    uint32_t nesterov;
    uint64_t count;
} psr_cuda_sgd_args;

/* model/optimizers/adam.c, operation by operation: the same bits, from psr_adams_factors
 * (model/optimizers/adams.h), which are computed in double and rounded once. */
typedef struct psr_cuda_adam_args {
    float *w, *m, *v;
    const float *g;
    float mean_take, square_keep, square_take, correction, step, epsilon;
    float decay, keep; /* Adam: keep is 1; AdamW: decay is 0 and keep is 1 - lr decay */
    uint64_t count;
} psr_cuda_adam_args;

typedef struct psr_cuda_finite_args {
    float *x;
    float factor;         /* 1: x is only read */
    uint32_t *not_finite; /* 1 is written when any product is not; otherwise it stays */
    uint64_t count;
} psr_cuda_finite_args;

#endif
