#include "deploy/lab/result.h"

#include "base/text/printable.h"
#include "base/text/text.h"
#include "base/text/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t host_drops(const psr_lab_result *r)
{
    uint64_t drops = 0;
    for (size_t i = 0; i < r->lab->host_count; i++)
        drops += r->from_host[i].dropped_packets;
    return drops;
}

bool psr_lab_result_is_valid(const psr_lab_result *result, char why[PSR_LAB_WHY_BYTES])
{
    return psr_lab_is_valid(&result->load, host_drops(result), why);
}

/* ---- for a person ---- */

static void add_drops(psr_text_end *end, const char *name, const char *which, uint64_t drops,
                      bool *first)
{
    if (drops == 0)
        return;
    psr_text_add(end, "%s%" PRIu64 " %s %s", *first ? "" : ", ", drops, which, name);
    *first = false;
}

static void print_losses(const psr_lab_result *r)
{
    uint64_t sent = 0, lost = 0;
    bool any = false;
    for (size_t i = 0; i < r->lab->host_count; i++) {
        any = any || r->lab->hosts[i].loss > 0;
        sent += r->lab->hosts[i].loss > 0 ? r->to_host[i].sent_packets : 0;
        lost += r->lost[i];
    }
    if (any)
        psr_print(stderr, "psring lab: links lost %" PRIu64 " of %" PRIu64 " packets, as asked\n",
                  lost, sent);
}

void psr_lab_result_print(const psr_lab_result *r)
{
    char why[PSR_LAB_WHY_BYTES], where[512] = "";
    psr_text_end end = {where, sizeof where};
    uint64_t sent = 0, dropped = 0;
    bool first = true;
    for (size_t i = 0; i < r->lab->host_count; i++) {
        sent += r->to_host[i].sent_packets;
        dropped += r->to_host[i].dropped_packets;
        add_drops(&end, r->lab->hosts[i].name, "towards", r->to_host[i].dropped_packets, &first);
    }
    for (size_t k = 1; k < r->lab->switch_count; k++) {
        const char *name = r->lab->switches[k].name;
        dropped += r->to_switch[k].dropped_packets + r->from_switch[k].dropped_packets;
        add_drops(&end, name, "down to", r->to_switch[k].dropped_packets, &first);
        add_drops(&end, name, "up from", r->from_switch[k].dropped_packets, &first);
    }
    psr_print(stderr, "psring lab: the switches' queues dropped %" PRIu64 " of %" PRIu64 " packets",
              dropped, sent + dropped);
    psr_print(stderr,
              "%s%s%s; this machine was busy for %.0f%%, all its processors for %.0f%% of "
              "%.1f s\n",
              dropped > 0 ? " (" : "", where, dropped > 0 ? ")" : "", 100 * r->load.busy_share,
              100 * r->load.saturated_share, r->load.seconds);
    print_losses(r);
    if (r->dilate > 1)
        psr_print(stderr,
                  "psring lab: dilated by %g: all times are %g times those of the lab that %s "
                  "describes\n",
                  r->dilate, r->dilate, r->name);
    if (!psr_lab_result_is_valid(r, why))
        psr_print(stderr, "psring lab: INVALID, the result is not the lab's: %s\n", why);
}

/* ---- JSON ---- */

static void add_count(cJSON *to, const char *name, const psr_lab_count *count)
{
    cJSON *object = cJSON_AddObjectToObject(to, name);
    cJSON_AddNumberToObject(object, "sent_bytes", (double)count->sent_bytes);
    cJSON_AddNumberToObject(object, "sent_packets", (double)count->sent_packets);
    cJSON_AddNumberToObject(object, "dropped_packets", (double)count->dropped_packets);
}

static cJSON *link_to_json(const char *name, const psr_lab_link *link, const psr_lab_count *to,
                           const psr_lab_count *from)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", name);
    cJSON_AddNumberToObject(object, "rate_bits_per_s", (double)link->rate_bits_per_s);
    cJSON_AddNumberToObject(object, "queue_bytes", (double)link->queue_bytes);
    cJSON_AddNumberToObject(object, "burst_bytes", (double)link->burst_bytes);
    add_count(object, "to", to);
    add_count(object, "from", from);
    return object;
}

cJSON *psr_lab_result_to_json(const psr_lab_result *r)
{
    char why[PSR_LAB_WHY_BYTES];
    const bool valid = psr_lab_result_is_valid(r, why);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "lab", r->name);
    cJSON_AddBoolToObject(json, "valid", valid);
    cJSON_AddStringToObject(json, "why", why);
    cJSON_AddNumberToObject(json, "dilate", r->dilate);
    cJSON_AddNumberToObject(json, "seconds", r->load.seconds);
    cJSON_AddNumberToObject(json, "busy_share", r->load.busy_share);
    cJSON_AddNumberToObject(json, "saturated_share", r->load.saturated_share);
    cJSON_AddNumberToObject(json, "input_drops", (double)r->load.input_drops);
    cJSON_AddNumberToObject(json, "host_drops", (double)host_drops(r));
    cJSON *hosts = cJSON_AddArrayToObject(json, "hosts");
    for (size_t i = 0; i < r->lab->host_count; i++) {
        const psr_lab_host *h = &r->lab->hosts[i];
        cJSON *host = link_to_json(h->name, &h->link, &r->to_host[i], &r->from_host[i]);
        cJSON_AddNumberToObject(host, "slots", h->slots);
        cJSON_AddNumberToObject(host, "shards", h->shards);
        cJSON_AddNumberToObject(host, "slow", h->slow);
        cJSON_AddNumberToObject(host, "loss", h->loss);
        cJSON_AddNumberToObject(host, "lost_packets", (double)r->lost[i]);
        cJSON_AddStringToObject(host, "congestion", h->congestion);
        cJSON_AddStringToObject(host, "switch", r->lab->switches[h->in_switch].name);
        cJSON_AddItemToArray(hosts, host);
    }
    cJSON *uplinks = cJSON_AddArrayToObject(json, "uplinks");
    for (size_t k = 1; k < r->lab->switch_count; k++) {
        const psr_lab_switch *s = &r->lab->switches[k];
        cJSON_AddItemToArray(
            uplinks, link_to_json(s->name, &s->uplink, &r->to_switch[k], &r->from_switch[k]));
    }
    if (uplinks == NULL) { /* the last one that was made: the others are there too */
        cJSON_Delete(json);
        return NULL;
    }
    return json;
}
