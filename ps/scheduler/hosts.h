/* The hosts of a run, according to what its members said in JOIN. No state; any thread. */
#ifndef PSR_PS_HOSTS_H
#define PSR_PS_HOSTS_H

#include "base/config/config.h"
#include "base/show/show.h"
#include "comm/view/plan.h"
#include "comm/view/view.h"

/* The hosts on which workers share memory, if the configuration asks for that and JOIN says that it
 * is possible. A worker that shares memory with none of the neighbouring ranks counts as a host of
 * its own. The caller owns ret_hosts->first. NOMEM. */
PSR_MUST_CHECK psr_err psr_hosts_of_ranks(const psr_config *config, const psr_view *members,
                                          psr_host_ranks *ret_hosts);

/* The same for a person. sockets: see psr_show_place. Borrows names of members. */
psr_show_place psr_hosts_shown(const psr_config *config, const psr_view *members,
                               const char *sockets);

#endif
