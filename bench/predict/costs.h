/* What messages and bytes cost a process of this machine (psr_link_costs): measured apart from any
 * training, in processor time, and kept in a file. One thread. */
#ifndef PSR_BENCH_PREDICT_COSTS_H
#define PSR_BENCH_PREDICT_COSTS_H

#include "bench/emulation/links.h"

/* Of what psr_costs_calibrate has printed. NOT_FOUND, IO; FORMAT: names the file and the field. */
PSR_MUST_CHECK psr_err psr_costs_read(const char *path, psr_link_costs *ret_costs);

/* Measures them and prints one JSON object; takes some seconds of all processors. A message: psring
 * bench exchange with a ring of two processes over loopback, encrypted, in slices of 16 KiB and of
 * 256 KiB, of which the difference counts. A byte: through a loopback connection; by the cipher; by
 * the fold; by SGD with momentum. NOT_FOUND: psring-bench-exchange is not installed beside. IO,
 * PEER, NOMEM. */
PSR_MUST_CHECK psr_err psr_costs_calibrate(void);

#endif
