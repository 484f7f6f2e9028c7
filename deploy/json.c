#include "deploy/json.h"

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
    for (const char *at = name; at && whole; at = va_arg(values, const char *))
        whole = add_pair(object, at, &values);
    va_end(values);
    char *text = whole ? cJSON_PrintUnformatted(object) : NULL;
    if (text)
        psr_line_writer_put(writer, text);
    else
        writer->dropped++;
    cJSON_free(text);
    cJSON_Delete(object);
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

int psr_json_true(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}
