/* The hosts of a run, as its members tell of themselves when they join. No state; any thread. */
#ifndef PSR_PS_HOSTS_H
#define PSR_PS_HOSTS_H

#include "base/config/config.h"
#include "base/show/show.h"
#include "comm/comm.h"

/* Where JOIN told that memory can be shared, and the configuration asks for it: the hosts on which
 * workers do. One that shares it with nobody of the ranks beside its own is a host of its own. ret
 * owns: its first. NOMEM. */
PSR_MUST_CHECK psr_err psr_hosts_of_ranks(const psr_config *config, const psr_view *members,
                                          psr_host_ranks *ret_hosts);

/* The same for a person. sockets: as psr_show_place. Borrows names of members. */
psr_show_place psr_hosts_shown(const psr_config *config, const psr_view *members,
                               const char *sockets);

#endif
