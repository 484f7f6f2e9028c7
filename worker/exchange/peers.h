/* The members that a worker sends to, and so has a channel to. For collectives: worker 0 has one to
 * each other worker, and they to it. By a plan: shards that hold something, the next rank of a
 * ring, and holders on hosts. A channel stays open if a later plan does not need it. The thread of
 * the member's transport. */
#ifndef PSR_WORKER_PEERS_H
#define PSR_WORKER_PEERS_H

#include "comm/members/member.h"
#include "comm/view/plan.h"

/* May not be moved. */
typedef struct psr_peers {
    psr_member *member; /* borrowed for life */
    uint32_t ranks, shards;
    bool *connected; /* [ranks + shards]: workers, then shards; owned */
} psr_peers;

/* For the members of the member's view. NOMEM. The caller owns *ret_peers: psr_peers_done. */
PSR_MUST_CHECK psr_err psr_peers_init(psr_member *member, psr_peers *ret_peers);
void psr_peers_done(psr_peers *peers);

/* Opens the channels that the plan needs. Fails as psr_member_connect. */
PSR_MUST_CHECK psr_err psr_peers_connect(psr_peers *peers, const psr_plan *plan);

#endif
