#include "worker/trainer.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

/* Batches ready ahead of the training loop: one in use, and enough beside it to ride out an uneven decoding
 * time. With many replicas in one process each waits its turn, so that two do. */
enum { LOADER_DEPTH = 4, LOADER_DEPTH_LOCAL = 2 };

psr_sampler psr_trainer_sampler(const psr_config *config, uint32_t count)
{
    return (psr_sampler){.seed = config->seed,
                         .count = count,
                         .workers = config->workers,
                         .batch_size = config->batch_size,
                         .partition = config->partition,
                         .shuffle = config->shuffle};
}

uint64_t psr_trainer_total_steps(const psr_config *config, const psr_sampler *sampler)
{
    return config->steps > 0 ? config->steps : (uint64_t)config->epochs * psr_sampler_steps(sampler);
}

bool psr_trainer_is_first(const psr_trainer *trainer)
{
    return trainer->rank == 0;
}

/* Worker 0 picks by timing while the others wait, so that nothing disturbs the timing and all compute alike.
 */
static psr_err compile(psr_trainer *t)
{
    char algorithms[sizeof t->config->algorithms] = "";
    psr_backend_options options = {
        .kind = t->config->backend,
        .precision = t->config->precision,
        .max_batch = t->config->batch_size,
        .label_smoothing = t->config->label_smoothing,
        .threads = t->config->threads,
        .buckets = t->buckets,
        .algorithms = t->config->algorithms[0] != '\0' ? t->config->algorithms : NULL,
    };
    if (psr_trainer_is_first(t)) {
        PSR_TRY(psr_backend_new(t->net, &options, &t->backend));
        const char *picked = psr_backend_algorithms(t->backend);
        if (strlen(picked) >= sizeof algorithms)
            return psr_fail(PSR_ERR_COMPUTE,
                            "the choices made by timing take %zu bytes, more than the %zu that can be kept",
                            strlen(picked), sizeof algorithms - 1);
        strcpy(algorithms, picked);
    }
    PSR_TRY(psr_exchange_broadcast(t->exchange, algorithms, sizeof algorithms));
    if (psr_trainer_is_first(t))
        return PSR_OK;
    algorithms[sizeof algorithms - 1] = '\0';
    options.algorithms = algorithms;
    return psr_backend_new(t->net, &options, &t->backend);
}

static psr_err init_replica(psr_trainer *t, uint32_t rank, psr_replica *replica)
{
    replica->rank = rank;
    PSR_TRY(psr_arena_new(t->net->buffers.length, &replica->buffers));
    const psr_loader_options options = {
        .sampler = t->sampler,
        .rank = rank,
        .augment = t->config->augment,
        .image_size = t->config->image_size,
        .threads = t->config->loader_threads,
        .depth = t->config->mode == PSR_MODE_LOCAL ? LOADER_DEPTH_LOCAL : LOADER_DEPTH,
        .first_epoch = (uint32_t)(t->first_step / t->steps_per_epoch),
        .first_step = (uint32_t)(t->first_step % t->steps_per_epoch),
        .last_epoch = UINT32_MAX,
    };
    return psr_loader_new(t->train, &options, &replica->loader);
}

static psr_err init_parts(psr_trainer *t, const char *data)
{
    PSR_TRY(psr_dataset_open_both(data, &t->train, &t->test));
    psr_exchange_progress(t->exchange, PSR_PHASE_START);
    t->sampler = psr_trainer_sampler(t->config, t->train->count);
    t->steps_per_epoch = psr_sampler_steps(&t->sampler);
    PSR_TRY(compile(t));
    psr_exchange_progress(t->exchange, PSR_PHASE_START);

    uint32_t count = t->config->mode == PSR_MODE_LOCAL ? t->config->workers : 1;
    t->replicas = calloc(count, sizeof *t->replicas);
    if (t->replicas == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u replicas", count);
    t->replica_count = count;
    for (uint32_t i = 0; i < count; i++)
        PSR_TRY(init_replica(t, t->rank + i, &t->replicas[i]));
    return PSR_OK;
}

psr_err psr_trainer_init(const psr_trainer_options *options, psr_trainer *ret_trainer)
{
    psr_trainer trainer = {
        .config = options->config,
        .net = options->net,
        .buckets = options->buckets,
        .exchange = options->exchange,
        .rank = options->rank,
        .first_step = options->first_step,
        .total_steps = options->total_steps,
    };
    psr_err err = init_parts(&trainer, options->data);
    if (err != PSR_OK) {
        psr_trainer_done(&trainer);
        return err;
    }
    *ret_trainer = trainer;
    return PSR_OK;
}

void psr_trainer_done(psr_trainer *trainer)
{
    for (uint32_t i = 0; i < trainer->replica_count; i++) {
        psr_loader_free(trainer->replicas[i].loader);
        psr_arena_free(trainer->replicas[i].buffers, trainer->net->buffers.length);
    }
    free(trainer->replicas);
    psr_backend_free(trainer->backend);
    psr_dataset_free(trainer->train);
    psr_dataset_free(trainer->test);
    *trainer = (psr_trainer){0};
}
