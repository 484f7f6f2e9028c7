/* Times the direct oneDNN primitives of a network, each by itself, with its own memory in the
 * layout that oneDNN prefers: convolutions (forward, backward data, backward weights) and batch
 * norms (backward, and forward with a fused ReLU where only a ReLU follows). Additions, pooling,
 * reorders of weights and updates are not included. */
#ifndef PSR_BENCH_PRIMITIVE_SUM_H
#define PSR_BENCH_PRIMITIVE_SUM_H

#include "model/networks/network.h"

/* Seconds of one training step's primitives: the sum of medians of 3. NOMEM, COMPUTE. */
PSR_MUST_CHECK psr_err primitive_sum(const psr_network *net, uint32_t batch, bool bf16, int threads,
                                     double *ret_s);

#endif
