/* Placement: which process of a run runs on which host. Pure. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_PLACEMENT_H
#define PSR_DEPLOY_LAUNCH_HOSTS_PLACEMENT_H

#include "base/config/config.h"
#include "deploy/launch/hosts/hostfile.h"
#include "net/message.h"

/* In which order ranks take the hosts' slots, as Open MPI does. When all slots are taken, both go
 * on with one a host in turn, as far as max_slots allows. */
typedef enum psr_map_by {
    PSR_MAP_BY_SLOT, /* all slots of a host, then the next host */
    PSR_MAP_BY_NODE, /* one slot a host in turn */
} psr_map_by;

typedef struct psr_placed {
    psr_peer peer;
    uint32_t host; /* index into hosts */
} psr_placed;

/* Hosts where nothing of the run is placed are not in it. */
typedef struct psr_placement {
    psr_hosts hosts;   /* workers' hosts first, then those that only serve */
    psr_placed *items; /* shards, then workers, by rank */
    size_t count;
    uint32_t workers_most; /* most workers on one host: what the cores are divided by */
    size_t worker_hosts;   /* of hosts */
} psr_placement;

/* Workers are mapped to hosts. Shards go to ps_hosts (NULL: to the workers' hosts, whose slots are
 * the workers' alone), one a host in turn. In local mode one process, on the first host, plays
 * every worker; workers_most and worker_hosts are what they would have been. USAGE when there are
 * more workers than hosts have room for, or more shards than ps_hosts have. ret owns. */
PSR_MUST_CHECK psr_err psr_placement_make(const psr_config *config, const psr_hosts *hosts,
                                          const psr_hosts *ps_hosts, psr_map_by map_by,
                                          psr_placement *ret_placement);
/* USAGE where the hosts have no room for so many processes; option ("--workers") is for the
 * message. */
PSR_MUST_CHECK psr_err psr_placement_check_room(const char *option, uint32_t processes,
                                                const psr_hosts *hosts);
void psr_placement_done(psr_placement *placement);

#endif
