/* Who takes part in a run, according to its configuration. Before joining this is the only source,
 * and no other code in ps reads the mode, workers and shards of a configuration for it. After
 * joining the view says it. Plain data; any thread. */
#ifndef PSR_PS_ROSTER_H
#define PSR_PS_ROSTER_H

#include "base/config/config.h"
#include "comm/view/plan.h"

typedef struct psr_roster {
    uint32_t ranks; /* ranks of training; each has its own gradient and share of the samples */
    uint32_t worker_processes; /* the same number, or 1 if one process computes all ranks */
    uint32_t shards;           /* 0: none */
    bool computes_all_ranks; /* worker 0 computes every rank, one after the other (--mode local) */
    psr_route route;         /* the route of all buckets */
} psr_roster;

/* What a configuration asks for, before anybody has joined. */
psr_roster psr_roster_of(const psr_config *config);

#endif
