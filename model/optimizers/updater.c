#include "model/optimizers/updater.h"

#include "base/arrays/arena.h"
#include "base/arrays/finite.h"
#include "model/optimizers/square_sum.h"
#include "model/optimizers/tensor_runs.h"
#include "model/optimizers/whole_tensors.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 16 Ki floats of weights, gradients and momentum stay in a second-level cache between the check
 * and the update. */
enum { BLOCK = 16384 };

struct psr_updater {
    psr_updater_options options;
    float *weights;
    psr_whole_tensors *whole; /* NULL: elements are updated one by one */
    float *sums;              /* the options', or own_sums; NULL: updates do not wait */
    float *own_sums;
    uint64_t lr_step; /* lr is this step's; UINT64_MAX: none's yet */
    float lr;
    uint64_t summed_step; /* step of the part whose tensors are being updated */
    psr_tensor_runs runs; /* --tensorboard-norms; otherwise zeros */
    uint64_t skipped;     /* steps that were left out */
    /* --clip-norm, --tensorboard-norms, fp16; otherwise NULL */
    psr_span *parts; /* [part_count] */
    uint32_t part_count;
    uint32_t *bucket_of; /* [part] */
    uint32_t *parts_of;  /* [bucket]: its parts here */
    uint32_t *missing;   /* [bucket]: its parts that are not summed yet */
    bool *infinite;      /* [bucket]: fp16: a part of this step has a number that is not finite */
};

static float lr_of(psr_updater *updater, uint64_t step)
{
    if (step != updater->lr_step) {
        updater->lr = psr_schedule_lr(updater->options.config, step, updater->options.total_steps);
        updater->lr_step = step;
    }
    return updater->lr;
}

/* Of the update that is number `number` if none was left out. */
static uint64_t made(const psr_updater *updater, uint64_t number)
{
    return number - updater->skipped;
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
                             sum->span.offset + at, count, lr_of(updater, sum->step),
                             made(updater, sum->number));
    return PSR_OK;
}

/* ---- whole tensors ---- */

static psr_err keep_sum(psr_updater *updater, const psr_sum *sum)
{
    float *kept = updater->sums + sum->span.offset;
    if (!psr_finite(sum->values, sum->span.count)) {
        if (!psr_config_scales_loss(updater->options.config))
            return psr_updater_not_finite(sum->step, sum->bucket);
        assert(sum->bucket < updater->options.bucket_count);
        updater->infinite[sum->bucket] = true;
    }
    if (kept != sum->values)
        memcpy(kept, sum->values, sum->span.count * sizeof *kept);
    return PSR_OK;
}

static void update_tensor(void *context, size_t tensor)
{
    psr_updater *updater = context;
    psr_optimizer_update_tensor(updater->options.optimizer, updater->weights, updater->sums, tensor,
                                lr_of(updater, updater->summed_step),
                                made(updater, updater->summed_step + 1));
}

static psr_err part_updated(void *context, uint32_t part)
{
    const psr_updater *updater = context;
    return updater->options.updated(updater->options.context, part);
}

/* ---- the norm ---- */

bool psr_updater_waits(const psr_config *config)
{
    return psr_config_updates_together(config) || config->tensorboard_norms > 0 ||
           psr_config_updates_whole_tensors(config);
}

float psr_clip_factor(const psr_config *config, double norm)
{
    if (config->clip_norm == 0)
        return 1;
    const double factor = config->clip_norm / (norm + 1e-6);
    return factor < 1 ? (float)factor : 1.0f;
}

static psr_err tell_tensors(psr_updater *updater, uint32_t bucket, uint64_t step)
{
    const psr_updater_options *o = &updater->options;
    const psr_tensor_runs *runs = &updater->runs;
    if (!psr_config_norms_due(o->config, step + 1))
        return PSR_OK;
    for (uint32_t r = runs->first[bucket]; r < runs->first[bucket + 1]; r++) {
        const double squares = psr_tensor_run_squares(&runs->items[r], updater->sums);
        /* of a step that is left out nobody is told norms */
        PSR_TRY(o->tensor_squares(o->context, r, step, isfinite(squares) ? squares : 0));
    }
    return PSR_OK;
}

static psr_err tell_squares(psr_updater *updater, uint32_t bucket)
{
    const psr_updater_options *o = &updater->options;
    const psr_span span = o->buckets[bucket];
    float *sums = updater->sums + span.offset;
    double squares = 0;
    if (updater->infinite[bucket]) {
        squares = INFINITY;
    } else if (o->config->clip_norm > 0) {
        /* What a compression makes of padding's zeros is no gradient. */
        psr_layout_clear_padding(o->layout, span.offset, span.count, sums);
        squares = psr_square_sum(sums, span.count);
    }
    updater->infinite[bucket] = false;
    return o->squares(o->context, bucket, squares);
}

static psr_err part_summed(psr_updater *updater, uint32_t part, uint64_t step)
{
    const psr_updater_options *o = &updater->options;
    const uint32_t b = updater->bucket_of[part];
    if (--updater->missing[b] > 0)
        return PSR_OK;
    updater->missing[b] = updater->parts_of[b];
    PSR_TRY(tell_tensors(updater, b, step));
    return psr_config_updates_together(o->config) ? tell_squares(updater, b) : PSR_OK;
}

static void scale(float *values, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= factor;
}

/* number: of the update, from 1 */
static void update_tensors(psr_updater *updater, uint64_t step, uint64_t number)
{
    const psr_layout *layout = updater->options.layout;
    size_t t = 0;
    for (uint32_t p = 0; p < updater->part_count; p++)
        for (; t < layout->tensor_count &&
               layout->tensors[t].offset < psr_span_end(updater->parts[p]);
             t++)
            if (layout->tensors[t].offset >= updater->parts[p].offset)
                psr_optimizer_update_tensor(updater->options.optimizer, updater->weights,
                                            updater->sums, t, lr_of(updater, step), number);
}

static psr_err tell_updated(const psr_updater *updater)
{
    const psr_updater_options *o = &updater->options;
    for (uint32_t p = 0; p < updater->part_count; p++)
        PSR_TRY(o->updated(o->context, p));
    return PSR_OK;
}

psr_err psr_updater_norm_known(psr_updater *updater, uint64_t step, double norm)
{
    const psr_updater_options *o = &updater->options;
    const bool whole = psr_optimizer_whole_tensors(o->optimizer);
    if (!isfinite(norm)) {
        updater->skipped++;
        return tell_updated(updater);
    }
    const uint64_t number = made(updater, step + 1);
    const float factor = psr_clip_factor(o->config, norm);
    for (uint32_t p = 0; p < updater->part_count && factor < 1; p++)
        scale(updater->sums + updater->parts[p].offset, updater->parts[p].count, factor);
    if (whole)
        update_tensors(updater, step, number);
    for (uint32_t p = 0; p < updater->part_count; p++) {
        const psr_span span = updater->parts[p];
        if (!whole)
            psr_optimizer_update(o->optimizer, updater->weights, updater->sums, span.offset,
                                 span.count, lr_of(updater, step), number);
        PSR_TRY(o->updated(o->context, p));
    }
    return PSR_OK;
}

/* A part lies within one bucket. */
static psr_err follow_parts(psr_updater *updater, const psr_span *parts, uint32_t count)
{
    const psr_updater_options *o = &updater->options;
    updater->parts = calloc((size_t)count + 1, sizeof *updater->parts);
    updater->bucket_of = calloc((size_t)count + 1, sizeof *updater->bucket_of);
    updater->parts_of = calloc((size_t)o->bucket_count + 1, sizeof *updater->parts_of);
    updater->missing = calloc((size_t)o->bucket_count + 1, sizeof *updater->missing);
    updater->infinite = calloc((size_t)o->bucket_count + 1, sizeof *updater->infinite);
    if (updater->parts == NULL || updater->bucket_of == NULL || updater->parts_of == NULL ||
        updater->missing == NULL || updater->infinite == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to follow %" PRIu32 " parts", count);
    updater->part_count = count;
    for (uint32_t p = 0; p < count; p++) {
        uint32_t b = 0;
        while (b < o->bucket_count && (parts[p].offset < o->buckets[b].offset ||
                                       psr_span_end(parts[p]) > psr_span_end(o->buckets[b])))
            b++;
        assert(b < o->bucket_count);
        updater->parts[p] = parts[p];
        updater->bucket_of[p] = b;
        updater->missing[b] = ++updater->parts_of[b];
    }
    return PSR_OK;
}

/* ---- sums ---- */

psr_err psr_updater_take(psr_updater *updater, const psr_sum *sum)
{
    if (updater->sums != NULL)
        return keep_sum(updater, sum);
    for (size_t at = 0; at < sum->span.count; at += BLOCK) {
        size_t left = sum->span.count - at;
        PSR_TRY(update_block(updater, sum, at, left < BLOCK ? left : BLOCK));
    }
    return PSR_OK;
}

psr_err psr_updater_summed(psr_updater *updater, uint32_t part, uint64_t step)
{
    const psr_updater_options *o = &updater->options;
    if (updater->parts != NULL)
        PSR_TRY(part_summed(updater, part, step));
    if (psr_config_updates_together(o->config))
        return PSR_OK;
    updater->summed_step = step;
    if (updater->whole != NULL)
        return psr_whole_tensors_summed(updater->whole, part);
    const psr_span span = updater->parts[part];
    psr_optimizer_update(o->optimizer, updater->weights, updater->sums, span.offset, span.count,
                         lr_of(updater, step), made(updater, step + 1));
    return o->updated(o->context, part);
}

/* ---- life ---- */

psr_err psr_updater_new(const psr_updater_options *options, psr_updater **ret_updater)
{
    psr_updater *updater = calloc(1, sizeof *updater);
    if (updater == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an optimizer");
    updater->options = *options;
    updater->lr_step = UINT64_MAX;
    updater->skipped = options->skipped;
    *ret_updater = updater;
    return PSR_OK;
}

psr_err psr_updater_begin(psr_updater *updater, float *weights, const psr_span *parts,
                          uint32_t count)
{
    const psr_updater_options *o = &updater->options;
    updater->weights = weights;
    if (!psr_updater_waits(o->config))
        return PSR_OK;
    /* Sums that are scaled may not lie where others still read them as they are. */
    if (o->sums == NULL || o->config->clip_norm > 0)
        PSR_TRY(psr_arena_new(o->layout->length, &updater->own_sums));
    updater->sums = updater->own_sums != NULL ? updater->own_sums : o->sums;
    if (psr_config_updates_together(o->config) || o->config->tensorboard_norms > 0)
        PSR_TRY(follow_parts(updater, parts, count));
    if (o->config->tensorboard_norms > 0)
        PSR_TRY(psr_tensor_runs_of(o->layout, o->buckets, o->bucket_count, &updater->runs));
    if (psr_config_updates_together(o->config) || !psr_optimizer_whole_tensors(o->optimizer))
        return PSR_OK;
    const psr_whole_tensors_events events = {updater, update_tensor, part_updated};
    return psr_whole_tensors_new(o->layout, parts, count, &events, &updater->whole);
}

void psr_updater_free(psr_updater *updater)
{
    if (updater == NULL)
        return;
    psr_whole_tensors_free(updater->whole);
    psr_tensor_runs_done(&updater->runs);
    free(updater->parts);
    free(updater->bucket_of);
    free(updater->parts_of);
    free(updater->missing);
    free(updater->infinite);
    psr_arena_free(updater->own_sums, updater->options.layout->length);
    free(updater);
}
