#include "worker/own_update.h"

#include "base/finite.h"
#include "model/optimizers/whole_tensors.h"

#include <inttypes.h>
#include <stdlib.h>

struct psr_own_update {
    const psr_engine_env *env;
    psr_whole_tensors *whole; /* NULL: elements are updated one by one */
    uint64_t step;            /* of the bucket that was summed last */
};

/* 16 Ki floats of weights, gradients and momentum stay in a second-level cache between the check and the
 * update. */
enum { BLOCK = 16384 };

psr_err psr_own_update_not_finite(uint64_t step, uint32_t bucket)
{
    return psr_fail(PSR_ERR_NUMERIC,
                    "step %" PRIu64 ": the gradient of bucket %" PRIu32
                    " is not finite; a lower --lr may help",
                    step + 1, bucket); /* people count steps from 1 */
}

static psr_err check_finite(const psr_engine_env *env, size_t offset, size_t count, uint64_t step,
                            uint32_t bucket)
{
    return psr_finite(env->gradients + offset, count) ? PSR_OK : psr_own_update_not_finite(step, bucket);
}

static psr_err update_bucket(const psr_engine_env *env, uint64_t step, uint32_t b)
{
    const psr_bucket *bucket = &env->buckets->items[b];
    float lr = psr_schedule_lr(env->config, step, env->total_steps);
    for (size_t at = 0; at < bucket->length; at += BLOCK) {
        size_t count = bucket->length - at < BLOCK ? bucket->length - at : BLOCK;
        PSR_TRY(check_finite(env, bucket->offset + at, count, step, b));
        psr_optimizer_update(env->optimizer, env->weights, env->gradients, bucket->offset + at, count, lr,
                             step + 1);
    }
    return env->landed(env->context, step, b);
}

/* Parts of psr_whole_tensors ascend, buckets descend. */
static uint32_t bucket_of_part(const psr_engine_env *env, uint32_t part)
{
    return env->buckets->count - 1 - part;
}

static void update_tensor(void *context, size_t tensor)
{
    psr_own_update *update = context;
    const psr_engine_env *env = update->env;
    float lr = psr_schedule_lr(env->config, update->step, env->total_steps);
    psr_optimizer_update_tensor(env->optimizer, env->weights, env->gradients, tensor, lr, update->step + 1);
}

static psr_err part_updated(void *context, uint32_t part)
{
    psr_own_update *update = context;
    return update->env->landed(update->env->context, update->step, bucket_of_part(update->env, part));
}

psr_err psr_own_update_summed(psr_own_update *update, uint64_t step, uint32_t bucket)
{
    const psr_engine_env *env = update->env;
    if (env->optimizer == NULL)
        return env->landed(env->context, step, bucket);
    if (update->whole == NULL)
        return update_bucket(env, step, bucket);
    const psr_bucket *range = &env->buckets->items[bucket];
    PSR_TRY(check_finite(env, range->offset, range->length, step, bucket));
    update->step = step;
    return psr_whole_tensors_summed(update->whole, bucket_of_part(env, bucket));
}

/* ---- life ---- */

static psr_err follow_whole_tensors(psr_own_update *update)
{
    uint32_t count = update->env->buckets->count;
    psr_span *parts = calloc((size_t)count + 1, sizeof *parts);
    if (parts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " buckets", count);
    for (uint32_t p = 0; p < count; p++) {
        const psr_bucket *bucket = &update->env->buckets->items[bucket_of_part(update->env, p)];
        parts[p] = (psr_span){bucket->offset, bucket->length};
    }
    psr_whole_tensors_events events = {update, update_tensor, part_updated};
    psr_err err = psr_whole_tensors_new(update->env->layout, parts, count, &events, &update->whole);
    free(parts);
    return err;
}

psr_err psr_own_update_new(const psr_engine_env *env, psr_own_update **ret_update)
{
    psr_own_update *update = calloc(1, sizeof *update);
    if (update == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a worker's updates");
    update->env = env;
    if (env->optimizer != NULL && psr_optimizer_whole_tensors(env->optimizer)) {
        psr_err err = follow_whole_tensors(update);
        if (err != PSR_OK) {
            psr_own_update_free(update);
            return err;
        }
    }
    *ret_update = update;
    return PSR_OK;
}

void psr_own_update_free(psr_own_update *update)
{
    if (update == NULL)
        return;
    psr_whole_tensors_free(update->whole);
    free(update);
}
