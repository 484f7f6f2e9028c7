/* A peer's program: where it lies, and what it prints. One thread. */
#ifndef PSR_BENCH_EXCHANGE_PEER_PROGRAM_H
#define PSR_BENCH_EXCHANGE_PEER_PROGRAM_H

#include "base/err.h"

#include <limits.h>

#define BENCH_PEER_OUTPUT_BYTES (256 * 1024)

/* A file of bench/peers: as installed, or in the tree of sources above the build's. NOT_FOUND. */
PSR_MUST_CHECK psr_err bench_peer_find_file(const char *name, char ret_path[static PATH_MAX]);

/* Runs words, NULL at the end, to their end; text: [BENCH_PEER_OUTPUT_BYTES], what was printed to
 * stdout. Nothing that it has started is left. PEER: it failed; the line has the last one that it
 * printed to stderr. NOT_FOUND, IO. */
PSR_MUST_CHECK psr_err bench_peer_run_program(const char *name, char *const *words, char *text);

/* Kills what bench_peer_run_program has started. A signal handler may call it. */
void bench_peer_end_running(void);

#endif
