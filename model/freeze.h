/* --freeze and --freeze-bn: marks what of a network is not trained.
 *
 * A frozen tensor keeps its weights: it gets no gradient, no bucket that is exchanged has it
 * (model/layout.h), and the optimizer never sees it. A node whose value depends on no trained
 * parameter is fixed: the backward pass does not reach it. A batch norm whose weight and bias are
 * both frozen trains on by the batch's statistics and moves the running ones, as PyTorch's with
 * requires_grad=False; with --freeze-bn it is held: it normalises by the running ones, and they
 * stay, as PyTorch's in eval(). No state; any thread. */
#ifndef PSR_MODEL_FREEZE_H
#define PSR_MODEL_FREEZE_H

#include "base/config/config.h"
#include "model/networks/network.h"

/* Marks them. USAGE: a pattern matches no tensor (the message names the nearest layer or tensor);
 * nothing is left to train; --freeze-bn without a batch norm that is frozen whole. */
PSR_MUST_CHECK psr_err psr_freeze(const psr_config *config, psr_network *net);

#endif
