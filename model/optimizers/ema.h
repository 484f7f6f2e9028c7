/* The exponential moving average of the weights (--ema DECAY:EVERY), which whoever updates a bucket
 * keeps as one more slot of its state; and, beside each rank's batch-norm statistics, theirs. After
 * every EVERY-th update, with weights w and average e:
 *
 *   e = e + (1 - DECAY) * (w - e)     torch.optim.swa_utils.get_ema_multi_avg_fn
 *
 * in torch.lerp's order of roundings (lerp.h); 1 - DECAY is computed in double and rounded once. Up
 * to the first averaging, that one too, e is w: torch's AveragedModel begins with a copy. So it is
 * while --warmup lasts, up to the first averaging after it, as in torchvision's recipe. So no
 * correction of early steps is needed: nothing of the initial weights is in e. Elements do not
 * depend on one another. No state; any thread. */
#ifndef PSR_MODEL_EMA_H
#define PSR_MODEL_EMA_H

#include "base/config/config.h"

#define PSR_EMA_SLOT "ema" /* the name of the slot */

static inline bool psr_ema_is_on(const psr_config *config)
{
    return config->ema.decay > 0;
}

/* The values have just had their update of that number, from 1: brings average[count] up to it. */
void psr_ema_follow(const psr_config *config, uint64_t number, const float *values, float *average,
                    size_t count);

#endif
