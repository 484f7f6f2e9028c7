/* The configuration as a JSON object: option names with numbers, booleans and texts. */
#include "base/config/config.h"

#include "base/config/config_table.h"

#include "base/config/config_texts.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

/* A number is written as a number where every program reads the same one back: cJSON writes 15
 * digits where those come within an ulp, also of a whole number that has 16. Others (a large seed,
 * a rate of 17 digits) are written as text, which the option reads. */
#define WRITTEN_MOST UINT64_C(999999999999999)

static cJSON *number_or_text(double number, bool exact, const char *text)
{
    return exact ? cJSON_CreateNumber(number) : cJSON_CreateString(text);
}

/* NULL: no memory, or the text is too long. */
static cJSON *value_of(const psr_option *option, const psr_config *config)
{
    char text[PSR_OPTION_TEXT_MAX];
    const char *field = (const char *)config + option->offset;
    if (!psr_option_print(option, config, text, sizeof text))
        return NULL;
    const bool is_word = option->zero != NULL && strcmp(text, option->zero) == 0;
    switch (option->kind) {
    case PSR_OPTION_FLAG:
        return cJSON_CreateBool(strcmp(text, "true") == 0);
    case PSR_OPTION_U32: {
        uint32_t value;
        memcpy(&value, field, sizeof value);
        return number_or_text((double)value, !is_word, text);
    }
    case PSR_OPTION_U64:
    case PSR_OPTION_BYTES: {
        uint64_t value;
        memcpy(&value, field, sizeof value);
        return number_or_text((double)value, !is_word && value <= WRITTEN_MOST, text);
    }
    case PSR_OPTION_DOUBLE: {
        double value;
        memcpy(&value, field, sizeof value);
        char digits[40];
        snprintf(digits, sizeof digits, "%.15g", value);
        return number_or_text(value, strtod(digits, NULL) == value, text);
    }
    case PSR_OPTION_DURATION: { /* steps are a number, epochs ("30e") a text */
        char *end;
        const unsigned long long steps = strtoull(text, &end, 10);
        return number_or_text((double)steps, *end == '\0' && steps <= WRITTEN_MOST, text);
    }
    case PSR_OPTION_STRING:
    case PSR_OPTION_ENUM:
    case PSR_OPTION_SPECIAL:
        break;
    }
    return cJSON_CreateString(text);
}

static psr_err write_options(const psr_config *config, bool for_shards_alone, char **ret_json)
{
    psr_err err = PSR_ERR_NOMEM;
    char *json = NULL;
    cJSON *object = cJSON_CreateObject();
    if (object == NULL)
        goto out;
    for (size_t i = 0; i < psr_options_count; i++) {
        if (for_shards_alone && !psr_options[i].for_shards)
            continue;
        cJSON *value = value_of(&psr_options[i], config);
        if (value == NULL || !cJSON_AddItemToObject(object, psr_options[i].name, value)) {
            cJSON_Delete(value);
            goto out;
        }
    }
    /* cJSON allocates with malloc unless told otherwise, which we never do: free() is right for
     * it. */
    json = cJSON_Print(object);
    if (json == NULL)
        goto out;
    *ret_json = json;
    err = PSR_OK;
out:
    cJSON_Delete(object);
    return err == PSR_OK ? PSR_OK : psr_fail(err, "no memory for the configuration as JSON");
}

psr_err psr_config_to_json(const psr_config *config, char **ret_json)
{
    return write_options(config, false, ret_json);
}

psr_err psr_config_to_json_for_shards(const psr_config *config, char **ret_json)
{
    return write_options(config, true, ret_json);
}

/* ---- reading ---- */

/* A double holds all whole numbers up to here. */
#define EXACT_MOST (UINT64_C(1) << 53)

static bool is_numeric(const psr_option *option)
{
    return option->kind == PSR_OPTION_U32 || option->kind == PSR_OPTION_U64 ||
           option->kind == PSR_OPTION_BYTES || option->kind == PSR_OPTION_DOUBLE ||
           option->kind == PSR_OPTION_DURATION;
}

/* Whether its default is written without quotes: not a word such as auto. */
static bool is_typed(const psr_option *option)
{
    return option->kind == PSR_OPTION_FLAG ||
           (is_numeric(option) && strcspn(option->initial, "0123456789") == 0);
}

/* A value as the text that the option reads; NULL: it is of another type. Earlier versions wrote
 * every value as text. */
static const char *text_of(const psr_option *option, const cJSON *entry, char number[static 40])
{
    if (cJSON_IsString(entry))
        return entry->valuestring;
    if (cJSON_IsBool(entry) && option->kind == PSR_OPTION_FLAG)
        return cJSON_IsTrue(entry) ? "true" : "false";
    if (!cJSON_IsNumber(entry) || !is_numeric(option))
        return NULL;
    const double value = entry->valuedouble;
    if (option->kind != PSR_OPTION_DOUBLE && value >= 0 && value <= (double)EXACT_MOST &&
        value == (double)(uint64_t)value)
        snprintf(number, 40, "%" PRIu64, (uint64_t)value);
    else
        psr_print_double(value, number, 40);
    return number;
}

static psr_err read_entry(psr_config *config, const cJSON *entry)
{
    char number[40];
    const psr_option *option = psr_option_find(entry->string);
    if (option == NULL)
        return psr_fail(PSR_ERR_FORMAT, "'%.64s' is not an option of this version", entry->string);
    const char *text = text_of(option, entry, number);
    if (text == NULL)
        return psr_fail(PSR_ERR_FORMAT, "'%s' must be a %s, as in \"%s\": %s%s%s", option->name,
                        option->kind == PSR_OPTION_FLAG ? "boolean"
                        : is_numeric(option)            ? "number"
                                                        : "string",
                        option->name, is_typed(option) ? "" : "\"", option->initial,
                        is_typed(option) ? "" : "\"");
    psr_err err = psr_option_read(option, config, text);
    /* An error in a user's words is USAGE; the same error in a file is FORMAT. */
    return err == PSR_OK ? PSR_OK : psr_fail(PSR_ERR_FORMAT, "%s", psr_err_detail());
}

psr_err psr_config_from_json(psr_config *config, const char *json, size_t size)
{
    psr_err err = PSR_OK;
    psr_config result = *config;
    const char *end = NULL;
    /* cJSON bounds nesting by itself (CJSON_NESTING_LIMIT) and allocates no more than a multiple of
     * size. */
    cJSON *root = cJSON_ParseWithLengthOpts(json, size, &end, false);
    if (root == NULL) {
        err = psr_fail(PSR_ERR_FORMAT, "not JSON, from byte %zu on",
                       end != NULL ? (size_t)(end - json) : (size_t)0);
        goto out;
    }
    const cJSON *object = root;
    if (cJSON_IsObject(root) && cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(root, "config")))
        object = cJSON_GetObjectItemCaseSensitive(root, "config");
    if (!cJSON_IsObject(object)) {
        err = psr_fail(PSR_ERR_FORMAT, "not a JSON object of options");
        goto out;
    }
    const cJSON *entry;
    cJSON_ArrayForEach(entry, object)
    {
        err = read_entry(&result, entry);
        if (err != PSR_OK)
            goto out;
    }
    *config = result;
out:
    cJSON_Delete(root);
    return err;
}

/* ---- as texts ---- */

/* As the option prints it, so that 4M and 4194304 are equal. NULL: the option does not read it. */
static cJSON *canonical(const psr_option *option, const cJSON *entry)
{
    char number[40], text[PSR_OPTION_TEXT_MAX];
    psr_config config;
    psr_config_defaults(&config);
    const char *given = text_of(option, entry, number);
    if (given == NULL || psr_option_read(option, &config, given) != PSR_OK ||
        !psr_option_print(option, &config, text, sizeof text))
        return NULL;
    return cJSON_CreateString(text);
}

/* Of an option of another version. */
static cJSON *as_written(const cJSON *entry)
{
    char *text =
        cJSON_IsNumber(entry) || cJSON_IsBool(entry) ? cJSON_PrintUnformatted(entry) : NULL;
    cJSON *string = text != NULL ? cJSON_CreateString(text) : NULL;
    free(text);
    return string;
}

void psr_config_to_texts(cJSON *options)
{
    cJSON *next;
    for (cJSON *entry = options != NULL ? options->child : NULL; entry != NULL; entry = next) {
        next = entry->next;
        char name[128]; /* the replacement frees entry->string */
        if (snprintf(name, sizeof name, "%s", entry->string) >= (int)sizeof name)
            continue;
        const psr_option *option = psr_option_find(name);
        cJSON *text = option != NULL ? canonical(option, entry) : as_written(entry);
        if (text != NULL && !cJSON_ReplaceItemInObjectCaseSensitive(options, name, text))
            cJSON_Delete(text);
    }
}
