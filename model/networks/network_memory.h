/* Estimates from a network's description how much memory a worker needs to train it. psring doctor
 * uses this before a run, to check whether hosts have enough. Pure; any thread.
 *
 *     fixed   = BASE + 4 (3 + states) P         P parameters: weights, gradients, weights as a
 *                                               library lays them out, and the optimizer's arrays
 *     sample  = 4 (V + 2 L)                     V: all values that are kept, L: the largest one
 *     worker  = fixed + batch * sample
 *
 * A value is kept when the backward pass reads it again. Activations, additions and reshapes are
 * computed in place, so they take no memory of their own. Gradients of values reuse memory of later
 * values that are no longer needed (model/pass_buffers.h), except for two of the largest gradients,
 * which 2 L stands for. BASE is the memory of programs, libraries and threads.
 * docs/doctor.md compares the estimate with real runs. */
#ifndef PSR_MODEL_NETWORK_MEMORY_H
#define PSR_MODEL_NETWORK_MEMORY_H

#include "model/networks/network.h"

typedef struct psr_network_memory {
    uint64_t fixed_bytes;  /* independent of the batch */
    uint64_t sample_bytes; /* for each sample of the batch */
} psr_network_memory;

/* states: how many arrays as large as the weights the optimizer has (sgd and lars with momentum: 1,
 * adam: 2). */
psr_network_memory psr_network_memory_of(const psr_network *net, uint32_t states);

/* The same for a run with these options: with the arrays that its optimizer has and those in which
 * --accumulate adds gradients, and the batches that are loaded ahead. In mode local one process has
 * every rank's gradients and their sum. With --precision bf16 values take half as much.
 * beside_shards: in mode ps, which shards have the optimizer's arrays and are counted apart;
 * otherwise workers are counted with them, as if the shards ran on the same hosts. */
psr_network_memory psr_network_memory_for(const psr_network *net, const psr_config *config,
                                          bool beside_shards);

#endif
