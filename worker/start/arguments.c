#include "worker/start/arguments.h"

#include "base/config/options_argp.h"
#include "model/networks/network_list.h"

#include <stdio.h>
#include <string.h>

enum {
    OPTION_PROVISION = 0x100,
    OPTION_SCHEDULER,
    OPTION_KEY_FILE,
    OPTION_KEYS,
    OPTION_RANK,
    OPTION_INTERFACE,
    OPTION_SCHEDULER_PORT,
    OPTION_MEETING,
    OPTION_SPAWN,
    OPTION_LOCAL_RANKS,
    OPTION_LOCAL_RANK,
    OPTION_WORLD_SIZE,
    OPTION_ADDR,
    OPTION_PORT,
    OPTION_URL,
    OPTION_BACKEND,
    OPTION_TOTAL_BATCH,
};

#define RANKS_MAX 1024
#define BACKENDS (PSR_MPI ? "ps|ring|mpi" : "ps|ring")

static const char doc[] =
    "One worker of a run: computes gradients on its share of each batch. Started by psring's "
    "agent, by hand, or by a launcher of ranks: then N identical commands with the run's options "
    "are a run, and rank 0 starts its scheduler (docs/launching.md).\vExamples:\n"
    "  mpirun -n 4 --hostfile hosts --bind-to none \\\n"
    "      psring-worker --mode ring --steps 300\n"
    "  torchrun --no-python --nproc-per-node 4 \\\n"
    "      psring-worker --mode ring --steps 300\n"
    "  psring-worker --multiprocessing-distributed --nproc-per-node 4 \\\n"
    "      --mode ring --steps 300\n"
    "\n"
    "Exit status: 0 done; 1 the run failed; 2 bad input; 3 a process broke the protocol.\n";

static const struct argp_option options[] = {
    {"provision", OPTION_PROVISION, "-", 0,
     "read keys, rank and the scheduler's endpoint as one line of JSON from standard input", 1},
    {"scheduler", OPTION_SCHEDULER, "HOST:PORT|SOCKET", 0,
     "where the scheduler listens, which is there already", 1},
    {"key-file", OPTION_KEY_FILE, "FILE", 0,
     "this worker's keys, or with a rank the keys that all share (psring keygen)", 1},
    {"keys", OPTION_KEYS, "DIR", 0,
     "the folder that psring keygen wrote; the rank says which of its files is this one's", 1},
    {"rank", OPTION_RANK, "N", 0, "the rank to ask for; default: the launcher's, or any", 1},
    {"interface", OPTION_INTERFACE, "ADDRESS", 0,
     "address or interface to listen on; default: of the way to the scheduler, by hand 127.0.0.1",
     1},
    {"scheduler-port", OPTION_SCHEDULER_PORT, "N", 0,
     "of a scheduler that rank 0 starts, with keys; default: PSRING_PORT, or what follows from the "
     "launcher's port",
     1},
    {"meeting", OPTION_MEETING, "DIR", 0,
     "a folder that all hosts of the run see: without keys rank 0 leaves there, until all have "
     "joined, where its scheduler is and the keys of the run; default: PSRING_MEETING, or of "
     "mpirun and srun the working folder",
     1},
    {NULL, 0, NULL, 0, "As PyTorch's programs are started:", 2},
    {"multiprocessing-distributed", OPTION_SPAWN, NULL, 0,
     "start one process for each rank of this node; --rank and --world-size count nodes", 2},
    {"nproc-per-node", OPTION_LOCAL_RANKS, "N", 0, "ranks of each node (default 1)", 2},
    {"world-size", OPTION_WORLD_SIZE, "N", 0,
     "nodes of the run where one process starts all ranks of a node, else ranks", 2},
    {"addr", OPTION_ADDR, "HOST", 0, "as MASTER_ADDR: the host of rank 0 (default 127.0.0.1)", 2},
    {"port", OPTION_PORT, "N", 0, "as MASTER_PORT: tells this run from others (default 29500)", 2},
    {"dist-url", OPTION_URL, "env://|tcp://HOST:PORT", 0,
     "where --addr and --port come from (default env://)", 2},
    {"dist-backend", OPTION_BACKEND, BACKENDS, 0, "as --mode", 2},
    {"local-rank", OPTION_LOCAL_RANK, "N", 0, "as LOCAL_RANK", 2},
    {"local_rank", OPTION_LOCAL_RANK, "N", OPTION_ALIAS, NULL, 2},
    {"total-batch-size", OPTION_TOTAL_BATCH, "N", 0,
     "of all ranks of a node together: --batch-size times them", 2},
    {0},
};

/* Users of PyTorch have the names of its back ends in their scripts. */
static void set_backend(struct argp_state *state, psr_worker_arguments *a, const char *text)
{
    static const char *const backends[] = {"ps", "ring", PSR_MPI ? "mpi" : NULL, NULL};
    for (const char *const *backend = backends; *backend != NULL; backend++)
        if (strcmp(*backend, text) == 0 && psr_config_set(&a->config, "mode", text) == PSR_OK) {
            a->gives_mode = a->gives_options = true;
            return;
        }
    char detail[256];
    snprintf(detail, sizeof detail,
             "--dist-backend: psring has no '%.40s'; give ring, an all-reduce as gloo, nccl and "
             "hccl do it, or ps, parameter servers%s",
             text, PSR_MPI ? ", or mpi" : "");
    psr_options_refuse(state, detail);
}

static void check(struct argp_state *state, const psr_worker_arguments *a)
{
    bool places = a->spawns || a->local_ranks != PSR_NOT_GIVEN || a->local_rank != PSR_NOT_GIVEN ||
                  a->world_size != PSR_NOT_GIVEN || a->total_batch != PSR_NOT_GIVEN ||
                  a->address != NULL || a->master_port != NULL || a->url != NULL;
    if (a->provisioned && (a->scheduler != NULL || a->keys != NULL || a->interface != NULL ||
                           a->rank != PSR_NOT_GIVEN))
        psr_options_refuse(
            state,
            "--provision already tells scheduler, keys and rank; leave the other options out");
    if (a->provisioned && (places || a->gives_options || a->port != PSR_NOT_GIVEN))
        psr_options_refuse(
            state, "with --provision the run's options come from the scheduler; leave them out");
    if (a->scheduler != NULL && a->port != PSR_NOT_GIVEN)
        psr_options_refuse(state,
                           "--scheduler names a scheduler that is running, and --scheduler-port is "
                           "for one that rank 0 starts; give one of them");
    if (a->meeting != NULL && (a->provisioned || a->scheduler != NULL || a->keys != NULL))
        psr_options_refuse(state,
                           "--meeting: its file tells where the scheduler is and which keys the "
                           "run has; leave it out, or --scheduler, --keys and --provision");
    if (a->spawns && a->scheduler != NULL)
        psr_options_refuse(
            state,
            "--scheduler does not go with --multiprocessing-distributed, whose rank 0 starts one");
    if (!a->spawns && a->local_ranks != PSR_NOT_GIVEN)
        psr_options_refuse(state, "--nproc-per-node: it goes with --multiprocessing-distributed");
    if (!a->spawns && a->total_batch != PSR_NOT_GIVEN)
        psr_options_refuse(
            state,
            "--total-batch-size: it goes with --multiprocessing-distributed; give --batch-size");
}

static error_t parse_place(int key, char *text, struct argp_state *state)
{
    psr_worker_arguments *a = state->input;
    switch (key) {
    case OPTION_SPAWN:
        a->spawns = true;
        return 0;
    case OPTION_LOCAL_RANKS:
        a->local_ranks = (uint32_t)psr_options_number(state, "nproc-per-node", text, 1, RANKS_MAX);
        return 0;
    case OPTION_LOCAL_RANK:
        a->local_rank = (uint32_t)psr_options_number(state, "local-rank", text, 0, RANKS_MAX - 1);
        return 0;
    case OPTION_WORLD_SIZE:
        a->world_size = (uint32_t)psr_options_number(state, "world-size", text, 1, RANKS_MAX);
        return 0;
    case OPTION_TOTAL_BATCH:
        a->total_batch =
            (uint32_t)psr_options_number(state, "total-batch-size", text, 1, UINT32_MAX - 1);
        return 0;
    case OPTION_ADDR:
        a->address = text;
        return 0;
    case OPTION_PORT:
        (void)psr_options_number(state, "port", text, 1, UINT16_MAX);
        a->master_port = text;
        return 0;
    case OPTION_URL:
        a->url = text;
        return 0;
    case OPTION_BACKEND:
        set_backend(state, a, text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    psr_worker_arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->config;
        return 0;
    case OPTION_PROVISION:
        psr_options_check_provision(state, text);
        a->provisioned = true;
        return 0;
    case OPTION_SCHEDULER:
        a->scheduler = text;
        return 0;
    case OPTION_KEY_FILE:
    case OPTION_KEYS:
        psr_options_set_keys(state, &a->keys, text);
        return 0;
    case OPTION_RANK:
        a->rank = (uint32_t)psr_options_number(state, "rank", text, 0, RANKS_MAX - 1);
        return 0;
    case OPTION_INTERFACE:
        a->interface = text;
        return 0;
    case OPTION_SCHEDULER_PORT:
        a->port = (uint32_t)psr_options_number(state, "scheduler-port", text, 1, UINT16_MAX);
        return 0;
    case OPTION_MEETING:
        a->meeting = text;
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "takes options alone; see --help");
        return 0;
    case ARGP_KEY_END:
        check(state, a);
        return 0;
    default:
        return parse_place(key, text, state);
    }
}

/* Whether the command line has an option of the run. */
static bool gives_any(const struct argp *parser, int argc, char **argv)
{
    psr_option_info info;
    const char *text;
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        char negated[PSR_OPTION_TEXT_MAX];
        snprintf(negated, sizeof negated, "no-%.64s", info.name);
        if (psr_options_find(parser, argc, argv, info.name, &text) ||
            (info.negatable && psr_options_find(parser, argc, argv, negated, &text)))
            return true;
    }
    return false;
}

void psr_worker_arguments_parse(int argc, char **argv, psr_worker_arguments *ret_arguments)
{
    psr_worker_arguments a = {.rank = PSR_NOT_GIVEN,
                              .port = PSR_NOT_GIVEN,
                              .local_ranks = PSR_NOT_GIVEN,
                              .local_rank = PSR_NOT_GIVEN,
                              .world_size = PSR_NOT_GIVEN,
                              .total_batch = PSR_NOT_GIVEN};
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    const char *text;
    psr_command_text(argc, (const char *const *)argv, a.command); /* argp puts the words in order */
    psr_config_defaults(&a.config);
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    const struct argp_child children[] = {
        {table != NULL ? psr_options_argp_child(table) : NULL, 0, NULL, 3}, {0}};
    const struct argp parser = {.options = options,
                                .parser = parse_option,
                                .doc = doc,
                                .children = table != NULL ? children : NULL};
    a.gives_options = gives_any(&parser, argc, argv);
    a.gives_mode = psr_options_find(&parser, argc, argv, "mode", &text);
    a.gives_shards = psr_options_find(&parser, argc, argv, "shards", &text);
    a.gives_data = psr_options_find(&parser, argc, argv, "data", &text);
    a.gives_workers = psr_options_find(&parser, argc, argv, "workers", &text);
    psr_options_parse(&parser, argc, argv, 0, NULL, &a);
    psr_options_argp_free(table);
    *ret_arguments = a;
}
