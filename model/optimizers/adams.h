/* What Adam, AdamW and LAMB share: options, state, and the factors of one update. Private to
 * model/'s optimizers, and to model/cuda/update.c, which makes the updates of Adam and AdamW on a
 * GPU. */
#ifndef PSR_MODEL_ADAMS_H
#define PSR_MODEL_ADAMS_H

#include "model/optimizers/optimizer_rule.h"

/* USAGE: an option's value cannot work; name is the optimizer's, for the message. */
PSR_MUST_CHECK psr_err psr_adams_check(const psr_config *config, const char *name);
uint32_t psr_adams_slots(const psr_config *config, const char *ret_names[PSR_OPTIMIZER_SLOTS_MAX]);

/* Of update t, computed in double and rounded once. */
typedef struct psr_adams_factors {
    float mean_take;                /* 1 - beta1 */
    float square_keep, square_take; /* beta2, 1 - beta2 */
    float mean_correction;          /* 1 / (1 - beta1^t) */
    float correction;               /* sqrt(1 - beta2^t) */
    float step;                     /* -lr / (1 - beta1^t) */
    float epsilon;
} psr_adams_factors;

psr_adams_factors psr_adams_factors_of(const psr_config *config, const psr_update *update);

/* How the weight decay of one update enters: into the gradient (Adam: decay; keep is 1), or beside
 * it (AdamW, decoupled: keep, by which the weights are multiplied; decay is 0). */
typedef struct psr_adam_decay {
    float decay, keep;
} psr_adam_decay;

psr_adam_decay psr_adam_decay_of(bool decoupled, const psr_update *update);

#endif
