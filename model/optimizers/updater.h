/* An optimizer at work on sums of gradients, for whoever makes the updates of a run: a shard, a worker that holds buckets, a worker of a
 * ring. A sum comes in runs of the arena. Each is checked, and its range of the weights updated at the learning rate of its step.
 *
 * With an optimizer that needs whole tensors (LARS) what comes is kept: a part (a shard's slice, a ring's bucket) says when its sum is
 * there, and is new when its tensors have been updated (model/optimizers/whole_tensors.h). One thread. */
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
    /* Whole tensors: the arena in which sums are kept, of which what is there already is not copied; NULL: of its own. */
    float *sums;
    void *context;
    psr_err (*updated)(void *context, uint32_t part); /* whole tensors: the part is new */
} psr_updater_options;

/* A run of a bucket, summed over all workers (SSP, async: one worker's). Borrowed for the call. */
typedef struct psr_sum {
    uint32_t bucket;
    psr_span span;       /* of the arena */
    uint64_t step;       /* whose learning rate is taken, from 0 */
    uint64_t number;     /* of the update of these weights, from 1 */
    const float *values; /* [span.count] */
} psr_sum;

/* NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_updater_new(const psr_updater_options *options, psr_updater **ret_updater);
/* NULL allowed. */
void psr_updater_free(psr_updater *updater);

/* Before the first sum: the arena of the weights, borrowed for life, and (whole tensors; else 0) the parts in which sums come, ascending,
 * borrowed for the call. Fails as psr_whole_tensors_new. */
PSR_MUST_CHECK psr_err psr_updater_begin(psr_updater *updater, float *weights, const psr_span *parts,
                                         uint32_t count);

/* NUMERIC: it is not finite (psr_updater_not_finite). */
PSR_MUST_CHECK psr_err psr_updater_take(psr_updater *updater, const psr_sum *sum);
/* Whole tensors: all of the part's sum of that step has come. Fails as `updated` does. */
PSR_MUST_CHECK psr_err psr_updater_summed(psr_updater *updater, uint32_t part, uint64_t step);

/* NUMERIC, in the words for a person: a gradient of that bucket, or its sum, is not finite. */
PSR_MUST_CHECK psr_err psr_updater_not_finite(uint64_t step, uint32_t bucket);

#endif
