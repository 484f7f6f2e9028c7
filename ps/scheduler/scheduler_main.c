/* psring-scheduler: the process that all others join. Started by psring train (--provision -), or
 * by hand (--key-file). */
#include "base/attempts.h"
#include "base/config/options_argp.h"
#include "base/log.h"
#include "base/text/command_text.h"
#include "comm/members/provision.h"
#include "comm/wire/compression/compression.h"
#include "data/augment/plan.h"
#include "model/networks/network_list.h"
#include "net/transport.h"
#include "ps/input_thread.h"
#include "ps/programs/programs.h"
#include "ps/roster.h"
#include "ps/scheduler/driver/driver.h"
#include "ps/show/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct arguments {
    psr_config config;
    bool provisioned, by_worker;
    const char *keys, *interface, *command;
    uint16_t port;
} arguments;

enum {
    OPTION_PROVISION = 0x100,
    OPTION_BY_WORKER,
    OPTION_COMMAND,
    OPTION_KEY_FILE,
    OPTION_KEYS,
    OPTION_INTERFACE,
    OPTION_PORT
};

static const struct argp_option options[] = {
    {"provision", OPTION_PROVISION, "-", 0,
     "read keys and interface as one line of JSON from standard input, then orders", 0},
    {"by-worker", OPTION_BY_WORKER, NULL, OPTION_HIDDEN,
     "with --provision, of a worker that another launcher started: it gives orders and takes no "
     "events",
     0},
    {"command", OPTION_COMMAND, "TEXT", OPTION_HIDDEN,
     "what the person typed, for run.json; default: this command line", 0},
    {"key-file", OPTION_KEY_FILE, "FILE", 0,
     "the scheduler's keys, or the keys that all share (psring keygen)", 0},
    {"keys", OPTION_KEYS, "DIR", 0, "the folder that psring keygen wrote", 0},
    {"interface", OPTION_INTERFACE, "ADDRESS", 0,
     "address or interface to listen on; default: 127.0.0.1", 0},
    {"port", OPTION_PORT, "N", 0, "port to listen on; default: one that is free", 0},
    {0},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->config;
        return 0;
    case OPTION_PROVISION:
        psr_options_check_provision(state, text);
        a->provisioned = true;
        return 0;
    case OPTION_BY_WORKER:
        a->by_worker = true;
        return 0;
    case OPTION_COMMAND:
        a->command = text;
        return 0;
    case OPTION_KEY_FILE:
    case OPTION_KEYS:
        psr_options_set_keys(state, &a->keys, text);
        return 0;
    case OPTION_INTERFACE:
        a->interface = text;
        return 0;
    case OPTION_PORT:
        a->port = (uint16_t)psr_options_number(state, "port", text, 0, UINT16_MAX);
        return 0;
    case ARGP_KEY_ARG:
        psr_options_refuse(state, "takes options alone; see --help");
        return 0;
    case ARGP_KEY_END:
        if (a->provisioned && (a->keys != NULL || a->interface != NULL || a->port))
            psr_options_refuse(
                state,
                "--provision already tells keys, interface and port; leave the other options out");
        if (a->by_worker && !a->provisioned)
            psr_options_refuse(state, "--by-worker: it comes with --provision -");
        if (!a->provisioned && a->keys == NULL)
            psr_options_refuse(
                state,
                "give --key-file FILE or --keys DIR (psring train starts the scheduler by itself)");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The launcher knows all hosts, and chooses the number of threads. In a start by hand it is chosen
 * by this host's cores. */
static psr_err check_config(psr_config *config)
{
    PSR_TRY(psr_network_check(config));
    PSR_TRY(psr_compression_check_options(config->compress, config->compress_weights));
    PSR_TRY(psr_augment_check(config));
    if (config->threads == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN), ranks = psr_roster_of(config).ranks;
        config->threads = cores > ranks ? (uint32_t)(cores / ranks) : 1;
    }
    PSR_TRY(psr_config_check(config));
    psr_config_resolve_shards(config);
    if (config->out[0] == '\0')
        psr_config_name_out(config);
    return psr_attempts_resolve(config);
}

/* A start by hand. CURVE keys are for TCP unless --transport says ipc; a token is for ipc, in a
 * directory that is made here. */
static psr_err choose_transport(const arguments *a, psr_provision *provision,
                                psr_socket_directory *sockets)
{
    bool ipc = a->config.transport == PSR_TRANSPORT_IPC ||
               a->config.transport == PSR_TRANSPORT_SHM ||
               (a->config.transport == PSR_TRANSPORT_AUTO && !provision->keys.curve);
    provision->port = a->port;
    if (!ipc)
        return PSR_OK; /* the transport checks that the needed keys are there */
    if (a->interface != NULL || a->port)
        return psr_fail(PSR_ERR_USAGE,
                        "--%s is for TCP, and %s; leave it out, or make CURVE keys (psring keygen "
                        "without --loopback)",
                        a->interface != NULL ? "interface" : "port",
                        provision->keys.curve
                            ? "--transport is ipc or shm"
                            : "a token (psring keygen --loopback) is for ipc sockets");
    PSR_TRY(psr_socket_directory_make(getenv("XDG_RUNTIME_DIR"), sockets));
    memcpy(provision->directory, sockets->path, sizeof provision->directory);
    return PSR_OK;
}

/* ret_sockets: to be removed at the end; the launcher's agent has made it, and removes it too. */
static psr_err read_provision(const arguments *a, psr_provision *ret_provision,
                              psr_socket_directory *ret_sockets)
{
    if (!a->provisioned) {
        PSR_TRY(psr_provision_by_hand((psr_peer){PSR_ROLE_SCHEDULER, 0}, NULL, a->keys,
                                      a->interface, ret_provision));
        return choose_transport(a, ret_provision, ret_sockets);
    }
    PSR_TRY(psr_provision_from_fd(STDIN_FILENO, ret_provision));
    return ret_provision->directory[0]
               ? psr_socket_directory_enter(ret_provision->directory, ret_sockets)
               : PSR_OK;
}

/* argp calls it for --version. */
static void print_version(FILE *to, struct argp_state *state)
{
    char library[32];
    (void)state;
    psr_transport_library(library, sizeof library);
    fprintf(to, "psring-scheduler %s (%s)\n", PSR_VERSION, library);
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    psr_input_thread_block_signals();
    psr_log_init("scheduler", PSR_LOG_INFO);
    if (argc > 1 && strcmp(argv[1], "programs") == 0) /* the launcher's own */
        return psr_programs_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "show") == 0) /* psring show's own */
        return psr_show_main(argc - 1, argv + 1);
    arguments a = {0};
    psr_config_defaults(&a.config);
    char networks[PSR_NETWORK_TEXT_MAX], names[PSR_NETWORK_TEXT_MAX];
    psr_network_help(networks, sizeof networks);
    psr_network_names(names, sizeof names);
    psr_options_argp *table = psr_options_argp_new(networks, names);
    if (table == NULL)
        return psr_err_exit_status(PSR_ERR_NOMEM);
    struct argp_child children[] = {{psr_options_argp_child(table), 0, NULL, 0}, {0}};
    struct argp parser = {
        .options = options,
        .parser = parse_option,
        .doc = "The scheduler of a run: gives ranks, watches who is alive, writes the run "
               "directory. It takes the options of the whole run and tells them to all "
               "others.\vExample, by hand (psring keygen --help has all of a run):\n"
               "  psring-scheduler --keys keys --port 4100 --workers 2 --model mlp --steps 20\n"
               "\n"
               "Exit status: 0 done; 1 the run failed; 2 bad input; 3 a process broke the\n"
               "protocol; 130 stopped by Ctrl-C, with a checkpoint.\n",
        .children = children,
    };
    char command[PSR_COMMAND_MAX]; /* before argp puts the words in another order */
    psr_command_text(argc, (const char *const *)argv, command);
    psr_options_parse(&parser, argc, argv, 0, NULL, &a);

    psr_provision provision = {0};
    psr_socket_directory sockets = PSR_SOCKET_DIRECTORY_NONE;
    const psr_config told = a.config;
    const char *series = told.out[0] == '\0' || psr_attempts_are_asked_for(&told) ? told.out : NULL;
    psr_err err = check_config(&a.config);
    const psr_launcher_kind kind = !a.provisioned ? PSR_LAUNCHER_NONE
                                   : a.by_worker  ? PSR_LAUNCHER_WORKER
                                                  : PSR_LAUNCHER_WHOLE;
    if (err == PSR_OK)
        err = read_provision(&a, &provision, &sockets);
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    else
        err = psr_scheduler_drive(&a.config, series, a.command != NULL ? a.command : command,
                                  &provision, kind);
    psr_socket_directory_remove(&sockets);
    psr_provision_done(&provision);
    psr_options_argp_free(table);
    return psr_err_exit_status(err);
}
