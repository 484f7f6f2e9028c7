/* Applies an optimizer to sums of gradients, in every process that updates weights: a shard, a
 * worker that holds buckets, a worker of a ring. A sum comes in runs of the arena. Each run is
 * checked for numbers that are not finite, and its range of the weights is updated at the learning
 * rate of its step.
 *
 * An optimizer that needs whole tensors (LARS) cannot do that at once: the sums are kept. The
 * caller says when the sum of a part (a shard's slice, a ring's bucket) is complete, and hears when
 * all tensors of a part have been updated (model/optimizers/whole_tensors.h). One thread. */
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
    /* Whole tensors: the arena in which sums are kept; sums that lie there already are not copied.
     * NULL: an arena of its own. */
    float *sums;
    void *context;
    psr_err (*updated)(void *context, uint32_t part); /* whole tensors: all tensors of
                                                         the part have been updated */
} psr_updater_options;

/* A run of a bucket, summed over all workers (SSP, async: one worker's). Borrowed for the call. */
typedef struct psr_sum {
    uint32_t bucket;
    psr_span span;       /* of the arena */
    uint64_t step;       /* whose learning rate is taken, from 0 */
    uint64_t number;     /* of the update of these weights, from 1 */
    const float *values; /* [span.count] */
} psr_sum;

/* NOMEM. The caller owns *ret_updater. */
PSR_MUST_CHECK psr_err psr_updater_new(const psr_updater_options *options,
                                       psr_updater **ret_updater);
/* NULL allowed. */
void psr_updater_free(psr_updater *updater);

/* To be called before the first sum. weights: their arena, borrowed for life. parts: with whole
 * tensors the parts in which sums come, ascending, borrowed for the call; else count is 0. Errors:
 * psr_whole_tensors_new's. */
PSR_MUST_CHECK psr_err psr_updater_begin(psr_updater *updater, float *weights,
                                         const psr_span *parts, uint32_t count);

/* Takes a sum. NUMERIC: it is not finite (psr_updater_not_finite). */
PSR_MUST_CHECK psr_err psr_updater_take(psr_updater *updater, const psr_sum *sum);
/* Whole tensors: the part's whole sum of that step has come. Errors: those of `updated`. */
PSR_MUST_CHECK psr_err psr_updater_summed(psr_updater *updater, uint32_t part, uint64_t step);

/* Returns NUMERIC with the line for a person: a gradient of that bucket, or its sum, is not
 * finite. */
PSR_MUST_CHECK psr_err psr_updater_not_finite(uint64_t step, uint32_t bucket);

#endif
