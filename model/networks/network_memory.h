/* Estimates how much memory a worker needs to train a network, from the network's description
 * alone. psring doctor uses it before a run, to tell whether hosts have enough. Pure; any thread.
 *
 *     fixed   = BASE + 4 (3 + states) P         P parameters: weights, gradients, weights as a
 *                                               library lays them out, and the optimizer's arrays
 *     sample  = 4 (V + 2 L)                     V: all values that are kept, L: the largest one
 *     worker  = fixed + batch * sample
 *
 * A value is kept when the backward pass reads it again. Activations, additions and reshapes are
 * computed in place, so they count nothing of their own. Gradients of values take memory that later
 * values no longer need (model/onednn/buffers.h), except two where they are largest. BASE is
 * programs, libraries and threads. In mode ps the optimizer's arrays are in the shards, which run
 * on one of these hosts too. docs/doctor.md has the estimate beside what runs took. */
#ifndef PSR_MODEL_NETWORK_MEMORY_H
#define PSR_MODEL_NETWORK_MEMORY_H

#include "model/networks/network.h"

typedef struct psr_network_memory {
    uint64_t fixed_bytes;  /* whatever the batch */
    uint64_t sample_bytes; /* more for each sample of the batch */
} psr_network_memory;

/* states: arrays of the optimizer's as large as the weights (sgd and lars with momentum: 1, adam:
 * 2). */
psr_network_memory psr_network_memory_of(const psr_network *net, uint32_t states);

#endif
