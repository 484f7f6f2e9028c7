/* How long a worker's passes take, node by node, for --record: the medians over steps, as a profile
 * that the played back end plays (model/played/profile.h). One thread: the compute thread. */
#ifndef PSR_WORKER_PASS_TIMES_H
#define PSR_WORKER_PASS_TIMES_H

#include "base/config/config.h"
#include "model/networks/network.h"

typedef struct psr_pass_times psr_pass_times;

/* net is borrowed for life. The caller owns *ret_times. NOMEM. */
PSR_MUST_CHECK psr_err psr_pass_times_new(const psr_network *net, psr_pass_times **ret_times);
void psr_pass_times_free(psr_pass_times *times);

/* A pass reports progress before each node of the forward pass, in order, and behind each of the
 * backward pass, in reverse (model/readiness.h). busy_s: what it has computed since the last
 * report, or since its beginning. */
void psr_pass_times_begin(psr_pass_times *times);
void psr_pass_times_progress(psr_pass_times *times, double busy_s);
/* The pass has ended; what it computed since its last report. Steps beyond some hundreds replace
 * the oldest. */
void psr_pass_times_end(psr_pass_times *times, double busy_s);

/* Writes the profile. USAGE: no pass has ended. */
PSR_MUST_CHECK psr_err psr_pass_times_write(psr_pass_times *times, const psr_config *config,
                                            const char *machine);

#endif
