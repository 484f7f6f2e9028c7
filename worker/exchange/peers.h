/* Whom a worker sends to, and so has a channel to: for collectives worker 0 and all others both
 * ways; and by a plan the shards that hold something, the next rank of a ring, and who holds what
 * on hosts. A channel stays when a later plan does not need it. The thread of the member's
 * transport. */
#ifndef PSR_WORKER_PEERS_H
#define PSR_WORKER_PEERS_H

#include "comm/comm.h"

/* In place. */
typedef struct psr_peers {
    psr_member *member; /* borrowed for life */
    uint32_t ranks, shards;
    bool *connected; /* [ranks + shards]: workers, then shards; owned */
} psr_peers;

/* Of the member's view. NOMEM. ret owns: psr_peers_done. */
PSR_MUST_CHECK psr_err psr_peers_init(psr_member *member, psr_peers *ret_peers);
void psr_peers_done(psr_peers *peers);

/* Channels to all that the plan asks for. Fails as psr_member_connect. */
PSR_MUST_CHECK psr_err psr_peers_connect(psr_peers *peers, const psr_plan *plan);

#endif
