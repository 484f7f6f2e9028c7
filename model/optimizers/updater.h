/* Applies an optimizer to sums of gradients, in every process that updates weights: a shard, a
 * worker that holds buckets, a worker of a ring. A sum arrives in runs of the arena. Each run is
 * checked for numbers that are not finite. Then its range of the weights is updated at the learning
 * rate of its step.
 *
 * An optimizer that needs whole tensors (LARS) cannot update at once, so the updater keeps the
 * sums. The caller says when the sum of a part (a shard's slice, a ring's bucket) is complete. The
 * updater tells the caller when all tensors of a part have been updated
 * (model/optimizers/whole_tensors.h).
 *
 * With --clip-norm C nothing is updated before the Euclidean norm N of the whole gradient is known:
 * the updater keeps the sums and tells each bucket's sum of squares (square_sum.h, over blocks from
 * the bucket's start). When N is known, the gradient is multiplied by min(1, C / (N + 1e-6)), in
 * double, rounded once to a factor, as torch.nn.utils.clip_grad_norm_ has it.
 *
 * With --precision fp16 nothing is updated before it is known that the whole gradient is finite: a
 * bucket with a number that is not has an infinite sum of squares. Then N is infinite, and the step
 * is left out (model/loss_scale.h): it changes nothing, and is no update in the count
 * by which Adam corrects its bias.
 *
 * With --tensorboard-norms the updater keeps the sums too, tells each tensor's sum of squares
 * before anything is clipped, and updates a part when its sum is complete. One thread. */
#ifndef PSR_MODEL_UPDATER_H
#define PSR_MODEL_UPDATER_H

#include "base/span.h"
#include "model/optimizers/optimizer.h"

typedef struct psr_updater psr_updater;

/* All borrowed for life. */
typedef struct psr_updater_options {
    const psr_config *config;
    const psr_layout *layout;
    psr_optimizer *optimizer;
    uint64_t total_steps; /* of the run, for the schedule */
    uint64_t skipped;     /* steps that were left out before (fp16): they are no updates */
    /* With whole tensors: the arena in which sums are kept. Sums that lie there already are not
     * copied. NULL: the updater makes one. */
    float *sums;
    void *context;
    psr_err (*updated)(void *context, uint32_t part); /* if updates wait (psr_updater_waits): all
                                                         tensors of the part have been updated */
    /* --clip-norm, fp16: the runs of all buckets, and who hears the sum of squares of one that has
     * been summed here in this step: INFINITY if it is not finite, and without --clip-norm 0
     * otherwise. */
    const psr_span *buckets;
    uint32_t bucket_count;
    psr_err (*squares)(void *context, uint32_t bucket, double squares);
    /* --tensorboard-norms, with the runs of all buckets above: who hears, in the steps that are
     * due, the sums of squares of a bucket's runs of tensors (tensor_runs.h). */
    psr_err (*tensor_squares)(void *context, uint32_t run, uint64_t step, double squares);
} psr_updater_options;

/* A run of a bucket, summed over all workers (SSP, async: one worker's). Borrowed for the call. */
typedef struct psr_sum {
    uint32_t bucket;
    psr_span span;       /* of the arena */
    uint64_t step;       /* its learning rate is taken; from 0 */
    uint64_t number;     /* of the update of these weights, from 1, with those left out */
    const float *values; /* [span.count] */
} psr_sum;

/* NOMEM. The caller owns *ret_updater. */
PSR_MUST_CHECK psr_err psr_updater_new(const psr_updater_options *options,
                                       psr_updater **ret_updater);
/* NULL allowed. */
void psr_updater_free(psr_updater *updater);

/* Whether updates wait for more than their own elements: for whole tensors, for the norm, or for a
 * part's whole sum, of which --tensorboard-norms takes norms. Then psr_updater_summed must be
 * called, and `updated` is. */
bool psr_updater_waits(const psr_config *config);

/* Must be called before the first sum. weights: the arena, borrowed for life. parts: if updates
 * wait, the parts in which sums arrive, in ascending order, borrowed for the call, each within one
 * bucket; otherwise count is 0. Errors: those of psr_whole_tensors_new. */
PSR_MUST_CHECK psr_err psr_updater_begin(psr_updater *updater, float *weights,
                                         const psr_span *parts, uint32_t count);

/* Takes a sum. NUMERIC: a value in it is not finite (psr_updater_not_finite), and no step may be
 * left out. */
PSR_MUST_CHECK psr_err psr_updater_take(psr_updater *updater, const psr_sum *sum);
/* If updates wait: the sum of the part in that step is complete. Errors: those of `updated` and of
 * `squares`. */
PSR_MUST_CHECK psr_err psr_updater_summed(psr_updater *updater, uint32_t part, uint64_t step);
/* --clip-norm, fp16: the norm of the step's gradient is known, and all parts have been summed: all
 * are updated, or with a norm that is not finite none. Errors: those of `updated`. */
PSR_MUST_CHECK psr_err psr_updater_norm_known(psr_updater *updater, uint64_t step, double norm);
/* The factor by which --clip-norm scales a gradient of that norm. Pure. */
float psr_clip_factor(const psr_config *config, double norm);

/* Returns NUMERIC and sets the message: a gradient of that bucket, or its sum, is not finite. */
PSR_MUST_CHECK psr_err psr_updater_not_finite(uint64_t step, uint32_t bucket);

#endif
