/* Where a process finds the others, according to psring_options: addresses, sockets, keys. */
#ifndef PSR_COMM_PSRING_PLACE_H
#define PSR_COMM_PSRING_PLACE_H

#include "comm/psring/hosting.h"
#include "comm/psring/psring.h"
#include "comm/start/meeting_file.h"

/* As a rank. USAGE, or what reading the keys gives. The caller owns *ret_provision:
 * psr_provision_done. */
PSR_MUST_CHECK psr_err psr_place_provision(const psring_options *options,
                                           psr_provision *ret_provision);
/* Starts the scheduler in this process: it listens where the options say. The caller owns
 * *ret_hosting. */
PSR_MUST_CHECK psr_err psr_place_host(const psring_options *options, psr_hosting **ret_hosting);

/* As psring_options_env. If the ranks meet by a file (comm/start/meeting_file.h), the file is
 * written, or waited for at most deadline_ms. ret_meeting NULL: such a meeting is refused
 * (UNSUPPORTED), and so is a process that no launcher has started (NOT_FOUND), which is one rank by
 * itself otherwise. The caller owns *ret_meeting: psr_meeting_file_remove, when all have joined. */
PSR_MUST_CHECK psr_err psr_place_from_environment(int64_t deadline_ms, psring_options *ret_options,
                                                  psr_meeting_file *ret_meeting);

/* The name of this host. USAGE: it is too long. */
PSR_MUST_CHECK psr_err psr_place_host_name(const psring_options *options,
                                           char ret_host[PSR_HOST_MAX]);

#endif
