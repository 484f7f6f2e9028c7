/* `psring data WHAT`: the program psring-data, which the front door becomes (deploy/data/data.c).
 * It is a program of its own because the front door knows neither data sets nor libcurl. Each
 * command takes its own arguments (argv[0] is "psring data NAME"), prints, and returns its error,
 * of which main makes a line and the exit status. One thread. */
#ifndef PSR_DATA_COMMAND_COMMAND_H
#define PSR_DATA_COMMAND_COMMAND_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>

/* What main has found in the environment; and whether a signal has come that ends the command. */
typedef struct psr_data_command {
    const char *user_directory; /* of data sets; NULL: there is none */
    const char *cache;          /* of contents; NULL: there is none */
    const atomic_bool *stop;
    bool refused; /* set by a command that has said all that is wrong: the exit status is 1 */
} psr_data_command;

PSR_MUST_CHECK psr_err psr_data_get(psr_data_command *command, int argc, char **argv);
PSR_MUST_CHECK psr_err psr_data_check(psr_data_command *command, int argc, char **argv);
PSR_MUST_CHECK psr_err psr_data_ls(psr_data_command *command, int argc, char **argv);
PSR_MUST_CHECK psr_err psr_data_pack(psr_data_command *command, int argc, char **argv);

#endif
