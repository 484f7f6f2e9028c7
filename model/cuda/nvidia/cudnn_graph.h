/* A graph in cuDNN's descriptors. */
#ifndef PSR_MODEL_CUDA_CUDNN_GRAPH_H
#define PSR_MODEL_CUDA_CUDNN_GRAPH_H

#include "model/cuda/graph.h"
#include "model/cuda/nvidia/wall.h"

/* Every tensor has its attributes, every operation one or two descriptors, the graph its own. */
#define PSR_CUDNN_DESCRIPTORS (PSR_CUDA_GRAPH_TENSORS + 2 * PSR_CUDA_GRAPH_OPERATIONS + 1)

typedef struct psr_cudnn_graph {
    const psr_cuda_wall *wall;
    cudnnBackendDescriptor_t made[PSR_CUDNN_DESCRIPTORS];
    uint32_t made_count;
    cudnnBackendDescriptor_t whole; /* one of made */
} psr_cudnn_graph;

/* A call of cuDNN, whose failure becomes COMPUTE, or UNSUPPORTED where cuDNN says so, with its own
 * words. */
PSR_MUST_CHECK psr_err psr_cudnn_check(const psr_cuda_wall *wall, cudnnStatus_t status,
                                       const char *what);

/* A text that cuDNN writes of a descriptor, a zero behind it. The caller owns *ret_text: free().
 * COMPUTE, UNSUPPORTED: it has none; COMPUTE: one of more than `most` bytes; NOMEM. */
PSR_MUST_CHECK psr_err psr_cudnn_read_text(const psr_cuda_wall *wall,
                                           cudnnBackendDescriptor_t descriptor,
                                           cudnnBackendAttributeName_t name, size_t most,
                                           const char *what, char **ret_text, size_t *ret_bytes);

/* psr_cudnn_graph_done also after a failure. */
PSR_MUST_CHECK psr_err psr_cudnn_graph_init(const psr_cuda_wall *wall, const psr_cuda_graph *graph,
                                            psr_cudnn_graph *ret_graph);
void psr_cudnn_graph_done(psr_cudnn_graph *graph);

#endif
