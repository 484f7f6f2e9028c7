/* Who takes part in a run, from its configuration: before joining nothing else says it, and nobody
 * else in ps reads mode, workers and shards of a configuration. After joining the view does. Plain
 * data; any thread. */
#ifndef PSR_PS_ROSTER_H
#define PSR_PS_ROSTER_H

#include "base/config/config.h"
#include "comm/comm.h"

typedef struct psr_roster {
    uint32_t ranks;            /* of training, each with a gradient and
                                  a share of the samples of its own */
    uint32_t worker_processes; /* as many, or one that plays all ranks */
    uint32_t shards;           /* 0: none */
    bool plays_all;            /* worker 0 plays every rank, one after the other (--mode local) */
    psr_route route;           /* of all buckets */
} psr_roster;

psr_roster psr_roster_of(const psr_config *config);

#endif
