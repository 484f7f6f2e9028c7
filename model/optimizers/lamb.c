/* LAMB: You, Li, Reddi, Hseu, Kumar, Bhojanapalli, Song, Demmel, Keutzer, Hsieh, "Large batch
 * optimization for deep learning: training BERT in 76 minutes" (2020), algorithm 2, with phi(z) =
 * z. Per tensor, t = number of the update:
 *
 *   1. m = m + (1 - beta1) * (g - m)
 *   2. s = beta2 * s + (1 - beta2) * g * g
 *   3. u = (m / (1 - beta1^t)) / (sqrt(s) / sqrt(1 - beta2^t) + epsilon) + decay * w
 *   4. trust = |w| / |u|; 1 when one of them is 0
 *   5. w = w - (lr * trust) * u
 *
 * Tensors of rank 1 (biases, batch norm) take lr as it is, and no decay, as with LARS.
 *
 * The norms are those of square_sum.h, of the tensor before the update and of u as floats. The
 * factor of step 5 is double, rounded once. u is not kept: it is computed again from m, s and w. */
#include "model/optimizers/adams.h"

#include "base/arrays/multiversion.h"
#include "model/optimizers/lerp.h"
#include "model/optimizers/square_sum.h"

#include <math.h>

static psr_err check(const psr_config *config)
{
    return psr_adams_check(config, "lamb");
}

PSR_MULTIVERSION static void update_moments(const float *restrict g, float *restrict m,
                                            float *restrict s, size_t count,
                                            const psr_adams_factors *f)
{
    const psr_adams_factors k = *f;
    for (size_t i = 0; i < count; i++) {
        m[i] = psr_lerp(m[i], g[i], k.mean_take);
        s[i] = s[i] * k.square_keep + k.square_take * g[i] * g[i];
    }
}

/* Step 3, for a block. */
PSR_MULTIVERSION static void direction(const float *restrict w, const float *restrict m,
                                       const float *restrict s, size_t count, float decay,
                                       const psr_adams_factors *f, float *restrict u)
{
    const psr_adams_factors k = *f;
    for (size_t i = 0; i < count; i++) {
        const float mean = m[i] * k.mean_correction;
        u[i] = mean / (sqrtf(s[i]) / k.correction + k.epsilon) + decay * w[i];
    }
}

PSR_MULTIVERSION static void move(float *restrict w, const float *restrict u, size_t count,
                                  float rate)
{
    for (size_t i = 0; i < count; i++)
        w[i] -= rate * u[i];
}

static size_t block_of(size_t at, size_t count)
{
    return count - at < PSR_SQUARE_BLOCK ? count - at : PSR_SQUARE_BLOCK;
}

static double direction_norm(const psr_update *update, float decay, const psr_adams_factors *f)
{
    float u[PSR_SQUARE_BLOCK];
    double sum = 0;
    for (size_t i = 0; i < update->count; i += PSR_SQUARE_BLOCK) {
        const size_t count = block_of(i, update->count);
        direction(update->weights + i, update->slots[0] + i, update->slots[1] + i, count, decay, f,
                  u);
        sum += psr_square_sum_block(u, count);
    }
    return sqrt(sum);
}

static void apply(const psr_config *config, const psr_update *update)
{
    float u[PSR_SQUARE_BLOCK];
    const psr_adams_factors f = psr_adams_factors_of(config, update);
    const float decay = update->rank > 1 ? (float)update->decay : 0;
    double trust = 1;
    update_moments(update->gradients, update->slots[0], update->slots[1], update->count, &f);
    if (update->rank > 1) {
        const double w_norm = sqrt(psr_square_sum(update->weights, update->count));
        const double u_norm = direction_norm(update, decay, &f);
        if (w_norm > 0 && u_norm > 0)
            trust = w_norm / u_norm;
    }
    const float rate = (float)((double)update->lr * trust);
    for (size_t i = 0; i < update->count; i += PSR_SQUARE_BLOCK) {
        const size_t count = block_of(i, update->count);
        direction(update->weights + i, update->slots[0] + i, update->slots[1] + i, count, decay, &f,
                  u);
        move(update->weights + i, u, count, rate);
    }
}

const psr_optimizer_rule psr_rule_lamb = {
    .whole_tensors = true, .check = check, .slots = psr_adams_slots, .apply = apply};
