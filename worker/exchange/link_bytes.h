/* How many bytes this process has sent to each worker and shard, and received from each, in its
 * steps: what distributes the weights before the first one is left out. Made of what an exchange's
 * observer hears (comm/observer.h). The scheduler makes of all workers' what went between hosts
 * (ps/scheduler/metrics/links.h). One thread sees, any may ask. */
#ifndef PSR_WORKER_LINK_BYTES_H
#define PSR_WORKER_LINK_BYTES_H

#include "comm/observer.h"

#include <stdatomic.h>

/* In place. */
typedef struct psr_link_bytes {
    uint32_t workers, shards;
    bool begun;                        /* its first step */
    _Atomic uint64_t *sent, *received; /* [workers + shards], workers first; owned, one block */
} psr_link_bytes;

/* NOMEM. */
PSR_MUST_CHECK psr_err psr_link_bytes_init(psr_link_bytes *links, uint32_t workers,
                                           uint32_t shards);
void psr_link_bytes_done(psr_link_bytes *links);

/* Messages of other processes than workers and shards are left out. */
void psr_link_bytes_see(psr_link_bytes *links, const psr_observed *observed);

/* An array with a row for each process with which any bytes were exchanged: [role, rank, bytes
 * sent to it, bytes received from it], role "worker" or "shard". The caller owns *ret_json: free().
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_link_bytes_to_json(const psr_link_bytes *links, char **ret_json);

#endif
