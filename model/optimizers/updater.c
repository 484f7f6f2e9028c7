#include "model/optimizers/updater.h"

#include "base/arrays/arena.h"
#include "base/arrays/finite.h"
#include "model/optimizers/whole_tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* 16 Ki floats of weights, gradients and momentum stay in a second-level cache between the check
 * and the update. */
enum { BLOCK = 16384 };

struct psr_updater {
    psr_updater_options options;
    float *weights;
    psr_whole_tensors *whole; /* NULL: elements are updated one by one */
    float *sums;              /* whole tensors: the options', or own_sums */
    float *own_sums;
    uint64_t lr_step; /* lr is this step's; UINT64_MAX: none's yet */
    float lr;
    uint64_t summed_step; /* step of the part whose tensors are being updated */
};

static float lr_of(psr_updater *updater, uint64_t step)
{
    if (step != updater->lr_step) {
        updater->lr = psr_schedule_lr(updater->options.config, step, updater->options.total_steps);
        updater->lr_step = step;
    }
    return updater->lr;
}

psr_err psr_updater_not_finite(uint64_t step, uint32_t bucket)
{
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the gradient of bucket %" PRIu32
                    " is not finite; a lower --lr may help",
                    step + 1, bucket); /* people count steps from 1 */
}

/* ---- elements ---- */

static psr_err update_block(psr_updater *updater, const psr_sum *sum, size_t at, size_t count)
{
    if (!psr_finite(sum->values + at, count))
        return psr_updater_not_finite(sum->step, sum->bucket);
    psr_optimizer_update_run(updater->options.optimizer, updater->weights, sum->values + at,
                             sum->span.offset + at, count, lr_of(updater, sum->step), sum->number);
    return PSR_OK;
}

/* ---- whole tensors ---- */

static psr_err keep_sum(psr_updater *updater, const psr_sum *sum)
{
    float *kept = updater->sums + sum->span.offset;
    if (!psr_finite(sum->values, sum->span.count))
        return psr_updater_not_finite(sum->step, sum->bucket);
    if (kept != sum->values)
        memcpy(kept, sum->values, sum->span.count * sizeof *kept);
    return PSR_OK;
}

static void update_tensor(void *context, size_t tensor)
{
    psr_updater *updater = context;
    psr_optimizer_update_tensor(updater->options.optimizer, updater->weights, updater->sums, tensor,
                                lr_of(updater, updater->summed_step), updater->summed_step + 1);
}

static psr_err part_updated(void *context, uint32_t part)
{
    const psr_updater *updater = context;
    return updater->options.updated(updater->options.context, part);
}

/* ---- sums ---- */

psr_err psr_updater_take(psr_updater *updater, const psr_sum *sum)
{
    if (updater->whole != NULL)
        return keep_sum(updater, sum);
    for (size_t at = 0; at < sum->span.count; at += BLOCK) {
        size_t left = sum->span.count - at;
        PSR_TRY(update_block(updater, sum, at, left < BLOCK ? left : BLOCK));
    }
    return PSR_OK;
}

psr_err psr_updater_summed(psr_updater *updater, uint32_t part, uint64_t step)
{
    updater->summed_step = step;
    return psr_whole_tensors_summed(updater->whole, part);
}

/* ---- life ---- */

psr_err psr_updater_new(const psr_updater_options *options, psr_updater **ret_updater)
{
    psr_updater *updater = calloc(1, sizeof *updater);
    if (updater == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an optimizer");
    updater->options = *options;
    updater->lr_step = UINT64_MAX;
    *ret_updater = updater;
    return PSR_OK;
}

psr_err psr_updater_begin(psr_updater *updater, float *weights, const psr_span *parts,
                          uint32_t count)
{
    const psr_updater_options *o = &updater->options;
    updater->weights = weights;
    if (!psr_optimizer_whole_tensors(o->optimizer))
        return PSR_OK;
    if (o->sums == NULL)
        PSR_TRY(psr_arena_new(o->layout->length, &updater->own_sums));
    updater->sums = updater->own_sums != NULL ? updater->own_sums : o->sums;
    const psr_whole_tensors_events events = {updater, update_tensor, part_updated};
    return psr_whole_tensors_new(o->layout, parts, count, &events, &updater->whole);
}

void psr_updater_free(psr_updater *updater)
{
    if (updater == NULL)
        return;
    psr_whole_tensors_free(updater->whole);
    psr_arena_free(updater->own_sums, updater->options.layout->length);
    free(updater);
}
