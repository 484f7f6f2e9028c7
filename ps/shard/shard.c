#include "ps/shard/shard.h"

#include "base/arena.h"
#include "base/finite.h"
#include "model/optimizers/optimizer.h"
#include "model/optimizers/whole_tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct psr_shard {
    psr_shard_options options;
    psr_optimizer *optimizer;
    char update[32]; /* the optimizer's name, by which the table finds it */
    psr_table_shard *table;
    float *weights;           /* the table's values */
    psr_whole_tensors *whole; /* NULL: elements are updated one by one, and there are no sums */
    float *sums;              /* arena: of slices whose tensors are not complete */
    uint64_t end;             /* steps at which the run ends */
    uint64_t lr_step;         /* lr is this step's; UINT64_MAX: none's yet */
    float lr;
    uint64_t summed_step; /* of the slice whose tensors are being looked at */
};

static float lr_of(psr_shard *shard, uint64_t step)
{
    if (step != shard->lr_step) {
        shard->lr = psr_schedule_lr(shard->options.config, step, shard->options.total_steps);
        shard->lr_step = step;
    }
    return shard->lr;
}

/* ---- the optimizer as an update ---- */

static psr_err check_finite(const psr_table_run *run)
{
    if (psr_finite(run->pushed, run->span.count))
        return PSR_OK;
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the gradient of bucket %" PRIu32
                    " is not finite; a lower --lr may help",
                    run->step + 1, run->part); /* people count steps from 1 */
}

static psr_err update_elements(void *context, const psr_table_run *run)
{
    psr_shard *shard = context;
    PSR_TRY(check_finite(run));
    psr_optimizer_update_run(shard->optimizer, shard->weights, run->pushed, run->span.offset, run->span.count,
                             lr_of(shard, run->step), run->number);
    return PSR_OK;
}

static psr_err keep_sum(void *context, const psr_table_run *run)
{
    psr_shard *shard = context;
    PSR_TRY(check_finite(run));
    memcpy(shard->sums + run->span.offset, run->pushed, run->span.count * sizeof *run->pushed);
    return PSR_OK;
}

static psr_err slice_summed(void *context, uint32_t slice, uint64_t step)
{
    psr_shard *shard = context;
    shard->summed_step = step;
    return psr_whole_tensors_summed(shard->whole, slice);
}

static void update_tensor(void *context, size_t tensor)
{
    psr_shard *shard = context;
    psr_optimizer_update_tensor(shard->optimizer, shard->weights, shard->sums, tensor,
                                lr_of(shard, shard->summed_step), shard->summed_step + 1);
}

static psr_err slice_updated(void *context, uint32_t slice)
{
    return psr_table_shard_updated(((psr_shard *)context)->table, slice);
}

static float *optimizer_state(void *context, uint32_t state)
{
    return psr_optimizer_slot(((psr_shard *)context)->optimizer, state);
}

/* ---- checkpoints ---- */

static bool checkpoint_due(const psr_shard *shard, uint64_t version)
{
    uint64_t every = shard->options.config->checkpoint_every;
    return version == shard->end || (every != 0 && version % every == 0);
}

static psr_err checkpoint_bucket(psr_shard *shard, uint32_t b, uint64_t version)
{
    if (!shard->options.checkpoint)
        return PSR_OK;
    const psr_plan *plan = shard->options.plan;
    psr_span span = plan->buckets[b].span;
    if (!psr_compression_is_none(plan->pulled))
        PSR_TRY(shard->options.checkpoint(shard->options.context, version, PSR_SECTION_WEIGHTS,
                                          shard->weights + span.offset, span.offset, span.count));
    for (uint32_t i = 0; i < psr_optimizer_slot_count(shard->optimizer); i++)
        PSR_TRY(shard->options.checkpoint(shard->options.context, version, PSR_SECTION_SLOT(i),
                                          psr_optimizer_slot(shard->optimizer, i) + span.offset, span.offset,
                                          span.count));
    return PSR_OK;
}

static psr_err bucket_advanced(void *context, uint32_t bucket, uint64_t version)
{
    psr_shard *shard = context;
    return checkpoint_due(shard, version) ? checkpoint_bucket(shard, bucket, version) : PSR_OK;
}

psr_err psr_shard_stop_at(psr_shard *shard, uint64_t step)
{
    bool was_due = checkpoint_due(shard, step + 1);
    shard->end = step + 1;
    psr_table_shard_end_at(shard->table, shard->end);
    for (uint32_t b = 0; b < shard->options.plan->bucket_count && !was_due; b++)
        if (psr_table_shard_version(shard->table, b) == shard->end)
            PSR_TRY(checkpoint_bucket(shard, b, shard->end));
    return PSR_OK;
}

/* ---- life ---- */

static psr_consistency consistency_of(const psr_config *config)
{
    static const psr_consistency_kind kinds[] = {[PSR_SYNC_BSP] = PSR_CONSISTENCY_BSP,
                                                 [PSR_SYNC_SSP] = PSR_CONSISTENCY_SSP,
                                                 [PSR_SYNC_ASYNC] = PSR_CONSISTENCY_ASYNC};
    return (psr_consistency){kinds[config->sync], config->ssp_bound};
}

static psr_err open_table(psr_shard *shard)
{
    const psr_shard_options *options = &shard->options;
    bool whole = psr_optimizer_whole_tensors(shard->optimizer);
    PSR_TRY(psr_config_get(options->config, "optimizer", shard->update, sizeof shard->update));
    const psr_table_update update = {.name = shard->update,
                                     .context = shard,
                                     .state_count = psr_optimizer_slot_count(shard->optimizer),
                                     .state = optimizer_state,
                                     .apply = whole ? keep_sum : update_elements,
                                     .applied = whole ? slice_summed : NULL};
    const psr_table_shard_options table = {.plan = options->plan,
                                           .shard = options->shard,
                                           .consistency = consistency_of(options->config),
                                           .fold_by_arrival = options->config->fold == PSR_FOLD_ARRIVAL,
                                           .update = shard->update,
                                           .registered = &update,
                                           .registered_count = 1,
                                           .first_step = options->first_step,
                                           .end = options->total_steps,
                                           .values = options->weights,
                                           .outbox = options->outbox,
                                           .context = shard,
                                           .advanced = bucket_advanced};
    PSR_TRY(psr_table_shard_new(&table, &shard->table));
    shard->weights = psr_table_shard_values(shard->table);
    return PSR_OK;
}

static psr_err follow_whole_tensors(psr_shard *shard)
{
    uint32_t count = psr_table_shard_slice_count(shard->table);
    psr_span *parts = calloc((size_t)count + 1, sizeof *parts);
    if (!parts)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices", count);
    for (uint32_t s = 0; s < count; s++)
        parts[s] = psr_table_shard_slice(shard->table, s);
    const psr_whole_tensors_events events = {shard, update_tensor, slice_updated};
    psr_err err = psr_whole_tensors_new(shard->options.layout, parts, count, &events, &shard->whole);
    free(parts);
    return err;
}

static psr_err shard_init(psr_shard *shard)
{
    const psr_shard_options *options = &shard->options;
    PSR_TRY(psr_optimizer_new(options->config, options->layout, &shard->optimizer));
    bool whole = psr_optimizer_whole_tensors(shard->optimizer);
    if (whole && options->config->sync != PSR_SYNC_BSP)
        return psr_fail(PSR_ERR_USAGE, "--optimizer lars needs --sync bsp: its update needs whole tensors");
    PSR_TRY(open_table(shard));
    if (!whole)
        return PSR_OK;
    PSR_TRY(psr_arena_new(options->layout->length, &shard->sums));
    return follow_whole_tensors(shard);
}

psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard)
{
    psr_shard *shard = calloc(1, sizeof *shard);
    if (!shard)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard");
    shard->options = *options;
    shard->end = options->total_steps;
    shard->lr_step = UINT64_MAX;
    psr_err err = shard_init(shard);
    if (err != PSR_OK) {
        psr_shard_free(shard);
        return err;
    }
    *ret_shard = shard;
    return PSR_OK;
}

void psr_shard_free(psr_shard *shard)
{
    if (!shard)
        return;
    psr_table_shard_free(shard->table);
    psr_whole_tensors_free(shard->whole);
    psr_arena_free(shard->sums, shard->options.layout->length);
    psr_optimizer_free(shard->optimizer);
    free(shard);
}

psr_table_shard *psr_shard_table(psr_shard *shard)
{
    return shard->table;
}
