/* The graphs of a network: what of its programs (model/cuda/program.h) a library plans, in the
 * order of a training step and then of an inference. No compute library. */
#ifndef PSR_MODEL_CUDA_NETWORK_GRAPHS_H
#define PSR_MODEL_CUDA_NETWORK_GRAPHS_H

#include "model/cuda/graph.h"
#include "model/networks/network.h"

/* Borrowed for the call. node: the last that it computes. */
typedef psr_err (*psr_cuda_take_graph)(void *context, uint32_t node, const psr_cuda_graph *graph);

/* Hands each graph of net with batch samples, activations of type, to take. The first failure of
 * take ends it, and is returned. Otherwise the errors of psr_cuda_program_new. */
PSR_MUST_CHECK psr_err psr_cuda_network_graphs(const psr_network *net, uint32_t batch,
                                               psr_cuda_type type, psr_cuda_take_graph take,
                                               void *context);

#endif
