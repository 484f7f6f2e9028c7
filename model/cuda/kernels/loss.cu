/* Softmax cross entropy: model/loss.h has the formulas, model/loss.c what this is checked beside. */
#include "model/cuda/kernels/device.h"
#include "model/cuda/kernels/values.h"

/* Sums up, over the threads, by one tree: PSR_THREADS is a power of two. All threads call it, and
 * get the sum. */
PSR_DEVICE double psr_loss_sum(double *sums, double value)
{
    sums[PSR_THREAD] = value;
    PSR_BARRIER();
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2) {
        if (PSR_THREAD < half)
            sums[PSR_THREAD] += sums[PSR_THREAD + half];
        PSR_BARRIER();
    }
    const double sum = sums[0];
    PSR_BARRIER();
    return sum;
}

PSR_DEVICE uint32_t psr_loss_count(uint32_t *counts, uint32_t value)
{
    counts[PSR_THREAD] = value;
    PSR_BARRIER();
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2) {
        if (PSR_THREAD < half)
            counts[PSR_THREAD] += counts[PSR_THREAD + half];
        PSR_BARRIER();
    }
    const uint32_t count = counts[0];
    PSR_BARRIER();
    return count;
}

/* The largest logit of all threads'. Threads wait elsewhere before largest is written again. */
PSR_DEVICE float psr_loss_largest(float *largest, float value)
{
    largest[PSR_THREAD] = value;
    PSR_BARRIER();
    for (uint32_t half = PSR_THREADS / 2; half > 0; half /= 2) {
        if (PSR_THREAD < half && largest[PSR_THREAD + half] > largest[PSR_THREAD])
            largest[PSR_THREAD] = largest[PSR_THREAD + half];
        PSR_BARRIER();
    }
    return largest[0];
}

/* A sample's t[k]. */
typedef struct psr_loss_targets {
    uint32_t label, second; /* equal: there is one label */
    double off, on, on_second;
} psr_loss_targets;

PSR_DEVICE psr_loss_targets psr_loss_targets_of(const psr_cuda_loss_args *args, uint32_t n)
{
    const double rest = 1.0 - args->label_smoothing;
    psr_loss_targets of;
    of.label = of.second = args->labels[n];
    of.off = args->label_smoothing / args->classes;
    of.on = of.on_second = of.off + rest;
    if (args->second_labels != NULL && args->second_labels[n] != of.label) {
        const double share = (double)args->shares[n];
        of.second = args->second_labels[n];
        of.on = of.off + rest * share;
        of.on_second = of.off + rest * (1 - share);
    }
    return of;
}

PSR_DEVICE double psr_loss_target(const psr_loss_targets *of, uint32_t k)
{
    return k == of->label ? of->on : k == of->second ? of->on_second : of->off;
}

PSR_KERNEL(loss)
{
    PSR_SHARED(double, sums, PSR_KERNEL_THREADS);
    PSR_SHARED(uint32_t, counts, PSR_KERNEL_THREADS);
    PSR_SHARED(float, largest, PSR_KERNEL_THREADS);
    const uint32_t classes = args.classes;
    for (uint32_t n = PSR_BLOCK; n < args.samples; n += PSR_BLOCKS) {
        const float *x = args.logits + (uint64_t)n * classes;
        const psr_loss_targets of = psr_loss_targets_of(&args, n);
        const float labels = x[of.label];
        float most = x[0];
        uint32_t before = 0; /* logits before the label's, of equal ones those of a lower index */
        for (uint32_t k = PSR_THREAD; k < classes; k += PSR_THREADS) {
            most = x[k] > most ? x[k] : most;
            before += x[k] > labels || (x[k] == labels && k < of.label);
        }
        const double max = (double)psr_loss_largest(largest, most);
        double sum = 0;
        for (uint32_t k = PSR_THREAD; k < classes; k += PSR_THREADS)
            sum += exp((double)x[k] - max);
        const double log_sum = max + log(psr_loss_sum(sums, sum));
        double loss = 0;
        for (uint32_t k = PSR_THREAD; k < classes; k += PSR_THREADS) {
            const double target = psr_loss_target(&of, k), log_p = (double)x[k] - log_sum;
            if (target != 0)
                loss -= target * log_p;
            if (args.gradient != NULL)
                psr_device_set(args.gradient, args.type, (uint64_t)n * classes + k,
                               (float)((exp(log_p) - target) * (double)args.scale));
        }
        loss = psr_loss_sum(sums, loss);
        before = psr_loss_count(counts, before);
        if (PSR_THREAD == 0) {
            args.losses[n] = loss;
            args.correct[n] = before == 0;
            args.top5[n] = before < 5;
        }
    }
}

/* One block: others have nothing to do. */
PSR_KERNEL(loss_total)
{
    PSR_SHARED(double, sums, PSR_KERNEL_THREADS);
    PSR_SHARED(uint32_t, counts, PSR_KERNEL_THREADS);
    if (PSR_BLOCK != 0)
        return;
    double loss = 0;
    uint32_t correct = 0, top5 = 0;
    for (uint32_t n = PSR_THREAD; n < args.samples; n += PSR_THREADS) {
        loss += args.losses[n];
        correct += args.correct[n];
        top5 += args.top5[n];
    }
    loss = psr_loss_sum(sums, loss);
    correct = psr_loss_count(counts, correct);
    top5 = psr_loss_count(counts, top5);
    if (PSR_THREAD == 0) {
        *args.ret_loss = loss;
        args.ret_counts[0] = correct;
        args.ret_counts[1] = top5;
    }
}
