/* The command line of psring-worker. Either an agent or a person starts one process. Or another
 * launcher starts N identical processes. These have the options of the whole run, and find their
 * places in the environment or, like PyTorch's programs, in options. Only for main: it prints and
 * exits. */
#ifndef PSR_WORKER_START_ARGUMENTS_H
#define PSR_WORKER_START_ARGUMENTS_H

#include "base/config/config.h"
#include "base/text/command_text.h"

#include <stdbool.h>
#include <stdint.h>

#define PSR_NOT_GIVEN UINT32_MAX

typedef struct psr_worker_arguments {
    bool provisioned;                         /* everything else comes on standard input */
    const char *scheduler, *keys, *interface; /* borrowed from argv; NULL: not given */
    char command[PSR_COMMAND_MAX];            /* the command line, as it was given */
    uint32_t rank;                            /* PSR_NOT_GIVEN if not given, as all numbers here */
    uint32_t port;                            /* --scheduler-port */
    const char *meeting;                      /* --meeting: a folder that all hosts
                                                 of the run see; NULL: not given */

    psr_config config;  /* the run's configuration */
    bool gives_options; /* an option of the run was given */
    bool gives_mode, gives_shards, gives_workers, gives_data;

    /* Options with the names of PyTorch's example programs */
    bool spawns;                             /* --multiprocessing-distributed: one
                                                process for each rank of this node */
    uint32_t local_ranks, local_rank;        /* --nproc-per-node, --local-rank */
    uint32_t world_size;                     /* number of nodes if it spawns, otherwise of ranks */
    uint32_t total_batch;                    /* for a node */
    const char *address, *master_port, *url; /* --addr, --port, --dist-url */
} psr_worker_arguments;

/* Does not return after --help, --version or a refusal (exit status 2). Other errors are found
 * where the options are used. */
void psr_worker_arguments_parse(int argc, char **argv, psr_worker_arguments *ret_arguments);

#endif
