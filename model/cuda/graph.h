/* What a GPU computes at once: a few operations on tensors, as plain data. A network is cut into
 * such graphs (model/cuda/network_graphs.h), and a library plans and runs each
 * (model/cuda/nvidia/plan.h). This file and graph.c include nothing of CUDA.
 *
 * Activations x[N,C,H,W] lie as NHWC and weights w[O,I,KH,KW] as OHWI: channels change fastest.
 * Values of a channel are [1,C,1,1] in float32, numbers [1,1,1,1], matrices [1,rows,columns]. An
 * inner tensor is made and used up within the graph, and never stored.
 *
 * A graph is built by the functions below. The first that finds no room left marks the graph as
 * failed; psr_cuda_graph_check, and so planning, reports that. Plain data: one thread at a time. */
#ifndef PSR_MODEL_CUDA_GRAPH_H
#define PSR_MODEL_CUDA_GRAPH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum psr_cuda_type {
    PSR_CUDA_FLOAT32,
    PSR_CUDA_BF16,
    PSR_CUDA_FP16,
    PSR_CUDA_INT8, /* of max pooling: where in its window the largest value lies */
} psr_cuda_type;

typedef struct psr_cuda_tensor {
    psr_cuda_type type;
    uint32_t rank; /* 3 or 4 */
    int64_t dims[4], strides[4];
    bool inner;
    bool by_value; /* a number that is handed over with the call */
} psr_cuda_tensor;

/* The tensors of each, in the order of psr_cuda_operation's. */
typedef enum psr_cuda_operation_kind {
    PSR_CUDA_CONV,          /* x, w -> y */
    PSR_CUDA_CONV_DATA,     /* dy, w -> dx */
    PSR_CUDA_CONV_WEIGHTS,  /* x, dy -> dw */
    PSR_CUDA_STATISTICS,    /* x -> sum, sum of squares of each channel */
    PSR_CUDA_NORM,          /* x, scale, bias, epsilon, running mean and variance before, momentum
                               -> y, mean, 1/deviation, running mean and variance after */
    PSR_CUDA_NORM_BACKWARD, /* x, dy, mean, 1/deviation, scale -> dx, dscale, dbias */
    PSR_CUDA_MAX_POOL,      /* x -> y, index */
    PSR_CUDA_MAX_POOL_BACKWARD,  /* dy, index -> dx */
    PSR_CUDA_MEAN_POOL,          /* x -> y */
    PSR_CUDA_MEAN_POOL_BACKWARD, /* dy -> dx */
    PSR_CUDA_POINTWISE,          /* x [, b] -> y; backward: x of the forward pass, dy -> dx */
    PSR_CUDA_MATMUL,             /* a, b -> c */
} psr_cuda_operation_kind;

typedef enum psr_cuda_pointwise {
    PSR_CUDA_IDENTITY, /* another type */
    PSR_CUDA_ADD,
    PSR_CUDA_MULTIPLY,
    PSR_CUDA_RELU,
    PSR_CUDA_RELU_BACKWARD,
    PSR_CUDA_SIGMOID,
    PSR_CUDA_SIGMOID_BACKWARD,
    PSR_CUDA_GELU,
    PSR_CUDA_GELU_BACKWARD,
} psr_cuda_pointwise;

/* A window that moves over the image: of a convolution or a pool. */
typedef struct psr_cuda_window {
    int64_t height, width, stride, pad;
} psr_cuda_window;

#define PSR_CUDA_OPERATION_TENSORS 12

typedef struct psr_cuda_operation {
    psr_cuda_operation_kind kind;
    psr_cuda_pointwise pointwise; /* of PSR_CUDA_POINTWISE */
    psr_cuda_window window;       /* of convolutions and pools */
    uint32_t tensors[PSR_CUDA_OPERATION_TENSORS];
    uint32_t tensor_count;
} psr_cuda_operation;

#define PSR_CUDA_GRAPH_TENSORS 24
#define PSR_CUDA_GRAPH_OPERATIONS 8

/* Two graphs whose bytes are the same are the same graph. */
typedef struct psr_cuda_graph {
    psr_cuda_tensor tensors[PSR_CUDA_GRAPH_TENSORS];
    psr_cuda_operation operations[PSR_CUDA_GRAPH_OPERATIONS];
    uint32_t tensor_count, operation_count;
    bool failed;
} psr_cuda_graph;

void psr_cuda_graph_begin(psr_cuda_graph *graph);

/* Each returns the tensor's index. */
uint32_t psr_cuda_image(psr_cuda_graph *graph, psr_cuda_type type, int64_t n, int64_t c, int64_t h,
                        int64_t w);
uint32_t psr_cuda_channels(psr_cuda_graph *graph, int64_t channels); /* float32 */
uint32_t psr_cuda_number(psr_cuda_graph *graph);                     /* float32, by value */
/* transposed: its columns lie in memory one after the other. */
uint32_t psr_cuda_matrix(psr_cuda_graph *graph, psr_cuda_type type, int64_t rows, int64_t columns,
                         bool transposed);
/* A tensor of the shape of like; inner ones are float32, as all sums are. */
uint32_t psr_cuda_like(psr_cuda_graph *graph, uint32_t like, psr_cuda_type type);
uint32_t psr_cuda_inner(psr_cuda_graph *graph, uint32_t like);

/* tensors: in the order that psr_cuda_operation_kind gives. */
void psr_cuda_operate(psr_cuda_graph *graph, psr_cuda_operation_kind kind,
                      const psr_cuda_window *window, const uint32_t *tensors, uint32_t count);
/* b: ignored by modes that read one value. Backward modes: x of the forward pass, b: dy. */
void psr_cuda_point(psr_cuda_graph *graph, psr_cuda_pointwise mode, uint32_t x, uint32_t b,
                    uint32_t y);
bool psr_cuda_reads_two(psr_cuda_pointwise mode);

/* UNSUPPORTED: it has more tensors or operations than there is room for. */
PSR_MUST_CHECK psr_err psr_cuda_graph_check(const psr_cuda_graph *graph);

/* One line for a person: "conv bf16 x[128,3,32,32] w[16,3,3,3] + statistics". */
void psr_cuda_graph_describe(const psr_cuda_graph *graph, char *text, size_t size);
#define PSR_CUDA_GRAPH_TEXT_MAX 400

/* All of it, in words and numbers: two graphs with one text are the same graph, whichever build
 * wrote the text. Cut at size. */
void psr_cuda_graph_spell(const psr_cuda_graph *graph, char *text, size_t size);
#define PSR_CUDA_GRAPH_SPELLED_MAX 8192

#endif
