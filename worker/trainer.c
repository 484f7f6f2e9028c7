#include "worker/trainer.h"

#include "base/arrays/arena.h"
#include "base/facts.h"
#include "model/optimizers/ema.h"

#include <inttypes.h>
#include <stdio.h>
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

uint32_t psr_trainer_device(const psr_config *config, uint32_t number_on_host, bool *ret_shares)
{
    uint32_t index = UINT32_MAX;
    const bool named = psr_config_uses_gpu(config, &index) && index != UINT32_MAX;
    if (ret_shares != NULL)
        *ret_shares = !named;
    return named ? index : number_on_host;
}

bool psr_trainer_is_first(const psr_trainer *trainer)
{
    return trainer->rank == 0;
}

bool psr_trainer_wants_bytes(const psr_trainer *trainer)
{
    return psr_backend_takes_bytes(trainer->executors->backend) && !trainer->floats_as_input;
}

static psr_err copy_algorithms(const psr_trainer *t, char *algorithms, size_t size)
{
    const char *chosen = psr_backend_algorithms(t->executors->backend);
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
        PSR_TRY(psr_backend_new(t->net, options, &t->executors->backend));
        PSR_TRY(copy_algorithms(t, algorithms, sizeof algorithms));
    }
    PSR_TRY(psr_exchange_broadcast(t->exchange, algorithms, sizeof algorithms));
    if (psr_trainer_is_first(t))
        return PSR_OK;
    algorithms[sizeof algorithms - 1] = '\0';
    options->algorithms = algorithms;
    return psr_backend_new(t->net, options, &t->executors->backend);
}

/* Each worker chooses by itself. Its choices must equal worker 0's, because they depend only on
 * facts that are compared when workers join. */
static psr_err compile_first(psr_trainer *t, psr_backend_options *options)
{
    if (strcmp(options->algorithms, "timed") == 0)
        return compile_timed(t, options);
    char first[sizeof t->config->algorithms] = "";
    PSR_TRY(psr_backend_new(t->net, options, &t->executors->backend));
    if (psr_trainer_is_first(t))
        PSR_TRY(copy_algorithms(t, first, sizeof first));
    PSR_TRY(psr_exchange_broadcast(t->exchange, first, sizeof first));
    first[sizeof first - 1] = '\0';
    if (!t->config->mixed_hosts &&
        strcmp(psr_backend_algorithms(t->executors->backend), first) != 0)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--algorithms %s: it chooses other algorithms here than on worker 0, so "
                        "the bits would differ; give worker 0's in full (run.json has them)",
                        options->algorithms);
    return PSR_OK;
}

/* A host's GPUs may be of several kinds, and while joining it tells that of its first worker. */
static psr_err compare_gpus(psr_trainer *t, const psr_backend_options *options)
{
    char first[PSR_IDENTITY_MAX];
    if (!psr_config_uses_gpu(t->config, NULL))
        return PSR_OK;
    const char *own = psr_backend_identity(options->kind, options->device);
    snprintf(first, sizeof first, "%s", own);
    PSR_TRY(psr_exchange_broadcast(t->exchange, first, sizeof first));
    first[sizeof first - 1] = '\0';
    if (t->config->mixed_hosts || strcmp(own, first) == 0)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "its GPU is %s, and worker 0's is %s: their bits could differ; use GPUs of one "
                    "kind (--device cuda:I), or give --mixed-hosts",
                    own, first);
}

/* All replicas of a process take the same algorithms. */
static psr_err compile(psr_trainer *t)
{
    bool shares;
    const uint32_t device = psr_trainer_device(t->config, t->number_on_host, &shares);
    psr_backend_options options = {
        .kind = psr_config_backend(t->config),
        .device = device,
        .shares_devices = shares,
        .plan_directory = t->plan_directory,
        .unrecorded = t->unrecorded,
        .precision = t->config->precision,
        .max_batch = t->config->batch_size,
        .label_smoothing = t->config->label_smoothing,
        .threads = t->config->threads,
        .sync_norms = t->config->sync_bn,
        .buckets = t->buckets,
        .algorithms = t->config->algorithms,
        .profile = t->config->profile,
        .dilate = t->config->dilate,
        .seeded_gradients = t->config->played_gradients == PSR_PLAYED_SEEDED,
        .updates = psr_config_updates_on_device(t->config) ? t->config : NULL,
        .keeps_gradients = psr_engine_keeps_gradients(t->config),
    };
    PSR_TRY(compile_first(t, &options));
    PSR_TRY(compare_gpus(t, &options));
    options.algorithms = psr_backend_algorithms(t->executors->backend);
    if (options.algorithms[0] == '\0')
        options.algorithms = t->config->algorithms;
    for (uint32_t i = 1; i < t->executor_count; i++)
        PSR_TRY(psr_backend_new(t->net, &options, &t->executors[i].backend));
    return PSR_OK;
}

/* Where --accumulate adds gradients up. */
static psr_err open_sums(psr_trainer *t)
{
    for (uint32_t i = 0; i < t->executor_count; i++) {
        psr_executor *executor = &t->executors[i];
        if (t->config->accumulate > 1)
            PSR_TRY(psr_arena_new(t->net->params.length, &executor->accumulated));
        if (t->config->accumulate > 2)
            PSR_TRY(psr_arena_new(t->net->params.length, &executor->pass));
    }
    return PSR_OK;
}

static psr_err init_replica(psr_trainer *t, uint32_t rank, psr_replica *replica)
{
    replica->rank = rank;
    replica->executor = &t->executors[t->executor_count > 1 ? rank - t->rank : 0];
    PSR_TRY(psr_arena_new(t->net->buffers.length, &replica->buffers));
    if (psr_ema_is_on(t->config))
        PSR_TRY(psr_arena_new(t->net->buffers.length, &replica->ema_buffers));
    uint64_t epoch;
    psr_loader_options options = {
        .sampler = t->sampler,
        .rank = rank,
        .plan = &t->plan,
        .wants_bytes = psr_trainer_wants_bytes(t),
        .threads = t->config->loader_threads,
        .depth = t->replica_count > 1 ? LOADER_DEPTH_OF_MANY : LOADER_DEPTH,
        .last_epoch = UINT32_MAX,
    };
    psr_pace_place(&t->config->pace, t->first_step, &epoch, &options.sampler.used);
    options.first_epoch = (uint32_t)epoch;
    return psr_loader_new(t->train, &options, &replica->loader);
}

/* --sync-bn: the fewest samples that all workers together have in a pass. That is the last one of
 * the epoch's last step. */
static uint32_t fewest_together(const psr_trainer *t, const psr_sampler *sampler)
{
    const uint32_t steps = psr_sampler_steps(sampler), size = t->config->batch_size;
    uint32_t sum = 0;
    if (steps == 0)
        return UINT32_MAX;
    const uint32_t before = (psr_sampler_batch(sampler, 0, steps - 1) - 1) / size * size;
    for (uint32_t rank = 0; rank < sampler->workers; rank++) {
        const uint32_t batch = psr_sampler_batch(sampler, rank, steps - 1);
        sum += batch > before ? batch - before : 0;
    }
    return sum;
}

/* The variance of one value is none: PyTorch refuses it when it comes to that batch, and here it is
 * refused before the first. */
static psr_err check_batches(const psr_trainer *t)
{
    const char *name = "";
    psr_sampler whole = t->sampler, rest = t->sampler;
    uint64_t epoch;
    psr_pace_place(&t->config->pace, t->first_step, &epoch, &rest.used);
    const bool together = t->config->sync_bn;
    const uint32_t of_whole =
                       together ? fewest_together(t, &whole) : psr_sampler_least_batch(&whole),
                   of_rest = together ? fewest_together(t, &rest) : psr_sampler_least_batch(&rest),
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
    const uint32_t count = psr_exchange_plays(t->exchange),
                   executors = t->config->sync_bn ? count : 1;
    t->executors = calloc(executors, sizeof *t->executors);
    if (t->executors == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u back ends", executors);
    t->executor_count = executors;
    PSR_TRY(compile(t));
    PSR_TRY(open_sums(t));
    psr_session_progress(t->session, PSR_PHASE_START);

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
        .number_on_host = options->number_on_host,
        .first_step = options->first_step,
        .total_steps = options->total_steps,
        .evaluates_first = options->evaluates_first,
        .plan_directory = options->plan_directory,
        .unrecorded = options->unrecorded,
        .floats_as_input = options->floats_as_input,
        .loss_scale = psr_loss_scale_first(options->config, &options->loss_scale),
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
        psr_arena_free(trainer->replicas[i].ema_buffers, trainer->net->buffers.length);
    }
    free(trainer->replicas);
    for (uint32_t i = 0; i < trainer->executor_count; i++) {
        psr_executor *executor = &trainer->executors[i];
        psr_backend_free(executor->backend);
        psr_arena_free(executor->accumulated, trainer->net->params.length);
        psr_arena_free(executor->pass, trainer->net->params.length);
    }
    free(trainer->executors);
    *trainer = (psr_trainer){0};
}
