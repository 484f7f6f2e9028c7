/* Other systems that exchange the same bytes between as many processes on this machine: Gloo
 * through PyTorch, Open MPI's all-reduce, MXNet's KVStore. Each is a program of bench/peers, which
 * prints one JSON object. One thread. */
#ifndef PSR_BENCH_EXCHANGE_PEERS_H
#define PSR_BENCH_EXCHANGE_PEERS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum bench_peer { BENCH_GLOO, BENCH_MXNET, BENCH_OPEN_MPI, BENCH_PEERS } bench_peer;

typedef struct bench_peer_task {
    const char *command; /* Gloo: a Python that has torch; MXNet: one that has mxnet; Open MPI: the
                            words of mpirun. Borrowed, as all here */
    uint32_t workers, shards, rounds, warmup;
    uint64_t bytes;
} bench_peer_task;

/* "Gloo", "MXNet", "Open MPI". */
const char *bench_peer_name(bench_peer peer);

/* Runs it, and gives the median of its rounds. PEER: it failed; the line has its own last line.
 * NOT_FOUND: its program is not installed, or the command cannot be run. IO, NOMEM. */
PSR_MUST_CHECK psr_err bench_peer_run(bench_peer peer, const bench_peer_task *task,
                                      double *ret_median_ms);

/* Removes what the peers needed: Open MPI's program, which its own compiler made. */
void bench_peers_done(void);

#endif
