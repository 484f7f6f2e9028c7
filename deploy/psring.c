/* The front door, in the manner of git: `psring COMMAND ...`. */
#include "base/config/describe.h"
#include "base/config/help_width.h"
#include "base/config/manual.h"
#include "base/text/printable.h"
#include "deploy/agent/agent.h"
#include "deploy/commands.h"
#include "deploy/doctor/visit/probe.h"
#include "deploy/lab/run.h"
#include "deploy/subcommands.h"
#include "net/transport.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const psr_subcommand rows[] = {
    {"train", "train a network on this machine or on the hosts of a hostfile", psr_command_train},
    {"run",
     "run any program on this machine or on the hosts of a hostfile, each process with its rank",
     psr_command_run},
    {"bench", "find the fastest architecture for a network; time the exchange and the library",
     psr_command_bench},
    {"lab", "run psring on a cluster of emulated hosts on this machine", psr_command_lab},
    {"doctor",
     "look for what would stop or slow a run on this machine or on the hosts of a hostfile",
     psr_command_doctor},
    {"predict", "predict how fast parameter servers and ring would be on a cluster",
     psr_command_predict},
    {"mode", "show or change the mode of a run that is under way", psr_command_mode},
    {"report", "compare runs in one table, or on a page with charts", psr_command_report},
    {"show", "show which layers are in which bucket, and who holds it", psr_command_show},
    {"diff", "find the first step in which two runs differ", psr_command_diff},
    {"watch", "show all ranks of a run in a table while it is under way", psr_command_watch},
    {"inspect", "show a checkpoint's tensors, or in which two differ", psr_command_inspect},
    {"export", "write a trained network as ONNX or safetensors", psr_command_export},
    {"eval", "evaluate a checkpoint on a test set", psr_command_eval},
    {"classify", "say what is in pictures, by a trained network", psr_command_classify},
    {"plot", "draw losses, rates and staleness of runs", psr_command_plot},
    {"data", "get, check, list and pack data sets", psr_command_data},
    {"keygen", "make key files for processes that are started by hand", psr_command_keygen},
};

static const psr_subcommands commands = {rows, sizeof rows / sizeof *rows, "psring-"};

static void usage(FILE *to)
{
    psr_print(to, "Usage: psring COMMAND [OPTION...]\n");
    psr_help_wrap(
        to, "Trains networks with parameter servers or ring all-reduce, to the same bits.", 0, 0);
    psr_print(to, "\nCommands:\n");
    psr_subcommands_help(&commands, to);
    psr_print(to, "\n");
    psr_help_wrap(to,
                  "`psring COMMAND --help` tells the options of each, `psring --version` the "
                  "version. For a start:",
                  0, 0);
    psr_print(to, "  psring train --model resnet20 --workers 3 --steps 100\n");
}

/* argp calls this too, for --version after a command. */
static void print_version(FILE *to, struct argp_state *state)
{
    char library[32];
    (void)state;
    psr_transport_library(library, sizeof library);
    psr_print(to, "psring %s (%s)\n", PSR_VERSION, library);
}

/* ---- for those who build psring ---- */

static const char of_psring[] = "psring trains networks on many processes and machines with "
                                "parameter servers or ring all-reduce, to the same\n"
                                "bits. Each command has a page of its own, psring-COMMAND(1), and "
                                "tells its options with --help.\n";
static const char of_status[] = "0: done. 1: what was asked for failed, with one line that says "
                                "why. 2: bad input. 3: a process broke the\n"
                                "protocol, or was turned away. 130: interrupted.\n";

static void print_manual(const char *date)
{
    psr_manual_begin(stdout, "psring", "Trains networks with parameter servers or ring all-reduce",
                     date);
    psr_manual_section(stdout, "SYNOPSIS");
    psr_manual_synopsis(stdout, "psring", "COMMAND [OPTION...]");
    psr_manual_section(stdout, "DESCRIPTION");
    psr_manual_text(stdout, of_psring, strlen(of_psring));
    psr_subcommands_manual(&commands, "COMMANDS", stdout);
    psr_manual_section(stdout, "EXIT STATUS");
    psr_manual_text(stdout, of_status, strlen(of_status));
    psr_subcommands_see_also(&commands, "psring-worker psring-ps psring-scheduler", stdout);
}

static bool described(int argc, char **argv)
{
    const char *date = NULL;
    psr_describe_kind kind = psr_describe_asked(argc, argv, &date);
    if (kind == PSR_DESCRIBE_MANUAL)
        print_manual(date);
    if (kind == PSR_DESCRIBE_COMPLETION)
        psr_subcommands_completion(&commands, "psring", "--help --version", stdout);
    return kind != PSR_DESCRIBE_NOTHING;
}

/* argv[1] is the command's name. */
static int run_command(int argc, char **argv)
{
    const psr_subcommand *found = psr_subcommands_find(&commands, argv[1]);
    if (found != NULL) {
        char title[64];
        snprintf(title, sizeof title, "psring %s", argv[1]);
        argv[1] = title;
        return found->run(argc - 1, argv + 1);
    }
    return psr_subcommands_refuse(&commands, "psring", "a command", argv[1]);
}

/* `psring help bench comm`: `psring bench comm --help`. */
static int help_of(int argc, char **argv)
{
    static char help[] = "--help";
    for (int i = 1; i + 1 < argc; i++)
        argv[i] = argv[i + 1];
    argv[argc - 1] = help;
    return run_command(argc, argv);
}

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (described(argc, argv))
        return 0;
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 && argc > 2)
        return help_of(argc, argv);
    if (is_one_of(name, (const char *const[]){"--help", "-h", "-?", "help", NULL})) {
        usage(stdout);
        return 0;
    }
    if (is_one_of(name, (const char *const[]){"--version", "-V", "version", NULL})) {
        print_version(stdout, NULL);
        return 0;
    }
    if (strcmp(name, "agent") == 0) /* the launcher's own */
        return psr_agent_main();
    if (strcmp(name, "hosts") == 0) /* deploy/install's own */
        return psr_command_hosts(argc - 1, argv + 1);
    if (strcmp(name, "lab-host") == 0) /* the way to a host of a lab */
        return psr_lab_host_main(argc - 1, argv + 1);
    if (strcmp(name, "probe") == 0) /* the agent's own */
        return psr_probe_main();
    return run_command(argc, argv);
}
