/* Where a process finds the others, from what psring_options say: addresses, sockets, keys. */
#ifndef PSR_COMM_PSRING_PLACE_H
#define PSR_COMM_PSRING_PLACE_H

#include "comm/psring/hosting.h"
#include "comm/psring/psring.h"
#include "comm/start/meeting_file.h"

/* As a rank. USAGE, or what reading the keys gives. ret owns: psr_provision_done. */
PSR_MUST_CHECK psr_err psr_place_provision(const psring_options *options,
                                           psr_provision *ret_provision);
/* As the scheduler too: it listens where options say that it is. ret owns. */
PSR_MUST_CHECK psr_err psr_place_host(const psring_options *options, psr_hosting **ret_hosting);

/* As psring_options_env, and where the ranks meet by a file (comm/start/meeting_file.h) it is
 * written, or waited for until deadline_ms; with ret_meeting NULL that is refused (UNSUPPORTED),
 * and so is a process that no launcher has started (NOT_FOUND), which is one rank else. ret_meeting
 * owns: psr_meeting_file_remove, once all have joined. */
PSR_MUST_CHECK psr_err psr_place_from_environment(int64_t deadline_ms, psring_options *ret_options,
                                                  psr_meeting_file *ret_meeting);

/* What this host is called. USAGE: it is too long. */
PSR_MUST_CHECK psr_err psr_place_host_name(const psring_options *options,
                                           char ret_host[PSR_HOST_MAX]);

#endif
