/* A network with its weights as an ONNX model (onnx/onnx.proto, operator set 13), for inference:
 *
 *   image  x[N,C,H,W] float32, pixels on the scale of 0 to 1; the model subtracts the mean and
 *          divides by the deviation that training used, if they are given
 *   logits y[N,classes] float32
 *
 * N is free. Batch norms use running statistics, dropout does nothing. One thread. */
#ifndef PSR_WORKER_STORED_ONNX_H
#define PSR_WORKER_STORED_ONNX_H

#include "base/err.h"
#include "model/networks/network.h"

typedef struct psr_onnx_options {
    const psr_network *net;
    const float *weights, *buffers; /* arenas by the net's layouts */
    const float *mean, *deviation;  /* [channels]; NULL: the model does not normalise */
    const char *const *metadata;    /* pairs, NULL-terminated */
} psr_onnx_options;

/* Everything is borrowed for the call. UNSUPPORTED: a node of a kind that this knows not, by its
 * name, or a build without protobuf-c; NOMEM. The caller owns *ret_bytes: free(). */
PSR_MUST_CHECK psr_err psr_onnx_make(const psr_onnx_options *options, void **ret_bytes,
                                     size_t *ret_size);

#endif
