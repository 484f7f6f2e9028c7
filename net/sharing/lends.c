#include "net/sharing/lends.h"

#include <assert.h>
#include <stdlib.h>

static bool grow(psr_lends *lends)
{
    uint32_t larger = lends->capacity > 0 ? 2 * lends->capacity : 64;
    if (lends->capacity == PSR_LENDS_MAX)
        return false;
    psr_lend *items = realloc(lends->items, larger * sizeof *items);
    if (items == NULL)
        return false;
    for (uint32_t i = larger; i-- > lends->capacity;) {
        items[i] = (psr_lend){.next_free = lends->first_free};
        lends->first_free = i + 1;
    }
    lends->items = items;
    lends->capacity = larger;
    return true;
}

bool psr_lends_put(psr_lends *lends, const psr_payload *payload, uint64_t *ret_token)
{
    assert(payload->release != NULL);
    if (lends->first_free == 0 && !grow(lends))
        return false;
    uint32_t at = lends->first_free - 1;
    psr_lend *lend = &lends->items[at];
    lends->first_free = lend->next_free;
    lend->release = payload->release;
    lend->context = payload->context;
    lends->count++;
    *ret_token = (uint64_t)++lend->turn << 32 | at;
    return true;
}

static void end(psr_lends *lends, uint32_t at)
{
    psr_lend *lend = &lends->items[at];
    void (*release)(void *context) = lend->release;
    lend->release = NULL;
    lend->next_free = lends->first_free;
    lends->first_free = at + 1;
    lends->count--;
    release(lend->context);
}

bool psr_lends_end(psr_lends *lends, uint64_t token)
{
    uint64_t at = token & UINT32_MAX;
    if (at >= lends->capacity || lends->items[at].release == NULL ||
        lends->items[at].turn != token >> 32)
        return false;
    end(lends, (uint32_t)at);
    return true;
}

void psr_lends_end_all(psr_lends *lends)
{
    for (uint32_t at = 0; at < lends->capacity; at++)
        if (lends->items[at].release != NULL)
            end(lends, at);
}

void psr_lends_done(psr_lends *lends)
{
    assert(lends->count == 0);
    free(lends->items);
    *lends = (psr_lends){0};
}
