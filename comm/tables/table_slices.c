#include "comm/tables/table_slices.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

static bool holds(const psr_plan_bucket *bucket, psr_route route, uint32_t home)
{
    return bucket->route == route && bucket->home == home;
}

psr_err psr_table_slices_init(const psr_plan *plan, psr_route route, uint32_t home,
                              uint64_t first_step, psr_table_slices *ret_slices)
{
    psr_table_slices slices = {.plan = plan};
    slices.items = calloc((size_t)plan->slice_count + 1, sizeof *slices.items);
    slices.parts = calloc((size_t)plan->bucket_count + 1, sizeof *slices.parts);
    if (slices.items == NULL || slices.parts == NULL) {
        psr_table_slices_done(&slices);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " slices", plan->slice_count);
    }
    for (uint32_t i = 0; i < plan->slice_count; i++) {
        const psr_slice *cut = &plan->slices[i];
        if (!holds(&plan->buckets[cut->bucket], route, home))
            continue;
        psr_table_part *part = &slices.parts[cut->bucket];
        if (!part->held) {
            uint32_t count = plan->buckets[cut->bucket].slice_count;
            *part = (psr_table_part){true, slices.count, count, first_step, count};
            slices.held_count++;
        }
        slices.items[slices.count++] = (psr_table_slice){.part = cut->bucket,
                                                         .span = cut->span,
                                                         .version = first_step,
                                                         .updates = first_step * plan->ranks};
    }
    *ret_slices = slices;
    return PSR_OK;
}

void psr_table_slices_done(psr_table_slices *slices)
{
    free(slices->items);
    free(slices->parts);
    *slices = (psr_table_slices){0};
}

psr_err psr_table_slices_find(const psr_table_slices *slices, const psr_message *message,
                              uint32_t part, psr_span span, uint32_t *ret_slice)
{
    uint32_t number = 0;
    if (part < slices->plan->bucket_count && !slices->parts[part].held)
        return psr_violation(message, "the bucket is another shard's");
    PSR_TRY(psr_plan_find(slices->plan, message, part, span, &number));
    *ret_slice = slices->parts[part].first + (number - slices->plan->buckets[part].first_slice);
    return PSR_OK;
}
