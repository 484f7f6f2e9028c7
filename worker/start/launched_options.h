/* For a process that another launcher has started: reads its place and the run's options from the
 * environment (comm/start/) and the command line. Refuses contradictions. Starts nothing. */
#ifndef PSR_WORKER_START_LAUNCHED_OPTIONS_H
#define PSR_WORKER_START_LAUNCHED_OPTIONS_H

#include "worker/start/arguments.h"

#include "comm/start/start.h"

/* Reads the place. NOT_FOUND: no place is given, or this process must start the processes of its
 * node (worker/start/spawn.h). USAGE: command line and environment contradict each other or
 * themselves. */
PSR_MUST_CHECK psr_err psr_launched_find(const psr_worker_arguments *arguments,
                                         psr_start *ret_start);

/* Completes the run's options from the place. USAGE. */
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

/* Compares the run's configuration, which has come, with this process's own options. They must be
 * equal, except for options that the scheduler resolves. USAGE: names the option that differs. */
PSR_MUST_CHECK psr_err psr_launched_compare(const psr_config *told, const psr_config *run);

#endif
