#include "ps/shard/shard_slices.h"

#include "net/violation.h"

#include <stdlib.h>

static bool holds(const psr_plan_bucket *bucket, uint32_t shard)
{
    return bucket->route == PSR_ROUTE_SHARD && bucket->home == shard;
}

psr_err psr_shard_slices_init(const psr_plan *plan, uint32_t shard, uint64_t first_step,
                              psr_shard_slices *ret_slices)
{
    psr_shard_slices slices = {.plan = plan};
    slices.items = calloc((size_t)plan->slice_count + 1, sizeof *slices.items);
    slices.buckets = calloc((size_t)plan->bucket_count + 1, sizeof *slices.buckets);
    if (!slices.items || !slices.buckets) {
        psr_shard_slices_done(&slices);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u slices", plan->slice_count);
    }
    for (uint32_t i = 0; i < plan->slice_count; i++) {
        const psr_slice *cut = &plan->slices[i];
        if (!holds(&plan->buckets[cut->bucket], shard))
            continue;
        psr_shard_bucket *bucket = &slices.buckets[cut->bucket];
        if (!bucket->owned) {
            uint32_t count = plan->buckets[cut->bucket].slice_count;
            *bucket = (psr_shard_bucket){true, slices.count, count, first_step, count};
            slices.owned_count++;
        }
        slices.items[slices.count++] = (psr_shard_slice){.bucket = cut->bucket,
                                                         .offset = cut->span.offset,
                                                         .length = cut->span.count,
                                                         .version = first_step};
    }
    *ret_slices = slices;
    return PSR_OK;
}

void psr_shard_slices_done(psr_shard_slices *slices)
{
    free(slices->items);
    free(slices->buckets);
    *slices = (psr_shard_slices){0};
}

psr_err psr_shard_slices_find(const psr_shard_slices *slices, const psr_message *message, uint32_t bucket,
                              psr_span span, uint32_t *ret_slice)
{
    uint32_t number = 0;
    if (bucket < slices->plan->bucket_count && !slices->buckets[bucket].owned)
        return psr_violation(message, "the bucket is another shard's");
    PSR_TRY(psr_plan_find(slices->plan, message, (psr_slice){.bucket = bucket, .span = span}, &number));
    *ret_slice = slices->buckets[bucket].first + (number - slices->plan->buckets[bucket].first_slice);
    return PSR_OK;
}
