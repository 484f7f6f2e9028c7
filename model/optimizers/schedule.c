/* Learning rates. With W = warmup, t = step - W and T = total - W (the steps after the warm-up),
 * all on the clock of the run (base/config/pace.h), and r = lr * s, where s is what --scale-lr
 * makes of n workers: 1, n or sqrt(n):
 *
 *   step < W   lr + (r - lr) * (step + 1) / W     with --scale-lr: Goyal et al., "Accurate, large
 *                                                 minibatch SGD", 2017, 2.2: gradual warm-up
 *              lr * (step + 1) / W                without it
 *   constant   r
 *   step       r * gamma^floor(t / every)
 *   multistep  r * gamma^(how many milestones are <= t)
 *   cosine     e + (r - e) * (1 + cos(pi * t / T)) / 2
 *                                                 (Loshchilov, Hutter, "SGDR", 2017, eq. 5, one
 *                                                 period, to the end rate e)
 *   poly       r * (1 - t / T)^power
 *   onecycle   Smith, Topin, "Super-convergence", 2018, as torch.optim.lr_scheduler.OneCycleLR with
 *              two phases and cosine annealing: from r / FIRST up to r until step rise * T - 1,
 *              then down to r / (FIRST * LAST) at step T - 1. The momentum stays.
 *
 * Past the end (async runs may push later) t stays at T. */
#include "model/optimizers/optimizer.h"

#include <assert.h>
#include <math.h>

#define PI 3.14159265358979323846

static double clock_steps(const psr_config *config, psr_duration duration)
{
    assert(duration.milli_epochs == 0 || config->pace.unit_steps > 0);
    return (double)psr_duration_steps(duration, config->pace.unit_steps);
}

static double anneal(double from, double to, double part)
{
    return to + (from - to) * (0.5 * (1.0 + cos(PI * part)));
}

static double one_cycle(const psr_lr_schedule *s, double rate, double t, double t_end)
{
    const double first = rate / s->divide_first, top = s->rise * t_end - 1.0, end = t_end - 1.0;
    if (t >= end)
        return first / s->divide_last;
    if (t <= top)
        return anneal(first, rate, t / top);
    return anneal(rate, first / s->divide_last, (t - top) / (end - top));
}

static double scheduled(const psr_config *config, double rate, double t, double t_end)
{
    const psr_lr_schedule *s = &config->schedule;
    const double part = t_end <= 0 || t >= t_end ? 1.0 : t / t_end;
    uint32_t passed = 0;
    switch (s->kind) {
    case PSR_SCHEDULE_CONSTANT:
        return rate;
    case PSR_SCHEDULE_STEP:
        return rate * pow(s->gamma, floor(t / clock_steps(config, s->every)));
    case PSR_SCHEDULE_MULTISTEP:
        while (passed < s->milestone_count && clock_steps(config, s->milestones[passed]) <= t)
            passed++;
        return rate * pow(s->gamma, passed);
    case PSR_SCHEDULE_COSINE:
        return s->end > 0 ? anneal(rate, s->end, part) : rate * (0.5 * (1.0 + cos(PI * part)));
    case PSR_SCHEDULE_POLY:
        return rate * pow(1.0 - part, s->power);
    case PSR_SCHEDULE_ONECYCLE:
        return one_cycle(s, rate, t, t_end);
    }
    return rate;
}

static double scale_of(const psr_config *config)
{
    switch (config->scale_lr) {
    case PSR_SCALE_NONE:
        return 1.0;
    case PSR_SCALE_LINEAR:
        return (double)config->workers;
    case PSR_SCALE_SQRT:
        return sqrt((double)config->workers);
    }
    return 1.0;
}

/* A run by steps is at the fraction step / total, whoever computes it. */
static double clock_at(const psr_config *config, uint64_t step)
{
    const bool by_epochs = !config->pace.by_steps && config->pace.epoch_steps > 0;
    return by_epochs ? psr_pace_clock(&config->pace, step) : (double)step;
}

bool psr_schedule_warms_up(const psr_config *config, uint64_t step)
{
    return clock_at(config, step) < clock_steps(config, config->warmup);
}

float psr_schedule_lr(const psr_config *config, uint64_t step, uint64_t total)
{
    const double now = clock_at(config, step), end = clock_at(config, total),
                 warmup = clock_steps(config, config->warmup), rate = config->lr * scale_of(config);
    if (now < warmup) {
        const double from = config->scale_lr != PSR_SCALE_NONE ? config->lr : 0.0;
        const double done = now + 1.0 < warmup ? now + 1.0 : warmup;
        return (float)(from + (rate - from) * done / warmup);
    }
    return (float)scheduled(config, rate, now - warmup, end > warmup ? end - warmup : 0.0);
}
