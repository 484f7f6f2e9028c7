/* psring-worker: one worker of a run. Started by psring's agent (--provision -), by hand
 * (--scheduler, --key-file), or by somebody else's launcher (worker/start/launched.h). Here are the
 * environment, the command line and the way that it is started. Its part in the run is
 * worker/process/process.h. */
#include "base/clock.h"
#include "base/log.h"
#include "base/system/memory.h"
#include "base/system/openmp.h"
#include "comm/members/provision.h"
#include "model/backend.h"
#include "net/transport.h"
#include "worker/process/process.h"
#include "worker/start/arguments.h"
#include "worker/start/commands.h"
#include "worker/start/end_signals.h"
#include "worker/start/gpu.h"
#include "worker/start/launched.h"
#include "worker/start/launched_options.h"
#include "worker/start/spawn.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the environment, which only main files read ---- */

typedef struct environment {
    char data[PSR_PATH_MAX], cache[PSR_PATH_MAX]; /* behind folders */
    psr_worker_folders folders;
    char plans[PSR_PATH_MAX]; /* where a GPU's plans are kept; "": nowhere */
    bool unrecorded;          /* passes on a GPU are not recorded */
    bool floats_as_input;     /* images go to it as floats */
} environment;

/* The user's own directory of that name, below the one that the variable names or else below that
 * part of the home directory. false, and path is "": there is none. */
static bool find_directory(const char *variable, const char *below_home, const char *name,
                           char path[static PSR_PATH_MAX])
{
    const char *named = getenv(variable), *home = getenv("HOME");
    int length = -1;
    if (named != NULL && named[0] == '/')
        length = snprintf(path, PSR_PATH_MAX, "%s/%s", named, name);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, PSR_PATH_MAX, "%s/%s/%s", home, below_home, name);
    if (length > 0 && length < PSR_PATH_MAX)
        return true;
    path[0] = '\0';
    return false;
}

/* Of data sets with known names, and of what is found of data once and kept. */
static void find_folders(environment *e)
{
    if (find_directory("XDG_DATA_HOME", ".local/share", "psring", e->data))
        e->folders.data = e->data;
    if (find_directory("XDG_CACHE_HOME", ".cache", "psring/data", e->cache))
        e->folders.cache = e->cache;
}

/* In the user's own directory, unless the environment names another. */
static psr_err find_plan_directory(char path[static PSR_PATH_MAX])
{
    const char *given = getenv("PSR_CUDA_PLANS");
    if (given == NULL) {
        (void)find_directory("XDG_CACHE_HOME", ".cache", "psring/cuda", path);
        return PSR_OK;
    }
    if (given[0] != '\0' && (given[0] != '/' || strlen(given) >= PSR_PATH_MAX))
        return psr_fail(PSR_ERR_USAGE,
                        "PSR_CUDA_PLANS=%.100s: give the path of a directory, from / on, or "
                        "nothing to keep no plans",
                        given);
    snprintf(path, PSR_PATH_MAX, "%s", given);
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

static psr_err find_gpu_settings(environment *e)
{
    PSR_TRY(find_plan_directory(e->plans));
    PSR_TRY(find_unrecorded(&e->unrecorded));
    return find_input(&e->floats_as_input);
}

/* ---- how it is started ---- */

/* What it has to be in a run, and by what it gets there. */
typedef struct place_in_run {
    psr_provision provision;
    psr_launched launched;
    bool compares; /* launched has options of the run, which must equal those of CONFIG */
    psr_lost_process lost;
} place_in_run;

/* rank: PSR_RANK_ANY if none is given. */
static psr_err start_by_hand(const psr_worker_arguments *a, uint32_t rank, place_in_run *p)
{
    if (a->scheduler == NULL || a->keys == NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "give --scheduler HOST:PORT (or its socket) and --key-file FILE or --keys "
                        "DIR (psring train starts workers by itself), or start it by a launcher "
                        "that sets RANK and WORLD_SIZE or the like");
    p->launched.config = a->config;
    p->compares = a->gives_options;
    return psr_provision_by_hand((psr_peer){PSR_ROLE_WORKER, rank}, a->scheduler, a->keys,
                                 a->interface, &p->provision);
}

/* *ret_spawns: this process is to start the ranks of its node, and has no place itself. */
static psr_err start(const psr_worker_arguments *a, place_in_run *p, bool *ret_spawns)
{
    psr_start place;
    *ret_spawns = false;
    if (a->provisioned)
        return psr_provision_from_fd(STDIN_FILENO, &p->provision);
    psr_err err = psr_launched_find(a, &place);
    *ret_spawns = err == PSR_ERR_NOT_FOUND && a->spawns;
    if (*ret_spawns)
        return PSR_OK;
    if (err == PSR_ERR_NOT_FOUND)
        return start_by_hand(a, a->rank, p);
    PSR_TRY(err);
    /* Also under a launcher, the scheduler may have been started separately. It then has the
     * options, and this process is told only where the scheduler is, and no option of a run. */
    if (a->scheduler != NULL && a->keys != NULL && !a->gives_options)
        return start_by_hand(a, place.rank, p);
    p->compares = true;
    return psr_launched_begin(&p->launched, a, &place, psr_lost_process_note, &p->lost,
                              &p->provision);
}

/* As a worker, or as the process that waits for the scheduler or a shard beside it. The error is
 * logged before anything is cleaned up. */
static psr_err take_part(place_in_run *p, const environment *e)
{
    psr_worker *worker = NULL;
    const psr_worker_options options = {
        .provision = &p->provision,
        .launched = &p->launched,
        .compares = p->compares,
        .lost = &p->lost,
        .folders = &e->folders,
        .plan_directory = e->plans[0] != '\0' ? e->plans : NULL,
        .unrecorded = e->unrecorded,
        .floats_as_input = e->floats_as_input,
    };
    psr_err err = PSR_OK;
    if (p->provision.self.role != PSR_ROLE_WORKER)
        err = psr_launched_stay(&p->launched);
    else
        err = psr_worker_new(&options, &worker);
    if (err == PSR_OK && worker != NULL)
        err = psr_worker_run(worker);
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    psr_worker_free(worker);
    return err;
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

int main(int argc, char **argv)
{
    psr_openmp_begin(argv);
    argp_program_version_hook = print_version;
    psr_clock_stops_with_process();
    psr_memory_keep_pages();
    psr_log_init("worker", PSR_LOG_INFO);
    environment e = {.unrecorded = false};
    find_folders(&e);
    int status;
    if (psr_gpu_begin(argc - 1, argv + 1, &status) ||
        (argc > 1 && psr_worker_command(argc - 1, argv + 1, &e.folders, &status)))
        return status;
    psr_worker_arguments a;
    psr_worker_arguments_parse(argc, argv, &a);
    place_in_run p = {.launched = PSR_LAUNCHED_NONE, .lost = PSR_LOST_PROCESS_NONE};
    bool spawns = false;
    psr_err err = psr_gpu_enter(a.config.device, argv);
    if (err == PSR_OK)
        err = find_gpu_settings(&e);
    if (err == PSR_OK)
        err = start(&a, &p, &spawns);
    if (spawns)
        return psr_spawn_ranks(&a);
    if (err == PSR_OK)
        err = take_part(&p, &e);
    else
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    psr_provision_done(&p.provision);
    psr_end_by_default();
    err = psr_launched_end(&p.launched, err);
    return psr_err_exit_status(err);
}
