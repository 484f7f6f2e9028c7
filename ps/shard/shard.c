#include "ps/shard/shard.h"

#include "base/arrays/arena.h"
#include "comm/view/handover.h"
#include "comm/tables/consistency.h"
#include "comm/tables/global_norm.h"
#include "comm/tables/update.h"
#include "comm/wire/compression/compression.h"
#include "comm/wire/messages.h"
#include "model/optimizers/updater.h"
#include "net/violation.h"

#include <stdlib.h>
#include <string.h>

struct psr_shard {
    psr_shard_options options;
    psr_optimizer *optimizer;
    psr_updater *updater;
    psr_global_norm *norm; /* --clip-norm, fp16; otherwise NULL */
    psr_span *spans;       /* [buckets] their runs: with it, and with --tensorboard-norms */
    char update[32];       /* the optimizer's name, by which the table finds it */
    psr_table_shard *table;
    float *weights;     /* the table's values */
    float *own_weights; /* NULL: the weights belong to the owner */
    uint64_t end;       /* number of steps at which the run ends */
    /* BSP: how many buckets it holds, how many of these have had the present step, and of which of
     * them a checkpoint's piece is due. */
    uint32_t held, advanced;
    bool *due;  /* [buckets] */
    bool given; /* no INIT comes, because this is not the first view */
};

/* ---- the optimizer as an update ---- */

static psr_err take_run(void *context, const psr_table_run *run)
{
    const psr_sum sum = {run->part, run->span, run->step, run->number, run->pushed};
    return psr_updater_take(((psr_shard *)context)->updater, &sum);
}

static psr_err slice_summed(void *context, uint32_t slice, uint64_t step)
{
    return psr_updater_summed(((psr_shard *)context)->updater, slice, step);
}

static psr_err slice_updated(void *context, uint32_t slice)
{
    return psr_table_shard_updated(((psr_shard *)context)->table, slice);
}

static float *optimizer_state(void *context, uint32_t state)
{
    return psr_optimizer_slot(((psr_shard *)context)->optimizer, state);
}

static void clear_padding(void *context, psr_span span, float *values)
{
    const psr_layout *layout = ((psr_shard *)context)->options.layout;
    psr_layout_clear_padding(layout, span.offset, span.count, values);
}

/* ---- the norm ---- */

static psr_err take_squares(void *context, uint32_t bucket, double squares)
{
    return psr_global_norm_part(((psr_shard *)context)->norm, bucket, squares);
}

/* --tensorboard-norms: worker 0 gathers them, and nobody waits for an answer. */
static psr_err tell_tensor_squares(void *context, uint32_t run, uint64_t step, double squares)
{
    const psr_outbox *outbox = &((psr_shard *)context)->options.outbox;
    const psr_head head = psr_msg_norm_head(
        &(psr_msg_norm){.bucket = run, .step = step, .phase = PSR_NORM_TENSOR, .value = squares});
    return outbox->send(outbox->context, (psr_peer){PSR_ROLE_WORKER, 0}, &head, NULL);
}

psr_err psr_shard_norm(psr_shard *shard, psr_message **message)
{
    if (shard->norm != NULL)
        return psr_global_norm_message(shard->norm, message);
    psr_err err = psr_violation(*message, "no norm is due in this run");
    psr_message_free(message);
    return err;
}

psr_err psr_shard_settle(psr_shard *shard)
{
    uint64_t step;
    double norm;
    while (shard->norm != NULL && psr_global_norm_take(shard->norm, &step, &norm))
        PSR_TRY(psr_updater_norm_known(shard->updater, step, norm));
    return PSR_OK;
}

bool psr_shard_waits_for_norm(const psr_shard *shard, psr_waiting *ret_waiting,
                              uint32_t *ret_bucket)
{
    return shard->norm != NULL && psr_global_norm_waits(shard->norm, ret_waiting, ret_bucket);
}

/* ---- checkpoints ---- */

static bool checkpoint_due(const psr_shard *shard, uint64_t version)
{
    const psr_config *config = shard->options.config;
    return version == shard->end || psr_pace_due(&config->pace, config->checkpoint_every, version);
}

static psr_err checkpoint_bucket(psr_shard *shard, uint32_t b, uint64_t version)
{
    if (shard->options.checkpoint == NULL)
        return PSR_OK;
    const psr_plan *plan = shard->options.plan;
    psr_span span = plan->buckets[b].span;
    if (!psr_compression_is_none(plan->pulled))
        PSR_TRY(shard->options.checkpoint(shard->options.context, version, PSR_SECTION_WEIGHTS,
                                          shard->weights + span.offset, span.offset, span.count));
    for (uint32_t i = 0; i < psr_optimizer_slot_count(shard->optimizer); i++)
        PSR_TRY(shard->options.checkpoint(shard->options.context, version, PSR_SECTION_SLOT(i),
                                          psr_optimizer_slot(shard->optimizer, i) + span.offset,
                                          span.offset, span.count));
    return PSR_OK;
}

/* In BSP the pieces are copied when the weights of all buckets have been sent, so that no worker
 * waits for a copy. Until then no bucket changes: its next update needs gradients for which workers
 * have read all weights. */
static psr_err bucket_advanced(void *context, uint32_t bucket, uint64_t version)
{
    psr_shard *shard = context;
    const bool due = checkpoint_due(shard, version);
    if (shard->options.config->sync != PSR_SYNC_BSP)
        return due ? checkpoint_bucket(shard, bucket, version) : PSR_OK;
    shard->due[bucket] = due;
    if (++shard->advanced < shard->held)
        return PSR_OK;
    shard->advanced = 0;
    /* in the order of the arena, in which they are cheapest to write */
    for (uint32_t b = shard->options.plan->bucket_count; b-- > 0;)
        if (shard->due[b])
            PSR_TRY(checkpoint_bucket(shard, b, version));
    memset(shard->due, 0, shard->options.plan->bucket_count * sizeof *shard->due);
    return PSR_OK;
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
    uint32_t ema_slot; /* workers ask for it */
    const psr_table_update update = {.name = shard->update,
                                     .context = shard,
                                     .state_count = psr_optimizer_slot_count(shard->optimizer),
                                     .state = optimizer_state,
                                     .apply = take_run,
                                     .applied =
                                         psr_updater_waits(options->config) ? slice_summed : NULL};
    const psr_table_shard_options table = {
        .plan = options->plan,
        .shard = options->shard,
        .consistency = consistency_of(options->config),
        .fold_by_arrival = options->config->fold == PSR_FOLD_ARRIVAL,
        .update = shard->update,
        .registered = &update,
        .registered_count = 1,
        .first_step = options->first_step,
        .end = shard->end,
        .given = shard->given,
        .readable = options->readable || psr_optimizer_ema_slot(options->config, &ema_slot),
        .values = shard->weights,
        .outbox = options->outbox,
        .context = shard,
        .blank = clear_padding,
        .advanced = bucket_advanced};
    return psr_table_shard_new(&table, &shard->table);
}

/* The shard's sums come in slices: those that it holds. */
static psr_err begin_updates(psr_shard *shard)
{
    psr_span *parts;
    uint32_t count;
    PSR_TRY(psr_table_shard_slices(shard->table, &parts, &count));
    psr_err err = psr_updater_begin(shard->updater, shard->weights, parts, count);
    free(parts);
    return err;
}

static psr_err bind_plan(psr_shard *shard)
{
    const psr_shard_options *options = &shard->options;
    const psr_peer self = {PSR_ROLE_SHARD, options->shard};
    shard->held = shard->advanced = 0;
    for (uint32_t b = 0; b < options->plan->bucket_count; b++)
        shard->held += psr_plan_holds(options->plan, b, self);
    shard->due = calloc((size_t)options->plan->bucket_count + 1, sizeof *shard->due);
    if (shard->due == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard's buckets");
    const bool together = psr_config_updates_together(options->config);
    if (together || options->config->tensorboard_norms > 0)
        PSR_TRY(psr_plan_spans(options->plan, &shard->spans));
    if (together)
        PSR_TRY(psr_global_norm_new(options->plan, self, options->first_step,
                                    psr_config_scales_loss(options->config), &options->outbox,
                                    &shard->norm));
    const psr_updater_options updater = {.config = options->config,
                                         .layout = options->layout,
                                         .optimizer = shard->optimizer,
                                         .total_steps = options->total_steps,
                                         .skipped = options->skipped_steps,
                                         .context = shard,
                                         .updated = slice_updated,
                                         .buckets = shard->spans,
                                         .bucket_count = options->plan->bucket_count,
                                         .squares = take_squares,
                                         .tensor_squares = tell_tensor_squares};
    PSR_TRY(psr_updater_new(&updater, &shard->updater));
    PSR_TRY(open_table(shard));
    return begin_updates(shard);
}

static psr_err shard_init(psr_shard *shard)
{
    const psr_shard_options *options = &shard->options;
    PSR_TRY(psr_config_get(options->config, "optimizer", shard->update, sizeof shard->update));
    PSR_TRY(psr_optimizer_new(options->config, options->layout, &shard->optimizer));
    if (psr_optimizer_whole_tensors(shard->optimizer) && options->config->sync != PSR_SYNC_BSP)
        return psr_fail(PSR_ERR_USAGE,
                        "--optimizer %s needs --sync bsp: its update needs whole tensors",
                        shard->update);
    if (options->weights == NULL)
        PSR_TRY(psr_arena_new(options->layout->length, &shard->own_weights));
    shard->weights = options->weights != NULL ? options->weights : shard->own_weights;
    return bind_plan(shard);
}

static void drop_plan(psr_shard *shard)
{
    psr_table_shard_free(shard->table);
    psr_updater_free(shard->updater);
    psr_global_norm_free(shard->norm);
    free(shard->spans);
    free(shard->due);
    shard->due = NULL;
    shard->table = NULL;
    shard->updater = NULL;
    shard->norm = NULL;
    shard->spans = NULL;
}

psr_err psr_shard_rebind(psr_shard *shard, const psr_plan *plan, uint64_t first_step)
{
    drop_plan(shard);
    shard->options.plan = plan;
    shard->options.first_step = first_step;
    shard->given = true;
    return bind_plan(shard);
}

float *psr_shard_array(psr_shard *shard, uint32_t array)
{
    return array == PSR_HANDOVER_WEIGHTS ? shard->weights
                                         : psr_optimizer_slot(shard->optimizer, array - 1);
}

uint32_t psr_shard_slot_count(const psr_shard *shard)
{
    return psr_optimizer_slot_count(shard->optimizer);
}

void psr_shard_drop_state(psr_shard *shard, uint32_t bucket)
{
    for (uint32_t i = 0; i < psr_optimizer_slot_count(shard->optimizer); i++)
        psr_arena_drop(psr_optimizer_slot(shard->optimizer, i), shard->options.layout->length,
                       shard->options.plan->buckets[bucket].span);
}

psr_err psr_shard_new(const psr_shard_options *options, psr_shard **ret_shard)
{
    psr_shard *shard = calloc(1, sizeof *shard);
    if (shard == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a shard");
    shard->options = *options;
    shard->end = options->total_steps;
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
    if (shard == NULL)
        return;
    drop_plan(shard);
    psr_optimizer_free(shard->optimizer);
    psr_arena_free(shard->own_weights, shard->options.layout->length);
    free(shard);
}

psr_table_shard *psr_shard_table(psr_shard *shard)
{
    return shard->table;
}
