/* The interface of an optimizer's rule: each rule is one file with one struct of this type. Private
 * to model/'s optimizers. */
#ifndef PSR_MODEL_OPTIMIZER_RULE_H
#define PSR_MODEL_OPTIMIZER_RULE_H

#include "model/optimizers/optimizer.h"

/* One run of elements to update; all borrowed for the call, none overlap. */
typedef struct psr_update {
    float *weights;                        /* w[count], in and out */
    const float *gradients;                /* g[count] */
    float *slots[PSR_OPTIMIZER_SLOTS_MAX]; /* state[count] of each slot in use, in and out */
    size_t count;
    uint32_t rank;   /* rank of the tensor; only for rules that take whole tensors */
    float lr;        /* of this update */
    double decay;    /* weight decay of these elements */
    uint64_t number; /* of this update: 1 for the first */
} psr_update;

typedef struct psr_optimizer_rule {
    bool whole_tensors; /* apply gets one whole tensor, never a piece or several tensors */
    /* USAGE: the rule cannot work with an option's value. */
    psr_err (*check)(const psr_config *config);
    /* The state arrays in use: returns their number and gives their names. */
    uint32_t (*slots)(const psr_config *config, const char *ret_names[PSR_OPTIMIZER_SLOTS_MAX]);
    void (*apply)(const psr_config *config, const psr_update *update);
} psr_optimizer_rule;

extern const psr_optimizer_rule psr_rule_sgd, psr_rule_adam, psr_rule_lars, psr_rule_adamw,
    psr_rule_lamb, psr_rule_rmsprop;

#endif
