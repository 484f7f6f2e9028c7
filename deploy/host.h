/* The launcher's end of one agent: on this host directly, elsewhere through ssh. One thread. */
#ifndef PSR_DEPLOY_HOST_H
#define PSR_DEPLOY_HOST_H

#include "deploy/child.h"
#include "deploy/json.h"

#include <stdint.h>

typedef struct psr_host_link {
    const char *name;   /* borrowed: as the hostfile says */
    bool local;         /* this machine: no ssh */
    bool greeted;       /* its agent said hello with our version */
    bool lost;          /* its agent ended while the run went on: told once */
    psr_child agent;
    char address[64];   /* as we reached it; "" when local */
    char launcher_address[64]; /* ours, as it sees us; "" when local */
    char last_words[512]; /* the last line on its (or ssh's) standard error */
    uint32_t cores;
} psr_host_link;

/* True for localhost, loopback addresses and this machine's own name. */
bool psr_host_is_here(const char *name);

/* Starts the agent. ssh: words separated by spaces. remote_program: NULL for this program's own path, then psring from PATH. */
PSR_MUST_CHECK psr_err psr_host_start(psr_host_link *link, const char *name, const char *ssh, const char *remote_program);

/* What a failure to get an agent's hello means, by ssh's exit status and last words: "host node2: ...". */
psr_err psr_host_no_agent(const psr_host_link *link);

#endif
