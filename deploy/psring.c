/* The front door, in the manner of git: `psring COMMAND ...`. */
#include "base/printable.h"
#include "deploy/agent/agent.h"
#include "deploy/commands.h"
#include "net/transport.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

typedef struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"train", "train a network on this machine or on the hosts of a hostfile", psr_command_train},
    {"run", "run any program on this machine or on the hosts of a hostfile, each process with its rank",
     psr_command_run},
    {"bench", "measure the library's operations on this machine or on the hosts of a hostfile",
     psr_command_bench},
    {"report", "compare runs in one table", psr_command_report},
    {"keygen", "make key files for processes that are started by hand", psr_command_keygen},
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static void usage(FILE *to)
{
    fprintf(to, "Usage: psring COMMAND [OPTION...]\n"
                "Trains networks with parameter servers or ring all-reduce, to the same bits.\n\n"
                "Commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(
        to,
        "\n`psring COMMAND --help` tells the options of each, `psring --version` the version. For a start:\n"
        "  psring train --model resnet20 --data fashion-mnist --workers 3 --mode ps --shards 2 --steps "
        "100\n");
}

/* Also what argp calls for --version behind a command. */
static void print_version(FILE *to, struct argp_state *state)
{
    char library[32];
    (void)state;
    psr_transport_library(library, sizeof library);
    psr_print(to, "psring %s (%s)\n", PSR_VERSION, library);
}

int main(int argc, char **argv)
{
    argp_program_version_hook = print_version;
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-?") == 0 || strcmp(name, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        print_version(stdout, NULL);
        return 0;
    }
    if (strcmp(name, "agent") == 0) /* the launcher's own */
        return psr_agent_main();
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            char title[64];
            snprintf(title, sizeof title, "psring %s", name);
            argv[1] = title;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    psr_print(stderr, "psring: '%s' is not a command; there are", name);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        psr_print(stderr, "%s %s", i ? "," : "", commands[i].name);
    psr_print(stderr, "\n");
    return 2;
}
