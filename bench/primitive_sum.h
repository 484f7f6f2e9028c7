/* What the direct oneDNN primitives of a network take, each by itself with its own memory in its own
 * favourite layout: convolutions (forward, backward data, backward weights) and batch norms (forward with
 * fused ReLU where a ReLU follows alone, backward). Nothing else: no additions, pooling, weights' reorders,
 * update. */
#ifndef PSR_BENCH_PRIMITIVE_SUM_H
#define PSR_BENCH_PRIMITIVE_SUM_H

#include "model/networks/network.h"

/* Seconds of one training step's primitives: the sum of medians of 3. NOMEM, COMPUTE. */
PSR_MUST_CHECK psr_err primitive_sum(const psr_network *net, uint32_t batch, bool bf16, int threads,
                                     double *ret_s);

#endif
