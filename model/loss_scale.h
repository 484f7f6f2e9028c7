/* The scale of the loss in a run of --precision fp16, as torch.amp.GradScaler has it.
 *
 * fp16 has no numbers below 2^-24, and gradients of activations are smaller. So the gradient of the
 * loss is multiplied by a scale before it goes back through the network, and gradients of weights,
 * which are float32, are divided by it. What overflows on the way is infinite, and so is the sum
 * over all workers that it is in. A step with such a sum is left out by all, and halves the scale;
 * growth_steps others in a row double it. Scales are powers of two, so that they round nothing.
 *
 * It is a function of --loss-scale and of which steps were left out: every worker has the same.
 * Part of a checkpoint. Plain data; any thread. */
#ifndef PSR_MODEL_LOSS_SCALE_H
#define PSR_MODEL_LOSS_SCALE_H

#include "base/config/config.h"

typedef struct psr_loss_scale {
    uint32_t scale;   /* 0: the loss is not scaled */
    uint32_t taken;   /* steps that were taken since the scale was changed, or one was left out */
    uint64_t skipped; /* steps that were left out since the run's first, in fp16 */
} psr_loss_scale;

/* Of a run's first step. saved: of the checkpoint that it goes on from; zeros: there is none. If
 * the loss is not scaled (any more), it has but the steps that were left out before, which count as
 * no updates; if it was not scaled before, it begins with --loss-scale. */
psr_loss_scale psr_loss_scale_first(const psr_config *config, const psr_loss_scale *saved);
/* Whether a checkpoint has it. */
bool psr_loss_scale_is_saved(const psr_loss_scale *scale);

/* A step has ended; taken: its gradient was finite. NUMERIC: it was not, at the least scale, so
 * that the scale is not why. */
PSR_MUST_CHECK psr_err psr_loss_scale_step(const psr_config *config, bool taken,
                                           psr_loss_scale *scale);

/* As numbers of a checkpoint's tensor, each a float. */
#define PSR_LOSS_SCALE_TENSOR "loss_scale"
enum { PSR_LOSS_SCALE_NUMBERS = 4 };
void psr_loss_scale_to_floats(const psr_loss_scale *scale,
                              float ret_numbers[static PSR_LOSS_SCALE_NUMBERS]);
/* false: no scale has these numbers. */
bool psr_loss_scale_from_floats(const float numbers[static PSR_LOSS_SCALE_NUMBERS],
                                psr_loss_scale *ret_scale);

#endif
