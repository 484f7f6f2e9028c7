/* Open MPI's all-reduce as a peer: compiled by its own compiler, started by its own mpirun. One
 * thread. */
#ifndef PSR_BENCH_EXCHANGE_PEER_MPI_H
#define PSR_BENCH_EXCHANGE_PEER_MPI_H

#include "bench/exchange/peers.h"

/* In a launch, once before the others: all ranks call it alike, and each host gets the program at
 * the same path. Errors as bench_peer_run, the same on all. */
PSR_MUST_CHECK psr_err bench_mpi_spread(const bench_peer_task *task);

/* In a launch rank 0 alone. text: [BENCH_PEER_OUTPUT_BYTES], scratch. Errors as bench_peer_run. */
PSR_MUST_CHECK psr_err bench_mpi_run(const bench_peer_task *task, char *text,
                                     bench_peer_figures *ret_figures);

/* Removes the program. */
void bench_mpi_done(void);

#endif
