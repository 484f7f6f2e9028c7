/* What VALUES of a ring's bucket (comm/operations/ring.h) are in the words of the algorithm. They
 * say only how many slices the sender has sent before in the operation's order: its chunks in the
 * order in which they pass it, first on their way to be summed, then whole. */
#ifndef PSR_TESTS_RING_VALUES_H
#define PSR_TESTS_RING_VALUES_H

#include "comm/collectives/call.h"
#include "comm/view/plan.h"
#include "comm/wire/messages.h"

/* A slice on its way: its chunk, and the hops that it has behind it in this phase. */
typedef struct ring_slice {
    uint32_t bucket;
    uint64_t step;
    psr_span span; /* in the arena */
    psr_ring_phase phase;
    uint32_t chunk, hop;
} ring_slice;

static inline uint32_t ring_chunk_of(uint32_t ranks, uint32_t sender, psr_ring_phase phase,
                                     uint32_t hop)
{
    return (sender + 2 * ranks - hop - (phase == PSR_RING_REDUCE ? 1 : 0)) % ranks;
}

static inline uint64_t ring_slices_of(const psr_plan *plan, uint32_t bucket, uint32_t chunk)
{
    const size_t whole = plan->buckets[bucket].slice_floats;
    return (psr_plan_chunk(plan, bucket, chunk).count + whole - 1) / whole;
}

/* The slice that a message from the sender carries. Its chunk is UINT32_MAX if there is none. */
static inline ring_slice ring_slice_of(const psr_plan *plan, uint32_t sender, const psr_head *head)
{
    const psr_message message = {.head = *head};
    psr_msg_values says;
    ring_slice s = {.chunk = UINT32_MAX};
    if (psr_msg_values_read(&message, &says) != PSR_OK)
        return s;
    s.bucket = psr_msg_bucket(head);
    s.step = psr_msg_step(head);
    for (int phase = PSR_RING_REDUCE; phase < PSR_RING_PHASES; phase++)
        for (s.phase = (psr_ring_phase)phase, s.hop = 0; s.hop < plan->ranks - 1; s.hop++) {
            const uint32_t chunk = ring_chunk_of(plan->ranks, sender, s.phase, s.hop);
            const uint64_t slices = ring_slices_of(plan, s.bucket, chunk);
            if (says.slice >= slices) {
                says.slice -= slices;
                continue;
            }
            const psr_span all = psr_plan_chunk(plan, s.bucket, chunk);
            const size_t whole = plan->buckets[s.bucket].slice_floats, at = says.slice * whole;
            s.chunk = chunk;
            s.span = (psr_span){all.offset + at, all.count - at < whole ? all.count - at : whole};
            return s;
        }
    return s;
}

/* The head with which the sender sends it. */
static inline psr_head ring_head_of(const psr_plan *plan, uint32_t sender, ring_slice s)
{
    const psr_plan_bucket *bucket = &plan->buckets[s.bucket];
    psr_call call = {.kind = PSR_KIND_ALL_REDUCE,
                     .algorithm = PSR_ALGORITHM_RING,
                     .type = PSR_TYPE_FLOAT32,
                     .reduction = PSR_REDUCTION_SUM,
                     .count = bucket->span.count};
    if (!psr_compression_is_none(bucket->compression))
        call.compression = bucket->compression;
    uint64_t before =
        (s.span.offset - psr_plan_chunk(plan, s.bucket, s.chunk).offset) / bucket->slice_floats;
    for (uint32_t hop = 0; hop < s.hop + (s.phase == PSR_RING_GATHER ? plan->ranks - 1 : 0); hop++)
        before +=
            ring_slices_of(plan, s.bucket,
                           ring_chunk_of(plan->ranks, sender,
                                         hop < plan->ranks - 1 ? PSR_RING_REDUCE : PSR_RING_GATHER,
                                         hop % (plan->ranks - 1)));
    return psr_msg_values_head(&(psr_msg_values){
        .tag = {.group = PSR_GROUP_OF_BUCKETS, .slot = s.bucket + 1, .round = s.step},
        .call = psr_call_message(&call),
        .total = psr_plan_ring_sends(plan, s.bucket, sender),
        .slice = before});
}

#endif
