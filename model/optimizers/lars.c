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
 * The norms are sums of squares in double, over blocks of 4096 elements from the tensor's start;
 * within a block in 8 lanes (element i into lane i mod 8) that are added as a fixed tree; blocks
 * are added in order. So they are a function of the values alone: not of vector width, buckets or
 * shards. Steps 2 and the factor of step 3 are double, rounded once. */
#include "model/optimizers/optimizer_rule.h"

#include "base/arrays/multiversion.h"

#include <math.h>

#define NORM_BLOCK 4096
#define NORM_LANES 8

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

static uint32_t slot_count(const psr_config *config)
{
    (void)config;
    return 1;
}

/* The square of a float is exact in double. */
PSR_MULTIVERSION static double block_square_sum(const float *x, size_t count)
{
    double lane[NORM_LANES] = {0};
    size_t i = 0;
    for (; i + NORM_LANES <= count; i += NORM_LANES)
        for (size_t l = 0; l < NORM_LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < count; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double norm(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i += NORM_BLOCK)
        sum += block_square_sum(x + i, count - i < NORM_BLOCK ? count - i : NORM_BLOCK);
    return sqrt(sum);
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
        decay = config->weight_decay;
        double w_norm = norm(update->weights, update->count);
        double denominator = norm(update->gradients, update->count) + decay * w_norm;
        if (w_norm > 0 && denominator > 0)
            trust = config->lars_trust * w_norm / denominator;
    }
    update_velocity(update->weights, update->gradients, update->slots[0], update->count,
                    (float)((double)update->lr * trust), (float)decay, (float)config->momentum);
}

const psr_optimizer_rule psr_rule_lars = {
    .whole_tensors = true,
    .slot_names = {"momentum"},
    .check = check,
    .slot_count = slot_count,
    .apply = apply,
};
