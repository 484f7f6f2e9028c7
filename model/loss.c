#include "model/loss.h"

#include <assert.h>
#include <math.h>

void psr_loss_cross_entropy(const psr_real *logits, const uint32_t *labels, uint32_t count,
                            uint32_t classes, double label_smoothing, float loss_scale,
                            psr_real *gradient, psr_pass_result *ret_result)
{
    const double off_target = label_smoothing / classes;
    const double on_target = off_target + (1.0 - label_smoothing);
    psr_pass_result result = {0};
    for (uint32_t n = 0; n < count; n++) {
        const psr_real *x = logits + (size_t)n * classes;
        const uint32_t label = labels[n];
        assert(label < classes);

        uint32_t best = 0;
        for (uint32_t k = 1; k < classes; k++)
            if (x[k] > x[best])
                best = k;
        result.correct += best == label;

        /* log p[k] = x[k] - max - log sum exp(x - max): no overflow, and no log of a rounded p. */
        const double max = x[best];
        double sum = 0;
        for (uint32_t k = 0; k < classes; k++)
            sum += exp(x[k] - max);
        const double log_sum = max + log(sum);
        for (uint32_t k = 0; k < classes; k++) {
            const double target = k == label ? on_target : off_target;
            if (target != 0)
                result.loss_sum -= target * (x[k] - log_sum);
        }
        if (gradient == NULL)
            continue;
        psr_real *dx = gradient + (size_t)n * classes;
        for (uint32_t k = 0; k < classes; k++) {
            const double target = k == label ? on_target : off_target;
            dx[k] = (psr_real)((exp(x[k] - log_sum) - target) * loss_scale);
        }
    }
    *ret_result = result;
}
