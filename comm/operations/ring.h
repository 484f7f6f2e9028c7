/* Ring all-reduce (reduce-scatter, then all-gather; Patarasuk and Yuan, "Bandwidth optimal
 * all-reduce algorithms for clusters of workstations", JPDC 2009, section 3), bucket by bucket,
 * sliced and pipelined. Free of I/O: events in, messages out through the outbox.
 *
 * Vocabulary: n ranks, bucket of L elements, chunk c = [floor(cL/n), floor((c+1)L/n)), slice = at
 * most the plan's slice_floats of a chunk. Reduce-scatter: chunk c starts at rank c+1 and is summed
 * hop by hop until rank c holds it whole (the order of base/arrays/fold.h). All-gather: it goes
 * round from rank c. Each rank sends and receives 2(n-1)/n * L floats a bucket in 2(n-1) hops a
 * slice: time 2(n-1)/n * M/B + 2(n-1)a. Each bucket is an operation that is started once for each
 * step: a persistent all-reduce by ring of a group of all workers (comm/collectives/group.h), as a
 * program's is. Its messages are VALUES of PSR_GROUP_OF_BUCKETS, whose slot is the bucket and whose
 * round is the step. A rank injects slices of its chunk r-1 (the first hop); at most `window` of
 * them whose final sum has not come back. The final sum is the credit, so no acknowledgements are
 * needed. Messages for buckets or steps that this rank has not begun are kept. Of the ready
 * buckets, the one that the next forward pass needs first is injected first. Sums are made in place
 * in the buffer and sent from there without a copy.
 *
 * Compressed (the plan's, bucket by bucket; docs/algorithms.md, "Compression"): a sum is rounded at
 * each of its n hops by the rank that sends it on, and that rank keeps what was lost as its
 * residual. In a step each rank encodes each chunk once, so one residual for each element serves
 * all hops. Payloads are copies then, at most two of each slice at a time. One thread. */
#ifndef PSR_COMM_RING_H
#define PSR_COMM_RING_H

#include "comm/buffer.h"
#include "comm/operations/waiting.h"
#include "comm/outbox.h"
#include "comm/view/plan.h"

typedef struct psr_ring_options {
    /* borrowed for life; its buckets by RING are summed. With one rank a bucket is done at once */
    const psr_plan *plan;
    uint32_t rank;
    /* As long as the arena: the residual of what this rank has sent
     * (comm/wire/compression/compression.h), zeros at first, changed while a bucket is under way.
     * Borrowed for life. NULL if the plan has no residual. */
    float *residual;
    psr_outbox outbox;
    void *context;
    /* all elements of the bucket now have the sum of all ranks */
    psr_err (*reduced)(void *context, uint64_t step, uint32_t bucket);
    /* Called if a value to be sent is not finite and the bucket's compression cannot represent
     * that; makes the error. May be NULL if no compression has a residual: float32, fp16 and bf16
     * send such values unchanged. */
    psr_err (*not_finite)(void *context, uint64_t step, uint32_t bucket);
} psr_ring_options;

typedef struct psr_ring psr_ring;

/* NOMEM. The caller owns *ret_ring: psr_ring_free. */
PSR_MUST_CHECK psr_err psr_ring_new(const psr_ring_options *options, psr_ring **ret_ring);
/* NULL allowed. Nothing may be lent: free the transport first. */
void psr_ring_free(psr_ring *ring);

/* Begins the all-reduce of a bucket, whose steps count up by one from its first. The buffer holds
 * this rank's gradient of the bucket, as float32, and then the sum. It is borrowed until the bucket
 * is reduced and nothing of it is lent. PROTOCOL: the left neighbour began at another step. A start
 * and a message may fail as not_finite does. */
PSR_MUST_CHECK psr_err psr_ring_start(psr_ring *ring, uint32_t bucket, uint64_t step,
                                      const psr_buffer *buffer);
/* The number of payloads lent from the bucket's buffer. Any thread. */
uint32_t psr_ring_lent(const psr_ring *ring, uint32_t bucket);

/* VALUES of PSR_GROUP_OF_BUCKETS. Takes *message, which is kept or freed. PROTOCOL: it cannot come
 * from the left neighbour now. MISMATCH: the left neighbour's bucket is another. */
PSR_MUST_CHECK psr_err psr_ring_message(psr_ring *ring, psr_message **message);

/* What the oldest bucket waits for that is started here and not reduced: the left neighbour. If
 * there is none: a bucket that is still lent to the right neighbour. false: neither. */
bool psr_ring_waits(const psr_ring *ring, psr_waiting *ret_waiting, uint32_t *ret_bucket);

#endif
