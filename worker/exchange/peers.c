#include "worker/exchange/peers.h"

#include "comm/view/view.h"

#include <inttypes.h>
#include <stdlib.h>

psr_err psr_peers_init(psr_member *member, psr_peers *ret_peers)
{
    const psr_view *view = psr_member_view(member);
    psr_peers peers = {
        .member = member, .ranks = psr_view_workers(view), .shards = psr_view_shards(view)};
    peers.connected = calloc((size_t)peers.ranks + peers.shards + 1, sizeof *peers.connected);
    if (peers.connected == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " peers",
                        peers.ranks + peers.shards);
    *ret_peers = peers;
    return PSR_OK;
}

void psr_peers_done(psr_peers *peers)
{
    free(peers->connected);
    *peers = (psr_peers){0};
}

static psr_err connect_to(psr_peers *peers, psr_peer peer)
{
    bool *connected =
        &peers->connected[peer.role == PSR_ROLE_SHARD ? peers->ranks + peer.rank : peer.rank];
    if (*connected)
        return PSR_OK;
    PSR_TRY(psr_member_connect(peers->member, peer));
    *connected = true;
    return PSR_OK;
}

psr_err psr_peers_connect(psr_peers *peers, const psr_plan *plan)
{
    const uint32_t rank = psr_member_self(peers->member).rank;
    for (uint32_t s = 0; s < peers->shards; s++)
        PSR_TRY(connect_to(peers, (psr_peer){PSR_ROLE_SHARD, s}));
    for (uint32_t other = 0; other < peers->ranks; other++)
        if (other != rank && (rank == 0 || other == 0 || psr_plan_sends(plan, rank, other)))
            PSR_TRY(connect_to(peers, (psr_peer){PSR_ROLE_WORKER, other}));
    return PSR_OK;
}
