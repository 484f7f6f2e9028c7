#include "ps/shard/shard_slices.h"

#include "net/violation.h"
#include "comm/slices.h"

#include <stdlib.h>

psr_err psr_shard_slices_init(const psr_config *config, const psr_buckets *buckets, const uint32_t *owner,
                              uint32_t shard, uint64_t first_step, psr_shard_slices *ret_slices)
{
    psr_shard_slices slices = {.slice_floats = psr_slice_floats(config), .bucket_count = buckets->count};
    size_t total = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        if (owner[b] == shard)
            total += psr_slice_count(buckets->items[b].length, slices.slice_floats);
    if (total > UINT32_MAX / 2)
        return psr_fail(PSR_ERR_UNSUPPORTED, "%zu slices are too many; raise --slice-size", total);

    slices.items = calloc(total + 1, sizeof *slices.items);
    slices.buckets = calloc((size_t)buckets->count + 1, sizeof *slices.buckets);
    if (!slices.items || !slices.buckets) {
        psr_shard_slices_done(&slices);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu slices", total);
    }
    /* Buckets count from the arena's end. */
    for (uint32_t b = buckets->count; b-- > 0;) {
        if (owner[b] != shard)
            continue;
        const psr_bucket *bucket = &buckets->items[b];
        uint32_t count = psr_slice_count(bucket->length, slices.slice_floats);
        slices.buckets[b] = (psr_shard_bucket){true, slices.count, count, first_step, count};
        slices.owned_count++;
        for (uint32_t k = 0; k < count; k++)
            slices.items[slices.count++] =
                (psr_shard_slice){.bucket = b,
                                  .offset = bucket->offset + (size_t)k * slices.slice_floats,
                                  .length = psr_slice_length(bucket->length, slices.slice_floats, k),
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

psr_err psr_shard_slices_find(const psr_shard_slices *slices, const psr_buckets *buckets,
                              const psr_message *message, uint32_t bucket, psr_span span, uint32_t *ret_slice)
{
    if (bucket >= slices->bucket_count)
        return psr_violation(message, "there are %u buckets", slices->bucket_count);
    const psr_shard_bucket *owned = &slices->buckets[bucket];
    if (!owned->owned)
        return psr_violation(message, "the bucket is another shard's");
    const psr_bucket *whole = &buckets->items[bucket];
    size_t in_bucket = span.offset - whole->offset;
    if (span.offset < whole->offset || in_bucket >= whole->length || in_bucket % slices->slice_floats != 0)
        return psr_violation(message, "no slice of the bucket begins there");
    uint32_t slice = owned->first + (uint32_t)(in_bucket / slices->slice_floats);
    if (span.count != slices->items[slice].length)
        return psr_violation(message, "the slice has %zu floats", slices->items[slice].length);
    *ret_slice = slice;
    return PSR_OK;
}
