#include "comm/members/join.h"

#include "base/json_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- JOIN ---- */

psr_err psr_join_to_json(const psr_join *join, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "version", join->version);
    psr_fields_put_text(&w, "host", join->host);
    psr_fields_put_text(&w, "endpoint", join->endpoint);
    psr_fields_put_number(&w, "pid", (uint64_t)join->pid);
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_join(const cJSON *object, psr_join *join)
{
    uint64_t pid = 0;
    PSR_TRY(psr_fields_text(object, "version", join->version, sizeof join->version));
    PSR_TRY(psr_fields_text(object, "host", join->host, sizeof join->host));
    PSR_TRY(psr_fields_text(object, "endpoint", join->endpoint, sizeof join->endpoint));
    PSR_TRY(psr_fields_number(object, "pid", INT32_MAX, &pid));
    join->pid = (int64_t)pid;
    return PSR_OK;
}

psr_err psr_join_from_json(const void *json, size_t size, psr_join *ret_join)
{
    cJSON *object = NULL;
    psr_join join = {0};
    PSR_TRY(psr_fields_parse(json, size, &object));
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
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "rank", rank);
    psr_fields_put_item(&w, "config", cJSON_Parse(text));
    free(text);
    return psr_fields_finish(&w, ret_json);
}

psr_err psr_welcome_config_from_json(const void *json, size_t size, uint32_t *ret_rank,
                                     psr_config *ret_config)
{
    cJSON *object = NULL;
    uint32_t rank = 0;
    psr_config config;
    psr_config_defaults(&config);
    PSR_TRY(psr_fields_parse(json, size, &object));
    psr_err err = psr_fields_u32(object, "rank", &rank);
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
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "identity", facts->identity);
    psr_fields_put_text(&w, "data_name", facts->data_name);
    psr_fields_put_number(&w, "train_count", facts->train_count);
    psr_fields_put_number(&w, "test_count", facts->test_count);
    psr_fields_put_number(&w, "channels", facts->channels);
    psr_fields_put_number(&w, "height", facts->height);
    psr_fields_put_number(&w, "width", facts->width);
    psr_fields_put_number(&w, "classes", facts->classes);
    psr_fields_put_number(&w, "steps_per_epoch", facts->steps_per_epoch);
    psr_fields_put_number(&w, "total_steps", facts->total_steps);
    psr_fields_put_number(&w, "parameter_count", facts->parameter_count);
    if (w.failed) {
        cJSON_Delete(w.object);
        return NULL;
    }
    return w.object;
}

psr_err psr_facts_to_json(const psr_facts *facts, char **ret_json)
{
    psr_fields_writer w = {facts_object(facts), false};
    w.failed = !w.object;
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_facts(const cJSON *object, psr_facts *facts)
{
    PSR_TRY(psr_fields_text(object, "identity", facts->identity, sizeof facts->identity));
    PSR_TRY(psr_fields_text(object, "data_name", facts->data_name, sizeof facts->data_name));
    PSR_TRY(psr_fields_u32(object, "train_count", &facts->train_count));
    PSR_TRY(psr_fields_u32(object, "test_count", &facts->test_count));
    PSR_TRY(psr_fields_u32(object, "channels", &facts->channels));
    PSR_TRY(psr_fields_u32(object, "height", &facts->height));
    PSR_TRY(psr_fields_u32(object, "width", &facts->width));
    PSR_TRY(psr_fields_u32(object, "classes", &facts->classes));
    PSR_TRY(psr_fields_number(object, "steps_per_epoch", UINT64_MAX, &facts->steps_per_epoch));
    PSR_TRY(psr_fields_number(object, "total_steps", UINT64_MAX, &facts->total_steps));
    return psr_fields_number(object, "parameter_count", UINT64_MAX, &facts->parameter_count);
}

psr_err psr_facts_from_json(const void *json, size_t size, psr_facts *ret_facts)
{
    cJSON *object = NULL;
    psr_facts facts = {0};
    PSR_TRY(psr_fields_parse(json, size, &object));
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

psr_err psr_welcome_to_json(const psr_welcome *welcome, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "first_step", welcome->first_step);
    psr_fields_put_item(&w, "facts", facts_object(&welcome->facts));
    psr_fields_put_item(&w, "view", psr_view_to_object(&welcome->view));
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_welcome(const cJSON *object, psr_welcome *welcome)
{
    PSR_TRY(psr_fields_number(object, "first_step", UINT64_MAX, &welcome->first_step));
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(object, "facts");
    if (!cJSON_IsObject(facts))
        return psr_fail(PSR_ERR_FORMAT, "field \"facts\" is missing");
    PSR_TRY(read_facts(facts, &welcome->facts));
    return psr_view_from_object(cJSON_GetObjectItemCaseSensitive(object, "view"), &welcome->view);
}

psr_err psr_welcome_from_json(const void *json, size_t size, psr_welcome *ret_welcome)
{
    cJSON *object = NULL;
    psr_welcome welcome = {0};
    PSR_TRY(psr_fields_parse(json, size, &object));
    psr_err err = read_welcome(object, &welcome);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_welcome = welcome;
    return err;
}

/* ---- DONE of a shard ---- */

psr_err psr_traffic_to_json(const psr_traffic *traffic, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "gradient_bytes", traffic->gradient_bytes);
    psr_fields_put_number(&w, "weight_bytes", traffic->weight_bytes);
    return psr_fields_finish(&w, ret_json);
}

psr_err psr_traffic_from_json(const void *json, size_t size, psr_traffic *ret_traffic)
{
    cJSON *object = NULL;
    psr_traffic traffic = {0};
    PSR_TRY(psr_fields_parse(json, size, &object));
    psr_err err = psr_fields_number(object, "gradient_bytes", UINT64_MAX, &traffic.gradient_bytes);
    if (err == PSR_OK)
        err = psr_fields_number(object, "weight_bytes", UINT64_MAX, &traffic.weight_bytes);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_traffic = traffic;
    return err;
}
