#include "worker/trainer.h"

#include "base/arrays/arena.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Batches ready ahead of the training loop: one in use, and enough to even out decoding times. With
 * many replicas in one process each waits for its turn, so two are enough. */
enum { LOADER_DEPTH = 4, LOADER_DEPTH_OF_MANY = 2 };

psr_sampler psr_trainer_sampler(const psr_config *config, uint32_t ranks, uint32_t count)
{
    return (psr_sampler){.seed = config->seed,
                         .count = count,
                         .workers = ranks,
                         .batch_size = psr_config_step_samples(config),
                         .partition = config->partition,
                         .shuffle = config->shuffle,
                         .drop_last = config->drop_last,
                         .shuffle_buffer = config->shuffle_buffer};
}

uint64_t psr_trainer_total_steps(const psr_config *config, const psr_sampler *sampler)
{
    if (config->eval_only)
        return 0;
    if (config->steps > 0)
        return config->steps;
    return config->epochs > 0 ? (uint64_t)config->epochs * psr_sampler_steps(sampler)
                              : PSR_STEPS_MOST; /* --seconds ends it */
}

bool psr_trainer_is_first(const psr_trainer *trainer)
{
    return trainer->rank == 0;
}

static psr_err copy_algorithms(const psr_trainer *t, char *algorithms, size_t size)
{
    const char *chosen = psr_backend_algorithms(t->backend);
    if (strlen(chosen) >= size)
        return psr_fail(
            PSR_ERR_COMPUTE,
            "the choice of algorithms takes %zu bytes, more than the %zu that can be kept",
            strlen(chosen), size - 1);
    strcpy(algorithms, chosen);
    return PSR_OK;
}

/* Worker 0 times algorithms while the others wait, so that nothing disturbs the timing and all use
 * the same ones. */
static psr_err compile_timed(psr_trainer *t, psr_backend_options *options)
{
    char algorithms[sizeof t->config->algorithms] = "";
    if (psr_trainer_is_first(t)) {
        PSR_TRY(psr_backend_new(t->net, options, &t->backend));
        PSR_TRY(copy_algorithms(t, algorithms, sizeof algorithms));
    }
    PSR_TRY(psr_exchange_broadcast(t->exchange, algorithms, sizeof algorithms));
    if (psr_trainer_is_first(t))
        return PSR_OK;
    algorithms[sizeof algorithms - 1] = '\0';
    options->algorithms = algorithms;
    return psr_backend_new(t->net, options, &t->backend);
}

/* Each worker chooses by itself. Its choices must equal worker 0's, because they depend only on
 * facts that are compared when workers join. */
static psr_err compile(psr_trainer *t)
{
    psr_backend_options options = {
        .kind = t->config->backend,
        .precision = t->config->precision,
        .max_batch = t->config->batch_size,
        .label_smoothing = t->config->label_smoothing,
        .threads = t->config->threads,
        .buckets = t->buckets,
        .algorithms = t->config->algorithms,
        .profile = t->config->profile,
        .dilate = t->config->dilate,
        .seeded_gradients = t->config->played_gradients == PSR_PLAYED_SEEDED,
    };
    if (strcmp(options.algorithms, "timed") == 0)
        return compile_timed(t, &options);
    char first[sizeof t->config->algorithms] = "";
    PSR_TRY(psr_backend_new(t->net, &options, &t->backend));
    if (psr_trainer_is_first(t))
        PSR_TRY(copy_algorithms(t, first, sizeof first));
    PSR_TRY(psr_exchange_broadcast(t->exchange, first, sizeof first));
    first[sizeof first - 1] = '\0';
    if (strcmp(psr_backend_algorithms(t->backend), first) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--algorithms %s: it chooses other algorithms here than on worker 0, so "
                        "the bits would differ; give worker 0's in full (run.json has them)",
                        options.algorithms);
    return PSR_OK;
}

static psr_err init_replica(psr_trainer *t, uint32_t rank, psr_replica *replica)
{
    replica->rank = rank;
    PSR_TRY(psr_arena_new(t->net->buffers.length, &replica->buffers));
    uint64_t epoch;
    psr_loader_options options = {
        .sampler = t->sampler,
        .rank = rank,
        .plan = &t->plan,
        .threads = t->config->loader_threads,
        .depth = t->replica_count > 1 ? LOADER_DEPTH_OF_MANY : LOADER_DEPTH,
        .last_epoch = UINT32_MAX,
    };
    psr_pace_place(&t->config->pace, t->first_step, &epoch, &options.sampler.used);
    options.first_epoch = (uint32_t)epoch;
    return psr_loader_new(t->train, &options, &replica->loader);
}

/* The variance of one value is none: PyTorch refuses it when it comes to that batch, and here it is
 * refused before the first. */
static psr_err check_batches(const psr_trainer *t)
{
    const char *name = "";
    psr_sampler whole = t->sampler, rest = t->sampler;
    uint64_t epoch;
    psr_pace_place(&t->config->pace, t->first_step, &epoch, &rest.used);
    const uint32_t of_whole = psr_sampler_least_batch(&whole),
                   of_rest = psr_sampler_least_batch(&rest),
                   least = of_rest < of_whole ? of_rest : of_whole;
    const uint64_t values = psr_network_norm_values(t->net, &name);
    if (values > 1 || least > 1 || t->first_step == t->total_steps ||
        t->config->backend == PSR_BACKEND_PLAYED)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "--batch-size %" PRIu32 " of %" PRIu32
                    " workers makes a batch of one sample of "
                    "%" PRIu32 " in the epoch, which gives %s of %s one value a channel, of which "
                    "there is no variance; give another --batch-size, --drop-last, or a larger "
                    "--image-size",
                    t->config->batch_size, t->ranks, t->sampler.count, name, t->net->name);
}

static psr_err init_parts(psr_trainer *t)
{
    /* otherwise a label could be beyond the network's outputs */
    if (t->train->classes > t->net->classes)
        return psr_fail(PSR_ERR_FORMAT, "%s: has %u classes, and had %u when this worker joined",
                        t->train->name, t->train->classes, t->net->classes);
    PSR_TRY(psr_dataset_normalise_by(t->train, t->config->mean, t->config->std));
    PSR_TRY(psr_dataset_normalise_by(t->test, t->config->mean, t->config->std));
    psr_session_progress(t->session, PSR_PHASE_START);
    PSR_TRY(psr_augment_plan_of(t->config, &t->plan));
    t->sampler = psr_trainer_sampler(t->config, t->ranks, t->train->count);
    PSR_TRY(check_batches(t));
    PSR_TRY(compile(t));
    if (t->config->accumulate > 1)
        PSR_TRY(psr_arena_new(t->net->params.length, &t->accumulated));
    if (t->config->accumulate > 2)
        PSR_TRY(psr_arena_new(t->net->params.length, &t->pass));
    psr_session_progress(t->session, PSR_PHASE_START);

    uint32_t count = psr_exchange_plays(t->exchange);
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
        .session = options->session,
        .exchange = options->exchange,
        .train = options->data->train,
        .test = options->data->test,
        .rank = options->rank,
        .ranks = options->ranks,
        .first_step = options->first_step,
        .total_steps = options->total_steps,
        .evaluates_first = options->evaluates_first,
    };
    psr_err err = init_parts(&trainer);
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
    if (trainer->accumulated != NULL)
        psr_arena_free(trainer->accumulated, trainer->net->params.length);
    if (trainer->pass != NULL)
        psr_arena_free(trainer->pass, trainer->net->params.length);
    *trainer = (psr_trainer){0};
}
