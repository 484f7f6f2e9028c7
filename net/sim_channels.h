/* The channels of the simulated network (net/transport_sim.c), found by their two ends. For that
 * file alone. One thread. */
#ifndef PSR_NET_SIM_CHANNELS_H
#define PSR_NET_SIM_CHANNELS_H

#include "net/message.h"

#include <stddef.h>

/* One channel, for its order and its numbers. */
typedef struct psr_sim_channel {
    psr_peer from, to;
    int64_t last_us; /* time of the latest delivery: no message overtakes another */
    uint64_t sequence;
    size_t waiting; /* under way */
    /* Where the receiver was found last among the network's members, and among those that the
     * sender is connected to: hints, to be checked. */
    size_t member, connection;
} psr_sim_channel;

typedef struct psr_sim_channels {
    psr_sim_channel **table; /* open addressing; NULL: free */
    size_t capacity, count;  /* capacity: 0 or a power of two */
} psr_sim_channels;

/* NULL: there is none. */
psr_sim_channel *psr_sim_channels_find(const psr_sim_channels *channels, psr_peer from,
                                       psr_peer to);
/* Makes it if there is none. NULL: no memory. It stays where it is until psr_sim_channels_done. */
psr_sim_channel *psr_sim_channels_get(psr_sim_channels *channels, psr_peer from, psr_peer to);
void psr_sim_channels_done(psr_sim_channels *channels);

#endif
