#include "net/trust/bindings.h"

#include <stdlib.h>
#include <string.h>

/* The slot of an id, or the free one where it would go. capacity is a power of two and never
 * full. */
static psr_binding *slot_of(const psr_bindings *bindings, const void *id)
{
    uint64_t hash;
    memcpy(&hash, id, sizeof hash);
    for (size_t i = (size_t)hash;; i++) {
        psr_binding *slot = &bindings->slots[i & (bindings->capacity - 1)];
        if (!slot->used || memcmp(slot->id, id, PSR_ROUTING_ID_BYTES) == 0)
            return slot;
    }
}

psr_binding *psr_bindings_find(const psr_bindings *bindings, const void *id, size_t id_bytes)
{
    if (id_bytes != PSR_ROUTING_ID_BYTES || bindings->capacity == 0)
        return NULL;
    psr_binding *slot = slot_of(bindings, id);
    return slot->used ? slot : NULL;
}

psr_binding *psr_bindings_holder(const psr_bindings *bindings, psr_peer peer)
{
    if (peer.rank == PSR_RANK_ANY)
        return NULL;
    for (size_t i = 0; i < bindings->capacity; i++)
        if (bindings->slots[i].used && psr_peer_equal(bindings->slots[i].peer, peer))
            return &bindings->slots[i];
    return NULL;
}

static psr_err grow(psr_bindings *bindings)
{
    psr_bindings larger = {.capacity = bindings->capacity ? 2 * bindings->capacity : 32,
                           .count = bindings->count};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu members", larger.capacity);
    for (size_t i = 0; i < bindings->capacity; i++)
        if (bindings->slots[i].used)
            *slot_of(&larger, bindings->slots[i].id) = bindings->slots[i];
    free(bindings->slots);
    *bindings = larger;
    return PSR_OK;
}

psr_err psr_bindings_add(psr_bindings *bindings, const void *id, size_t id_bytes, psr_peer peer,
                         psr_peer admitted, psr_binding **ret_binding)
{
    if (id_bytes != PSR_ROUTING_ID_BYTES)
        return psr_fail(PSR_ERR_DENIED, "its routing id has %zu bytes, ours have %d", id_bytes,
                        PSR_ROUTING_ID_BYTES);
    if (bindings->count == PSR_BINDINGS_MAX)
        return psr_fail(PSR_ERR_DENIED, "%d connections are bound already", PSR_BINDINGS_MAX);
    if (2 * (bindings->count + 1) > bindings->capacity)
        PSR_TRY(grow(bindings));
    psr_binding *slot = slot_of(bindings, id);
    *slot = (psr_binding){.peer = peer, .admitted = admitted, .used = true};
    memcpy(slot->id, id, PSR_ROUTING_ID_BYTES);
    bindings->count++;
    *ret_binding = slot;
    return PSR_OK;
}

psr_connection psr_bindings_retire(psr_bindings *bindings, psr_peer peer)
{
    psr_binding *binding = psr_bindings_holder(bindings, peer);
    if (binding == NULL)
        return (psr_connection){0};
    psr_connection connection = binding->connection;
    binding->connection = (psr_connection){0};
    binding->banned = true;
    binding->peer.rank = PSR_RANK_ANY;
    return connection;
}

void psr_bindings_forget_connection(psr_bindings *bindings, uint64_t cookie)
{
    for (size_t i = 0; i < bindings->capacity; i++)
        if (bindings->slots[i].used && bindings->slots[i].connection.cookie == cookie)
            bindings->slots[i].connection = (psr_connection){0};
}

void psr_bindings_done(psr_bindings *bindings)
{
    free(bindings->slots);
    *bindings = (psr_bindings){0};
}
