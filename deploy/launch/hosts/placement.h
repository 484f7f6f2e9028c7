/* Placement: which process of a run runs on which host. Pure. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_PLACEMENT_H
#define PSR_DEPLOY_LAUNCH_HOSTS_PLACEMENT_H

#include "base/config/config.h"
#include "deploy/launch/hosts/hostfile.h"
#include "net/message.h"

/* The order in which ranks take the hosts' slots, as in Open MPI. When all slots are taken, both go
 * on with one rank on each host in turn, up to max_slots. */
typedef enum psr_map_by {
    PSR_MAP_BY_SLOT, /* all slots of a host, then the next host */
    PSR_MAP_BY_NODE, /* one slot of each host in turn */
} psr_map_by;

typedef struct psr_placed {
    psr_peer peer;
    uint32_t host; /* index into hosts */
} psr_placed;

/* Hosts without a process of the run are not in it. */
typedef struct psr_placement {
    psr_hosts hosts;   /* the workers' hosts first, then those with shards only */
    psr_placed *items; /* shards, then workers, each by rank */
    size_t count;
    uint32_t workers_most; /* the most workers on one host, by which its cores are divided */
    size_t worker_hosts;   /* number of hosts with workers */
} psr_placement;

/* Workers are placed on hosts. Shards are placed on ps_hosts (NULL: on the workers' hosts, where
 * they take no slots), one on each host in turn. In local mode one process, on the first host,
 * computes every worker; workers_most and worker_hosts are as they would have been. USAGE: there
 * are more workers than the hosts have room for, or more shards than ps_hosts have. The caller owns
 * *ret_placement. */
PSR_MUST_CHECK psr_err psr_placement_make(const psr_config *config, const psr_hosts *hosts,
                                          const psr_hosts *ps_hosts, psr_map_by map_by,
                                          psr_placement *ret_placement);
/* USAGE: the hosts have no room for so many processes; option ("--workers") is for the message. */
PSR_MUST_CHECK psr_err psr_placement_check_room(const char *option, uint32_t processes,
                                                const psr_hosts *hosts);
void psr_placement_done(psr_placement *placement);

#endif
