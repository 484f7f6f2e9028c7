/* Optimizers: one piece of code, run by the shard in PS mode and over the whole arena by each
 * worker in ring mode. SGD with momentum, Nesterov and weight decay exactly as torch.optim.SGD
 * (dampening 0); Adam as torch.optim.Adam (L2 weight decay into the gradient); LARS after You,
 * Gitman, Ginsburg, "Large batch training of convolutional networks" (2017), algorithm 1, tensors
 * of rank 1 without adaptation or decay.
 *
 * State and arenas are indexed by arena offset, whole-arena sized and lazily touched, so that a
 * shard that owns a tenth of the buckets uses a tenth of the memory. Every element's new value
 * depends on that element alone (LARS: and on its tensor's two norms, summed in double over fixed
 * blocks of 4096 from the tensor's start), so how ranges are cut changes no bit. One thread at a
 * time. */
#ifndef PSR_MODEL_OPTIMIZER_H
#define PSR_MODEL_OPTIMIZER_H

#include "base/config/config.h"
#include "model/layout.h"

typedef struct psr_optimizer psr_optimizer;

/* layout borrowed for life. USAGE for values that the optimizer cannot work with, by the option's
 * name; NOMEM. The caller owns *ret_optimizer: psr_optimizer_free. */
PSR_MUST_CHECK psr_err psr_optimizer_new(const psr_config *config, const psr_layout *layout,
                                         psr_optimizer **ret_optimizer);
void psr_optimizer_free(psr_optimizer *optimizer);

/* True when updates need whole tensors (LARS): then use psr_optimizer_update_tensor only. */
bool psr_optimizer_whole_tensors(const psr_optimizer *optimizer);

/* Updates [offset, offset + length) of weights from the summed gradient, both whole arenas; lr of
 * this update (psr_schedule_lr), update = 1 for the first update of these elements (Adam's t). */
void psr_optimizer_update(psr_optimizer *optimizer, float *weights, const float *gradients,
                          size_t offset, size_t length, float lr, uint64_t update);
/* The same with the gradient of the range alone: gradient[0] belongs to offset. */
void psr_optimizer_update_run(psr_optimizer *optimizer, float *weights, const float *gradient,
                              size_t offset, size_t length, float lr, uint64_t update);
void psr_optimizer_update_tensor(psr_optimizer *optimizer, float *weights, const float *gradients,
                                 size_t tensor, float lr, uint64_t update);

/* The rule alone, for callers that keep the state themselves. USAGE: values that the rule cannot
 * work with, or a rule that needs whole tensors. */
PSR_MUST_CHECK psr_err psr_optimizer_check(const psr_config *config);
/* One update of count weights, with config's lr as it stands. config has passed
 * psr_optimizer_check. slots: [PSR_OPTIMIZER_SLOTS_MAX], each [count]; the slots that the rule uses
 * are read and written, and must be zero at first. Any thread. */
void psr_optimizer_apply(const psr_config *config, float *weights, const float *gradient,
                         float *const *slots, size_t count, uint64_t update);

/* State arrays for checkpoints: slot i of count, each an arena (params.length floats) with a name
 * ("momentum"; "exp_avg", "exp_avg_sq"). Borrowed for the optimizer's life. */
uint32_t psr_optimizer_slot_count(const psr_optimizer *optimizer);
const char *psr_optimizer_slot_name(const psr_optimizer *optimizer, uint32_t slot);
float *psr_optimizer_slot(psr_optimizer *optimizer, uint32_t slot);

/* Learning rate of step (0-based) of total: linear warm-up over the first warmup steps,
 * (step+1)/warmup
 * * lr, then the schedule over the rest. Computed in double, rounded once. Past total the last rate
 *   stays.
 * Pure. */
float psr_schedule_lr(const psr_config *config, uint64_t step, uint64_t total);

#endif
