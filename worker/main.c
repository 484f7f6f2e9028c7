/* psring-worker: one worker of a run. Started by psring's agent (--provision -), by hand
 * (--scheduler, --key-file), or by somebody else's launcher (worker/start/launched.h). */
#include "base/clock.h"
#include "base/facts.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/system/machine.h"
#include "base/system/memory.h"
#include "base/system/memory_limit.h"
#include "base/text/printable.h"
#include "comm/members/join.h"
#include "comm/members/member.h"
#include "comm/members/provision.h"
#include "comm/members/memory/shared_memory.h"
#include "comm/view/plan.h"
#include "comm/start/start.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"
#include "data/augment/plan.h"
#include "data/class_names.h"
#include "model/cuda/api.h"
#include "model/networks/network_memory.h"
#include "worker/device_update.h"
#include "worker/exchange/peers.h"
#include "worker/input/host_data.h"
#include "worker/input/pictures.h"
#include "worker/snapshot.h"
#include "worker/start/arguments.h"
#include "worker/start/commands.h"
#include "worker/start/end_signals.h"
#include "worker/start/gpu.h"
#include "worker/start/launched.h"
#include "worker/start/launched_options.h"
#include "worker/start/spawn.h"
#include "worker/train.h"

#include <argp.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Time in ms at the end for the last messages to leave. */
#define LINGER_MS 2000

/* The directory of the user's data sets with known names. It is found here, because only main files
 * read the environment. false: there is none. */
static bool user_data_directory(char *path, size_t size)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length = -1;
    if (xdg != NULL && xdg[0] == '/')
        length = snprintf(path, size, "%s/psring", xdg);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.local/share/psring", home);
    return length > 0 && (size_t)length < size;
}

/* The user's directory for what is found once and kept, of that name. false: there is none. */
static bool user_cache_directory(const char *name, char *path, size_t size)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (xdg != NULL && xdg[0] == '/')
        length = snprintf(path, size, "%s/psring/%s", xdg, name);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.cache/psring/%s", home, name);
    return length > 0 && (size_t)length < size;
}

/* Where a GPU's plans are kept: in the user's own directory, unless the environment names another.
 * "": nowhere. */
static psr_err find_plan_directory(char *path, size_t size)
{
    const char *given = getenv("PSR_CUDA_PLANS");
    path[0] = '\0';
    if (given == NULL) {
        if (!user_cache_directory("cuda", path, size))
            path[0] = '\0';
        return PSR_OK;
    }
    if (given[0] != '\0' && (given[0] != '/' || strlen(given) >= size))
        return psr_fail(PSR_ERR_USAGE,
                        "PSR_CUDA_PLANS=%.100s: give the path of a directory, from / on, or "
                        "nothing to keep no plans",
                        given);
    snprintf(path, size, "%s", given);
    return PSR_OK;
}

/* Whether passes on a GPU are recorded is for those who look for an error in that. */
static psr_err find_unrecorded(bool *ret_unrecorded)
{
    const char *given = getenv("PSR_CUDA_RECORDINGS");
    *ret_unrecorded = given != NULL && strcmp(given, "off") == 0;
    if (given != NULL && !*ret_unrecorded && strcmp(given, "on") != 0)
        return psr_fail(PSR_ERR_USAGE, "PSR_CUDA_RECORDINGS=%.100s: it is on or off", given);
    return PSR_OK;
}

/* And likewise whether images go to it as bytes, where they can. */
static psr_err find_input(bool *ret_floats)
{
    const char *given = getenv("PSR_CUDA_INPUT");
    *ret_floats = given != NULL && strcmp(given, "floats") == 0;
    if (given != NULL && !*ret_floats && strcmp(given, "bytes") != 0)
        return psr_fail(PSR_ERR_USAGE, "PSR_CUDA_INPUT=%.100s: it is bytes or floats", given);
    return PSR_OK;
}

/* ---- the worker ---- */

/* A failure that another thread found. */
typedef struct psr_lost {
    pthread_mutex_t mutex;
    psr_err status; /* PSR_OK: nothing is lost */
    char line[PSR_START_LINE_MAX];
    bool joined;
    psr_transport *transport; /* the transport to wake; NULL: not yet, or no more */
    psr_session *session;     /* the session to break; NULL: likewise */
} psr_lost;

typedef struct worker {
    psr_provision provision;
    psr_transport *transport;
    psr_member *member;
    psr_config config;        /* the run's, when it has come */
    psr_worker_start start;   /* set when all have agreed */
    char data[PSR_PATH_MAX];  /* where config's data set is on this host */
    char plans[PSR_PATH_MAX]; /* where a GPU's plans are kept; "": nowhere */
    bool unrecorded;          /* passes on a GPU are not recorded */
    bool floats_as_input;     /* images go to it as floats */
    psr_facts facts;
    psr_host_data *host_data; /* it is being read, until all processes have agreed */
    psr_opened *opened;       /* host_data's result */
    bool is_first;            /* rank 0, which says what all find */
    psr_network *net;
    /* its arenas have the gradients, and the weights that others take from here */
    psr_shared_memory memory;
    psr_buckets buckets;
    psr_peers peers;
    psr_session *session;
    psr_tracer *tracer; /* --trace; NULL: without */
    psr_exchange *exchange;
    psr_trainer trainer;
    psr_launched launched;
    psr_engine_gpu gpu; /* --mode nccl */
    bool configured;    /* CONFIG has come */
    bool compares;      /* launched has options of the run, which must equal those of CONFIG */
    psr_lost lost;      /* a process that this one has started was lost */
} worker;

static void log_stranger(void *context, const char *line)
{
    (void)context;
    psr_log_of(PSR_LOG_OF_STRANGER, PSR_LOG_WARN, "%s", line);
}

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

/* The GPU of this host's first worker. Which worker this is is not known before all have joined:
 * then each compares its own (worker/trainer.c). */
static uint32_t first_device(const psr_config *config)
{
    uint32_t index = UINT32_MAX;
    (void)psr_config_uses_gpu(config, &index);
    return index != UINT32_MAX ? index : 0;
}

/* The facts of this host, for a run of so many ranks. */
static psr_err find_facts(worker *w, uint32_t ranks, psr_facts *ret_facts)
{
    const psr_config *config = &w->config;
    char directory[PSR_PATH_MAX];
    bool has_directory = user_data_directory(directory, sizeof directory);
    psr_dataset_info info;
    PSR_TRY(psr_dataset_find(config->data, has_directory ? directory : NULL, config->classes,
                             w->data, sizeof w->data));
    PSR_TRY(psr_dataset_info_read(w->data, &info));
    PSR_TRY(check_data_options(config, &info));
    uint32_t classes = config->classes > 0 ? config->classes : info.classes;
    uint32_t side;
    PSR_TRY(psr_augment_side_of(config, info.channels, (psr_picture_shape){info.height, info.width},
                                &side));
    PSR_TRY(psr_network_of(config, classes, info.channels, side, side, &w->net));

    psr_sampler sampler = psr_trainer_sampler(config, ranks, info.train_count);
    uint64_t total = psr_trainer_total_steps(config, &sampler);
    const uint64_t step_samples = psr_config_step_samples(config);
    if (config->accumulate > 1 && step_samples * ranks > info.train_count)
        return psr_fail(PSR_ERR_USAGE,
                        "--accumulate: %" PRIu32 " batches of %" PRIu32 " for each of %" PRIu32
                        " workers are more than the %" PRIu32
                        " samples of %s; give at most %" PRIu64,
                        config->accumulate, config->batch_size, ranks, info.train_count, info.name,
                        info.train_count / ((uint64_t)config->batch_size * ranks));
    if (step_samples * ranks > info.train_count)
        return psr_fail(
            PSR_ERR_USAGE,
            "--batch-size: %" PRIu32 " for each of %" PRIu32 " workers is more than the %" PRIu32
            " samples of %s; give at most %" PRIu32,
            config->batch_size, ranks, info.train_count, info.name, info.train_count / ranks);
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
    snprintf(ret_facts->identity, sizeof ret_facts->identity, "%s threads=%" PRIu32,
             psr_backend_identity(psr_config_backend(config), first_device(config)),
             config->threads);
    snprintf(ret_facts->data_name, sizeof ret_facts->data_name, "%s", info.name);
    return PSR_OK;
}

/* ---- the data ---- */

/* Called on the thread that has read the data. Only the joining thread waits for it. */
static void data_read(void *context)
{
    worker *w = context;
    psr_transport_wake(w->transport);
}

static psr_err start_reading(worker *w, const psr_place *place)
{
    char cache[PSR_PATH_MAX];
    const psr_provision *p = &w->provision;
    w->is_first = place->rank == 0;
    const psr_host_data_options options = {
        .data = w->data,
        .name = w->facts.data_name,
        .cache = user_cache_directory("data", cache, sizeof cache) ? cache : NULL,
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

/* Called by the joining thread until the data have been read. */
static psr_err find_content(void *context, bool *ret_known, void **ret_facts,
                            size_t *ret_facts_size)
{
    worker *w = context;
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

/* ---- shared memory ---- */

static void say_shared(bool warning, const char *line)
{
    psr_log(warning ? PSR_LOG_WARN : PSR_LOG_INFO, "%s", line);
}

/* Must be called before other processes can connect; they do so after WELCOME, which does not come
 * before this process has joined. What cannot be shared is sent. */
static void share_memory(worker *w)
{
    if (psr_config_shares_memory(&w->config))
        psr_shared_memory_begin(&w->memory, w->transport, w->config.transport == PSR_TRANSPORT_SHM,
                                say_shared);
}

static psr_err emulate_link(worker *w)
{
    const psr_config *config = &w->config;
    if (!psr_config_has_link(config))
        return PSR_OK;
    return psr_transport_emulate_link(
        w->transport, (uint64_t)((double)config->link_rate_bits_per_s / config->dilate),
        (double)config->link_delay_ns * 1e-9 * config->dilate);
}

static psr_err take_config(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                           size_t *ret_facts_size)
{
    worker *w = context;
    (void)ret_facts;
    (void)ret_facts_size; /* find_content returns them */
    w->configured = true;
    psr_config_defaults(&w->config);
    PSR_TRY(psr_config_from_json(&w->config, given.data, given.size));
    if (w->compares)
        PSR_TRY(psr_launched_compare(&w->launched.config, &w->config));
    PSR_TRY(emulate_link(w));
    share_memory(w);
    PSR_TRY(find_facts(w, place->ranks, &w->facts));
    return start_reading(w, place);
}

/* ---- what is lost ---- */

/* A process that this one started has ended. Called on the thread that waits for that. If that
 * process exits by itself after all have joined, it has told the others why, and its message is on
 * its way here. */
static void note_lost(void *context, bool killed, psr_err status, const char *line)
{
    worker *w = context;
    pthread_mutex_lock(&w->lost.mutex);
    if (w->lost.status == PSR_OK && (killed || !w->lost.joined)) {
        w->lost.status = status;
        snprintf(w->lost.line, sizeof w->lost.line, "%s", line);
        if (w->lost.session != NULL)
            psr_session_break(w->lost.session, status, line);
        else if (w->lost.transport != NULL)
            psr_transport_wake(w->lost.transport);
    }
    pthread_mutex_unlock(&w->lost.mutex);
}

/* Sets which transport and session are told of a lost process from now on. */
static psr_err watch_lost(worker *w, psr_transport *transport, psr_session *session, bool joined)
{
    char line[PSR_START_LINE_MAX];
    pthread_mutex_lock(&w->lost.mutex);
    w->lost.transport = transport;
    w->lost.session = session;
    w->lost.joined = joined;
    psr_err status = w->lost.status;
    snprintf(line, sizeof line, "%s", w->lost.line);
    pthread_mutex_unlock(&w->lost.mutex);
    return status == PSR_OK ? PSR_OK : psr_fail(status, "%s", line);
}

static psr_err check_lost(void *context)
{
    worker *w = context;
    return watch_lost(w, w->transport, NULL, false);
}

static void report(void *context, psr_msg_progress *progress)
{
    const worker *w = context;
    if (w->session != NULL)
        psr_session_report(w->session, progress);
    else if (w->host_data != NULL)
        psr_host_data_report(w->host_data, progress);
}

static psr_err join_once(worker *w)
{
    psr_zmq_options zmq = psr_provision_zmq(&w->provision);
    zmq.watches_ways = true;
    zmq.misses_scheduler = true;
    zmq.log_stranger = log_stranger;
    PSR_TRY(psr_transport_zmq_new(&zmq, &w->transport));
    const psr_member_options member = {.transport = w->transport,
                                       .provision = &w->provision,
                                       .shares_memory = true,
                                       .context = w,
                                       .configured = take_config,
                                       .facts = find_content,
                                       .report = report,
                                       .interrupted = check_lost};
    PSR_TRY(check_lost(w));
    return psr_member_join(&member, &w->member);
}

static psr_err join(worker *w)
{
    const int64_t began_ms = psr_clock_ms();
    bool said = false;
    psr_err err = join_once(w);
    while (err != PSR_OK && !w->configured &&
           psr_member_joins_again(&w->provision, w->transport, err, began_ms, &said)) {
        PSR_TRY(watch_lost(w, NULL, NULL, false));
        psr_transport_free(&w->transport, 0);
        err = join_once(w);
    }
    return err;
}

static psr_err connect_peers(void *context, const psr_plan *plan)
{
    worker *w = context;
    psr_transport_bound(w->transport, PSR_ROLE_SHARD, psr_plan_waiting_max(plan));
    psr_transport_bound(w->transport, PSR_ROLE_WORKER, psr_plan_waiting_max(plan));
    return psr_peers_connect(&w->peers, plan);
}

/* The view's plan has their runs. */
static psr_err make_buckets(worker *w)
{
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    psr_span *spans = calloc((size_t)plan->bucket_count + 1, sizeof *spans);
    if (spans == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u buckets", plan->bucket_count);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        spans[b] = plan->buckets[b].span;
    psr_err err = psr_buckets_of(&w->net->params, spans, plan->bucket_count, &w->buckets);
    free(spans);
    PSR_TRY(err);
    for (uint32_t b = 0; b < plan->bucket_count; b++)
        if (w->buckets.items[b].frozen != (plan->buckets[b].route == PSR_ROUTE_FROZEN))
            return psr_fail(PSR_ERR_FORMAT,
                            "the plan's bucket %" PRIu32 " is %s, and --freeze of this worker has "
                            "it otherwise; give all the same",
                            b, w->buckets.items[b].frozen ? "exchanged" : "frozen");
    return PSR_OK;
}

/* Makes the arena of the weights in shared memory. Buckets that other workers hold are in those
 * workers' memory when they have come, so their part of this arena may be private. */
static psr_err make_weights(worker *w, float **ret_weights)
{
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    const psr_peer self = psr_member_self(w->member);
    float *weights = psr_shared_memory_arena(&w->memory, w->net->params.length);
    psr_span run;
    for (uint32_t b = plan->bucket_count;
         (run = psr_plan_next_run(plan, self, false, &b)).count > 0;)
        PSR_TRY(psr_shared_memory_keep(&w->memory, weights, run));
    psr_shared_memory_fill_held(&w->memory, weights, plan, self);
    *ret_weights = weights;
    return PSR_OK;
}

static psr_err own_weights(void *context)
{
    worker *w = context;
    return psr_shared_memory_own(&w->memory, psr_exchange_weights(w->exchange));
}

static float *make_gradients(worker *w)
{
    float *gradients = psr_shared_memory_arena(&w->memory, w->net->params.length);
    psr_shared_memory_fill(&w->memory, gradients, (psr_span){0, w->net->params.length});
    return gradients;
}

static psr_err make_tracer(worker *w, bool alone)
{
    psr_traced_steps steps;
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    PSR_TRY(psr_config_traced_steps(&w->config, w->start.first_step, w->start.total_steps, &steps));
    if (steps.count == 0)
        return PSR_OK;
    const psr_tracer_options room = psr_tracer_room(plan, steps.first, steps.count,
                                                    w->net->node_count, alone ? plan->ranks : 1);
    return psr_tracer_new(&room, &w->tracer);
}

/* How many workers of this host have lower ranks. */
static uint32_t number_on_host(const psr_member *member)
{
    const psr_peer self = psr_member_self(member);
    const psr_view *view = psr_member_view(member);
    const psr_view_member *own = psr_view_find(view, self);
    uint32_t number = 0;
    for (uint32_t i = 0; own != NULL && i < view->member_count; i++) {
        const psr_view_member *other = &view->members[i];
        number += other->peer.role == PSR_ROLE_WORKER && other->peer.rank < self.rank &&
                  strcmp(other->host, own->host) == 0;
    }
    return number;
}

/* This worker's GPU, as psr_trainer finds it, and the group of all. */
static psr_err find_gpu(worker *w)
{
    const char *text = w->start.group;
    if (strlen(text) != 2 * sizeof w->gpu.group)
        return psr_fail(PSR_ERR_FORMAT, "--mode nccl: worker 0 told no group of GPUs");
    for (size_t i = 0; i < sizeof w->gpu.group; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], '\0'};
        w->gpu.group[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    uint32_t index = UINT32_MAX;
    (void)psr_config_uses_gpu(&w->config, &index);
    w->gpu.shares_devices = index == UINT32_MAX;
    w->gpu.device = w->gpu.shares_devices ? number_on_host(w->member) : index;
    return PSR_OK;
}

/* What this worker has of a checkpoint goes to a scheduler of this host by reference. */
static void share_pieces(worker *w)
{
    psr_member_lend_to_scheduler(w->member);
    psr_shared_memory_blocks(&w->memory, psr_session_pieces(w->session),
                             psr_snapshot_pieces(w->exchange, &w->net->params, &w->buckets,
                                                 psr_member_self(w->member).rank == 0),
                             !psr_duration_is_none(w->config.checkpoint_every));
}

static psr_err start_exchange(worker *w, const psr_ways *ways)
{
    const bool alone = ways->engines[0]->computes_all_ranks;
    const psr_plan *plan = &psr_member_view(w->member)->plan;
    float *weights = NULL;
    const bool sums_on_gpus = psr_engine_sums_on_gpus(&w->config);
    PSR_TRY(make_buckets(w));
    PSR_TRY(make_tracer(w, alone));
    if (sums_on_gpus)
        PSR_TRY(find_gpu(w));
    /* If ways can change, also by hand, a later plan may let this worker hold buckets that it does
     * not hold now. Until then they take addresses, but no memory. Weights that each device updates
     * are nobody else's. */
    if (!psr_config_updates_on_device(&w->config) &&
        (psr_plan_has_route(plan, PSR_ROUTE_HOST) || psr_config_has_several_ways(&w->config) ||
         psr_config_can_change(&w->config)))
        PSR_TRY(make_weights(w, &weights));
    if (!alone) {
        PSR_TRY(psr_peers_init(w->member, &w->peers));
        PSR_TRY(connect_peers(w, plan));
    }
    const psr_session_options options_of_session = {
        .first_step = w->start.first_step,
        .total_steps = w->start.total_steps,
        .view = psr_member_view(w->member),
        .commands_max = psr_exchange_commands_max(&w->buckets),
        .transport = w->transport,
        .member = w->member,
        .tracer = w->tracer,
    };
    PSR_TRY(psr_session_new(&options_of_session, &w->session));
    const psr_exchange_options options_of_exchange = {
        .session = w->session,
        .config = &w->config,
        .layout = &w->net->params,
        .buckets = &w->buckets,
        .plan = plan,
        .rank = psr_member_self(w->member).rank,
        .gpu = sums_on_gpus ? &w->gpu : NULL,
        .ways = ways,
        .skipped_steps = w->start.skipped_steps,
        .weights = weights,
        .gradients = alone ? NULL : make_gradients(w),
        .weights_in_place = w->memory.transport != NULL,
        .context = w,
        .rebinding = alone ? NULL : connect_peers,
        .own_weights = weights != NULL ? own_weights : NULL,
        .observer = w->tracer != NULL ? psr_tracer_observer(w->tracer) : NULL,
    };
    PSR_TRY(psr_exchange_new(&options_of_exchange, &w->exchange));
    share_pieces(w);
    PSR_TRY(psr_session_start(w->session));
    return watch_lost(w, NULL, w->session, true);
}

/* As what images go to the back end; "": it takes floats alone. */
static const char *input_of(const psr_trainer *t)
{
    if (!psr_backend_takes_bytes(t->executors->backend))
        return "";
    return psr_loader_gives_bytes(t->replicas->loader) ? "bytes" : "floats";
}

static psr_err tell_ready(worker *w)
{
    const char *algorithms = psr_backend_algorithms(w->trainer.executors->backend);
    char json[sizeof w->config.algorithms + PSR_BACKEND_LOOPS_MAX + 96] = "";
    if (psr_trainer_is_first(&w->trainer)) /* our own texts, in which nothing needs an escape */
        snprintf(json, sizeof json,
                 "{\"algorithms\": \"%s\", \"loops\": \"%s\", \"input\": \"%s\"}",
                 algorithms[0] != '\0' ? algorithms : "direct",
                 psr_backend_loops(w->trainer.executors->backend), input_of(&w->trainer));
    return psr_session_ready(w->session, json[0] != '\0' ? json : NULL);
}

/* Writes what users of the weights elsewhere must know about the pixels. */
static void tell_data(const psr_trainer *t, const psr_content *content)
{
    const psr_dataset *d = t->train;
    char constants[2][80];
    for (int i = 0; i < 2; i++) {
        const float *v = i == 0 ? d->mean : d->deviation;
        snprintf(constants[i], sizeof constants[i], d->channels == 1 ? "%.9g" : "%.9g,%.9g,%.9g",
                 (double)v[0], (double)v[1], (double)v[2]);
    }
    psr_log(PSR_LOG_INFO, "data name=%s train=%u test=%u classes=%u mean=%s std=%s content=%s-%s",
            d->name, d->count, t->test->count, t->net->classes, constants[0], constants[1],
            content->train, content->test);
}

/* How much is copied to a device for each image. */
static void tell_input(const psr_trainer *t)
{
    const char *as = input_of(t);
    const size_t values = (size_t)t->net->channels * t->net->height * t->net->width;
    if (as[0] != '\0')
        psr_log(PSR_LOG_INFO, "input as=%s bytes_per_sample=%zu", as,
                psr_loader_gives_bytes(t->replicas->loader) ? values + sizeof(psr_byte_image)
                                                            : values * sizeof(float));
}

/* The work of the compute thread while the exchange thread runs. */
static psr_err train(worker *w)
{
    const psr_trainer_options trainer = {
        .config = &w->config,
        .net = w->net,
        .buckets = &w->buckets,
        .session = w->session,
        .exchange = w->exchange,
        .data = w->opened,
        .rank = psr_member_self(w->member).rank,
        .ranks = psr_view_workers(psr_member_view(w->member)),
        .number_on_host = number_on_host(w->member),
        .first_step = w->start.first_step,
        .total_steps = w->start.total_steps,
        .evaluates_first = w->start.evaluates_first,
        .plan_directory = w->plans[0] != '\0' ? w->plans : NULL,
        .unrecorded = w->unrecorded,
        .floats_as_input = w->floats_as_input,
        .loss_scale = {.scale = w->start.loss_scale,
                       .taken = w->start.loss_scale_taken,
                       .skipped = w->start.skipped_steps},
    };
    if (trainer.first_step > trainer.total_steps)
        return psr_fail(PSR_ERR_USAGE,
                        "--resume %s: that checkpoint is of step %" PRIu64
                        ", and this run ends at step %" PRIu64 "; give more --steps or --epochs",
                        w->config.resume, trainer.first_step, trainer.total_steps);
    psr_session_progress(w->session, PSR_PHASE_START);
    PSR_TRY(psr_trainer_init(&trainer, &w->trainer));
    if (psr_engine_keeps_gradients(&w->config))
        w->gpu.gradients = psr_backend_gradients(w->trainer.executors->backend);
    tell_data(&w->trainer, &w->opened->content);
    tell_input(&w->trainer);
    PSR_TRY(psr_snapshot_load(&w->trainer));
    PSR_TRY(psr_device_update_begin(&w->trainer));
    PSR_TRY(psr_snapshot_prepare(&w->trainer));
    PSR_TRY(tell_ready(w));

    psr_outcome outcome;
    PSR_TRY(psr_train(&w->trainer, &outcome));
    psr_session_progress(w->session, PSR_PHASE_SHUTDOWN);
    char *links = NULL, *json = NULL;
    PSR_TRY(psr_exchange_links(w->exchange, &links));
    psr_err err = psr_outcome_to_json(&outcome, links, &json);
    if (err == PSR_OK)
        err = psr_session_done(w->session, outcome.steps, outcome.left_out, json);
    free(json);
    free(links);
    return err;
}

/* Launchers other than psring's send these signals to all ranks. */
static void take_signals(const worker *w)
{
    const psr_launched *l = &w->launched;
    if (l->start.way != NULL)
        psr_end_by_orders(
            l->beside != NULL && l->start.starts_scheduler ? psr_beside_orders(l->beside) : -1);
}

/* For a process that another launcher started as the scheduler or as a shard. */
static psr_err stay_in_role(worker *w)
{
    const psr_start *start = &w->launched.start;
    /* Slurm signals all tasks of a job */
    if (start->starts_scheduler || start->level == PSR_START_MANAGER)
        take_signals(w);
    else
        psr_end_leaving_hangups();
    return psr_launched_stay(&w->launched);
}

static psr_err run(worker *w)
{
    PSR_TRY(join(w));
    psr_launched_joined(&w->launched);
    take_signals(w);
    psr_peer self = psr_member_self(w->member);
    char name[64];
    snprintf(name, sizeof name, "worker %" PRIu32, self.rank);
    psr_log_init(name, PSR_LOG_INFO);
    PSR_TRY(psr_fault_point_set(w->config.fault_point, "worker", self.rank));
    psr_log(PSR_LOG_INFO, "joined scheduler=%s", w->provision.scheduler);

    psr_ways ways = {.count = 0};
    psr_err err = psr_worker_start_from_json(psr_member_agreed(w->member), &w->start);
    w->config.pace = w->start.pace;
    if (err == PSR_OK)
        err = psr_engine_choose(&w->config, &psr_member_view(w->member)->plan, &ways);
    if (err == PSR_OK)
        err = start_exchange(w, &ways);
    if (err != PSR_OK) {
        psr_member_failed(w->member, err, psr_err_detail());
        return err;
    }
    err = train(w);
    if (err != PSR_OK)
        psr_session_fail(w->session, err);
    return err;
}

/* The order is that of session.h. Loans end when the transport ends. Objects that borrow from the
 * view are freed before the member, which owns it. */
static void clean_up(worker *w)
{
    (void)watch_lost(w, NULL, NULL, true);
    /* operations that wait for the back end's fences end before the back end */
    psr_session_stop(w->session);
    psr_trainer_done(&w->trainer);
    psr_host_data_free(w->host_data);
    psr_transport_free(&w->transport, LINGER_MS);
    psr_exchange_free(w->exchange);
    psr_peers_done(&w->peers);
    psr_session_free(w->session);
    psr_shared_memory_done(&w->memory);
    psr_tracer_free(w->tracer);
    psr_member_free(w->member);
    psr_buckets_done(&w->buckets);
    psr_network_free(w->net);
    psr_provision_done(&w->provision);
}

/* argp calls it for --version. */
static void print_version(FILE *to, struct argp_state *state)
{
    char library[32];
    (void)state;
    psr_transport_library(library, sizeof library);
    fprintf(to, "%s %s (%s, %s)\n", psr_gpu_program, PSR_VERSION,
            psr_backend_identity(PSR_BACKEND_ONEDNN, 0), library);
}

/* ---- how it is started ---- */

/* rank: PSR_RANK_ANY if none is given. */
static psr_err start_by_hand(const psr_worker_arguments *a, uint32_t rank, worker *w)
{
    if (a->scheduler == NULL || a->keys == NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "give --scheduler HOST:PORT (or its socket) and --key-file FILE or --keys "
                        "DIR (psring train starts workers by itself), or start it by a launcher "
                        "that sets RANK and WORLD_SIZE or the like");
    w->launched.config = a->config;
    w->compares = a->gives_options;
    return psr_provision_by_hand((psr_peer){PSR_ROLE_WORKER, rank}, a->scheduler, a->keys,
                                 a->interface, &w->provision);
}

/* *ret_spawns: this process is to start the ranks of its node, and has no place itself. */
static psr_err start(const psr_worker_arguments *a, worker *w, bool *ret_spawns)
{
    psr_start place;
    *ret_spawns = false;
    if (a->provisioned)
        return psr_provision_from_fd(STDIN_FILENO, &w->provision);
    psr_err err = psr_launched_find(a, &place);
    *ret_spawns = err == PSR_ERR_NOT_FOUND && a->spawns;
    if (*ret_spawns)
        return PSR_OK;
    if (err == PSR_ERR_NOT_FOUND)
        return start_by_hand(a, a->rank, w);
    PSR_TRY(err);
    /* Also under a launcher, the scheduler may have been started separately. It then has the
     * options, and this process is told only where the scheduler is, and no option of a run. */
    if (a->scheduler != NULL && a->keys != NULL && !a->gives_options)
        return start_by_hand(a, place.rank, w);
    w->compares = true;
    return psr_launched_begin(&w->launched, a, &place, note_lost, w, &w->provision);
}

/* What psring doctor, inspect, export, eval and classify ask of this program; no run. */
static bool run_command(int count, char **words, int *ret_status)
{
    char data[PSR_PATH_MAX], cache[PSR_PATH_MAX];
    const psr_worker_folders folders = {
        .data = user_data_directory(data, sizeof data) ? data : NULL,
        .cache = user_cache_directory("data", cache, sizeof cache) ? cache : NULL,
    };
    return count > 0 && psr_worker_command(count, words, &folders, ret_status);
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    psr_clock_stops_with_process();
    psr_memory_keep_pages();
    psr_log_init("worker", PSR_LOG_INFO);
    int status;
    if (psr_gpu_begin(argc - 1, argv + 1, &status) || run_command(argc - 1, argv + 1, &status))
        return status;
    psr_worker_arguments a;
    psr_worker_arguments_parse(argc, argv, &a);
    worker w = {.memory = PSR_SHARED_MEMORY_NONE, .launched = PSR_LAUNCHED_NONE};
    pthread_mutex_init(&w.lost.mutex, NULL);
    bool spawns = false;
    psr_err err = psr_gpu_enter(a.config.device, argv);
    if (err == PSR_OK)
        err = find_plan_directory(w.plans, sizeof w.plans);
    if (err == PSR_OK)
        err = find_unrecorded(&w.unrecorded);
    if (err == PSR_OK)
        err = find_input(&w.floats_as_input);
    if (err == PSR_OK)
        err = start(&a, &w, &spawns);
    if (spawns)
        return psr_spawn_ranks(&a);
    if (err == PSR_OK)
        err = w.provision.self.role == PSR_ROLE_WORKER ? run(&w) : stay_in_role(&w);
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    clean_up(&w);
    psr_end_by_default();
    err = psr_launched_end(&w.launched, err);
    return psr_err_exit_status(err);
}
