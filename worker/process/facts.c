/* What this host finds by the run's configuration, and all workers compare (base/facts.h): first
 * what can be known before the data are read, then, when they have been, their content. */
#include "worker/process/process_private.h"

#include "base/system/machine.h"
#include "base/system/memory_limit.h"
#include "data/augment/plan.h"
#include "data/class_names.h"
#include "model/cuda/api.h"
#include "model/networks/network_memory.h"
#include "worker/input/pictures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks options that depend on the data, before anything is computed. */
static psr_err check_data_options(const psr_config *config, const psr_dataset_info *info)
{
    psr_dataset constants = {.channels = info->channels, .deviation = {1, 1, 1}};
    if (config->classes > 0 && config->classes < info->classes)
        return psr_fail(PSR_ERR_USAGE,
                        "--classes: %" PRIu32 " are too few for %s, whose labels go up to %" PRIu32
                        "; give %" PRIu32 " or more, or leave it out",
                        config->classes, info->name, info->classes - 1, info->classes);
    return psr_dataset_normalise_by(&constants, config->mean, config->std);
}

/* All ranks have samples for a whole step. */
static psr_err check_batches(const psr_config *config, uint32_t ranks, const psr_dataset_info *info)
{
    const uint64_t step_samples = psr_config_step_samples(config);
    if (config->accumulate > 1 && step_samples * ranks > info->train_count)
        return psr_fail(PSR_ERR_USAGE,
                        "--accumulate: %" PRIu32 " batches of %" PRIu32 " for each of %" PRIu32
                        " workers are more than the %" PRIu32
                        " samples of %s; give at most %" PRIu64,
                        config->accumulate, config->batch_size, ranks, info->train_count,
                        info->name, info->train_count / ((uint64_t)config->batch_size * ranks));
    if (step_samples * ranks > info->train_count)
        return psr_fail(
            PSR_ERR_USAGE,
            "--batch-size: %" PRIu32 " for each of %" PRIu32 " workers is more than the %" PRIu32
            " samples of %s; give at most %" PRIu32,
            config->batch_size, ranks, info->train_count, info->name, info->train_count / ranks);
    return PSR_OK;
}

/* With --steps psr_config_check refuses this; how many steps --epochs makes is known only with the
 * data. */
static psr_err check_last_stretch(const psr_config *config, uint64_t total)
{
    char mode[PSR_OPTION_TEXT_MAX];
    if (total == 0 || psr_config_next_stretch(config, total - 1) == 0)
        return PSR_OK;
    PSR_TRY(psr_config_get(config, "mode", mode, sizeof mode));
    return psr_fail(PSR_ERR_USAGE,
                    "--mode %s does not go with --epochs %" PRIu64
                    ": the run ends before that, after step %" PRIu64 "; give more --epochs",
                    mode, (uint64_t)config->epochs, total);
}

/* What is played computes nothing, and so needs nothing. A GPU has memory of its own, and says
 * itself what batch would fit. */
static void find_memory(const psr_config *config, const psr_network *net,
                        const psr_dataset_info *info, psr_facts *facts)
{
    if (config->backend == PSR_BACKEND_PLAYED || psr_config_uses_gpu(config, NULL))
        return;
    const psr_network_memory memory = psr_network_memory_for(net, config, true);
    const uint64_t available =
        psr_memory_available("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
    facts->memory_fixed_bytes = memory.fixed_bytes;
    facts->memory_sample_bytes = memory.sample_bytes;
    facts->memory_host_bytes = info->memory_bytes;
    facts->memory_free_bytes = available == UINT64_MAX ? 0 : available;
}

/* The facts of this host, for a run of so many ranks. */
static psr_err find_facts(psr_worker *w, uint32_t ranks, psr_facts *ret_facts)
{
    const psr_config *config = &w->config;
    psr_dataset_info info;
    PSR_TRY(psr_dataset_find(config->data, w->options.folders->data, config->classes, w->data,
                             sizeof w->data));
    PSR_TRY(psr_dataset_info_read(w->data, &info));
    PSR_TRY(check_data_options(config, &info));
    uint32_t classes = config->classes > 0 ? config->classes : info.classes;
    uint32_t side;
    PSR_TRY(psr_augment_side_of(config, info.channels, (psr_picture_shape){info.height, info.width},
                                &side));
    PSR_TRY(psr_network_of(config, classes, info.channels, side, side, &w->net));

    psr_sampler sampler = psr_trainer_sampler(config, ranks, info.train_count);
    uint64_t total = psr_trainer_total_steps(config, &sampler);
    PSR_TRY(check_batches(config, ranks, &info));
    PSR_TRY(check_last_stretch(config, total));
    psr_traced_steps traced;
    PSR_TRY(psr_config_traced_steps(config, 0, total, &traced));
    *ret_facts = (psr_facts){
        .train_count = info.train_count,
        .test_count = info.test_count,
        .channels = info.channels,
        .height = info.height,
        .width = info.width,
        .classes = classes,
        .steps_per_epoch = psr_sampler_steps(&sampler),
        .total_steps = total,
        .parameter_count = w->net->params.count,
    };
    find_memory(config, w->net, &info, ret_facts);
    /* With the GPU of this host's first worker. Which worker this is is not known before all have
     * joined: then each compares its own (worker/trainer.c). */
    snprintf(ret_facts->identity, sizeof ret_facts->identity, "%s threads=%" PRIu32,
             psr_backend_identity(psr_config_backend(config), psr_trainer_device(config, 0, NULL)),
             config->threads);
    snprintf(ret_facts->data_name, sizeof ret_facts->data_name, "%s", info.name);
    return PSR_OK;
}

/* ---- the data ---- */

/* Called on the thread that has read the data. Only the joining thread waits for it. */
static void data_read(void *context)
{
    psr_worker *w = context;
    psr_transport_wake(w->transport);
}

static psr_err start_reading(psr_worker *w, const psr_place *place)
{
    const psr_provision *p = w->options.provision;
    const psr_host_data_options options = {
        .data = w->data,
        .name = w->facts.data_name,
        .cache = w->options.folders->cache,
        .directory = p->directory[0] != '\0' ? p->directory : p->sharing,
        .rank = place->rank,
        .ranks = place->ranks,
        .context = w,
        .ended = data_read,
    };
    return psr_host_data_start(&options, &w->host_data);
}

/* Checks that the files have not changed since the facts were found. */
static psr_err check_data_unchanged(const psr_opened *opened, const psr_config *config,
                                    const psr_facts *facts)
{
    const psr_dataset *train = opened->train, *test = opened->test;
    if (train->count == facts->train_count && test->count == facts->test_count &&
        train->channels == facts->channels && train->height == facts->height &&
        train->width == facts->width && train->classes <= facts->classes)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT,
                    "--data %s: its files were changed while they were read; start again",
                    config->data);
}

/* By what pixels are normalised, for those who have only the run's files. */
static psr_err tell_constants(const psr_dataset *train, const psr_config *config, psr_facts *facts)
{
    psr_dataset constants = {.channels = train->channels};
    memcpy(constants.mean, train->mean, sizeof constants.mean);
    memcpy(constants.deviation, train->deviation, sizeof constants.deviation);
    PSR_TRY(psr_dataset_normalise_by(&constants, config->mean, config->std));
    memcpy(facts->mean, constants.mean, sizeof facts->mean);
    memcpy(facts->deviation, constants.deviation, sizeof facts->deviation);
    psr_machine_processor(facts->processor, sizeof facts->processor);
    return PSR_OK;
}

/* What the GPUs of all workers find each other by: worker 0 makes it, and all get it when all have
 * agreed. */
static psr_err make_group(char ret_text[PSR_GROUP_TEXT_BYTES])
{
    const psr_cuda_api *api = psr_cuda_offered();
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    if (api == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "--mode nccl: this program has no GPU");
    PSR_TRY(api->group_id(id));
    for (size_t i = 0; i < sizeof id; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", id[i]);
    return PSR_OK;
}

/* Data that could not be shared are this worker's own. */
static void tell_memory(const psr_host_data *data, psr_facts *facts)
{
    if (facts->memory_fixed_bytes == 0 || psr_host_data_shared(data) >= 0)
        return;
    facts->memory_fixed_bytes += facts->memory_host_bytes;
    facts->memory_host_bytes = 0;
}

psr_err psr_worker_find_facts(psr_worker *w, const psr_place *place)
{
    w->is_first = place->rank == 0;
    PSR_TRY(find_facts(w, place->ranks, &w->facts));
    return start_reading(w, place);
}

psr_err psr_worker_find_content(void *context, bool *ret_known, void **ret_facts,
                                size_t *ret_facts_size)
{
    psr_worker *w = context;
    char *json = NULL;
    PSR_TRY(psr_host_data_take(w->host_data, &w->opened));
    if (w->opened == NULL)
        return PSR_OK;
    PSR_TRY(check_data_unchanged(w->opened, &w->config, &w->facts));
    PSR_TRY(psr_pictures_prepare(w->opened, &w->config, w->is_first));
    w->facts.content = w->opened->content;
    tell_memory(w->host_data, &w->facts);
    PSR_TRY(tell_constants(w->opened->train, &w->config, &w->facts));
    if (w->is_first && psr_engine_sums_on_gpus(&w->config))
        PSR_TRY(make_group(w->facts.group));
    const psr_picture_source *source = w->opened->train->source;
    psr_class_names(w->data, w->facts.classes == source->classes ? source->class_names : NULL,
                    &w->opened->content, w->facts.classes, w->facts.class_names,
                    sizeof w->facts.class_names);
    PSR_TRY(psr_facts_to_json(&w->facts, &json));
    *ret_known = true;
    *ret_facts = json;
    *ret_facts_size = strlen(json);
    return PSR_OK;
}
