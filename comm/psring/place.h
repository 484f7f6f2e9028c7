/* Where a process finds the others, from what psring_options say: addresses, sockets, keys. */
#ifndef PSR_COMM_PSRING_PLACE_H
#define PSR_COMM_PSRING_PLACE_H

#include "comm/psring/hosting.h"
#include "comm/psring/psring.h"

/* As a rank. USAGE, or what reading the keys gives. ret owns: psr_provision_done. */
PSR_MUST_CHECK psr_err psr_place_provision(const psring_options *options, psr_provision *ret_provision);
/* As the scheduler too: it listens where options say that it is. ret owns. */
PSR_MUST_CHECK psr_err psr_place_host(const psring_options *options, psr_hosting **ret_hosting);

/* The folder of sockets that a job's processes have by its name alone (net/socket_directory.h), and this rank in it. */
typedef struct psr_job_folder {
    psr_socket_directory directory;
    int claim; /* descriptor; -1: none */
} psr_job_folder;
#define PSR_JOB_FOLDER_NONE ((psr_job_folder){.directory = PSR_SOCKET_DIRECTORY_NONE, .claim = -1})
/* Enters it, where the provision's folder is one; any other is its user's, and nothing is done. USAGE: another process is this rank. ret
 * owns: psr_place_leave, after the last socket in it. */
PSR_MUST_CHECK psr_err psr_place_enter(const psr_provision *provision, psr_job_folder *ret_folder);
/* None: does nothing. */
void psr_place_leave(psr_job_folder *folder);

/* What this host is called. USAGE: it is too long. */
PSR_MUST_CHECK psr_err psr_place_host_name(const psring_options *options, char ret_host[PSR_HOST_MAX]);

#endif
