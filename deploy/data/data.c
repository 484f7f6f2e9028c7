/* `psring data WHAT`: becomes the program psring-data, which knows data sets. */
#include "deploy/commands.h"
#include "deploy/subcommands.h"

#include "base/config/describe.h"
#include "base/config/help_width.h"
#include "base/config/manual.h"
#include "base/system/child.h"
#include "base/text/printable.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int become(int argc, char **argv);

static const psr_subcommand rows[] = {
    {"get", "download mnist, fashion-mnist, cifar10 or cifar100, and check them", become},
    {"check", "read every picture: classes, sizes, mean and deviation, broken files", become},
    {"ls", "list the data sets that are known, and where they are", become},
    {"pack", "write a data set into one file with an index and checksums", become},
};
static const psr_subcommands words = {rows, sizeof rows / sizeof *rows, "psring-data-"};

static const char about[] =
    "Data sets lie in folders, each of its own, or in packs. --data takes the folder, the pack, or "
    "the name of a data set that psring knows; that is looked for in /usr/share/datasets and in "
    "psring's own data folder, $XDG_DATA_HOME/psring or ~/.local/share/psring.\n";

static const char example[] = "  psring data ls\n"
                              "  psring data get cifar10\n"
                              "  psring data check cifar10\n"
                              "  psring data pack cifar10 -o cifar10.pack\n";

static void usage(FILE *to)
{
    psr_print(to, "Usage: psring data WHAT [OPTION...]\n\nWhat:\n");
    psr_subcommands_help(&words, to);
    psr_print(to, "\n");
    psr_help_wrap(to, about, 0, 0);
    psr_print(to, "\n");
    psr_help_wrap(to, "`psring data WHAT --help` tells the options. For a start:", 0, 0);
    psr_print(to, "%s", example);
}

/* For those who build psring. */
static void print_manual(const char *date)
{
    psr_manual_begin(stdout, "psring data", "Gets, checks, lists and packs data sets", date);
    psr_manual_section(stdout, "SYNOPSIS");
    psr_manual_synopsis(stdout, "psring data", "WHAT [OPTION...]");
    psr_manual_section(stdout, "DESCRIPTION");
    psr_manual_text(stdout, about, strlen(about));
    psr_subcommands_manual(&words, "COMMANDS", stdout);
    psr_manual_section(stdout, "EXAMPLES");
    psr_manual_text(stdout, example, strlen(example));
    psr_subcommands_see_also(&words, "psring psring-train", stdout);
}

/* argv[0]: WHAT. Returns only if the program could not be started. */
static int become(int argc, char **argv)
{
    char path[PATH_MAX], name[] = "psring-data";
    char **command = calloc((size_t)argc + 2, sizeof *command);
    if (command == NULL) {
        psr_print(stderr, "psring data: no memory\n");
        return 1;
    }
    if (psr_program_path(name, path, sizeof path) != PSR_OK) {
        psr_print(stderr, "psring data: %s\n", psr_err_detail());
    } else {
        command[0] = name;
        memcpy(command + 1, argv, (size_t)argc * sizeof *command);
        (void)execv(path, command);
        psr_print(stderr, "psring data: %s: %s\n", path, strerror(errno));
    }
    free(command);
    return 1;
}

int psr_command_data(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    const char *date = NULL;
    psr_describe_kind described = psr_describe_asked(argc, argv, &date);
    if (described == PSR_DESCRIBE_MANUAL)
        print_manual(date);
    if (described == PSR_DESCRIBE_COMPLETION)
        psr_subcommands_completion(&words, "psring data", "--help", stdout);
    if (described != PSR_DESCRIBE_NOTHING)
        return 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "-?") == 0) {
        usage(stdout);
        return 0;
    }
    const psr_subcommand *found = psr_subcommands_find(&words, argv[1]);
    if (found != NULL)
        return found->run(argc - 1, argv + 1);
    psr_print(stderr, "psring data: there is no '%s'\n", argv[1]);
    usage(stderr);
    return 2;
}
