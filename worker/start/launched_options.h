/* Reads what a process that another launcher has started is given by environment (comm/start/) and
 * command line: its place, and the run's options. Contradictions are refused here; nothing is
 * started. */
#ifndef PSR_WORKER_START_LAUNCHED_OPTIONS_H
#define PSR_WORKER_START_LAUNCHED_OPTIONS_H

#include "worker/start/arguments.h"

#include "comm/start/start.h"

/* The place. NOT_FOUND: none is given, or this process is to start the processes of its node
 * (worker/start/spawn.h). USAGE: command line and environment contradict each other or
 * themselves. */
PSR_MUST_CHECK psr_err psr_launched_find(const psr_worker_arguments *arguments,
                                         psr_start *ret_start);

/* The run's options, completed by what the place says. USAGE. */
PSR_MUST_CHECK psr_err psr_launched_resolve(const psr_worker_arguments *arguments,
                                            const psr_start *start, psr_config *ret_config);

/* Takes DATA_PATH if the command line has no --data, and logs that. USAGE. */
PSR_MUST_CHECK psr_err psr_launched_take_input(const psr_worker_arguments *arguments,
                                               psr_config *config);

/* Applies --total-batch-size, which is for all ranks of a node. USAGE. */
PSR_MUST_CHECK psr_err psr_launched_share_batch(const psr_worker_arguments *arguments,
                                                uint32_t local_ranks, psr_config *config);

/* Sets the threads, if they are not given: this host's cores, divided among its ranks. */
void psr_launched_share_cores(const psr_start *start, psr_config *config);

/* The run's configuration has come: it must be what this process was given, except what the
 * scheduler resolves. USAGE: names the option that differs. */
PSR_MUST_CHECK psr_err psr_launched_compare(const psr_config *told, const psr_config *run);

#endif
