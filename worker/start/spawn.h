/* --multiprocessing-distributed: one command on each node starts a process for each of its ranks,
 * as PyTorch's example programs do by torch.multiprocessing.spawn. --rank and --world-size count
 * nodes; the rank of local rank l on node k is k * nproc-per-node + l. */
#ifndef PSR_WORKER_START_SPAWN_H
#define PSR_WORKER_START_SPAWN_H

#include "worker/start/arguments.h"

/* Starts the ranks of this node: psring-worker with the run's options, with RANK, WORLD_SIZE and
 * the others in the environment, and with this process's standard output and error. They die with
 * this process; signals to end are passed on to all of them. Waits for all, and prints how each one
 * ended that did not end well. Returns the exit status: the first one of a rank that is not 0; 2
 * for bad input. */
int psr_spawn_ranks(const psr_worker_arguments *arguments);

#endif
