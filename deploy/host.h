/* The launcher's end of one agent: on this host directly, elsewhere through ssh. One thread. */
#ifndef PSR_DEPLOY_HOST_H
#define PSR_DEPLOY_HOST_H

#include "deploy/child.h"
#include "deploy/json.h"

#include <stdint.h>

typedef struct psr_host_link {
    const char *name; /* borrowed: as the hostfile says */
    bool local;       /* this machine: no ssh */
    bool greeted;     /* its agent said hello with our version */
    bool paused;      /* its agent has answered to "pause" */
    bool lost;        /* its agent ended or fell silent while the run went on: told once */
    int64_t
        heard_ms; /* when its agent last said something, by the launcher's presence clock; from its hello on */
    bool refused; /* its agent broke the protocol: nothing more that it says is heard */
    psr_child agent;
    char address[64];          /* as we reached it; "" when local */
    char launcher_address[64]; /* ours, as it sees us; "" when local */
    char last_words[512];      /* the last line on its (or ssh's) standard error */
    bool same_machine;         /* as this process, be it in other namespaces */
    uint32_t cores;
} psr_host_link;

#define PSR_MACHINE_BYTES 64

/* What tells this machine, as long as it runs, from every other: the same in all its namespaces. "" when it is not known. */
void psr_machine_id(char id[PSR_MACHINE_BYTES]);

/* True for localhost, loopback addresses and this machine's own name. */
bool psr_host_is_here(const char *name);

/* Starts the agent. ssh: words separated by spaces. remote_program: NULL for this program's own path, then psring from PATH. */
PSR_MUST_CHECK psr_err psr_host_start(psr_host_link *link, const char *name, const char *ssh,
                                      const char *remote_program);

/* What a POSIX shell on another host is to run. named: the user said where psring is (--remote-psring). Otherwise path is our own: it
 * is run there only where nobody but root and who logs in can change it, else psring from PATH. USAGE: too long. */
PSR_MUST_CHECK psr_err psr_host_command(const char *path, bool named, char *command, size_t size);

/* What a failure to get an agent's hello means, by ssh's exit status and last words: "host node2: ...". */
psr_err psr_host_no_agent(const psr_host_link *link);

#endif
