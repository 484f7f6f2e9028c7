/* What the files that build a program share: places, steps, and tensors of graphs that know where
 * they lie. For model/cuda/program*.c alone.
 *
 * The first failure stays in err; what is built after it is thrown away. */
#ifndef PSR_MODEL_CUDA_PROGRAM_BUILD_H
#define PSR_MODEL_CUDA_PROGRAM_BUILD_H

#include "model/cuda/program.h"
#include "model/pass_buffers.h"
#include "model/fusion_groups.h"

#include <stddef.h>

typedef struct psr_cuda_build {
    const psr_network *net;
    uint32_t batch;
    psr_cuda_type type;
    bool training;
    psr_fusion_groups groups;
    const psr_fusion_group *group; /* whose forward steps are built; NULL: no group's */
    psr_cuda_program *program;
    uint32_t step_room, graph_room, place_room;
    psr_pass_buffers buffers;
    /* [node]: places, or PSR_NONE */
    uint32_t *values;         /* its value */
    uint32_t *gradients;      /* the gradient of its value, as far as readers have given it */
    uint32_t *filters;        /* its weights as a graph reads them */
    uint32_t *first, *second; /* of batch norm: mean and 1/deviation; scale and shift; of max
                                 pooling: the index */
    uint32_t tail; /* from this node on values are float32: the logits, and scales behind them */
    psr_err err;
} psr_cuda_build;

/* A graph under construction. */
typedef struct psr_cuda_cut {
    psr_cuda_graph g;
    uint32_t places[PSR_CUDA_GRAPH_TENSORS];
    float numbers[PSR_CUDA_GRAPH_TENSORS];
} psr_cuda_cut;

void psr_cuda_build_forward(psr_cuda_build *b);  /* program_forward.c */
void psr_cuda_build_backward(psr_cuda_build *b); /* program_backward.c */

/* ---- places ---- */

uint32_t psr_cuda_build_room(psr_cuda_build *b, size_t bytes);
uint32_t psr_cuda_build_place(psr_cuda_build *b, psr_cuda_memory memory, size_t offset,
                              size_t bytes);
/* Of one of params or buffers. */
uint32_t psr_cuda_build_weight(psr_cuda_build *b, uint32_t tensor);
uint32_t psr_cuda_build_weight_gradient(psr_cuda_build *b, uint32_t tensor);
uint32_t psr_cuda_build_buffer(psr_cuda_build *b, uint32_t tensor, psr_cuda_memory memory);

/* ---- sizes ---- */

size_t psr_cuda_type_bytes(psr_cuda_type type);
/* With the images' further channels. */
uint32_t psr_cuda_build_channels(const psr_cuda_build *b, uint32_t node);
size_t psr_cuda_build_count(const psr_cuda_build *b, uint32_t node); /* of its value's elements */
/* Whether its value is one number a sample, as a squeezed image's may be. */
bool psr_cuda_build_is_number(const psr_cuda_build *b, uint32_t node);
psr_cuda_type psr_cuda_build_type(const psr_cuda_build *b, uint32_t node); /* of its value */
psr_cuda_window psr_cuda_build_window(const psr_cuda_build *b, uint32_t node);
/* Whether a filter lies in the arena as a graph reads it. */
bool psr_cuda_build_filter_is_plain(const psr_cuda_build *b, uint32_t node);
bool psr_cuda_build_trains(const psr_cuda_build *b, uint32_t tensor);

/* ---- graphs ---- */

void psr_cuda_cut_begin(psr_cuda_cut *cut);
/* Each returns the tensor, which lies at place; PSR_NONE: in a new room. */
uint32_t psr_cuda_cut_value(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, uint32_t place);
/* As of the node's value, in the activations' type: gradients. */
uint32_t psr_cuda_cut_gradient(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, uint32_t place);
uint32_t psr_cuda_cut_filter(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node,
                             psr_cuda_type type, uint32_t place);
uint32_t psr_cuda_cut_channels(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t channels,
                               uint32_t place);
uint32_t psr_cuda_cut_matrix(psr_cuda_build *b, psr_cuda_cut *cut, psr_cuda_type type,
                             uint32_t rows, uint32_t columns, bool transposed, uint32_t place);
uint32_t psr_cuda_cut_number(psr_cuda_cut *cut, double number);
/* Makes a step of it, whose results are the tensors that an operation gives. */
void psr_cuda_cut_end(psr_cuda_build *b, psr_cuda_cut *cut, uint32_t node, bool backward);

/* ---- kernels ---- */

/* The step, to which psr_cuda_build_use then gives its pointers. arguments: copied. */
void psr_cuda_build_kernel(psr_cuda_build *b, uint32_t node, bool backward, psr_cuda_kernel kernel,
                           const psr_cuda_arguments *arguments);
/* Of the newest step. at: the pointer's byte in the arguments. place: PSR_NONE leaves it NULL. */
void psr_cuda_build_use(psr_cuda_build *b, size_t at, uint32_t place, bool written);
#define PSR_CUDA_READS(b, kernel, pointer, place)                                                  \
    psr_cuda_build_use(b, offsetof(psr_cuda_##kernel##_args, pointer), place, false)
#define PSR_CUDA_WRITES(b, kernel, pointer, place)                                                 \
    psr_cuda_build_use(b, offsetof(psr_cuda_##kernel##_args, pointer), place, true)

/* Kernels that both passes have. */
void psr_cuda_build_cast(psr_cuda_build *b, uint32_t node, bool backward, uint32_t x,
                         psr_cuda_type from, uint32_t y, psr_cuda_type to, size_t count);
void psr_cuda_build_dropout(psr_cuda_build *b, uint32_t node, bool backward, uint32_t x,
                            uint32_t y);
/* dy: PSR_NONE in the forward pass. */
void psr_cuda_build_relu(psr_cuda_build *b, uint32_t node, uint32_t x, uint32_t dy, uint32_t y);

#endif
