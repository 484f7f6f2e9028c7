/* The cores of a host that its processes may use, and their arrangement: NUMA nodes have cores,
 * cores have processors (hardware threads). An agent reads it with hwloc, and its launcher gets it
 * with the hello. Plain data; any thread. */
#ifndef PSR_DEPLOY_TOPOLOGY_H
#define PSR_DEPLOY_TOPOLOGY_H

#include "base/system/cpus.h"

#include <cjson/cJSON.h>

typedef struct psr_core {
    uint32_t node;  /* 0, 1, ..: counts nodes that have cores */
    uint32_t first; /* index in the topology's cpus: this core's follow one another there */
    uint32_t count;
} psr_core;

typedef struct psr_topology {
    psr_core *cores; /* owned: all of node 0, then all of node 1, .. */
    uint32_t core_count, node_count;
    uint16_t *cpus; /* owned: the kernel's numbers */
    uint32_t cpu_count;
} psr_topology;

/* That of this host, as far as this process may use it. UNSUPPORTED: built without hwloc. IO: hwloc
 * found nothing. The caller owns *ret_topology: psr_topology_done. */
PSR_MUST_CHECK psr_err psr_topology_read(psr_topology *ret_topology);
void psr_topology_done(psr_topology *topology);

/* [[[0,4],[1,5]],[[2,6],[3,7]]]: nodes, cores, processors. The caller owns *ret_json: cJSON_Delete.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_topology_to_json(const psr_topology *topology, cJSON **ret_json);
/* The JSON may come from anywhere. FORMAT: it has another form, has a processor twice, or has none.
 * The caller owns *ret_topology: psr_topology_done. */
PSR_MUST_CHECK psr_err psr_topology_from_json(const cJSON *json, psr_topology *ret_topology);

#endif
