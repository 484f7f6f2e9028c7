#include "comm/collectives/message_counts.h"

#include <stdlib.h>

enum { SIZE_AT_FIRST = 16 };

/* Its entry, or the empty one in which it would stand. There is one that is empty. */
static psr_message_count *entry_of(const psr_message_counts *counts, uint32_t peer, uint32_t slot,
                                   bool received)
{
    uint64_t key = ((uint64_t)peer << 32 | slot) * 2 + received;
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    for (;; at++) {
        psr_message_count *e = &counts->entries[at & (counts->size - 1)];
        if (e->count == 0 || (e->peer == peer && e->slot == slot && e->received == received))
            return e;
    }
}

static psr_err grow(psr_message_counts *counts)
{
    psr_message_counts larger = {.size = counts->size > 0 ? 2 * counts->size : SIZE_AT_FIRST,
                                 .used = counts->used};
    larger.entries = calloc(larger.size, sizeof *larger.entries);
    if (larger.entries == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for another tag of messages");
    for (size_t i = 0; i < counts->size; i++) {
        const psr_message_count *e = &counts->entries[i];
        if (e->count > 0)
            *entry_of(&larger, e->peer, e->slot, e->received) = *e;
    }
    psr_message_counts_done(counts);
    *counts = larger;
    return PSR_OK;
}

psr_err psr_message_counts_next(psr_message_counts *counts, uint32_t peer, uint32_t slot, bool received,
                                uint64_t *ret_number)
{
    if (counts->used >= counts->size / 2)
        PSR_TRY(grow(counts));
    psr_message_count *e = entry_of(counts, peer, slot, received);
    if (e->count == 0) {
        *e = (psr_message_count){.peer = peer, .slot = slot, .received = received};
        counts->used++;
    }
    *ret_number = ++e->count;
    return PSR_OK;
}

void psr_message_counts_done(psr_message_counts *counts)
{
    free(counts->entries);
    *counts = (psr_message_counts){0};
}
