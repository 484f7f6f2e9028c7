#include "model/loss.h"

#include <assert.h>
#include <math.h>

/* A sample's t[k]. */
typedef struct targets {
    uint32_t label, second; /* equal: there is one label */
    double off, on, on_second;
} targets;

static targets targets_of(uint32_t label, const psr_second_labels *second, uint32_t n,
                          uint32_t classes, double label_smoothing)
{
    const double off = label_smoothing / classes, rest = 1.0 - label_smoothing;
    if (second == NULL || second->labels[n] == label)
        return (targets){label, label, off, off + rest, off + rest};
    const double share = (double)second->shares[n];
    return (targets){label, second->labels[n], off, off + rest * share, off + rest * (1 - share)};
}

static double target_of(const targets *of, uint32_t k)
{
    return k == of->label ? of->on : k == of->second ? of->on_second : of->off;
}

void psr_loss_cross_entropy(const psr_real *logits, const uint32_t *labels,
                            const psr_second_labels *second, uint32_t count, uint32_t classes,
                            double label_smoothing, float loss_scale, psr_real *gradient,
                            psr_pass_result *ret_result)
{
    psr_pass_result result = {0};
    for (uint32_t n = 0; n < count; n++) {
        const psr_real *x = logits + (size_t)n * classes;
        const uint32_t label = labels[n];
        const targets of = targets_of(label, second, n, classes, label_smoothing);
        assert(label < classes && of.second < classes);

        uint32_t best = 0;
        for (uint32_t k = 1; k < classes; k++)
            if (x[k] > x[best])
                best = k;
        result.correct += best == label;
        uint32_t before = 0;
        for (uint32_t k = 0; k < classes; k++)
            before += x[k] > x[label] || (x[k] == x[label] && k < label);
        result.top5 += before < 5;

        /* log p[k] = x[k] - max - log sum exp(x - max): no overflow, and no log of a rounded p. */
        const double max = x[best];
        double sum = 0;
        for (uint32_t k = 0; k < classes; k++)
            sum += exp(x[k] - max);
        const double log_sum = max + log(sum);
        for (uint32_t k = 0; k < classes; k++) {
            const double target = target_of(&of, k);
            if (target != 0)
                result.loss_sum -= target * (x[k] - log_sum);
        }
        if (gradient == NULL)
            continue;
        psr_real *dx = gradient + (size_t)n * classes;
        for (uint32_t k = 0; k < classes; k++) {
            const double target = target_of(&of, k);
            dx[k] = (psr_real)((exp(x[k] - log_sum) - target) * loss_scale);
        }
    }
    *ret_result = result;
}
