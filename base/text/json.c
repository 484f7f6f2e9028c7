#include "base/text/json.h"

#include "base/text/printable.h"
#include "base/text/secret.h"

#include <stdarg.h>
#include <string.h>

static int add_pair(cJSON *object, const char *name, va_list *values)
{
    switch (name[0]) {
    case '#':
        return cJSON_AddNumberToObject(object, name + 1, va_arg(*values, double)) != NULL;
    case '?':
        return cJSON_AddBoolToObject(object, name + 1, va_arg(*values, int)) != NULL;
    case '!':
        return cJSON_AddItemToObject(object, name + 1, va_arg(*values, cJSON *));
    default:
        return cJSON_AddStringToObject(object, name, va_arg(*values, const char *)) != NULL;
    }
}

void psr_json_put(psr_line_writer *writer, const char *name, ...)
{
    cJSON *object = cJSON_CreateObject();
    int whole = object != NULL;
    va_list values;
    va_start(values, name);
    for (const char *at = name; at != NULL && whole; at = va_arg(values, const char *))
        whole = add_pair(object, at, &values);
    va_end(values);
    char *text = whole ? psr_secret_print(object) : NULL;
    if (text != NULL)
        psr_line_writer_put(writer, text);
    else
        writer->dropped++;
    psr_secret_free(text); /* a provision has keys */
    psr_secret_delete(object);
}

const char *psr_json_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

double psr_json_number(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

bool psr_json_count(const cJSON *object, const char *name, uint32_t max, uint32_t *ret_count)
{
    double value = psr_json_number(object, name, -1);
    if (!(value >= 0 && value <= max) || value != (double)(uint32_t)value)
        return false;
    *ret_count = (uint32_t)value;
    return true;
}

int psr_json_true(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool text_is_printable(const char *text)
{
    return text == NULL || psr_is_printable(text, strlen(text));
}

bool psr_json_is_printable(const cJSON *item)
{
    /* cJSON parses no deeper than CJSON_NESTING_LIMIT. */
    for (const cJSON *at = item != NULL ? item->child : NULL; at != NULL; at = at->next)
        if (!text_is_printable(at->string) || !psr_json_is_printable(at))
            return false;
    return text_is_printable(item != NULL ? item->valuestring : NULL);
}
