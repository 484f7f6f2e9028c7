/* Stochastic gradient descent as torch.optim.SGD defines it (dampening 0), in its order of
 * roundings:
 *
 *   d = g + decay * w
 *   v = momentum * v + d            (v starts at 0, so the first v is d)
 *   w = w - lr * d                  without momentum
 *   w = w - lr * v                  with momentum
 *   w = w - lr * (d + momentum * v) with Nesterov momentum
 *
 * PyTorch's CPU kernels fuse each multiplication and addition where the processor can; here every
 * operation rounds, on every processor. */
#include "model/optimizers/optimizer_rule.h"

#include "base/arrays/multiversion.h"

static psr_err check(const psr_config *config)
{
    if (!(config->momentum >= 0))
        return psr_fail(PSR_ERR_USAGE, "--momentum: %g is below 0", config->momentum);
    if (config->nesterov && config->momentum == 0)
        return psr_fail(PSR_ERR_USAGE, "--nesterov needs a --momentum above 0");
    return PSR_OK;
}

static uint32_t slots(const psr_config *config, const char *ret_names[PSR_OPTIMIZER_SLOTS_MAX])
{
    ret_names[0] = "momentum";
    return config->momentum != 0 ? 1 : 0;
}

PSR_MULTIVERSION static void update_plain(float *restrict w, const float *restrict g, size_t count,
                                          float lr, float decay)
{
    for (size_t i = 0; i < count; i++)
        w[i] -= lr * (g[i] + decay * w[i]);
}

PSR_MULTIVERSION static void update_momentum(float *restrict w, const float *restrict g,
                                             float *restrict v, size_t count, float lr, float decay,
                                             float momentum)
{
    for (size_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] + (g[i] + decay * w[i]);
        w[i] -= lr * v[i];
    }
}

PSR_MULTIVERSION static void update_nesterov(float *restrict w, const float *restrict g,
                                             float *restrict v, size_t count, float lr, float decay,
                                             float momentum)
{
    for (size_t i = 0; i < count; i++) {
        float d = g[i] + decay * w[i];
        v[i] = momentum * v[i] + d;
        w[i] -= lr * (d + momentum * v[i]);
    }
}

static void apply(const psr_config *config, const psr_update *update)
{
    float decay = (float)update->decay;
    float momentum = (float)config->momentum;
    if (config->momentum == 0)
        update_plain(update->weights, update->gradients, update->count, update->lr, decay);
    else if (!config->nesterov)
        update_momentum(update->weights, update->gradients, update->slots[0], update->count,
                        update->lr, decay, momentum);
    else
        update_nesterov(update->weights, update->gradients, update->slots[0], update->count,
                        update->lr, decay, momentum);
}

const psr_optimizer_rule psr_rule_sgd = {
    .check = check,
    .slots = slots,
    .apply = apply,
};
