/* Adam (Kingma, Ba, 2015, algorithm 1) and AdamW (Loshchilov, Hutter, "Decoupled weight decay
 * regularization", 2019, algorithm 2) as torch.optim.Adam and torch.optim.AdamW define them, in
 * their order of roundings; t = number of the update, everything that does not depend on the
 * element computed in double and rounded once:
 *
 *   d = g + decay * w                          Adam: L2, into the gradient
 *   w = w * (1 - lr * decay), d = g            AdamW: beside it
 *   m = m + (1 - beta1) * (d - m)              the form with the smaller rounding error
 *   s = beta2 * s + (1 - beta2) * d * d
 *   w = w - (lr / (1 - beta1^t)) * m / (sqrt(s) / sqrt(1 - beta2^t) + epsilon) */
#include "model/optimizers/adams.h"

#include "base/arrays/multiversion.h"
#include "model/optimizers/lerp.h"

#include <math.h>

/* ---- shared with LAMB ---- */

psr_err psr_adams_check(const psr_config *config, const char *name)
{
    if (config->nesterov)
        return psr_fail(PSR_ERR_USAGE, "--nesterov belongs to --optimizer sgd, not to %s", name);
    if (!(config->adam_beta1 >= 0 && config->adam_beta1 < 1))
        return psr_fail(PSR_ERR_USAGE, "--adam-beta1: %g is not in [0, 1)", config->adam_beta1);
    if (!(config->adam_beta2 >= 0 && config->adam_beta2 < 1))
        return psr_fail(PSR_ERR_USAGE, "--adam-beta2: %g is not in [0, 1)", config->adam_beta2);
    /* With 0, an element that never had a gradient (the arena's padding) would become 0 / 0. */
    if (!((float)config->adam_epsilon > 0))
        return psr_fail(PSR_ERR_USAGE, "--adam-epsilon: %g is not above 0 as a float",
                        config->adam_epsilon);
    return PSR_OK;
}

uint32_t psr_adams_slots(const psr_config *config, const char *ret_names[PSR_OPTIMIZER_SLOTS_MAX])
{
    (void)config;
    ret_names[0] = "exp_avg";
    ret_names[1] = "exp_avg_sq";
    return 2;
}

psr_adams_factors psr_adams_factors_of(const psr_config *config, const psr_update *update)
{
    const double t = (double)update->number;
    const double correction1 = 1.0 - pow(config->adam_beta1, t);
    return (psr_adams_factors){
        .mean_take = (float)(1.0 - config->adam_beta1),
        .square_keep = (float)config->adam_beta2,
        .square_take = (float)(1.0 - config->adam_beta2),
        .mean_correction = (float)(1.0 / correction1),
        .correction = (float)sqrt(1.0 - pow(config->adam_beta2, t)),
        .step = (float)(-(double)update->lr / correction1),
        .epsilon = (float)config->adam_epsilon,
    };
}

/* ---- the rules ---- */

/* decay goes into the gradient (Adam; else 0), keep to the weights (AdamW; else 1: no rounding). */
PSR_MULTIVERSION static void update_all(float *restrict w, const float *restrict g,
                                        float *restrict m, float *restrict s, size_t count,
                                        float decay, float keep, const psr_adams_factors *f)
{
    const psr_adams_factors k = *f;
    for (size_t i = 0; i < count; i++) {
        float d = g[i] + decay * w[i];
        float kept = w[i] * keep;
        m[i] = psr_lerp(m[i], d, k.mean_take);
        s[i] = s[i] * k.square_keep + k.square_take * d * d;
        float denominator = sqrtf(s[i]) / k.correction + k.epsilon;
        w[i] = kept + k.step * m[i] / denominator;
    }
}

psr_adam_decay psr_adam_decay_of(bool decoupled, const psr_update *update)
{
    if (decoupled)
        return (psr_adam_decay){0.0f, (float)(1.0 - (double)update->lr * update->decay)};
    return (psr_adam_decay){(float)update->decay, 1.0f};
}

static void apply(const psr_config *config, const psr_update *update, bool decoupled)
{
    const psr_adams_factors f = psr_adams_factors_of(config, update);
    const psr_adam_decay d = psr_adam_decay_of(decoupled, update);
    update_all(update->weights, update->gradients, update->slots[0], update->slots[1],
               update->count, d.decay, d.keep, &f);
}

static psr_err check_adam(const psr_config *config)
{
    return psr_adams_check(config, "adam");
}

static void apply_adam(const psr_config *config, const psr_update *update)
{
    apply(config, update, false);
}

static psr_err check_adamw(const psr_config *config)
{
    return psr_adams_check(config, "adamw");
}

static void apply_adamw(const psr_config *config, const psr_update *update)
{
    apply(config, update, true);
}

const psr_optimizer_rule psr_rule_adam = {
    .check = check_adam, .slots = psr_adams_slots, .apply = apply_adam};
const psr_optimizer_rule psr_rule_adamw = {
    .check = check_adamw, .slots = psr_adams_slots, .apply = apply_adamw};
