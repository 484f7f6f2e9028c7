/* Dropout masks from counter-based random numbers; shared by the back ends.
 *
 * Whether element i of a sample is kept is a function of (seed, epoch, sample's index in the data
 * set, node, i) alone: never of the rank, its position in the batch or the batch size. No mask is
 * stored: the forward and the backward pass both compute it. Any thread; no state. */
#ifndef PSR_MODEL_DROPOUT_H
#define PSR_MODEL_DROPOUT_H

#include "model/backend.h"

/* Sets keep[i], for i < count, to 1 with probability 1 - drop, and otherwise to 0. i counts the
 * elements (dropout: C*H*W, in CHW order, whatever the memory layout is) or the channels
 * (dropout2d: C) of the batch's n-th sample at node. */
void psr_dropout_keep(const psr_batch *batch, uint32_t n, uint32_t node, double drop, uint8_t *keep,
                      size_t count);

/* The factor for kept values: 1 / (1 - drop), rounded once. 0 for drop = 1, where no value is
 * kept. */
float psr_dropout_scale(double drop);

#endif
