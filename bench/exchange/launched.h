/* A rank of a benchmark that runs on several hosts: what the ranks tell each other before an
 * exchange. One thread. */
#ifndef PSR_BENCH_EXCHANGE_LAUNCHED_H
#define PSR_BENCH_EXCHANGE_LAUNCHED_H

#include "bench/exchange/plan.h"

/* Sets own, hosts and host_of, from the meeting and the options. USAGE: the launch has another
 * number of ranks, or the transport does not reach its hosts. NOMEM. */
PSR_MUST_CHECK psr_err bench_launch_find_hosts(bench_run *b);

/* Sets sharing, and in this member's keys what the others have told. IO, NOMEM. */
PSR_MUST_CHECK psr_err bench_launch_meet(bench_run *b);

/* All ranks call it, each with its own status: the first that failed is everybody's failure, with
 * its host before its line. */
PSR_MUST_CHECK psr_err bench_launch_agree(const bench_run *b, psr_err err);

#endif
