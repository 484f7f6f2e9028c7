/* The command line of psring-worker: of a process that an agent or a hand starts, and of N
 * identical ones that a launcher of somebody else's starts, which have the whole run's options and
 * find their places in the environment or, as PyTorch's programs, in options. For the program's
 * front door alone: it prints and exits. */
#ifndef PSR_WORKER_START_ARGUMENTS_H
#define PSR_WORKER_START_ARGUMENTS_H

#include "base/config/config.h"

#include <stdbool.h>
#include <stdint.h>

#define PSR_NOT_GIVEN UINT32_MAX

typedef struct psr_worker_arguments {
    bool provisioned;                         /* all else is told on standard input */
    const char *scheduler, *keys, *interface; /* borrowed from argv; NULL: not given */
    uint32_t rank;                            /* PSR_NOT_GIVEN, as all numbers here */
    uint32_t port;                            /* --scheduler-port */
    const char *meeting;                      /* --meeting: a folder that all hosts
                                                 of the run see; NULL: not given */

    psr_config config;  /* of the run */
    bool gives_options; /* any option of the run */
    bool gives_mode, gives_shards, gives_workers, gives_data;

    /* As PyTorch's example programs name them */
    bool spawns;                             /* --multiprocessing-distributed: one
                                                process for each rank of this node */
    uint32_t local_ranks, local_rank;        /* --nproc-per-node, --local-rank */
    uint32_t world_size;                     /* nodes where it spawns, else ranks */
    uint32_t total_batch;                    /* of a node */
    const char *address, *master_port, *url; /* --addr, --port, --dist-url */
} psr_worker_arguments;

/* Does not return after --help, --version or a refusal (exit status 2). The rest of what can be
 * wrong is found where it is used. */
void psr_worker_arguments_parse(int argc, char **argv, psr_worker_arguments *ret_arguments);

#endif
