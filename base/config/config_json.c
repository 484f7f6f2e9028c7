/* The configuration as a JSON object of option names and texts. */
#include "base/config/config.h"

#include "base/config/config_table.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static psr_err write_options(const psr_config *config, bool for_shards_alone, char **ret_json)
{
    psr_err err = PSR_ERR_NOMEM;
    char *json = NULL;
    cJSON *object = cJSON_CreateObject();
    if (object == NULL)
        goto out;
    for (size_t i = 0; i < psr_options_count; i++) {
        char text[PSR_OPTION_TEXT_MAX];
        if (for_shards_alone && !psr_options[i].for_shards)
            continue;
        if (!psr_option_print(&psr_options[i], config, text, sizeof text) ||
            cJSON_AddStringToObject(object, psr_options[i].name, text) == NULL)
            goto out;
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

static psr_err read_entry(psr_config *config, const cJSON *entry)
{
    const psr_option *option = psr_option_find(entry->string);
    if (option == NULL)
        return psr_fail(PSR_ERR_FORMAT, "'%.64s' is not an option of this version", entry->string);
    if (!cJSON_IsString(entry))
        return psr_fail(PSR_ERR_FORMAT, "'%s' must be a string, as in \"%s\": \"%s\"", option->name,
                        option->name, option->initial);
    psr_err err = psr_option_read(option, config, entry->valuestring);
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
