/* Adam (Kingma, Ba, 2015, algorithm 1) as torch.optim.Adam defines it, in its order of roundings;
 * t = number of the update, everything that does not depend on the element computed in double and
 * rounded once:
 *
 *   d = g + decay * w                          L2, into the gradient
 *   m = m + (1 - beta1) * (d - m)              the form with the smaller rounding error, see lerp
 *                                              below
 *   s = beta2 * s + (1 - beta2) * d * d
 *   w = w - (lr / (1 - beta1^t)) * m / (sqrt(s) / sqrt(1 - beta2^t) + epsilon) */
#include "model/optimizers/optimizer_rule.h"

#include "base/arrays/multiversion.h"

#include <math.h>

static psr_err check(const psr_config *config)
{
    if (config->nesterov)
        return psr_fail(PSR_ERR_USAGE, "--nesterov belongs to --optimizer sgd, not to adam");
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

static uint32_t slot_count(const psr_config *config)
{
    (void)config;
    return 2;
}

/* Factors of one update, rounded to float. */
typedef struct factors {
    float decay;
    float mean_take;                /* 1 - beta1 */
    float square_keep, square_take; /* beta2, 1 - beta2 */
    float step;                     /* -lr / (1 - beta1^t) */
    float correction;               /* sqrt(1 - beta2^t) */
    float epsilon;
} factors;

/* torch.lerp(m, d, take): computed from the end that is nearer. */
static inline float lerp(float m, float d, float take)
{
    return take < 0.5f ? m + take * (d - m) : d - (d - m) * (1.0f - take);
}

PSR_MULTIVERSION static void update_all(float *restrict w, const float *restrict g,
                                        float *restrict m, float *restrict s, size_t count,
                                        const factors *f)
{
    const factors k = *f;
    for (size_t i = 0; i < count; i++) {
        float d = g[i] + k.decay * w[i];
        m[i] = lerp(m[i], d, k.mean_take);
        s[i] = s[i] * k.square_keep + k.square_take * d * d;
        float denominator = sqrtf(s[i]) / k.correction + k.epsilon;
        w[i] += k.step * m[i] / denominator;
    }
}

static void apply(const psr_config *config, const psr_update *update)
{
    double t = (double)update->number;
    factors f = {
        .decay = (float)config->weight_decay,
        .mean_take = (float)(1.0 - config->adam_beta1),
        .square_keep = (float)config->adam_beta2,
        .square_take = (float)(1.0 - config->adam_beta2),
        .step = (float)(-(double)update->lr / (1.0 - pow(config->adam_beta1, t))),
        .correction = (float)sqrt(1.0 - pow(config->adam_beta2, t)),
        .epsilon = (float)config->adam_epsilon,
    };
    update_all(update->weights, update->gradients, update->slots[0], update->slots[1],
               update->count, &f);
}

const psr_optimizer_rule psr_rule_adam = {
    .slot_names = {"exp_avg", "exp_avg_sq"},
    .check = check,
    .slot_count = slot_count,
    .apply = apply,
};
