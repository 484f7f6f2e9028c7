#include "worker/device_update.h"

#include "model/optimizers/ema.h"
#include "model/optimizers/optimizer.h"

static bool is_on(const psr_trainer *t)
{
    return psr_config_updates_on_device(t->config);
}

/* All replicas take turns with one back end: --sync-bn is refused. */
static psr_backend *backend_of(const psr_trainer *t)
{
    return t->executors->backend;
}

/* The host's arenas of the state that the back end holds. */
static void find_slots(const psr_trainer *t, float *ret_slots[static PSR_OPTIMIZER_SLOTS_MAX])
{
    const uint32_t held = psr_exchange_slot_count(t->exchange) - psr_ema_is_on(t->config);
    for (uint32_t i = 0; i < held; i++)
        ret_slots[i] = psr_exchange_slot(t->exchange, i);
}

psr_err psr_device_update_begin(const psr_trainer *t)
{
    float *slots[PSR_OPTIMIZER_SLOTS_MAX] = {NULL};
    if (!is_on(t))
        return PSR_OK;
    find_slots(t, slots);
    return psr_backend_hold(backend_of(t), psr_exchange_weights(t->exchange),
                            t->first_step > 0 ? slots : NULL, t->first_step);
}

void psr_device_update_due(const psr_trainer *t, uint64_t steps)
{
    if (!is_on(t))
        return;
    const psr_due_update due = {
        .number = steps,
        .skipped = t->loss_scale.skipped,
        .lr = steps > 0 ? psr_schedule_lr(t->config, steps - 1, t->total_steps) : 0,
        .sums = psr_engine_keeps_gradients(t->config) ? NULL : psr_exchange_sums(t->exchange)};
    psr_backend_due(backend_of(t), &due);
}

psr_err psr_device_update_without_pass(const psr_trainer *t, uint64_t steps)
{
    if (!is_on(t))
        return PSR_OK;
    for (uint32_t b = 0; b < t->buckets->count; b++)
        if (!t->buckets->items[b].frozen)
            PSR_TRY(psr_exchange_weights_wanted(t->exchange, b));
    psr_device_update_due(t, steps);
    PSR_TRY(psr_backend_held(backend_of(t), NULL, NULL));
    return psr_engine_keeps_gradients(t->config) ? psr_backend_zero_gradients(backend_of(t))
                                                 : PSR_OK;
}

psr_err psr_device_update_copy_weights(const psr_trainer *t, uint64_t steps)
{
    if (!is_on(t))
        return PSR_OK;
    psr_device_update_due(t, steps);
    return psr_backend_held(backend_of(t), psr_exchange_first_weights(t->exchange), NULL);
}

static bool saves_state(const psr_trainer *t)
{
    uint32_t b = 0;
    while (b < t->buckets->count &&
           (t->buckets->items[b].frozen || !psr_exchange_saves_state(t->exchange, b)))
        b++;
    return b < t->buckets->count;
}

psr_err psr_device_update_copy_state(const psr_trainer *t, uint64_t steps)
{
    float *slots[PSR_OPTIMIZER_SLOTS_MAX] = {NULL};
    if (!is_on(t))
        return PSR_OK;
    find_slots(t, slots);
    psr_device_update_due(t, steps);
    return psr_backend_held(
        backend_of(t), psr_trainer_is_first(t) ? psr_exchange_first_weights(t->exchange) : NULL,
        saves_state(t) ? slots : NULL);
}

psr_err psr_device_update_average(const psr_trainer *t, uint64_t steps)
{
    uint32_t slot;
    if (!is_on(t) || !psr_optimizer_ema_slot(t->config, &slot))
        return PSR_OK;
    PSR_TRY(psr_device_update_copy_weights(t, steps));
    const float *weights = psr_exchange_weights(t->exchange);
    float *average = psr_exchange_slot(t->exchange, slot);
    for (uint32_t b = 0; b < t->buckets->count; b++) {
        const psr_bucket *bucket = &t->buckets->items[b];
        if (!bucket->frozen)
            psr_ema_follow(t->config, steps - t->loss_scale.skipped, weights + bucket->offset,
                           average + bucket->offset, bucket->length);
    }
    return PSR_OK;
}

psr_err psr_device_update_pause(const psr_trainer *t, uint64_t steps)
{
    if (!is_on(t))
        return PSR_OK;
    PSR_TRY(psr_device_update_copy_weights(t, steps));
    psr_backend_due(backend_of(t), NULL);
    return PSR_OK;
}

psr_err psr_device_update_resume(const psr_trainer *t, uint64_t steps)
{
    if (!is_on(t))
        return PSR_OK;
    return psr_backend_hold(backend_of(t), psr_exchange_weights(t->exchange), NULL, steps);
}
