/* The slices of a shard: those of the parts that it holds, in ascending order. Private to
 * table_shard.c. Immutable after building. */
#ifndef PSR_COMM_TABLE_SLICES_H
#define PSR_COMM_TABLE_SLICES_H

#include "comm/view/plan.h"

typedef struct psr_table_slice {
    uint32_t part; /* the plan's bucket */
    psr_span span;
    uint32_t arrived;        /* BSP: pushes of step `version` that have come */
    uint64_t version;        /* the steps that all workers have pushed and that are in the values */
    uint64_t updates;        /* SSP, async: the pushes that are in the values */
    uint32_t sections_known; /* bit i: INIT section i (0 values, 1 + i state i) has come */
} psr_table_slice;

typedef struct psr_table_part {
    bool held;
    uint32_t first, count; /* its slices */
    uint64_t version;      /* the least version of its slices */
    uint32_t at_version;   /* how many slices have that version */
} psr_table_part;

typedef struct psr_table_slices {
    const psr_plan *plan;
    psr_table_slice *items;
    uint32_t count;
    psr_table_part *parts; /* [plan->bucket_count] */
    uint32_t held_count;   /* number of parts held */
} psr_table_slices;

/* The slices of buckets that go by that route and that this home holds. plan is borrowed for life.
 * The caller owns *ret_slices: psr_table_slices_done. */
PSR_MUST_CHECK psr_err psr_table_slices_init(const psr_plan *plan, psr_route route, uint32_t home,
                                             uint64_t first_step, psr_table_slices *ret_slices);
void psr_table_slices_done(psr_table_slices *slices);

/* The slice whose part and span a message names. PROTOCOL: it is none of this shard's. */
PSR_MUST_CHECK psr_err psr_table_slices_find(const psr_table_slices *slices,
                                             const psr_message *message, uint32_t part,
                                             psr_span span, uint32_t *ret_slice);

#endif
