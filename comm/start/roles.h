/* For launchers that give each process its role, and the address of a scheduler that is a process
 * of its own. For comm/start's own files. */
#ifndef PSR_COMM_START_ROLES_H
#define PSR_COMM_START_ROLES_H

#include "comm/start/start.h"

typedef struct psr_start_roles {
    const char *way;
    /* names of variables */
    const char *role, *workers, *shards, *address, *port;
    const char *words[3]; /* the words for the roles, in psr_role's order */
} psr_start_roles;

/* A psr_start_reader (comm/start/ways/ways.h) with these names. */
PSR_MUST_CHECK psr_err psr_start_by_roles(const psr_start_roles *roles, psr_start *start);

#endif
