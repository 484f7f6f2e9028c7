#include "model/cuda/update.h"

#include "model/cuda/kernels/launch.h"
#include "model/optimizers/adams.h"
#include "model/optimizers/decay.h"
#include "model/optimizers/ema.h"
#include "model/optimizers/optimizer.h"
#include "model/optimizers/updater.h"

#include <assert.h>
#include <stdlib.h>

struct psr_cuda_update {
    psr_cuda_update_options o;
    psr_decay decay;
    uint32_t slot_count;
    float *slots[PSR_OPTIMIZER_SLOTS_MAX]; /* device memory: layout->length floats */
    uint64_t *numbers;                     /* [buckets]: the updates that each has had */
    uint32_t *odd;      /* device memory [buckets]: 1: a sum was not finite, and the run ends */
    uint32_t *odd_told; /* pinned [buckets] */
};

/* ---- the life ---- */

static psr_err check_optimizer(const psr_config *config)
{
    switch (config->optimizer) {
    case PSR_OPTIMIZER_SGD:
    case PSR_OPTIMIZER_ADAM:
    case PSR_OPTIMIZER_ADAMW:
        return PSR_OK;
    case PSR_OPTIMIZER_LARS:
    case PSR_OPTIMIZER_LAMB:
    case PSR_OPTIMIZER_RMSPROP:
        break;
    }
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "--update-on device: a GPU updates by sgd, adam and adamw");
}

static size_t flag_bytes(const psr_cuda_update *u)
{
    return u->o.buckets->count * sizeof *u->odd;
}

/* On the stream of the passes, so that the first update finds it. */
static psr_err open_memory(psr_cuda_update *u)
{
    const psr_cuda_api *api = u->o.api;
    const size_t bytes = u->o.layout->length * sizeof(float);
    for (uint32_t i = 0; i < u->slot_count; i++) {
        PSR_TRY(api->memory_new(u->o.device, bytes, (void **)&u->slots[i]));
        PSR_TRY(api->fill(u->o.computing, u->slots[i], 0, bytes));
    }
    PSR_TRY(api->memory_new(u->o.device, flag_bytes(u), (void **)&u->odd));
    PSR_TRY(api->fill(u->o.computing, u->odd, 0, flag_bytes(u)));
    return api->pinned_new(u->o.device, flag_bytes(u), (void **)&u->odd_told);
}

static psr_err open_all(psr_cuda_update *u)
{
    PSR_TRY(check_optimizer(u->o.config));
    PSR_TRY(psr_decay_init(u->o.layout, u->o.config, &u->decay));
    u->slot_count = psr_optimizer_slots_of(u->o.config) - psr_ema_is_on(u->o.config);
    u->numbers = calloc(u->o.buckets->count, sizeof *u->numbers);
    if (u->numbers == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for %u buckets", u->o.buckets->count);
    return open_memory(u);
}

psr_err psr_cuda_update_new(const psr_cuda_update_options *options, psr_cuda_update **ret_update)
{
    psr_cuda_update *u = calloc(1, sizeof *u);
    if (u == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for updates");
    u->o = *options;
    const psr_err err = open_all(u);
    if (err != PSR_OK) {
        psr_cuda_update_free(u);
        return err;
    }
    *ret_update = u;
    return PSR_OK;
}

void psr_cuda_update_free(psr_cuda_update *update)
{
    if (update == NULL)
        return;
    const psr_cuda_api *api = update->o.api;
    for (uint32_t i = 0; i < update->slot_count; i++)
        if (update->slots[i] != NULL)
            api->memory_free(update->o.device, update->slots[i]);
    if (update->odd != NULL)
        api->memory_free(update->o.device, update->odd);
    if (update->odd_told != NULL)
        api->pinned_free(update->o.device, update->odd_told);
    psr_decay_done(&update->decay);
    free(update->numbers);
    free(update);
}

uint32_t psr_cuda_update_slot_count(const psr_cuda_update *update)
{
    return update->slot_count;
}

float *psr_cuda_update_slot(const psr_cuda_update *update, uint32_t slot)
{
    assert(slot < update->slot_count);
    return update->slots[slot];
}

void psr_cuda_update_begin(psr_cuda_update *update, uint64_t number)
{
    for (uint32_t b = 0; b < update->o.buckets->count; b++)
        update->numbers[b] = number;
}

/* ---- an update ---- */

static psr_err check_finite(const psr_cuda_update *u, uint32_t bucket)
{
    const psr_bucket *b = &u->o.buckets->items[bucket];
    const psr_cuda_finite_args args = {.x = u->o.gradients + b->offset,
                                       .factor = 1,
                                       .not_finite = &u->odd[bucket],
                                       .count = b->length};
    return psr_cuda_kernel_launch(u->o.api, u->o.computing, PSR_CUDA_KERNEL_finite, &args);
}

static psr_err update_sgd(const psr_cuda_update *u, size_t offset, const psr_update *like)
{
    const psr_cuda_sgd_args args = {.w = u->o.weights + offset,
                                    .momentum_buffer =
                                        u->slot_count > 0 ? u->slots[0] + offset : NULL,
                                    .g = u->o.gradients + offset,
                                    .lr = like->lr,
                                    .momentum = (float)u->o.config->momentum,
                                    .decay = (float)like->decay,
                                    .nesterov = u->o.config->nesterov,
                                    .count = like->count};
    return psr_cuda_kernel_launch(u->o.api, u->o.computing, PSR_CUDA_KERNEL_sgd, &args);
}

static psr_err update_adam(const psr_cuda_update *u, size_t offset, const psr_update *like)
{
    const psr_adams_factors f = psr_adams_factors_of(u->o.config, like);
    const psr_adam_decay d = psr_adam_decay_of(u->o.config->optimizer == PSR_OPTIMIZER_ADAMW, like);
    const psr_cuda_adam_args args = {.w = u->o.weights + offset,
                                     .m = u->slots[0] + offset,
                                     .v = u->slots[1] + offset,
                                     .g = u->o.gradients + offset,
                                     .mean_take = f.mean_take,
                                     .square_keep = f.square_keep,
                                     .square_take = f.square_take,
                                     .correction = f.correction,
                                     .step = f.step,
                                     .epsilon = f.epsilon,
                                     .decay = d.decay,
                                     .keep = d.keep,
                                     .count = like->count};
    return psr_cuda_kernel_launch(u->o.api, u->o.computing, PSR_CUDA_KERNEL_adam, &args);
}

/* As psr_optimizer_update_run cuts a range. */
static psr_err update_runs(const psr_cuda_update *u, const psr_bucket *bucket, uint64_t number,
                           float lr)
{
    const size_t bucket_end = bucket->offset + bucket->length;
    for (size_t at = bucket->offset, end; at < bucket_end; at = end) {
        const psr_decay_run *run = psr_decay_at(&u->decay, at);
        end = run->end < bucket_end ? run->end : bucket_end;
        const psr_update like = {.count = end - at,
                                 .lr = psr_decay_run_lr(run, lr),
                                 .decay = psr_decay_run_decay(run, u->o.config),
                                 .number = number};
        PSR_TRY(u->o.config->optimizer == PSR_OPTIMIZER_SGD ? update_sgd(u, at, &like)
                                                            : update_adam(u, at, &like));
    }
    return PSR_OK;
}

bool psr_cuda_update_is_due(const psr_cuda_update *update, uint32_t bucket, uint64_t number)
{
    return !update->o.buckets->items[bucket].frozen && update->numbers[bucket] < number;
}

psr_err psr_cuda_update_bucket(psr_cuda_update *update, uint32_t bucket, const psr_due_update *due)
{
    assert(update->numbers[bucket] + 1 == due->number);
    update->numbers[bucket] = due->number;
    PSR_TRY(check_finite(update, bucket));
    return update_runs(update, &update->o.buckets->items[bucket], due->number - due->skipped,
                       due->lr);
}

/* ---- what it tells ---- */

psr_err psr_cuda_update_ask(psr_cuda_update *update)
{
    return update->o.api->copy(update->o.computing, update->odd_told, update->odd,
                               flag_bytes(update));
}

psr_err psr_cuda_update_check(const psr_cuda_update *update)
{
    for (uint32_t b = 0; b < update->o.buckets->count; b++)
        if (update->odd_told[b] != 0)
            return psr_updater_not_finite(update->numbers[b] - 1, b);
    return PSR_OK;
}

size_t psr_cuda_update_bytes(const psr_cuda_update *update)
{
    return sizeof *update + update->slot_count * update->o.layout->length * sizeof(float) +
           update->o.buckets->count * (sizeof *update->numbers + 2 * sizeof *update->odd);
}
