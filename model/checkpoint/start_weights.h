/* Weights to start from (--init): those of a safetensors file that another training wrote, of this
 * network or of one like it. What is taken as it is and what is not:
 *   names    as they are, or all behind "module." (DataParallel, DistributedDataParallel);
 *   types    float32, and float16 and bfloat16, whose values float32 holds exactly;
 *   classes  where the file's classifier (the network's last layer) has another number of outputs,
 *            it keeps its own initial values, weights and biases (transfer learning);
 *   parts    a tensor that is missing or of another shape is refused; with `partial` it keeps its
 *            initial values, if at least one tensor is taken.
 * Tensors that the network does not have are left out. What is not as it was asked for is told. One
 * thread. */
#ifndef PSR_MODEL_START_WEIGHTS_H
#define PSR_MODEL_START_WEIGHTS_H

#include "model/checkpoint/checkpoint.h"
#include "model/networks/network.h"

#define PSR_START_LINES 4

typedef struct psr_start_told {
    char lines[PSR_START_LINES][400];
    uint32_t count;
} psr_start_told;

/* Reads weights (net->params.length floats) and statistics (net->buffers.length), which hold the
 * initial values, over them. FORMAT: tensors are missing, or of another shape or type; the message
 * names them, and nothing was read. IO, and FORMAT of a checksum, leave both undefined. */
PSR_MUST_CHECK psr_err psr_start_weights(const psr_checkpoint *checkpoint, const psr_network *net,
                                         bool partial, float *weights, float *statistics,
                                         psr_start_told *ret_told);

#endif
