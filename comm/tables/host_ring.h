/* A ring over hosts: the all-reduce of comm/operations/ring.h where hosts have several workers
 * each, of consecutive ranks, which share memory. On each host the workers push a bucket to one of
 * them, which holds it (comm/tables/table_shard.h), does all the hops of its host at once, and
 * speaks for it on the wire. Free of I/O: events in, messages out through the outbox.
 *
 * Vocabulary: n ranks on H hosts, bucket of L elements, chunk c = [floor(cL/n), floor((c+1)L/n)),
 * whose sum has the order of base/arrays/fold.h: c+1, .., n-1, 0, .., c. A leg is a host's part of
 * it: a run of its ranks that follow each other in that order. The host of rank c has two legs, the
 * first one with the ranks behind c and the last one with those up to c, or only the last one if c
 * is its last rank. Reduce-scatter: what the legs before came to goes from host to host, and each
 * adds its own ranks, one by one; so the bits are those of the ring. All-gather: the whole sum goes
 * once round the hosts, and each updates its weights by it.
 *
 * A host sends and receives (n-1)/n L floats of a bucket in the first half and (H-1)/H L in the
 * second; a ring of ranks between the same hosts (n-1)/n L in both. In H or H-1 and H-1 messages
 * one after the other: time ((n-1)/n + (H-1)/H) M/B + (2H-1)a.
 *
 * A holder begins (first leg) at most the plan's window of slices whose whole sum it has not
 * received yet; the sum is the credit. Slices that the next forward pass needs first are begun
 * first. A message that comes before this host's workers have pushed is kept, one for each slice.
 * One thread, except psr_host_ring_lent. */
#ifndef PSR_COMM_HOST_RING_H
#define PSR_COMM_HOST_RING_H

#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"
#include "comm/tables/table_shard.h"

typedef struct psr_host_ring_options {
    const psr_plan *plan; /* the plan of all hosts, which are at least two; borrowed for life */
    uint32_t rank;        /* this worker's */
    uint64_t first_step;  /* the table's */
    /* the parts that it holds for its host, by psr_plan_within; borrowed for life */
    psr_table_shard *table;
    psr_outbox outbox;
} psr_host_ring_options;

typedef struct psr_host_ring psr_host_ring;

/* NOMEM. The caller owns *ret_ring. */
PSR_MUST_CHECK psr_err psr_host_ring_new(const psr_host_ring_options *options,
                                         psr_host_ring **ret_ring);
/* NULL allowed. Nothing may be lent: free the transport first, and the table after this. */
void psr_host_ring_free(psr_host_ring *ring);

/* For the table's `gathered` event: all workers of the host have pushed that slice. Fails as
 * psr_table_shard_take_sum and the outbox do. */
PSR_MUST_CHECK psr_err psr_host_ring_gathered(psr_host_ring *ring, uint32_t slice);

/* A RING message. Takes *message, which is kept or freed. PROTOCOL: it cannot come now from the
 * host before (sender, range, chunk, hop, step, repeated, payload size). Otherwise fails as
 * psr_host_ring_gathered. */
PSR_MUST_CHECK psr_err psr_host_ring_message(psr_host_ring *ring, psr_message **message);

/* What the oldest slice waits for that this host's workers have pushed and whose sum is not
 * complete: the holder on the host before. If there is none: a bucket whose sums are still lent to
 * the host after. false: neither. */
bool psr_host_ring_waits(const psr_host_ring *ring, psr_waiting *ret_waiting, uint32_t *ret_bucket);

/* How many sums of a bucket are lent to the outbox. Until it is 0, the host's workers may not all
 * push the bucket again. Any thread. */
uint32_t psr_host_ring_lent(const psr_host_ring *ring, uint32_t bucket);

#endif
