#include "comm/members/join.h"

#include "base/text/json_fields.h"
#include "net/violation.h"

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
    if (join->memory.socket[0] != '\0')
        psr_fields_put_item(&w, "memory", psr_memory_place_to_object(&join->memory));
    psr_fields_put_number(&w, "pid", (uint64_t)join->pid);
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_join(const cJSON *object, psr_join *join)
{
    uint64_t pid = 0;
    PSR_TRY(psr_fields_text(object, "version", join->version, sizeof join->version));
    PSR_TRY(psr_fields_text(object, "host", join->host, sizeof join->host));
    PSR_TRY(psr_fields_text(object, "endpoint", join->endpoint, sizeof join->endpoint));
    PSR_TRY(psr_memory_place_from_object(cJSON_GetObjectItemCaseSensitive(object, "memory"),
                                         &join->memory));
    PSR_TRY(psr_fields_number(object, "pid", INT32_MAX, &pid));
    join->pid = (int64_t)pid;
    return PSR_OK;
}

psr_err psr_join_from_json(psr_bytes json, psr_join *ret_join)
{
    cJSON *object = NULL;
    psr_join join = {0};
    PSR_TRY(psr_fields_parse(json.data, json.size, &object));
    psr_err err = read_join(object, &join);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_join = join;
    return err;
}

psr_err psr_join_blame(const psr_message *message, psr_err err)
{
    char detail[512];
    if (err != PSR_ERR_FORMAT && err != PSR_ERR_USAGE)
        return err;
    snprintf(detail, sizeof detail, "%s", psr_err_detail());
    return psr_violation(message, "%s", detail);
}

psr_err psr_join_read(const psr_message *message, psr_join *ret_join)
{
    return psr_join_blame(
        message,
        psr_join_from_json((psr_bytes){message->payload, message->payload_bytes}, ret_join));
}

psr_err psr_join_check_version(const psr_join *join, const char *who, const char *scheduler_host)
{
    if (strcmp(join->version, PSR_VERSION) == 0)
        return PSR_OK;
    return psr_fail(
        PSR_ERR_VERSION,
        "%s on %s is psring %s, the scheduler on %s is psring %s: install one version on all hosts",
        who, join->host, join->version, scheduler_host, PSR_VERSION);
}

/* ---- two parts: JSON, and after a zero byte the bytes of the users ---- */

/* Consumes the writer. */
static psr_err write_parts(psr_fields_writer *w, psr_bytes users, void **ret_payload,
                           size_t *ret_size)
{
    char *json = NULL;
    PSR_TRY(psr_fields_finish(w, &json));
    size_t own = strlen(json) + 1;
    char *payload = realloc(json, own + users.size);
    if (payload == NULL) {
        free(json);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes of a message", own + users.size);
    }
    if (users.size > 0)
        memcpy(payload + own, users.data, users.size);
    *ret_payload = payload;
    *ret_size = own + users.size;
    return PSR_OK;
}

/* The caller owns *ret_object: cJSON_Delete. */
static psr_err read_parts(psr_bytes payload, cJSON **ret_object, psr_bytes *ret_users)
{
    const char *text = payload.data;
    const char *zero = payload.size > 0 ? memchr(text, 0, payload.size) : NULL;
    if (zero == NULL)
        return psr_fail(PSR_ERR_FORMAT, "no zero byte ends its JSON");
    PSR_TRY(psr_fields_parse(text, (size_t)(zero - text), ret_object));
    *ret_users = (psr_bytes){zero + 1, payload.size - (size_t)(zero - text) - 1};
    return PSR_OK;
}

/* ---- CONFIG ---- */

psr_err psr_place_write(const psr_place *place, psr_bytes given, void **ret_payload,
                        size_t *ret_size)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "rank", place->rank);
    psr_fields_put_number(&w, "ranks", place->ranks);
    psr_fields_put_number(&w, "deadline_ms", (uint64_t)place->deadline_ms);
    return write_parts(&w, given, ret_payload, ret_size);
}

static psr_err read_place(const cJSON *object, psr_place *place)
{
    uint64_t deadline_ms = 0;
    PSR_TRY(psr_fields_u32(object, "rank", &place->rank));
    PSR_TRY(psr_fields_u32(object, "ranks", &place->ranks));
    PSR_TRY(psr_fields_number(object, "deadline_ms", INT32_MAX, &deadline_ms));
    place->deadline_ms = (int64_t)deadline_ms;
    return place->ranks > 0 ? PSR_OK : psr_fail(PSR_ERR_FORMAT, "field \"ranks\" is 0");
}

psr_err psr_place_read(psr_bytes payload, psr_place *ret_place, psr_bytes *ret_given)
{
    cJSON *object = NULL;
    psr_place place = {0};
    psr_bytes given;
    PSR_TRY(read_parts(payload, &object, &given));
    psr_err err = read_place(object, &place);
    cJSON_Delete(object);
    if (err != PSR_OK)
        return err;
    *ret_place = place;
    *ret_given = given;
    return PSR_OK;
}

/* ---- WELCOME ---- */

psr_err psr_welcome_write(const psr_view *view, psr_bytes agreed, void **ret_payload,
                          size_t *ret_size)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_item(&w, "view", psr_view_to_object(view));
    return write_parts(&w, agreed, ret_payload, ret_size);
}

psr_err psr_welcome_read(psr_bytes payload, psr_view *ret_view, psr_bytes *ret_agreed)
{
    cJSON *object = NULL;
    psr_bytes agreed;
    PSR_TRY(read_parts(payload, &object, &agreed));
    psr_err err = psr_view_from_object(cJSON_GetObjectItemCaseSensitive(object, "view"), ret_view);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_agreed = agreed;
    return err;
}
