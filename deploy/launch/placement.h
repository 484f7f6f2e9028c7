/* Placement: which process of a run runs on which host. Pure. */
#ifndef PSR_DEPLOY_PLACEMENT_H
#define PSR_DEPLOY_PLACEMENT_H

#include "base/config.h"
#include "deploy/launch/hostfile.h"
#include "net/message.h"

typedef struct psr_placed {
    psr_peer peer;
    uint32_t host; /* index into hosts */
} psr_placed;

typedef struct psr_placement {
    psr_hosts hosts;   /* workers' hosts first, then those that only serve */
    psr_placed *items; /* shards, then workers, by rank */
    size_t count;
    uint32_t workers_most; /* most workers on one host: what the cores are divided by */
} psr_placement;

/* Ranks fill the hosts in order, slots by slots. Shards go to ps_hosts (NULL: beside the workers), round robin. In
 * local mode one process, on the first host, plays every worker; workers_most is what it would have been.
 * USAGE when there are more workers than slots. ret owns. */
PSR_MUST_CHECK psr_err psr_placement_make(const psr_config *config, const psr_hosts *hosts,
                                          const psr_hosts *ps_hosts, psr_placement *ret_placement);
void psr_placement_done(psr_placement *placement);

#endif
