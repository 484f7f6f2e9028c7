#include "base/text/json_fields.h"

#include "base/text/printable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* cJSON prints 15 digits where they are nearly the number. */
#define EXACT_MAX 999999999999999.0

/* ---- writing: the first allocation that fails is remembered and told at the end ---- */

void psr_fields_put_text(psr_fields_writer *w, const char *name, const char *text)
{
    w->failed |= cJSON_AddStringToObject(w->object, name, text) == NULL;
}

void psr_fields_put_number(psr_fields_writer *w, const char *name, uint64_t value)
{
    w->failed |= cJSON_AddNumberToObject(w->object, name, (double)value) == NULL;
}

void psr_fields_put_item(psr_fields_writer *w, const char *name, cJSON *value)
{
    if (value == NULL || !cJSON_AddItemToObject(w->object, name, value)) {
        cJSON_Delete(value);
        w->failed = true;
    }
}

/* Consumes the psr_fields_writer's object. cJSON allocates with malloc, so free() is right for what
 * it prints. */
psr_err psr_fields_finish(psr_fields_writer *w, char **ret_json)
{
    char *json = w->failed ? NULL : cJSON_PrintUnformatted(w->object);
    cJSON_Delete(w->object);
    if (json == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for JSON");
    *ret_json = json;
    return PSR_OK;
}

psr_fields_writer psr_fields_begin(void)
{
    cJSON *object = cJSON_CreateObject();
    return (psr_fields_writer){object, object == NULL};
}

/* ---- reading ---- */

psr_err psr_fields_parse(const void *json, size_t size, cJSON **ret_object)
{
    cJSON *object = cJSON_ParseWithLength(json, size);
    if (!cJSON_IsObject(object)) {
        cJSON_Delete(object);
        return psr_fail(PSR_ERR_FORMAT, "not a JSON object");
    }
    *ret_object = object;
    return PSR_OK;
}

psr_err psr_fields_text(const cJSON *object, const char *name, char *to, size_t size)
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

psr_err psr_fields_number(const cJSON *object, const char *name, uint64_t max, uint64_t *ret_value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is missing or no number", name);
    double value = item->valuedouble;
    if (!(value >= 0) || value > EXACT_MAX || value > (double)max ||
        value != (double)(uint64_t)value)
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no count of at most %" PRIu64, name, max);
    *ret_value = (uint64_t)value;
    return PSR_OK;
}

psr_err psr_fields_u32(const cJSON *object, const char *name, uint32_t *ret_value)
{
    uint64_t value = 0;
    PSR_TRY(psr_fields_number(object, name, UINT32_MAX, &value));
    *ret_value = (uint32_t)value;
    return PSR_OK;
}
