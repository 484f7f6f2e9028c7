/* The launcher's end of one agent. On this host the agent is started directly, elsewhere through
 * ssh, or in a Slurm job through srun. One thread. */
#ifndef PSR_DEPLOY_HOST_H
#define PSR_DEPLOY_HOST_H

#include "base/system/child.h"
#include "base/text/json.h"

#include <stdint.h>

typedef struct psr_host_link {
    bool local; /* this machine: no ssh */
    psr_child agent;
} psr_host_link;

/* True for localhost, loopback addresses and this machine's own name. */
bool psr_host_is_here(const char *name);

/* Starts the agent. ssh: words as in a shell (quotes, ~, $NAME), the first of which is a program
 * with ssh's arguments, or srun; NULL: "ssh". remote_program: NULL for this program's own path,
 * then psring from PATH. USAGE: ssh is wrong. NOT_FOUND. */
PSR_MUST_CHECK psr_err psr_host_start(psr_host_link *link, const char *name, const char *ssh,
                                      const char *remote_program);

/* Sends its agent, before the first process, what all processes that it starts find in their
 * environment: NAME=VALUE.., NULL; NULL: nothing more. NOMEM. */
PSR_MUST_CHECK psr_err psr_host_set_variables(psr_host_link *link, const char *const *variables);

/* The command for a POSIX shell on another host. named: the user said where psring is
 * (--remote-psring). Otherwise path is our own: it is run there only if nobody but root and the
 * user who logs in can change it, else psring from PATH. USAGE: too long. */
PSR_MUST_CHECK psr_err psr_host_command(const char *path, bool named, char *command, size_t size);

/* The error for an agent that ended with this waitpid status before its hello: "host node2: ...".
 * last_words: the last line that it, or ssh, printed; "": none. NOT_FOUND, PEER. */
psr_err psr_host_no_agent(const char *name, bool local, int wait_status, const char *last_words);

#endif
