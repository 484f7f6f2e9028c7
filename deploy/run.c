/* `psring run`: reads options, places the ranks, launches the program that the command line
 * names. */
#include "deploy/commands.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "deploy/launch/launch.h"
#include "deploy/launch/hosts/places.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX 1024

enum { KEY_DEADLINE = 1000, KEY_OUTPUT, KEY_TRANSPORT, KEY_SHARDS, KEY_BESIDE, KEY_PS_HOSTFILE };

typedef struct run_options {
    psr_config config; /* workers: 0 until known; later the number of all ranks, with shards */
    uint32_t shards;
    uint32_t beside;         /* ranks of the program that are placed as shards are */
    const char *ps_hostfile; /* where those go; NULL: beside the others */
    psr_places places;
    const char *output, *transport;
    char **words; /* the program and its arguments: argv's */
} run_options;

/* ---- options ---- */

static void set_config(const struct argp_state *state, psr_config *config, const char *name,
                       const char *text)
{
    if (psr_config_set(config, name, text) != PSR_OK)
        psr_options_refuse(state, psr_err_detail());
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    run_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->places;
        return 0;
    case 'n':
        o->config.workers = (uint32_t)psr_options_number(
            state, "ranks", psr_places_count(state, arg), 1, RANKS_MAX);
        return 0;
    case KEY_SHARDS:
        o->shards = (uint32_t)psr_options_number(state, "shards", arg, 1, RANKS_MAX);
        return 0;
    case KEY_BESIDE:
        o->beside = (uint32_t)psr_options_number(state, "beside", arg, 1, RANKS_MAX);
        return 0;
    case KEY_PS_HOSTFILE:
        o->ps_hostfile = arg;
        return 0;
    case KEY_OUTPUT:
        o->output = arg;
        return 0;
    case KEY_DEADLINE:
        set_config(state, &o->config, "deadline", arg);
        return 0;
    case KEY_TRANSPORT:
        set_config(state, &o->config, "transport", arg);
        o->transport = arg;
        return 0;
    case ARGP_KEY_ARG: /* all that follows is the program's */
        o->words = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (o->words == NULL || o->words[0][0] == '\0')
            psr_options_refuse(
                state, "the program is missing; give for instance: psring run -n 4 -- ./program");
        if (o->beside > 0 && o->shards > 0)
            psr_options_refuse(state, "--beside and --shards: give one of them");
        if (o->ps_hostfile != NULL && o->beside + o->shards == 0)
            psr_options_refuse(state,
                               "--ps-hostfile: it goes with --shards or --beside, whose hosts it "
                               "names");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option own_options[] = {
    {"ranks", 'n', "N", 0, "processes (default: one for each slot of the hosts); -np N is the same",
     1},
    {"shards", KEY_SHARDS, "S", 0,
     "psring-ps processes that hold the program's tables: ranks behind its own, beside them on the "
     "hosts in turn",
     1},
    {"beside", KEY_BESIDE, "N", 0,
     "N more ranks of the program, behind the others, that take no slots: one on each host in turn",
     1},
    {"ps-hostfile", KEY_PS_HOSTFILE, "FILE", 0,
     "the ranks of --shards or --beside go to these hosts", 1},
    {"output-filename", KEY_OUTPUT, "DIR", 0,
     "what rank N prints goes to DIR/1/rank.N/stdout and stderr on its host, byte by byte, and not "
     "to the terminal",
     1},
    {"deadline", KEY_DEADLINE, "SECONDS", 0,
     "without a sign of life of a rank, after which the run ends and names it (default 30)", 1},
    {"transport", KEY_TRANSPORT, "auto|tcp|ipc|shm", 0,
     "ipc: sockets that only this user reaches, for a run on one host; auto: that, or TCP, and "
     "within each host shared memory for large values; shm: the same, and psring_init fails on a "
     "host that cannot share memory (default auto)",
     1},
    {0}};

static const char doc[] =
    "Runs a program as ranks 0 to N-1, on this machine or on others. Each finds its place in its "
    "environment (PSRING_RANK, PSRING_RANKS, PSRING_LOCAL_RANK, PSRING_LOCAL_SIZE and what "
    "psring_init reads); a program that knows nothing of psring runs too.\vExamples:\n"
    "  psring run -n 4 -- ./program --its-own options\n"
    "  psring run -n 4 -- sh -c 'echo rank $PSRING_RANK of $PSRING_RANKS'\n"
    "  psring run -n 8 --output-filename log_output -- python3 net.py\n"
    "  psring run -n 4 --shards 2 -- ./program    # psring_table_open and the like\n"
    "  psring run --hostfile hosts -x OMP_NUM_THREADS=2 -- ./program\n"
    "\n"
    "A rank runs in this directory, which must be there on every host too. It\n"
    "reads nothing from standard input. On a terminal its lines begin with its\n"
    "rank. The run ends when all ranks have; one that fails, or is stopped for\n"
    "longer than the deadline, ends the others. What a rank has started ends with\n"
    "it.\n"
    "\n"
    "Exit status: 0 all ranks exited with 0; 1 one did not; 2 bad input, also of\n"
    "the ranks: they called different things, or had different options; 3 a\n"
    "process broke the protocol; 130 ended by Ctrl-C.\n";

/* ---- the run ---- */

/* Only this file distinguishes shards; for the rest of the launcher they are ranks like the
 * others. */
static psr_err place_all(run_options *o, const psr_hosts *hosts, const psr_hosts *ps_hosts,
                         psr_placement *ret_placement)
{
    psr_config *config = &o->config;
    const uint32_t more = o->shards + o->beside;
    config->mode = more > 0 ? PSR_MODE_PS : PSR_MODE_RING; /* no process but the ranks */
    config->shards = more;
    PSR_TRY(psr_placement_make(config, hosts, ps_hosts->count > 0 ? ps_hosts : NULL,
                               o->places.map_by, ret_placement));
    for (size_t i = 0; i < ret_placement->count; i++) {
        psr_peer *peer = &ret_placement->items[i].peer;
        if (peer->role == PSR_ROLE_SHARD)
            *peer = (psr_peer){PSR_ROLE_WORKER, config->workers + peer->rank};
    }
    config->workers += more;
    config->mode = PSR_MODE_RING;
    config->shards = 0;
    return PSR_OK;
}

static psr_err place(run_options *o, psr_hosts *hosts, psr_hosts *ps_hosts,
                     psr_placement *ret_placement)
{
    psr_config *config = &o->config;
    PSR_TRY(psr_places_read(&o->places, hosts));
    if (o->ps_hostfile != NULL)
        PSR_TRY(psr_hostfile_read(o->ps_hostfile, ps_hosts));
    if (config->workers == 0) /* not given: every slot, or one */
        config->workers = hosts->count ? psr_hosts_slots(hosts) : 1;
    if (hosts->count == 0)
        PSR_TRY(psr_hosts_add(hosts, "localhost", config->workers));
    if (config->workers + o->shards + o->beside > RANKS_MAX)
        return psr_fail(PSR_ERR_USAGE, "%u ranks and %u shards are more than %d; give -n",
                        config->workers, o->shards + o->beside, RANKS_MAX);
    PSR_TRY(psr_placement_check_room("-n", config->workers, hosts));
    return place_all(o, hosts, ps_hosts, ret_placement);
}

/* Where the program runs, and an absolute path of its output. */
static psr_err find_directories(const run_options *o, char directory[PATH_MAX],
                                char output[2 * PATH_MAX])
{
    if (getcwd(directory, PATH_MAX) == NULL)
        return psr_fail(PSR_ERR_IO, "this directory: %s", strerror(errno));
    output[0] = '\0';
    if (o->output == NULL)
        return PSR_OK;
    if (o->output[0] == '\0' || strlen(o->output) >= PATH_MAX)
        return psr_fail(PSR_ERR_USAGE, "--output-filename: give the name of a directory");
    snprintf(output, 2 * PATH_MAX, "%s%s%s", o->output[0] == '/' ? "" : directory,
             o->output[0] == '/' ? "" : "/", o->output);
    return PSR_OK;
}

static psr_err launch(run_options *o, const psr_placement *placement, int *ret_status)
{
    static const char *const none[] = {NULL};
    char directory[PATH_MAX], output[2 * PATH_MAX];
    PSR_TRY(find_directories(o, directory, output));
    const psr_program program = {.words = (const char *const *)o->words,
                                 .variables =
                                     o->places.variables != NULL ? o->places.variables : none,
                                 .directory = directory,
                                 .output = output,
                                 .ranks = o->config.workers,
                                 .shards = o->shards,
                                 .deadline_s = o->config.deadline_s,
                                 .transport = o->transport != NULL ? o->transport : "auto"};
    PSR_TRY(psr_program_check(&program));
    const psr_launch_options options = {.config = &o->config,
                                        .placement = placement,
                                        .program = &program,
                                        .bind_to = o->places.bind_to,
                                        .report_bindings = o->places.report_bindings,
                                        .interface = o->places.interface,
                                        .ssh = o->places.ssh,
                                        .progress = PSR_SHOW_NONE,
                                        .remote_program = o->places.remote_program};
    *ret_status = psr_launch(&options);
    return PSR_OK;
}

int psr_command_run(int argc, char **argv)
{
    static const struct argp_child children[] = {{&psr_places_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {own_options, parse, "-- PROGRAM [ARGUMENT...]", doc, children,
                                     NULL,        NULL};
    run_options o = {0};
    psr_hosts hosts = {0}, ps_hosts = {0};
    psr_placement placement = {0};
    int status = 0;
    psr_config_defaults(&o.config);
    o.config.workers = 0;
    psr_options_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
    psr_err err = place(&o, &hosts, &ps_hosts, &placement);
    if (err == PSR_OK)
        err = launch(&o, &placement, &status);
    if (err != PSR_OK) {
        psr_print(stderr, "psring run: %s\n", psr_err_detail());
        status = psr_err_exit_status(err);
    }
    psr_placement_done(&placement);
    psr_hosts_done(&hosts);
    psr_hosts_done(&ps_hosts);
    psr_places_done(&o.places);
    return status;
}
