/* The scheduler that a rank hosts: a coordinator (comm/node/judge.h) on a thread and a transport of
 * its own. One thread calls it. */
#ifndef PSR_COMM_PSRING_HOSTING_H
#define PSR_COMM_PSRING_HOSTING_H

#include "comm/members/provision.h"
#include "comm/node/node.h"

typedef struct psr_hosting psr_hosting;

typedef struct psr_hosting_options {
    uint32_t ranks, rank; /* rank: whose process this is; PSR_RANK_ANY: it has none yet */
    int64_t deadline_ms, join_deadline_ms;
} psr_hosting_options;

/* Listens at provision->scheduler if that is an ipc socket, else on its interface and port.
 * Consumes what *provision holds, which is the scheduler's, on failure too. IO: somebody else
 * listens there. The caller owns *ret_hosting. */
PSR_MUST_CHECK psr_err psr_hosting_new(const psr_hosting_options *options, psr_provision *provision,
                                       psr_hosting **ret_hosting);
/* Waits until all ranks have left, or were given up. */
void psr_hosting_await(psr_hosting *hosting);
/* After that: which ranks died or broke the protocol, which a rank that was leaving has not heard;
 * the last ones of them, number index from 0; NULL: there are no more. Borrowed from hosting. */
const psr_failure *psr_hosting_verdict(const psr_hosting *hosting, size_t index);
/* why NULL: waits until all ranks have left or were given up. Otherwise it ends at once and tells
 * all ranks why. NULL allowed. */
void psr_hosting_free(psr_hosting *hosting, const psr_failure *why);

#endif
