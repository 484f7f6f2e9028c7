/* Ways in which each process is told its role, and where the scheduler is, which is a process of
 * its own. For comm/start's own files. */
#ifndef PSR_COMM_START_ROLES_H
#define PSR_COMM_START_ROLES_H

#include "comm/start/start.h"

typedef struct psr_start_roles {
    const char *way;
    /* names of variables */
    const char *role, *workers, *shards, *address, *port;
    const char *words[3]; /* of role, in psr_role's order */
} psr_start_roles;

/* As a psr_start_reader (comm/start/ways.h). */
PSR_MUST_CHECK psr_err psr_start_by_roles(const psr_start_roles *roles, psr_start *start);

#endif
