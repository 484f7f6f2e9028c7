/* A network as a GPU computes it: a list of steps, each of which is a graph that a library plans
 * (graph.h) or one of our own kernels (kernels/kernels.h), with the memory that each reads and
 * writes. Plain data, and no compute library: what is not right in it can be seen without a GPU.
 *
 * A training program is the forward pass, the loss, and the backward pass; an inference program is
 * the forward pass by running statistics and without dropout, and the loss.
 *
 * Forward: batch norm takes the addition and the ReLU behind it along (model/fusion_groups.h); in
 * inference it is scale and shift behind its convolution. Backward: nodes in reverse; what several
 * readers of a value give is added in that order. An addition hands its gradient on, and flattening
 * of single pixels does nothing, so several places may be one.
 *
 * Matrix products are graphs in 16 bits. In float32 cuDNN has them on tensor cores alone, and a
 * kernel computes them. The logits are float32 in every precision, and so is a scale behind them.
 *
 * One thread at a time; immutable once built. */
#ifndef PSR_MODEL_CUDA_PROGRAM_H
#define PSR_MODEL_CUDA_PROGRAM_H

#include "model/cuda/graph.h"
#include "model/cuda/kernels/kernels.h"
#include "model/networks/network.h"

/* What a place is a part of. */
typedef enum psr_cuda_memory {
    PSR_CUDA_ROOM,          /* activations, their gradients, copies of weights: shared by time */
    PSR_CUDA_WEIGHTS,       /* the arena; offset in bytes, as of all arenas */
    PSR_CUDA_GRADIENTS,     /* the arena's gradients */
    PSR_CUDA_BUFFERS,       /* running statistics, as they were before the pass */
    PSR_CUDA_BUFFERS_AFTER, /* and as training leaves them */
    PSR_CUDA_IMAGES,        /* the batch: float x[N,C,H,W], plain */
    PSR_CUDA_LABELS,        /* uint32 [N] */
    PSR_CUDA_SECOND_LABELS, /* uint32 [N] */
    PSR_CUDA_SHARES,        /* float [N] */
    PSR_CUDA_SAMPLES,       /* uint32 [N] */
    PSR_CUDA_RESULT,        /* psr_cuda_result */
    PSR_CUDA_MEMORY_COUNT,
} psr_cuda_memory;

typedef struct psr_cuda_result {
    double loss;
    uint32_t counts[2]; /* correct, top5 */
} psr_cuda_result;

typedef struct psr_cuda_place {
    psr_cuda_memory memory;
    uint32_t buffer; /* of a room: its index in the program's buffers */
    size_t offset, bytes;
} psr_cuda_place;

typedef union psr_cuda_arguments {
    psr_cuda_image_args image;
    psr_cuda_filter_args filter;
    psr_cuda_filter_gradient_args filter_gradient;
    psr_cuda_cast_args cast;
    psr_cuda_loss_args loss;
    psr_cuda_loss_total_args loss_total;
    psr_cuda_dropout_args dropout;
    psr_cuda_gate_args gate;
    psr_cuda_gate_backward_args gate_backward;
    psr_cuda_shortcut_args shortcut;
    psr_cuda_flatten_args flatten;
    psr_cuda_scale_of_norm_args scale_of_norm;
    psr_cuda_norm_gradient_args norm_gradient;
    psr_cuda_product_args product;
    psr_cuda_column_sums_args column_sums;
    psr_cuda_add_args add;
    psr_cuda_relu_args relu;
} psr_cuda_arguments;

/* One tensor of a step. */
typedef struct psr_cuda_use {
    uint32_t place;
    uint32_t at; /* a graph's tensor; a kernel's: the pointer's byte in its arguments */
    bool written;
} psr_cuda_use;

typedef struct psr_cuda_step {
    uint32_t node; /* its weights, and those of the nodes before it, are here; backward: its
                      gradients are done when the last step of this node is */
    bool backward;
    /* The layer that it is a part of: the first of nodes that are computed as one, and their
     * number. The loss is part of none, and neither are logits' other types: 0 nodes. */
    uint32_t layer, layer_nodes;
    uint32_t graph;                        /* PSR_NONE: it is a kernel */
    float numbers[PSR_CUDA_GRAPH_TENSORS]; /* of a graph: its tensors by value */
    psr_cuda_kernel kernel;
    /* Without pointers; and what changes with each pass is 0: seed and epoch of dropout, the loss's
     * scale and smoothing. */
    psr_cuda_arguments arguments;
    psr_cuda_use uses[PSR_CUDA_GRAPH_TENSORS];
    uint32_t use_count;
} psr_cuda_step;

typedef struct psr_cuda_program {
    uint32_t batch;
    psr_cuda_type type;
    bool training;
    psr_cuda_step *steps; /* forward ones, the loss, backward ones */
    uint32_t step_count;
    psr_cuda_graph *graphs;
    uint32_t graph_count;
    psr_cuda_place *places;
    uint32_t place_count;
    uint32_t logits;   /* a place: float32 [N,classes] */
    size_t room_bytes; /* of all rooms together; their offsets are multiples of 4096 */
} psr_cuda_program;

/* The caller owns *ret_program: psr_cuda_program_free. NOMEM; UNSUPPORTED: something else than
 * convolutions of one group and flattening reads the images, or a graph has no room. */
PSR_MUST_CHECK psr_err psr_cuda_program_new(const psr_network *net, uint32_t batch,
                                            psr_cuda_type type, bool training,
                                            psr_cuda_program **ret_program);
void psr_cuda_program_free(psr_cuda_program *program); /* NULL allowed */

#endif
