/* The ranks of a group on a simulated network, each with its own psr_group. */
#ifndef PSR_TESTS_GROUP_NETWORK_H
#define PSR_TESTS_GROUP_NETWORK_H

#include "tests/unit/network_fixture.h"

#include "base/rng.h"
#include "comm/collectives/group.h"

enum { NETWORK_RANKS_MAX = 16, NETWORK_EPOCH = 3, NETWORK_GROUP = 5 };

typedef struct network {
    uint32_t ranks, window;
    psr_sim *sim;
    psr_transport *transports[NETWORK_RANKS_MAX];
    psr_group *groups[NETWORK_RANKS_MAX];
    uint64_t seed, draws;
} network;

/* Slices of slice_bytes, all of them lent. Rank r of the group is worker 2r + 1. */
network *network_open(uint32_t ranks, size_t slice_bytes, uint32_t window, uint64_t seed);
/* The same of ranks that all share memory: what is lent is read where it lies. */
network *network_open_shared(uint32_t ranks, size_t slice_bytes, uint32_t window, uint64_t seed);
void network_close(network *net);
/* After an error: with what is under way, and requests that are. NULLs are skipped. */
void network_close_broken(network *net, psr_request **requests, size_t count);

/* The next message to whom it is for. false: nothing is under way. *ret_err: what its group said;
 * NULL: it must be content. */
bool network_deliver(network *net, psr_err *ret_err);
/* As long as something is under way. */
void network_settle(network *net);

/* The rank is dead: what is under way to and from it is lost. */
void network_cut(network *net, uint32_t rank);

uint32_t network_draw(network *net, uint32_t bound);

psr_request *network_request(network *net, uint32_t rank, const psr_request_options *options);
/* The rank whom the request waits for; done: the test fails. */
uint32_t network_waits(const psr_request *request);

/* Of a send or a receive of int32. */
static inline psr_request_options message_of(psr_kind kind, int32_t *values, size_t count,
                                             uint32_t peer, uint32_t tag)
{
    return (psr_request_options){.kind = kind,
                                 .type = PSR_TYPE_INT32,
                                 .send = kind == PSR_KIND_SEND ? values : NULL,
                                 .receive = kind == PSR_KIND_RECEIVE ? values : NULL,
                                 .count = count,
                                 .peer = peer,
                                 .tag = tag};
}

#endif
