/* The slices of a shard: those of the buckets it owns, in ascending arena order. Private to the shard. */
#ifndef PSR_PS_SHARD_SLICES_H
#define PSR_PS_SHARD_SLICES_H

#include "comm/comm.h"

typedef struct psr_shard_slice {
    uint32_t bucket;
    uint32_t arrived;        /* BSP: pushes of step `version` */
    size_t offset, length;   /* floats of the arena */
    uint64_t version;        /* steps that all workers have pushed and that are in the weights */
    uint64_t updates;        /* SSP, async: pushes in the weights */
    uint32_t sections_known; /* bit i: INIT section i (0 weights, 1 + i slot i) has come */
} psr_shard_slice;

typedef struct psr_shard_bucket {
    bool owned;
    uint32_t first, count; /* slices */
    uint64_t version;      /* the least of its slices' */
    uint32_t at_version;   /* slices that have no more */
} psr_shard_bucket;

typedef struct psr_shard_slices {
    const psr_plan *plan;
    psr_shard_slice *items;
    uint32_t count;
    psr_shard_bucket *buckets; /* [plan->bucket_count] */
    uint32_t owned_count;
} psr_shard_slices;

/* plan is borrowed for life. ret owns: psr_shard_slices_done. */
PSR_MUST_CHECK psr_err psr_shard_slices_init(const psr_plan *plan, uint32_t shard, uint64_t first_step,
                                             psr_shard_slices *ret_slices);
void psr_shard_slices_done(psr_shard_slices *slices);

/* The slice of which a message says bucket and span; PROTOCOL when it is none of this shard's. */
PSR_MUST_CHECK psr_err psr_shard_slices_find(const psr_shard_slices *slices, const psr_message *message,
                                             uint32_t bucket, psr_span span, uint32_t *ret_slice);

#endif
