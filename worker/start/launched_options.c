#include "worker/start/launched_options.h"

#include "base/attempts.h"
#include "base/log.h"
#include "comm/wire/compression/compression.h"
#include "data/augment/plan.h"
#include "model/networks/network_list.h"
#include "worker/exchange/engines/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the place ---- */

static psr_err disagree(const char *option, uint32_t given, const char *variable, uint32_t told)
{
    return psr_fail(PSR_ERR_USAGE,
                    "%s is %" PRIu32 ", and %s says %" PRIu32 ": leave one of them out", option,
                    given, variable, told);
}

/* Adds the command line's options to the place from the environment. */
static psr_err add_arguments(const psr_worker_arguments *a, psr_start *s)
{
    const bool counts_ranks = !a->spawns; /* else it counts nodes, and is in the place already */
    if (counts_ranks && a->rank != PSR_NOT_GIVEN && s->rank != PSR_RANK_ANY && a->rank != s->rank)
        return disagree("--rank", a->rank, s->rank_variable, s->rank);
    if (a->local_rank != PSR_NOT_GIVEN && s->local_rank != PSR_START_UNTOLD &&
        a->local_rank != s->local_rank)
        return disagree("--local-rank", a->local_rank, "LOCAL_RANK", s->local_rank);
    if (counts_ranks && a->rank != PSR_NOT_GIVEN)
        s->rank = a->rank;
    if (a->local_rank != PSR_NOT_GIVEN)
        s->local_rank = a->local_rank;
    if (a->keys != NULL &&
        snprintf(s->key_file, sizeof s->key_file, "%s", a->keys) >= (int)sizeof s->key_file)
        return psr_fail(PSR_ERR_USAGE, "--key-file: its path is longer than %zu bytes",
                        sizeof s->key_file - 1);
    if (a->interface != NULL &&
        snprintf(s->interface, sizeof s->interface, "%s", a->interface) >= (int)sizeof s->interface)
        return psr_fail(PSR_ERR_USAGE, "--interface: longer than %zu bytes",
                        sizeof s->interface - 1);
    if (a->meeting != NULL && snprintf(s->meeting_folder, sizeof s->meeting_folder, "%s",
                                       a->meeting) >= (int)sizeof s->meeting_folder)
        return psr_fail(PSR_ERR_USAGE, "--meeting: its path is longer than %zu bytes",
                        sizeof s->meeting_folder - 1);
    if (a->port != PSR_NOT_GIVEN) {
        s->port = (uint16_t)a->port;
        s->port_is_told = true;
    }
    if (a->scheduler == NULL)
        return PSR_OK;
    s->starts_scheduler = false;
    return snprintf(s->scheduler, sizeof s->scheduler, "%s", a->scheduler) <
                   (int)sizeof s->scheduler
               ? PSR_OK
               : psr_fail(PSR_ERR_USAGE, "--scheduler: longer than %zu bytes",
                          sizeof s->scheduler - 1);
}

/* In a mode that has shards, the last component of the job is the shards. */
static void take_component(const psr_worker_arguments *a, psr_start *s)
{
    if (s->last_component == 0 || psr_engine_shards(&a->config) == 0)
        return;
    s->ranks -= s->last_component;
    s->shards = s->last_component;
    s->shards_variable = "the last component of the step";
    if (s->rank < s->ranks)
        return;
    s->role = PSR_ROLE_SHARD;
    s->rank -= s->ranks;
}

static psr_err find_place(const psr_worker_arguments *a, psr_start *ret_start)
{
    const psr_start_options options = {.rank = a->rank,
                                       .ranks = a->world_size,
                                       .local_rank = a->local_rank,
                                       .address = a->address,
                                       .port = a->master_port,
                                       .url = a->url};
    if (a->spawns)
        return psr_start_of_node(&options, a->local_ranks, ret_start);
    return a->world_size != PSR_NOT_GIVEN ? psr_start_from_options(&options, ret_start)
                                          : psr_start_read(ret_start);
}

psr_err psr_launched_find(const psr_worker_arguments *a, psr_start *ret_start)
{
    psr_start s;
    PSR_TRY(find_place(a, &s));
    if (s.level == PSR_START_OWN && s.by_launcher)
        return psr_fail(PSR_ERR_USAGE,
                        "psring run starts programs on libpsring, and its scheduler knows no "
                        "training: start psring train, or psring-worker by another launcher");
    PSR_TRY(add_arguments(a, &s));
    take_component(a, &s);
    *ret_start = s;
    return PSR_OK;
}

/* ---- the run's options ---- */

static psr_err set_number(psr_config *config, const char *option, uint32_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%" PRIu32, number);
    return psr_config_set(config, option, text);
}

static psr_err set_told(const psr_worker_arguments *a, psr_config *config, const char *option,
                        bool given, uint32_t told, const char *variable)
{
    char text[PSR_OPTION_TEXT_MAX];
    PSR_TRY(psr_config_get(&a->config, option, text, sizeof text));
    if (given && strtoul(text, NULL, 10) != told)
        return psr_fail(PSR_ERR_USAGE, "--%s is %.20s, and %s says %" PRIu32 ": leave --%s out",
                        option, text, variable, told, option);
    return set_number(config, option, told);
}

/* Checks that the mode has shards, because processes were started as shards. */
static psr_err take_shards(const psr_worker_arguments *a, const psr_start *s, psr_config *config)
{
    if (s->shards_variable == NULL && s->shards != PSR_START_UNTOLD && s->shards > 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "PSRING_SHARDS is for programs on libpsring: leave it out, and give --shards");
    if (s->shards_variable == NULL)
        return PSR_OK;
    if (!a->gives_mode)
        PSR_TRY(psr_config_set(config, "mode", s->shards > 0 ? "ps" : "ring"));
    if (s->shards > 0)
        return set_told(a, config, "shards", a->gives_shards, s->shards, s->shards_variable);
    return PSR_OK;
}

void psr_launched_share_cores(const psr_start *s, psr_config *config)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t here = s->local_ranks != PSR_START_UNTOLD ? s->local_ranks : s->ranks;
    if (config->threads == 0)
        config->threads = cores > (long)here ? (uint32_t)(cores / (long)here) : 1;
}

psr_err psr_launched_take_input(const psr_worker_arguments *a, psr_config *config)
{
    char input[PSR_START_LINE_MAX];
    if (a->gives_data)
        return PSR_OK;
    PSR_TRY(psr_start_input(input));
    if (input[0] == '\0')
        return PSR_OK;
    psr_log(PSR_LOG_INFO, "--data is %s, as DATA_PATH says", input);
    return psr_config_set(config, "data", input);
}

psr_err psr_launched_share_batch(const psr_worker_arguments *a, uint32_t local_ranks,
                                 psr_config *config)
{
    if (a->total_batch == PSR_NOT_GIVEN)
        return PSR_OK;
    if (a->total_batch % local_ranks != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--total-batch-size: %" PRIu32 " cannot be shared evenly by the %" PRIu32
                        " ranks of a node",
                        a->total_batch, local_ranks);
    return set_number(config, "batch-size", a->total_batch / local_ranks);
}

psr_err psr_launched_resolve(const psr_worker_arguments *a, const psr_start *s,
                             psr_config *ret_config)
{
    psr_config config = a->config;
    PSR_TRY(psr_launched_take_input(a, &config));
    PSR_TRY(psr_launched_share_batch(a, s->local_ranks, &config));
    PSR_TRY(take_shards(a, s, &config));
    PSR_TRY(psr_engine_check_launcher(&config, s->mpi));
    if (psr_engine_is_alone(&config) && s->ranks > 1)
        return psr_fail(PSR_ERR_USAGE,
                        "--mode local is one process, and %s says %" PRIu32
                        ": start it once, with --workers",
                        s->ranks_variable, s->ranks);
    if (!psr_engine_is_alone(&config))
        PSR_TRY(set_told(a, &config, "workers", a->gives_workers, s->ranks, s->ranks_variable));
    if (config.bare != PSR_BARE_NOWHERE)
        return psr_fail(
            PSR_ERR_USAGE,
            "--no-encrypt is for psring train: under this launcher ranks of one host meet over ipc "
            "sockets, and ranks of several hosts over TCP with keys; leave it out");
    PSR_TRY(psr_network_check(&config));
    PSR_TRY(psr_compression_check_options(config.compress, config.compress_weights));
    PSR_TRY(psr_augment_check(&config));
    PSR_TRY(psr_config_check(&config));
    *ret_config = config;
    return PSR_OK;
}

psr_err psr_launched_compare(const psr_config *told, const psr_config *run)
{
    const char *apart[5] = {NULL};
    size_t count = 0;
    psr_option_difference d;
    const bool attempts = psr_attempts_are_asked_for(told); /* the scheduler has counted them */
    if (told->out[0] == '\0' || attempts)
        apart[count++] = "out";
    if (attempts) {
        apart[count++] = "resume";
        apart[count++] = "init";
    }
    if (told->threads == 0)
        apart[count++] = "threads";
    if (!psr_config_difference(told, run, apart, &d))
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "--%s is \"%.80s\" here and \"%.80s\" in this run: start all of its processes "
                    "with the same options",
                    d.name, d.one, d.other);
}
