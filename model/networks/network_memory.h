/* What a worker needs of memory to train a network: an estimate from its description alone, for who asks before a run whether hosts have
 * enough (psring doctor). Pure; any thread.
 *
 *     fixed   = BASE + 4 (3 + states) P         P parameters: weights, gradients, weights as a library lays them out, and the optimizer's arrays
 *     sample  = 4 (V + 2 L)                     V: all values that are kept, L: the largest one
 *     worker  = fixed + batch * sample
 *
 * Kept is what the backward pass reads again. Activations, sums and shapes are made in place of what they read, so they count nothing of their own.
 * Gradients of values live in what values behind them have left (model/onednn/buffers.h), but for two at the place where they are largest. BASE is
 * programs, libraries and threads. In mode ps the optimizer's arrays are the shard's, which is on one of these hosts too. docs/doctor.md has the
 * estimate beside what runs took. */
#ifndef PSR_MODEL_NETWORK_MEMORY_H
#define PSR_MODEL_NETWORK_MEMORY_H

#include "model/networks/network.h"

typedef struct psr_network_memory {
    uint64_t fixed_bytes;  /* whatever the batch */
    uint64_t sample_bytes; /* more for each sample of the batch */
} psr_network_memory;

/* states: arrays of the optimizer's as large as the weights (sgd and lars with momentum: 1, adam: 2). */
psr_network_memory psr_network_memory_of(const psr_network *net, uint32_t states);

#endif
