/* `psring data WHAT`: becomes the program psring-data, which knows data sets. */
#include "deploy/commands.h"
#include "deploy/subcommands.h"

#include "base/system/child.h"
#include "base/text/printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* argv[0]: WHAT. Returns only if the program could not be started. */
static int become(int argc, char **argv)
{
    char name[] = "psring-data";
    char **command = calloc((size_t)argc + 2, sizeof *command);
    if (command == NULL) {
        psr_print(stderr, "psring data: no memory\n");
        return 1;
    }
    command[0] = name;
    memcpy(command + 1, argv, (size_t)argc * sizeof *command);
    if (psr_program_become(name, command) != PSR_OK)
        psr_print(stderr, "psring data: %s\n", psr_err_detail());
    free(command);
    return 1;
}

int psr_command_data(int argc, char **argv)
{
    static const psr_front_door door = {
        .list = &words,
        .program = "psring data",
        .title = "Gets, checks, lists and packs data sets",
        .heading = "What",
        .man_heading = "COMMANDS",
        .kind = "a command",
        .about = about,
        .rest = "the options",
        .example = example,
        .others = "psring psring-train",
    };
    return psr_front_door_run(&door, argc, argv);
}
