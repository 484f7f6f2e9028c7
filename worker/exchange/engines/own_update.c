#include "worker/exchange/engines/own_update.h"

#include "comm/observer.h"
#include "model/optimizers/updater.h"

#include <inttypes.h>
#include <stdlib.h>

struct psr_own_update {
    const psr_engine_env *env;
    psr_updater *updater; /* NULL: nothing is updated */
    uint64_t step;        /* of the bucket that was summed last */
    uint32_t *buckets;    /* [part]: parts of psr_updater ascend, buckets descend */
    uint32_t *parts;      /* [bucket] of those that are updated here */
    uint32_t count;       /* parts */
};

static psr_span span_of(const psr_engine_env *env, uint32_t bucket)
{
    return (psr_span){env->buckets->items[bucket].offset, env->buckets->items[bucket].length};
}

static psr_err part_updated(void *context, uint32_t part)
{
    psr_own_update *update = context;
    return update->env->landed(update->env->context, update->step, update->buckets[part]);
}

psr_err psr_own_update_summed(psr_own_update *update, uint64_t step, uint32_t bucket)
{
    const psr_engine_env *env = update->env;
    if (update->updater == NULL)
        return env->landed(env->context, step, bucket);
    const psr_span span = span_of(env, bucket);
    const psr_sum sum = {bucket, span, step, step + 1, env->gradients + span.offset};
    psr_outbox_tell(&env->outbox, PSR_OBSERVED_UPDATES, step, bucket, span);
    psr_err err = psr_updater_take(update->updater, &sum);
    psr_outbox_tell(&env->outbox, PSR_OBSERVED_UPDATED, step, bucket, span);
    PSR_TRY(err);
    if (!psr_updater_waits(env->config))
        return env->landed(env->context, step, bucket);
    update->step = step;
    return psr_updater_summed(update->updater, update->parts[bucket], step);
}

static psr_err take_squares(void *context, uint32_t bucket, double squares)
{
    return psr_global_norm_part(((psr_own_update *)context)->env->norm, bucket, squares);
}

static psr_err take_tensor_squares(void *context, uint32_t run, uint64_t step, double squares)
{
    return psr_tensor_norms_part(((psr_own_update *)context)->env->tensors, run, step, squares);
}

psr_err psr_own_update_norm_known(psr_own_update *update, uint64_t step, double norm)
{
    update->step = step;
    return update->updater != NULL ? psr_updater_norm_known(update->updater, step, norm) : PSR_OK;
}

/* ---- life ---- */

static psr_err number_parts(psr_own_update *update, psr_route route)
{
    const psr_engine_env *env = update->env;
    const uint32_t count = env->buckets->count;
    update->buckets = calloc((size_t)count + 1, sizeof *update->buckets);
    update->parts = calloc((size_t)count + 1, sizeof *update->parts);
    if (update->buckets == NULL || update->parts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " buckets", count);
    for (uint32_t b = count; b-- > 0;) {
        if (env->plan->buckets[b].route != route)
            continue;
        update->parts[b] = update->count;
        update->buckets[update->count++] = b;
    }
    return PSR_OK;
}

/* The parts in which sums come are the buckets. */
static psr_err begin(psr_own_update *update)
{
    const psr_engine_env *env = update->env;
    psr_span *parts = calloc((size_t)update->count + 1, sizeof *parts);
    if (parts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " buckets", update->count);
    for (uint32_t p = 0; p < update->count; p++)
        parts[p] = span_of(env, update->buckets[p]);
    psr_err err = psr_updater_begin(update->updater, env->weights, parts, update->count);
    free(parts);
    return err;
}

static psr_err open_updater(psr_own_update *update, psr_route route)
{
    const psr_engine_env *env = update->env;
    const psr_updater_options options = {.config = env->config,
                                         .layout = env->layout,
                                         .optimizer = env->optimizer,
                                         .total_steps = env->total_steps,
                                         .skipped = env->skipped_steps,
                                         .sums = env->gradients,
                                         .context = update,
                                         .updated = part_updated,
                                         .buckets = env->spans,
                                         .bucket_count = env->plan->bucket_count,
                                         .squares = take_squares,
                                         .tensor_squares = take_tensor_squares};
    PSR_TRY(number_parts(update, route));
    PSR_TRY(psr_updater_new(&options, &update->updater));
    return begin(update);
}

psr_err psr_own_update_new(const psr_engine_env *env, psr_route route, psr_own_update **ret_update)
{
    psr_own_update *update = calloc(1, sizeof *update);
    if (update == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a worker's updates");
    update->env = env;
    psr_err err = env->optimizer != NULL ? open_updater(update, route) : PSR_OK;
    if (err != PSR_OK) {
        psr_own_update_free(update);
        return err;
    }
    *ret_update = update;
    return PSR_OK;
}

void psr_own_update_free(psr_own_update *update)
{
    if (update == NULL)
        return;
    psr_updater_free(update->updater);
    free(update->parts);
    free(update->buckets);
    free(update);
}
