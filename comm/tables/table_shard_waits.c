/* Whom a shard of a table waits for, and who keeps others waiting. */
#include "comm/tables/table_shard_private.h"

/* Of the step that the slice collects: the lowest rank that has not pushed it, and whether another
 * has. false: no push is missing. */
static bool slice_waits(const psr_table_shard *table, uint32_t s, uint32_t *ret_rank,
                        bool *ret_gathering)
{
    const uint64_t *pushes = &table->pushes[(size_t)s * table->n];
    uint64_t version = table->slices.items[s].version;
    uint32_t lacking = UINT32_MAX;
    *ret_gathering = false;
    for (uint32_t r = table->n; r-- > 0;) {
        if (pushes[r] > version)
            *ret_gathering = true;
        else
            lacking = r;
    }
    *ret_rank = table->first_rank + lacking;
    return lacking != UINT32_MAX && version < table->options.end;
}

bool psr_table_shard_waits(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                           uint32_t *ret_rank)
{
    if (!psr_table_shard_initialised(table) || psr_table_shard_finished(table))
        return false;
    bool found = false, found_gathering = false;
    for (uint32_t s = table->slices.count; s-- > 0;) { /* in the order in which pushes come */
        const psr_table_slice *slice = &table->slices.items[s];
        uint32_t rank;
        bool gathering;
        if (!slice_waits(table, s, &rank, &gathering))
            continue;
        if (found && (slice->version > *ret_step ||
                      (slice->version == *ret_step && (found_gathering || !gathering))))
            continue;
        found = true;
        found_gathering = gathering;
        *ret_step = slice->version;
        *ret_part = slice->part;
        *ret_rank = rank;
    }
    return found;
}

static bool any_waits(const psr_table_shard *table, uint32_t s, bool gathering)
{
    if (psr_table_shard_is_bsp(table))
        return gathering;
    for (uint32_t r = 0; r < table->n; r++)
        if (table->pulls[(size_t)s * table->n + r] != PSR_NO_PULL)
            return true;
    return false;
}

bool psr_table_shard_holds_up(const psr_table_shard *table, uint64_t *ret_step, uint32_t *ret_part,
                              uint32_t *ret_rank)
{
    bool found = false;
    for (uint32_t s = table->slices.count; s-- > 0;) {
        const psr_table_slice *slice = &table->slices.items[s];
        uint32_t rank = 0;
        bool gathering = false;
        if (!slice_waits(table, s, &rank, &gathering) || !any_waits(table, s, gathering) ||
            (found && slice->version >= *ret_step))
            continue;
        found = true;
        *ret_step = slice->version;
        *ret_part = slice->part;
        *ret_rank = rank;
    }
    return found;
}
