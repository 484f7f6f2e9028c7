/* Optimizers. The same code runs in the shards in PS mode, and in each worker over the whole arena
 * in ring mode. SGD with momentum, Nesterov and weight decay exactly as torch.optim.SGD (dampening
 * 0); Adam as torch.optim.Adam (L2 weight decay into the gradient), AdamW as torch.optim.AdamW,
 * RMSprop as torch.optim.RMSprop; LARS after You, Gitman, Ginsburg, "Large batch training of
 * convolutional networks" (2017), algorithm 1, and LAMB after You et al., "Large batch optimization
 * for deep learning" (2020), algorithm 2, tensors of rank 1 without adaptation or decay.
 *
 * With --ema the average of the weights (model/optimizers/ema.h) is the last of the state arrays.
 *
 * State arrays are as large as the arena and use its offsets. The system gives memory only to pages
 * that are used, so a shard that owns a tenth of the buckets takes a tenth of the memory. The new
 * value of an element depends on that element alone (with LARS and LAMB also on two norms of its
 * tensor, model/optimizers/square_sum.h). So the way in which ranges are cut changes no bit. One
 * thread at a time. */
#ifndef PSR_MODEL_OPTIMIZER_H
#define PSR_MODEL_OPTIMIZER_H

#include "base/config/config.h"
#include "model/layout.h"

#define PSR_OPTIMIZER_SLOTS_MAX 3 /* state arrays, without that of --ema */

typedef struct psr_optimizer psr_optimizer;

/* layout is borrowed for life. USAGE: the optimizer cannot work with an option's value; the message
 * names the option. NOMEM. The caller owns *ret_optimizer: psr_optimizer_free. */
PSR_MUST_CHECK psr_err psr_optimizer_new(const psr_config *config, const psr_layout *layout,
                                         psr_optimizer **ret_optimizer);
void psr_optimizer_free(psr_optimizer *optimizer);

/* True if updates need whole tensors (LARS, LAMB); then only psr_optimizer_update_tensor may be
 * used. */
bool psr_optimizer_whole_tensors(const psr_optimizer *optimizer);

/* Updates [offset, offset + length) of weights from the summed gradient. Both are whole arenas. lr
 * is the learning rate of this update (psr_schedule_lr). update counts the updates of these
 * elements, 1 for the first (Adam's t). */
void psr_optimizer_update(psr_optimizer *optimizer, float *weights, const float *gradients,
                          size_t offset, size_t length, float lr, uint64_t update);
/* The same, but gradient has only the range: gradient[0] belongs to offset. */
void psr_optimizer_update_run(psr_optimizer *optimizer, float *weights, const float *gradient,
                              size_t offset, size_t length, float lr, uint64_t update);
void psr_optimizer_update_tensor(psr_optimizer *optimizer, float *weights, const float *gradients,
                                 size_t tensor, float lr, uint64_t update);

/* For callers that keep the state themselves and use psr_optimizer_apply: checks config's rule.
 * USAGE: the rule cannot work with an option's value, or it needs whole tensors. */
PSR_MUST_CHECK psr_err psr_optimizer_check(const psr_config *config);
/* One update of count weights, at config's lr without a schedule. config has passed
 * psr_optimizer_check. slots: [PSR_OPTIMIZER_SLOTS_MAX], each [count]; the slots that the rule uses
 * are read and written, and must be zero before the first update. Any thread. */
void psr_optimizer_apply(const psr_config *config, float *weights, const float *gradient,
                         float *const *slots, size_t count, uint64_t update);

/* How many state arrays the optimizer of a configuration has, that of --ema included. Pure. */
uint32_t psr_optimizer_slots_of(const psr_config *config);

/* The optimizer's state arrays (slots), for checkpoints. Each is as large as the arena
 * (params.length floats) and has a name ("momentum"; "exp_avg", "exp_avg_sq"; ..). Borrowed for the
 * optimizer's life. */
uint32_t psr_optimizer_slot_count(const psr_optimizer *optimizer);
const char *psr_optimizer_slot_name(const psr_optimizer *optimizer, uint32_t slot);
float *psr_optimizer_slot(psr_optimizer *optimizer, uint32_t slot);
/* The number of the slot that has the average of the weights. false: this config has none. */
bool psr_optimizer_ema_slot(const psr_config *config, uint32_t *ret_slot);

/* The learning rate of a step (from 0) of total steps. Over the first warmup steps it rises
 * linearly: (step + 1) / warmup * lr. After them it follows the schedule. Past total it keeps its
 * last value. Computed in double, rounded once. Pure. */
float psr_schedule_lr(const psr_config *config, uint64_t step, uint64_t total);
/* Whether the step belongs to --warmup. Pure. */
bool psr_schedule_warms_up(const psr_config *config, uint64_t step);

#endif
