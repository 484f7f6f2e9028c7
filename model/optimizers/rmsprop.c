/* RMSprop (Hinton, lecture 6e of "Neural networks for machine learning", 2012) as
 * torch.optim.RMSprop defines it, in its order of roundings; everything that does not depend on the
 * element is computed in double and rounded once:
 *
 *   d = g + decay * w                          L2, into the gradient
 *   s = alpha * s + (1 - alpha) * d * d
 *   a = a + (1 - alpha) * (d - a)              centered alone (Graves, 2013, eq. 38 to 40)
 *   q = sqrt(s) + epsilon                      centered: sqrt(s - a * a) + epsilon
 *   v = momentum * v + d / q,  w = w - lr * v  with momentum
 *   w = w - lr * d / q                         without
 *
 * A variance s - a * a that rounding has made less than 0 is taken as 0, where PyTorch's weights
 * become NaN. */
#include "model/optimizers/optimizer_rule.h"

#include "base/arrays/multiversion.h"
#include "model/optimizers/lerp.h"

#include <math.h>

static psr_err check(const psr_config *config)
{
    if (config->nesterov)
        return psr_fail(PSR_ERR_USAGE, "--nesterov belongs to --optimizer sgd, not to rmsprop");
    if (!(config->momentum >= 0))
        return psr_fail(PSR_ERR_USAGE, "--momentum: %g is below 0", config->momentum);
    if (!(config->rmsprop_alpha >= 0 && config->rmsprop_alpha < 1))
        return psr_fail(PSR_ERR_USAGE, "--rmsprop-alpha: %g is not in [0, 1)",
                        config->rmsprop_alpha);
    /* With 0, an element that never had a gradient (the arena's padding) would become 0 / 0. */
    if (!((float)config->rmsprop_epsilon > 0))
        return psr_fail(PSR_ERR_USAGE, "--rmsprop-epsilon: %g is not above 0 as a float",
                        config->rmsprop_epsilon);
    return PSR_OK;
}

static uint32_t slots(const psr_config *config, const char *ret_names[PSR_OPTIMIZER_SLOTS_MAX])
{
    uint32_t count = 0;
    ret_names[count++] = "square_avg";
    if (config->momentum != 0)
        ret_names[count++] = "momentum";
    if (config->rmsprop_centered)
        ret_names[count++] = "grad_avg";
    return count;
}

/* Factors of one update, rounded to float. */
typedef struct factors {
    float decay, keep, take; /* alpha, 1 - alpha */
    float epsilon, momentum, lr;
} factors;

/* Takes an element's gradient into its mean of squares; returns the decayed gradient. */
static inline float take(const factors *k, float w, float g, float *s)
{
    const float d = g + k->decay * w;
    *s = *s * k->keep + k->take * d * d;
    return d;
}

static inline float deviation(const factors *k, float s, float d, float *a)
{
    *a = psr_lerp(*a, d, k->take);
    const float variance = s - *a * *a;
    return sqrtf(variance > 0 ? variance : 0) + k->epsilon;
}

static inline void move(const factors *k, float *w, float *v, float ratio)
{
    *v = k->momentum * *v + ratio;
    *w -= k->lr * *v;
}

PSR_MULTIVERSION static void update_plain(float *restrict w, const float *restrict g,
                                          float *restrict s, size_t count, const factors *f)
{
    const factors k = *f;
    for (size_t i = 0; i < count; i++) {
        const float d = take(&k, w[i], g[i], &s[i]);
        w[i] -= k.lr * d / (sqrtf(s[i]) + k.epsilon);
    }
}

PSR_MULTIVERSION static void update_momentum(float *restrict w, const float *restrict g,
                                             float *restrict s, float *restrict v, size_t count,
                                             const factors *f)
{
    const factors k = *f;
    for (size_t i = 0; i < count; i++) {
        const float d = take(&k, w[i], g[i], &s[i]);
        move(&k, &w[i], &v[i], d / (sqrtf(s[i]) + k.epsilon));
    }
}

PSR_MULTIVERSION static void update_centered(float *restrict w, const float *restrict g,
                                             float *restrict s, float *restrict a, size_t count,
                                             const factors *f)
{
    const factors k = *f;
    for (size_t i = 0; i < count; i++) {
        const float d = take(&k, w[i], g[i], &s[i]);
        w[i] -= k.lr * d / deviation(&k, s[i], d, &a[i]);
    }
}

PSR_MULTIVERSION static void update_both(float *restrict w, const float *restrict g,
                                         float *restrict s, float *restrict v, float *restrict a,
                                         size_t count, const factors *f)
{
    const factors k = *f;
    for (size_t i = 0; i < count; i++) {
        const float d = take(&k, w[i], g[i], &s[i]);
        move(&k, &w[i], &v[i], d / deviation(&k, s[i], d, &a[i]));
    }
}

static void apply(const psr_config *config, const psr_update *update)
{
    const factors f = {
        .decay = (float)update->decay,
        .keep = (float)config->rmsprop_alpha,
        .take = (float)(1.0 - config->rmsprop_alpha),
        .epsilon = (float)config->rmsprop_epsilon,
        .momentum = (float)config->momentum,
        .lr = update->lr,
    };
    float *const *slots = update->slots;
    if (config->momentum == 0 && !config->rmsprop_centered)
        update_plain(update->weights, update->gradients, slots[0], update->count, &f);
    else if (!config->rmsprop_centered)
        update_momentum(update->weights, update->gradients, slots[0], slots[1], update->count, &f);
    else if (config->momentum == 0)
        update_centered(update->weights, update->gradients, slots[0], slots[1], update->count, &f);
    else
        update_both(update->weights, update->gradients, slots[0], slots[1], slots[2], update->count,
                    &f);
}

const psr_optimizer_rule psr_rule_rmsprop = {.check = check, .slots = slots, .apply = apply};
