/* The graphs of a network: what a GPU computes in a training step and in inference, node by node.
 *
 * Forward, training: a convolution whose value only batch norms read gives their sums too (in 16
 * bits); batch norm takes the addition and the ReLU behind it along, as the CPU's back end groups
 * them (model/onednn/graph.h). Backward: ReLU's mask before batch norm's gradients, then a
 * convolution's two gradients. Inference: a convolution with the scale and the bias that running
 * statistics give, addition and ReLU.
 *
 * Not graphs, so not among them: the loss, dropout, flattening, shortcuts by subsampling, gates
 * (cuDNN multiplies no image by one number for each sample and channel), the input itself, and
 * whatever works on the parameter arena. No compute library. */
#ifndef PSR_MODEL_CUDA_NETWORK_GRAPHS_H
#define PSR_MODEL_CUDA_NETWORK_GRAPHS_H

#include "model/cuda/graph.h"
#include "model/networks/network.h"

/* Borrowed for the call. node: the first that it computes. */
typedef psr_err (*psr_cuda_take_graph)(void *context, uint32_t node, const psr_cuda_graph *graph);

/* Hands each graph of net with batch samples, activations of type, to take. The first failure of
 * take ends it, and is returned. NOMEM; UNSUPPORTED: a graph without room. */
PSR_MUST_CHECK psr_err psr_cuda_network_graphs(const psr_network *net, uint32_t batch,
                                               psr_cuda_type type, psr_cuda_take_graph take,
                                               void *context);

#endif
