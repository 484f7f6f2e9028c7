#include "worker/exchange/link_bytes.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

psr_err psr_link_bytes_init(psr_link_bytes *links, uint32_t workers, uint32_t shards)
{
    const size_t count = (size_t)workers + shards;
    _Atomic uint64_t *bytes = calloc(2 * count + 1, sizeof *bytes);
    if (bytes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the bytes of %zu links", count);
    *links = (psr_link_bytes){
        .workers = workers, .shards = shards, .sent = bytes, .received = bytes + count};
    return PSR_OK;
}

void psr_link_bytes_done(psr_link_bytes *links)
{
    free(links->sent);
    *links = (psr_link_bytes){0};
}

/* false: it is neither a worker nor a shard of the run. */
static bool index_of(const psr_link_bytes *links, psr_peer peer, size_t *ret_index)
{
    const bool is_worker = peer.role == PSR_ROLE_WORKER;
    *ret_index = is_worker ? peer.rank : (size_t)links->workers + peer.rank;
    return is_worker ? peer.rank < links->workers
                     : peer.role == PSR_ROLE_SHARD && peer.rank < links->shards;
}

void psr_link_bytes_see(psr_link_bytes *links, const psr_observed *observed)
{
    size_t i;
    links->begun |= observed->kind == PSR_OBSERVED_BEGIN;
    if (!links->begun && !psr_observed_is_gradient(observed)) /* a neighbour may be ahead */
        return;
    if ((observed->kind != PSR_OBSERVED_OUT && observed->kind != PSR_OBSERVED_IN) ||
        !index_of(links, observed->peer, &i))
        return;
    _Atomic uint64_t *bytes = observed->kind == PSR_OBSERVED_OUT ? links->sent : links->received;
    atomic_fetch_add_explicit(&bytes[i], observed->bytes, memory_order_relaxed);
}

static bool add_row(const psr_link_bytes *links, size_t i, cJSON *rows)
{
    const uint64_t sent = atomic_load(&links->sent[i]), received = atomic_load(&links->received[i]);
    const bool is_worker = i < links->workers;
    if (sent == 0 && received == 0)
        return true;
    cJSON *row = cJSON_CreateArray();
    return cJSON_AddItemToArray(rows, row) &&
           cJSON_AddItemToArray(row, cJSON_CreateString(is_worker ? "worker" : "shard")) &&
           cJSON_AddItemToArray(row,
                                cJSON_CreateNumber((double)(is_worker ? i : i - links->workers))) &&
           cJSON_AddItemToArray(row, cJSON_CreateNumber((double)sent)) &&
           cJSON_AddItemToArray(row, cJSON_CreateNumber((double)received));
}

psr_err psr_link_bytes_to_json(const psr_link_bytes *links, char **ret_json)
{
    const size_t count = (size_t)links->workers + links->shards;
    cJSON *rows = cJSON_CreateArray();
    bool whole = rows != NULL;
    for (size_t i = 0; i < count && whole; i++)
        whole = add_row(links, i, rows);
    char *text = whole ? cJSON_PrintUnformatted(rows) : NULL;
    cJSON_Delete(rows);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the bytes of %zu links", count);
    *ret_json = text;
    return PSR_OK;
}
