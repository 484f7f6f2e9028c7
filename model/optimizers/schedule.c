/* Learning rates. With W = warmup, t = step - W and T = total - W (the steps after the warm-up):
 *
 *   step < W   lr * (step + 1) / W
 *   constant   lr
 *   step       lr * gamma^floor(t / every)
 *   cosine     lr * (1 + cos(pi * t / T)) / 2     (Loshchilov, Hutter, "SGDR", 2017, eq. 5, one
 *                                                 period, to 0)
 *   poly       lr * (1 - t / T)^power
 *
 * Past the end (async runs may push later) t stays at T. */
#include "model/optimizers/optimizer.h"

#include <assert.h>
#include <math.h>

static double factor(const psr_config *config, uint64_t t, uint64_t t_end)
{
    double part = t_end == 0 || t >= t_end ? 1.0 : (double)t / (double)t_end;
    switch (config->schedule) {
    case PSR_SCHEDULE_CONSTANT:
        return 1.0;
    case PSR_SCHEDULE_STEP:
        assert(config->schedule_every > 0);
        return pow(config->schedule_gamma, (double)(t / config->schedule_every));
    case PSR_SCHEDULE_COSINE:
        return 0.5 * (1.0 + cos(3.14159265358979323846 * part));
    case PSR_SCHEDULE_POLY:
        return pow(1.0 - part, config->schedule_power);
    }
    return 1.0;
}

float psr_schedule_lr(const psr_config *config, uint64_t step, uint64_t total)
{
    if (step < config->warmup)
        return (float)(config->lr * ((double)step + 1.0) / (double)config->warmup);
    uint64_t t_end = total > config->warmup ? total - config->warmup : 0;
    return (float)(config->lr * factor(config, step - config->warmup, t_end));
}
