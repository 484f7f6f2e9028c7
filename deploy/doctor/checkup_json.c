#include "deploy/doctor/checkup_json.h"

#include "base/text/json_fields.h"

#include <stdlib.h>

static void put_bool(psr_fields_writer *w, const char *name, bool value)
{
    psr_fields_put_item(w, name, cJSON_CreateBool(value));
}

static void put_double(psr_fields_writer *w, const char *name, double value)
{
    psr_fields_put_item(w, name, cJSON_CreateNumber(value));
}

/* NULL if there was no memory; psr_fields_put_item remembers that. */
static cJSON *whole(psr_fields_writer *w)
{
    if (!w->failed)
        return w->object;
    cJSON_Delete(w->object);
    return NULL;
}

static cJSON *host_object(const psr_checkup_host *h)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "name", h->host.name);
    psr_fields_put_number(&w, "slots", h->host.slots);
    put_bool(&w, "here", h->reached.here);
    psr_fields_put_text(&w, "failure", h->failure);
    cJSON *facts = NULL;
    if (h->stage == PSR_DOCTOR_PROBED && psr_host_facts_to_object(&h->facts, &facts) == PSR_OK)
        psr_fields_put_item(&w, "facts", facts);
    if (h->clock_known) {
        put_double(&w, "clock_s", h->clock_s);
        put_double(&w, "clock_within_s", h->clock_within_s);
    }
    return whole(&w);
}

static cJSON *pair_object(const psr_checkup *c, size_t from, size_t to)
{
    const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "from", c->hosts[from].host.name);
    psr_fields_put_text(&w, "to", c->hosts[to].host.name);
    if (p->looked_up)
        psr_fields_put_text(&w, "looked_up_as", p->looked_up_as);
    if (p->tried) {
        put_bool(&w, "connected", p->connected);
        psr_fields_put_text(&w, "source", p->source);
        psr_fields_put_text(&w, "connect_failure", p->connect_failure);
    }
    if (p->measured) {
        psr_fields_put_number(&w, "round_trip_ns", p->round_trip_ns);
        psr_fields_put_number(&w, "bytes_per_s", p->bytes_per_s);
        psr_fields_put_number(&w, "unsealed_ms", p->unsealed_ms);
        psr_fields_put_number(&w, "unsealed_port", p->unsealed_port);
    }
    psr_fields_put_text(&w, "measure_failure", p->measure_failure);
    return whole(&w);
}

static cJSON *finding_object(const psr_finding *finding)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "level", psr_finding_level_name(finding->level));
    psr_fields_put_text(&w, "check", finding->check);
    psr_fields_put_text(&w, "where", finding->where);
    psr_fields_put_text(&w, "what", finding->what);
    psr_fields_put_text(&w, "right", finding->right);
    return whole(&w);
}

/* false: no memory. */
static bool put_in(cJSON *list, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToArray(list, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static void put_lists(psr_fields_writer *w, const psr_checkup *c, const psr_findings *f)
{
    cJSON *hosts = cJSON_CreateArray(), *pairs = cJSON_CreateArray(),
          *findings = cJSON_CreateArray();
    bool all = hosts != NULL && pairs != NULL && findings != NULL;
    for (size_t i = 0; i < c->count && all; i++)
        all = put_in(hosts, host_object(&c->hosts[i]));
    for (size_t i = 0; i < c->count * c->count && all; i++)
        /* a missing connection of a host to itself is reported as a finding */
        if (i / c->count != i % c->count)
            all = put_in(pairs, pair_object(c, i / c->count, i % c->count));
    for (size_t i = 0; i < f->count && all; i++)
        all = put_in(findings, finding_object(&f->items[i]));
    psr_fields_put_item(w, "hosts", hosts);
    psr_fields_put_item(w, "pairs", pairs);
    psr_fields_put_item(w, "findings", findings);
    w->failed |= !all;
}

psr_err psr_checkup_to_json(const psr_checkup *c, const psr_findings *f, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "version", PSR_VERSION);
    psr_fields_put_number(&w, "stops", psr_findings_at(f, PSR_FINDING_STOPS));
    psr_fields_put_number(&w, "slows", psr_findings_at(f, PSR_FINDING_SLOWS));
    psr_fields_put_number(&w, "message_bytes", PSR_PROBE_MESSAGE_BYTES);
    psr_fields_put_number(&w, "messages_at_once", PSR_PROBE_WINDOW);
    if (c->out != NULL && c->out_failure[0] == '\0')
        psr_fields_put_number(&w, "out_free_bytes", c->out_free_bytes);
    if (c->model != NULL) {
        psr_fields_put_text(&w, "model", c->model);
        psr_fields_put_number(&w, "batch_size", c->batch_size);
    }
    put_lists(&w, c, f);
    return psr_fields_finish(&w, ret_json);
}
