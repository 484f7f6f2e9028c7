#include "ps/scheduler/metrics/links.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct host {
    char name[PSR_HOST_MAX];
    uint32_t workers, shards;
} host;

struct psr_links {
    uint32_t host_count, workers, shards;
    host *hosts;                      /* [host_count] */
    uint32_t *of_workers, *of_shards; /* the host of each rank */
    double *bytes;                    /* [host_count][host_count], from and to */
};

/* ---- life ---- */

static uint32_t host_index(psr_links *l, const char *name)
{
    uint32_t i = 0;
    while (i < l->host_count && strcmp(l->hosts[i].name, name) != 0)
        i++;
    if (i == l->host_count)
        snprintf(l->hosts[l->host_count++].name, PSR_HOST_MAX, "%s", name);
    return i;
}

static void place(psr_links *l, const psr_view_member *member)
{
    const uint32_t rank = member->peer.rank;
    if (member->peer.role == PSR_ROLE_WORKER && rank < l->workers) {
        l->of_workers[rank] = host_index(l, member->host);
        l->hosts[l->of_workers[rank]].workers++;
    }
    if (member->peer.role == PSR_ROLE_SHARD && rank < l->shards) {
        l->of_shards[rank] = host_index(l, member->host);
        l->hosts[l->of_shards[rank]].shards++;
    }
}

/* The plan, which knows numbers too, is made later. */
static uint32_t count_role(const psr_view *members, psr_role role)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < members->member_count; i++)
        count += members->members[i].peer.role == role;
    return count;
}

psr_err psr_links_new(const psr_view *members, psr_links **ret_links)
{
    const uint32_t workers = count_role(members, PSR_ROLE_WORKER),
                   shards = count_role(members, PSR_ROLE_SHARD);
    psr_links *l = calloc(1, sizeof *l);
    if (l != NULL)
        *l = (psr_links){.workers = workers,
                         .shards = shards,
                         .hosts = calloc((size_t)members->member_count + 1, sizeof *l->hosts),
                         .of_workers = calloc((size_t)workers + 1, sizeof *l->of_workers),
                         .of_shards = calloc((size_t)shards + 1, sizeof *l->of_shards)};
    if (l != NULL && l->hosts != NULL && l->of_workers != NULL && l->of_shards != NULL) {
        for (uint32_t i = 0; i < members->member_count; i++)
            place(l, &members->members[i]);
        l->bytes = calloc((size_t)l->host_count * l->host_count + 1, sizeof *l->bytes);
    }
    if (l == NULL || l->bytes == NULL) {
        psr_links_free(l);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the links of %u members",
                        members->member_count);
    }
    *ret_links = l;
    return PSR_OK;
}

void psr_links_free(psr_links *links)
{
    if (links == NULL)
        return;
    free(links->hosts);
    free(links->of_workers);
    free(links->of_shards);
    free(links->bytes);
    free(links);
}

/* ---- what workers tell ---- */

static double amount(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 0x1p53
               ? item->valuedouble
               : 0;
}

static void take_row(psr_links *l, uint32_t from, const cJSON *row)
{
    const char *role = cJSON_GetStringValue(cJSON_GetArrayItem(row, 0));
    const cJSON *number = cJSON_GetArrayItem(row, 1);
    const double rank = cJSON_IsNumber(number) ? number->valuedouble : -1,
                 sent = amount(cJSON_GetArrayItem(row, 2)),
                 received = amount(cJSON_GetArrayItem(row, 3));
    const bool is_shard = role != NULL && strcmp(role, "shard") == 0;
    const bool is_worker = role != NULL && strcmp(role, "worker") == 0;
    if ((!is_shard && !is_worker) || !(rank >= 0) || rank >= (is_shard ? l->shards : l->workers))
        return;
    const uint32_t own = l->of_workers[from],
                   other = is_shard ? l->of_shards[(uint32_t)rank] : l->of_workers[(uint32_t)rank];
    l->bytes[(size_t)own * l->host_count + other] += sent;
    if (is_shard)
        l->bytes[(size_t)other * l->host_count + own] += received;
}

void psr_links_take_done(psr_links *links, uint32_t from, const char *json, size_t size)
{
    cJSON *outcome = cJSON_ParseWithLength(json, size);
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(
                                outcome, "links")) if (from < links->workers && cJSON_IsArray(row))
        take_row(links, from, row);
    cJSON_Delete(outcome);
}

/* ---- run.json ---- */

static const char *place_of_shards(const psr_links *l)
{
    uint32_t beside = 0;
    for (uint32_t s = 0; s < l->shards; s++)
        beside += l->hosts[l->of_shards[s]].workers > 0;
    return l->shards == 0        ? "none"
           : beside == l->shards ? "beside"
           : beside == 0         ? "dedicated"
                                 : "mixed";
}

static bool add_placement(const psr_links *l, cJSON *object)
{
    cJSON *placement = cJSON_AddObjectToObject(object, "placement");
    bool whole = placement != NULL &&
                 cJSON_AddStringToObject(placement, "shards", place_of_shards(l)) != NULL;
    cJSON *hosts = whole ? cJSON_AddArrayToObject(placement, "hosts") : NULL;
    whole = hosts != NULL;
    for (uint32_t i = 0; i < l->host_count && whole; i++) {
        cJSON *row = cJSON_CreateObject();
        whole = cJSON_AddItemToArray(hosts, row) &&
                cJSON_AddStringToObject(row, "host", l->hosts[i].name) != NULL &&
                cJSON_AddNumberToObject(row, "workers", l->hosts[i].workers) != NULL &&
                cJSON_AddNumberToObject(row, "shards", l->hosts[i].shards) != NULL;
    }
    return whole;
}

static bool add_links(const psr_links *l, cJSON *object)
{
    cJSON *rows = cJSON_AddArrayToObject(object, "links");
    bool whole = rows != NULL;
    for (uint32_t from = 0; from < l->host_count; from++)
        for (uint32_t to = 0; to < l->host_count && whole; to++) {
            const double bytes = l->bytes[(size_t)from * l->host_count + to];
            if (bytes == 0)
                continue;
            cJSON *row = cJSON_CreateObject();
            whole = cJSON_AddItemToArray(rows, row) &&
                    cJSON_AddStringToObject(row, "from", l->hosts[from].name) != NULL &&
                    cJSON_AddStringToObject(row, "to", l->hosts[to].name) != NULL &&
                    cJSON_AddNumberToObject(row, "bytes", bytes) != NULL;
        }
    return whole;
}

psr_err psr_links_add_to(const psr_links *links, const char *json, char **ret_json)
{
    cJSON *object = cJSON_Parse(json);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return psr_fail(PSR_ERR_FORMAT, "links are added to a JSON object");
    }
    const bool whole = add_placement(links, object) && add_links(links, object);
    char *text = whole ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the links of a run");
    *ret_json = text;
    return PSR_OK;
}
