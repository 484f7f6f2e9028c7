#include "comm/join.h"

#include "base/printable.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cJSON prints 15 digits where they are nearly the number. */
#define EXACT_MAX 999999999999999.0
#define ROSTER_MAX 4096

/* ---- roles ---- */

bool psr_role_parse(const char *name, psr_role *ret_role)
{
    static const psr_role roles[] = {PSR_ROLE_SCHEDULER, PSR_ROLE_SHARD, PSR_ROLE_WORKER};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(name, psr_role_name(roles[i])) == 0) {
            *ret_role = roles[i];
            return true;
        }
    return false;
}

/* ---- writing: the first allocation that fails is remembered and told at the end ---- */

typedef struct writer {
    cJSON *object;
    bool failed;
} writer;

static void put_text(writer *w, const char *name, const char *text)
{
    w->failed |= !cJSON_AddStringToObject(w->object, name, text);
}

static void put_number(writer *w, const char *name, uint64_t value)
{
    w->failed |= !cJSON_AddNumberToObject(w->object, name, (double)value);
}

static void put_object(writer *w, const char *name, cJSON *value)
{
    if (!value || !cJSON_AddItemToObject(w->object, name, value)) {
        cJSON_Delete(value);
        w->failed = true;
    }
}

/* Consumes the writer's object. cJSON allocates with malloc, so free() is right for what it prints. */
static psr_err finish(writer *w, char **ret_json)
{
    char *json = w->failed ? NULL : cJSON_PrintUnformatted(w->object);
    cJSON_Delete(w->object);
    if (!json)
        return psr_fail(PSR_ERR_NOMEM, "no memory for JSON");
    *ret_json = json;
    return PSR_OK;
}

static writer begin(void)
{
    cJSON *object = cJSON_CreateObject();
    return (writer){object, !object};
}

/* ---- reading ---- */

static psr_err parse(const void *json, size_t size, cJSON **ret_object)
{
    cJSON *object = cJSON_ParseWithLength(json, size);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return psr_fail(PSR_ERR_FORMAT, "not a JSON object");
    }
    *ret_object = object;
    return PSR_OK;
}

static psr_err get_text(const cJSON *object, const char *name, char *to, size_t size)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsString(item))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is missing or no text", name);
    if (strlen(item->valuestring) >= size)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is longer than %zu bytes", name, size - 1);
    if (!psr_is_printable(item->valuestring, strlen(item->valuestring)))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" holds control characters: \"%s\"", name,
                        item->valuestring);
    strcpy(to, item->valuestring);
    return PSR_OK;
}

static psr_err get_number(const cJSON *object, const char *name, uint64_t max, uint64_t *ret_value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is missing or no number", name);
    double value = item->valuedouble;
    if (!(value >= 0) || value > EXACT_MAX || value > (double)max || value != (double)(uint64_t)value)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no count of at most %" PRIu64, name, max);
    *ret_value = (uint64_t)value;
    return PSR_OK;
}

static psr_err get_u32(const cJSON *object, const char *name, uint32_t *ret_value)
{
    uint64_t value = 0;
    PSR_TRY(get_number(object, name, UINT32_MAX, &value));
    *ret_value = (uint32_t)value;
    return PSR_OK;
}

/* ---- JOIN ---- */

psr_err psr_join_to_json(const psr_join *join, char **ret_json)
{
    writer w = begin();
    put_text(&w, "version", join->version);
    put_text(&w, "host", join->host);
    put_text(&w, "endpoint", join->endpoint);
    put_number(&w, "pid", (uint64_t)join->pid);
    return finish(&w, ret_json);
}

static psr_err read_join(const cJSON *object, psr_join *join)
{
    uint64_t pid = 0;
    PSR_TRY(get_text(object, "version", join->version, sizeof join->version));
    PSR_TRY(get_text(object, "host", join->host, sizeof join->host));
    PSR_TRY(get_text(object, "endpoint", join->endpoint, sizeof join->endpoint));
    PSR_TRY(get_number(object, "pid", INT32_MAX, &pid));
    join->pid = (int64_t)pid;
    return PSR_OK;
}

psr_err psr_join_from_json(const void *json, size_t size, psr_join *ret_join)
{
    cJSON *object = NULL;
    psr_join join = {0};
    PSR_TRY(parse(json, size, &object));
    psr_err err = read_join(object, &join);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_join = join;
    return err;
}

/* ---- CONFIG ---- */

psr_err psr_welcome_config_to_json(uint32_t rank, const psr_config *config, char **ret_json)
{
    char *text = NULL;
    PSR_TRY(psr_config_to_json(config, &text));
    writer w = begin();
    put_number(&w, "rank", rank);
    put_object(&w, "config", cJSON_Parse(text));
    free(text);
    return finish(&w, ret_json);
}

psr_err psr_welcome_config_from_json(const void *json, size_t size, uint32_t *ret_rank,
                                     psr_config *ret_config)
{
    cJSON *object = NULL;
    uint32_t rank = 0;
    psr_config config;
    psr_config_defaults(&config);
    PSR_TRY(parse(json, size, &object));
    psr_err err = get_u32(object, "rank", &rank);
    cJSON_Delete(object);
    if (err == PSR_OK)
        err = psr_config_from_json(&config, json, size); /* it looks under "config" by itself */
    if (err != PSR_OK)
        return err;
    *ret_rank = rank;
    *ret_config = config;
    return PSR_OK;
}

/* ---- FACTS ---- */

static cJSON *facts_object(const psr_facts *facts)
{
    writer w = begin();
    put_text(&w, "identity", facts->identity);
    put_text(&w, "data_name", facts->data_name);
    put_number(&w, "train_count", facts->train_count);
    put_number(&w, "test_count", facts->test_count);
    put_number(&w, "channels", facts->channels);
    put_number(&w, "height", facts->height);
    put_number(&w, "width", facts->width);
    put_number(&w, "classes", facts->classes);
    put_number(&w, "steps_per_epoch", facts->steps_per_epoch);
    put_number(&w, "total_steps", facts->total_steps);
    put_number(&w, "parameter_count", facts->parameter_count);
    if (w.failed) {
        cJSON_Delete(w.object);
        return NULL;
    }
    return w.object;
}

psr_err psr_facts_to_json(const psr_facts *facts, char **ret_json)
{
    writer w = {facts_object(facts), false};
    w.failed = !w.object;
    return finish(&w, ret_json);
}

static psr_err read_facts(const cJSON *object, psr_facts *facts)
{
    PSR_TRY(get_text(object, "identity", facts->identity, sizeof facts->identity));
    PSR_TRY(get_text(object, "data_name", facts->data_name, sizeof facts->data_name));
    PSR_TRY(get_u32(object, "train_count", &facts->train_count));
    PSR_TRY(get_u32(object, "test_count", &facts->test_count));
    PSR_TRY(get_u32(object, "channels", &facts->channels));
    PSR_TRY(get_u32(object, "height", &facts->height));
    PSR_TRY(get_u32(object, "width", &facts->width));
    PSR_TRY(get_u32(object, "classes", &facts->classes));
    PSR_TRY(get_number(object, "steps_per_epoch", UINT64_MAX, &facts->steps_per_epoch));
    PSR_TRY(get_number(object, "total_steps", UINT64_MAX, &facts->total_steps));
    return get_number(object, "parameter_count", UINT64_MAX, &facts->parameter_count);
}

psr_err psr_facts_from_json(const void *json, size_t size, psr_facts *ret_facts)
{
    cJSON *object = NULL;
    psr_facts facts = {0};
    PSR_TRY(parse(json, size, &object));
    psr_err err = read_facts(object, &facts);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_facts = facts;
    return err;
}

psr_err psr_facts_agree(const psr_facts *a, const char *who_a, const psr_facts *b, const char *who_b)
{
    if (strcmp(a->identity, b->identity) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "%s computes with %s, %s with %s: their bits could differ; use the same on all hosts",
                        who_a, a->identity, who_b, b->identity);
    if (strcmp(a->data_name, b->data_name) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "%s found data set %s, %s found %s: --data must be the same on all hosts", who_a,
                        a->data_name, who_b, b->data_name);
    const struct {
        const char *what;
        uint64_t a, b;
    } counts[] = {
        {"training samples", a->train_count, b->train_count},
        {"test samples", a->test_count, b->test_count},
        {"channels", a->channels, b->channels},
        {"pixels of height", a->height, b->height},
        {"pixels of width", a->width, b->width},
        {"classes", a->classes, b->classes},
        {"steps per epoch", a->steps_per_epoch, b->steps_per_epoch},
        {"steps", a->total_steps, b->total_steps},
        {"parameters", a->parameter_count, b->parameter_count},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].a != counts[i].b)
            return psr_fail(PSR_ERR_USAGE,
                            "%s has %" PRIu64 " %s in %s, %s has %" PRIu64
                            ": --data must be the same on all hosts",
                            who_a, counts[i].a, counts[i].what, a->data_name, who_b, counts[i].b);
    return PSR_OK;
}

/* ---- WELCOME ---- */

static cJSON *roster_array(const psr_roster_entry *roster, size_t count)
{
    cJSON *array = cJSON_CreateArray();
    for (size_t i = 0; array && i < count; i++) {
        writer w = begin();
        put_text(&w, "role", psr_role_name(roster[i].peer.role));
        put_number(&w, "rank", roster[i].peer.rank);
        put_text(&w, "host", roster[i].host);
        put_text(&w, "endpoint", roster[i].endpoint);
        if (w.failed || !cJSON_AddItemToArray(array, w.object)) {
            cJSON_Delete(w.object);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

psr_err psr_roster_to_json(const psr_roster_entry *roster, size_t count, char **ret_json)
{
    writer w = {roster_array(roster, count), false};
    w.failed = !w.object;
    return finish(&w, ret_json);
}

psr_err psr_welcome_to_json(const psr_welcome *welcome, char **ret_json)
{
    writer w = begin();
    put_number(&w, "first_step", welcome->first_step);
    put_number(&w, "bucket_bytes", welcome->bucket_bytes);
    put_object(&w, "facts", facts_object(&welcome->facts));
    put_object(&w, "roster", roster_array(welcome->roster, welcome->roster_count));
    return finish(&w, ret_json);
}

static psr_err read_entry(const cJSON *object, psr_roster_entry *entry)
{
    char role[16];
    PSR_TRY(get_text(object, "role", role, sizeof role));
    if (!psr_role_parse(role, &entry->peer.role))
        return psr_fail(PSR_ERR_FORMAT, "field \"role\" is \"%s\"", role);
    PSR_TRY(get_u32(object, "rank", &entry->peer.rank));
    PSR_TRY(get_text(object, "host", entry->host, sizeof entry->host));
    return get_text(object, "endpoint", entry->endpoint, sizeof entry->endpoint);
}

static psr_err read_welcome(const cJSON *object, psr_welcome *welcome)
{
    PSR_TRY(get_number(object, "first_step", UINT64_MAX, &welcome->first_step));
    PSR_TRY(get_number(object, "bucket_bytes", UINT64_MAX, &welcome->bucket_bytes));
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(object, "facts");
    const cJSON *roster = cJSON_GetObjectItemCaseSensitive(object, "roster");
    if (!cJSON_IsObject(facts) || !cJSON_IsArray(roster))
        return psr_fail(PSR_ERR_FORMAT, "fields \"facts\" and \"roster\" are missing");
    PSR_TRY(read_facts(facts, &welcome->facts));
    int count = cJSON_GetArraySize(roster);
    if (count > ROSTER_MAX)
        return psr_fail(PSR_ERR_FORMAT, "field \"roster\" has %d entries, more than %d", count, ROSTER_MAX);
    welcome->roster = calloc((size_t)count + 1, sizeof *welcome->roster);
    if (!welcome->roster)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a roster of %d", count);
    const cJSON *item;
    cJSON_ArrayForEach(item, roster) PSR_TRY(read_entry(item, &welcome->roster[welcome->roster_count++]));
    return PSR_OK;
}

psr_err psr_welcome_from_json(const void *json, size_t size, psr_welcome *ret_welcome)
{
    cJSON *object = NULL;
    psr_welcome welcome = {0};
    PSR_TRY(parse(json, size, &object));
    psr_err err = read_welcome(object, &welcome);
    cJSON_Delete(object);
    if (err != PSR_OK) {
        free(welcome.roster);
        return err;
    }
    *ret_welcome = welcome;
    return PSR_OK;
}

/* ---- DONE of a shard ---- */

psr_err psr_traffic_to_json(const psr_traffic *traffic, char **ret_json)
{
    writer w = begin();
    put_number(&w, "gradient_bytes", traffic->gradient_bytes);
    put_number(&w, "weight_bytes", traffic->weight_bytes);
    return finish(&w, ret_json);
}

psr_err psr_traffic_from_json(const void *json, size_t size, psr_traffic *ret_traffic)
{
    cJSON *object = NULL;
    psr_traffic traffic = {0};
    PSR_TRY(parse(json, size, &object));
    psr_err err = get_number(object, "gradient_bytes", UINT64_MAX, &traffic.gradient_bytes);
    if (err == PSR_OK)
        err = get_number(object, "weight_bytes", UINT64_MAX, &traffic.weight_bytes);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_traffic = traffic;
    return err;
}
