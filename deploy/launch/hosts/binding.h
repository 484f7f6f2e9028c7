/* Binding: which of its host's processors each process of a run may run on. A run's processes on
 * one host get cores of their own, or the cores of a NUMA node; memory follows, since the kernel
 * gives a process pages of the node where it first writes them. Pure. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_BINDING_H
#define PSR_DEPLOY_LAUNCH_HOSTS_BINDING_H

#include "deploy/agent/topology.h"

typedef enum psr_bind_to {
    PSR_BIND_TO_NONE, /* where the kernel puts them */
    PSR_BIND_TO_CORE, /* no core is two workers' */
    PSR_BIND_TO_NUMA, /* each to all cores of one node, the nodes
                         in turn; processes may share one */
} psr_bind_to;

/* One host's part of a run. */
typedef struct psr_binding_request {
    psr_bind_to to;   /* not NONE */
    const char *host; /* for messages */
    uint32_t workers, shards;
    uint32_t threads; /* of each worker, at least 1; a shard counts as one */
} psr_binding_request;

/* How many threads workers can have where there are so many of them, and no shards: at least 1. As
 * --threads 0 means it, but in whole cores: processors that share one add little. */
uint32_t psr_binding_threads(psr_bind_to to, const psr_topology *topology, uint32_t workers);

/* ret_cpus: for each worker, then for each shard. To cores: workers get equal shares of what shards
 * leave, one core each, next to each other and if that is possible without crossing nodes. Where
 * workers leave fewer cores than there are shards, each shard has all of the host's; without
 * workers shards share. USAGE, naming host, what is needed and what is there: too few cores; then
 * ret_cpus is not touched. */
PSR_MUST_CHECK psr_err psr_binding_plan(const psr_binding_request *request,
                                        const psr_topology *topology, psr_cpus *ret_cpus);

#endif
