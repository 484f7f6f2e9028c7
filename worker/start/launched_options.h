/* Reads what a process that another launcher has started is told of its run, by environment
 * (comm/start/) and command line: its place, and the run's options. Contradictions are refused
 * here; nothing is started. */
#ifndef PSR_WORKER_START_LAUNCHED_OPTIONS_H
#define PSR_WORKER_START_LAUNCHED_OPTIONS_H

#include "worker/start/arguments.h"

#include "comm/comm.h"

/* The place. NOT_FOUND: none is given, or this process is to start those of its node
 * (worker/start/spawn.h). USAGE: command line and environment contradict each other, or
 * themselves. */
PSR_MUST_CHECK psr_err psr_launched_find(const psr_worker_arguments *arguments,
                                         psr_start *ret_start);

/* The run's options, with what the place says of them. USAGE. */
PSR_MUST_CHECK psr_err psr_launched_resolve(const psr_worker_arguments *arguments,
                                            const psr_start *start, psr_config *ret_config);

/* DATA_PATH, where the command line has no --data; it is said. USAGE. */
PSR_MUST_CHECK psr_err psr_launched_take_input(const psr_worker_arguments *arguments,
                                               psr_config *config);

/* --total-batch-size, which is of all ranks of a node. USAGE. */
PSR_MUST_CHECK psr_err psr_launched_share_batch(const psr_worker_arguments *arguments,
                                                uint32_t local_ranks, psr_config *config);

/* Threads, where they are not told: of this host's cores, for the ranks that are here. */
void psr_launched_share_cores(const psr_start *start, psr_config *config);

/* The run's configuration has come: it must be what this process was told, but for what the
 * scheduler resolves. USAGE names the option. */
PSR_MUST_CHECK psr_err psr_launched_compare(const psr_config *told, const psr_config *run);

#endif
