/* LARS: You, Gitman, Ginsburg, "Large batch training of convolutional networks" (2017),
 * algorithm 1. Per tensor:
 *
 *   1. |w| and |g|: the Euclidean norms of the tensor and of its gradient
 *   2. trust = lars_trust * |w| / (|g| + decay * |w|); 1 when |w| or the denominator is 0
 *   3. v = momentum * v + (lr * trust) * (g + decay * w)
 *   4. w = w - v
 *
 * Tensors of rank 1 (biases, batch norm) take lr as it is, and no decay. The rate is inside the
 * velocity, as the paper has it, so that a change of lr acts on new gradients only (in
 * torch.optim.SGD it acts on old ones too).
 *
 * The norms are those of square_sum.h. Steps 2 and the factor of step 3 are double, rounded
 * once. */
#include "model/optimizers/optimizer_rule.h"

#include "base/arrays/multiversion.h"
#include "model/optimizers/square_sum.h"

#include <math.h>

static psr_err check(const psr_config *config)
{
    if (config->nesterov)
        return psr_fail(PSR_ERR_USAGE, "--nesterov belongs to --optimizer sgd, not to lars");
    if (!(config->momentum >= 0))
        return psr_fail(PSR_ERR_USAGE, "--momentum: %g is below 0", config->momentum);
    if (!(config->lars_trust > 0))
        return psr_fail(PSR_ERR_USAGE, "--lars-trust: %g is not above 0", config->lars_trust);
    return PSR_OK;
}

static uint32_t slots(const psr_config *config, const char *ret_names[PSR_OPTIMIZER_SLOTS_MAX])
{
    (void)config;
    ret_names[0] = "momentum";
    return 1;
}

PSR_MULTIVERSION static void update_velocity(float *restrict w, const float *restrict g,
                                             float *restrict v, size_t count, float rate,
                                             float decay, float momentum)
{
    for (size_t i = 0; i < count; i++) {
        v[i] = momentum * v[i] + rate * (g[i] + decay * w[i]);
        w[i] -= v[i];
    }
}

static void apply(const psr_config *config, const psr_update *update)
{
    double decay = 0;
    double trust = 1;
    if (update->rank > 1) {
        decay = update->decay;
        double w_norm = sqrt(psr_square_sum(update->weights, update->count));
        double g_norm = sqrt(psr_square_sum(update->gradients, update->count));
        double denominator = g_norm + decay * w_norm;
        if (w_norm > 0 && denominator > 0)
            trust = config->lars_trust * w_norm / denominator;
    }
    update_velocity(update->weights, update->gradients, update->slots[0], update->count,
                    (float)((double)update->lr * trust), (float)decay, (float)config->momentum);
}

const psr_optimizer_rule psr_rule_lars = {
    .whole_tensors = true,
    .check = check,
    .slots = slots,
    .apply = apply,
};
