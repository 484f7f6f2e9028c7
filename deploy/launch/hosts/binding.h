/* Binding: the processors that each process of a run may use on its host. A run's processes on one
 * host get cores of their own, or the cores of a NUMA node; memory follows, since the kernel gives
 * a process pages of the node where it first writes them. Does no I/O. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_BINDING_H
#define PSR_DEPLOY_LAUNCH_HOSTS_BINDING_H

#include "deploy/agent/topology.h"

typedef enum psr_bind_to {
    PSR_BIND_TO_NONE, /* the kernel decides */
    PSR_BIND_TO_CORE, /* no two workers share a core */
    /* each gets all cores of one node, the nodes in turn; processes may share a node */
    PSR_BIND_TO_NUMA,
} psr_bind_to;

/* One host's part of a run. */
typedef struct psr_binding_request {
    psr_bind_to to;   /* not PSR_BIND_TO_NONE */
    const char *host; /* for messages */
    uint32_t workers, shards;
    uint32_t threads; /* of each worker, at least 1; a shard counts as one */
} psr_binding_request;

/* How many threads each of so many workers can have without shards: at least 1. The same rule as
 * --threads 0, but in whole cores: processors that share a core add little. */
uint32_t psr_binding_threads(psr_bind_to to, const psr_topology *topology, uint32_t workers);

/* ret_cpus: for each worker, then for each shard. To cores: workers get equal shares of the cores
 * that shards leave; shards get one core each; adjacent, and if possible without crossing nodes. If
 * workers leave fewer cores than there are shards, each shard may use all of the host's; without
 * workers, shards share. USAGE: too few cores; names the host, what is needed and what is there,
 * and leaves ret_cpus untouched. */
PSR_MUST_CHECK psr_err psr_binding_plan(const psr_binding_request *request,
                                        const psr_topology *topology, psr_cpus *ret_cpus);

#endif
