/* Other systems that exchange the same bytes between as many processes: Gloo through PyTorch, Open
 * MPI's all-reduce, MXNet's KVStore. Each is a program of bench/peers, which prints one JSON
 * object. One thread. */
#ifndef PSR_BENCH_EXCHANGE_PEERS_H
#define PSR_BENCH_EXCHANGE_PEERS_H

#include "bench/exchange/plan.h"

typedef enum bench_peer { BENCH_GLOO, BENCH_MXNET, BENCH_OPEN_MPI, BENCH_PEERS } bench_peer;

typedef struct bench_peer_task {
    const char *command;  /* Gloo: a Python that has torch; MXNet: one that has mxnet; Open MPI: the
                             words of mpirun. Borrowed, as all here */
    const char *ssh;      /* in a launch: what reaches other hosts, for Open MPI; NULL: ssh */
    const bench_run *run; /* that it stands beside; has a plan */
} bench_peer_task;

typedef struct bench_peer_figures {
    double least_ms, median_ms, most_ms;
} bench_peer_figures;

/* "Gloo", "MXNet", "Open MPI". */
const char *bench_peer_name(bench_peer peer);

/* Whether it does what that mode does: MXNet has servers, the others none. */
bool bench_peer_suits(bench_peer peer, psr_mode mode);

/* Runs it. In a launch all ranks call it alike, and get the same status; the figures are rank 0's.
 * PEER: it failed; the line has its own last line, and in a launch its host. NOT_FOUND: its program
 * is not installed, or the command cannot be run. IO, NOMEM. */
PSR_MUST_CHECK psr_err bench_peer_run(bench_peer peer, const bench_peer_task *task,
                                      bench_peer_figures *ret_figures);

/* Removes what the peers needed: Open MPI's program, which its own compiler made. */
void bench_peers_done(void);

#endif
