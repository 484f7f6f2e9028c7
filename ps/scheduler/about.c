#include "ps/scheduler/about.h"

#include "data/augment/plan.h"
#include "net/transport.h"

#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cJSON *psr_about_versions(const psr_facts *facts)
{
    char library[64];
    psr_transport_library(library, sizeof library);
    /* "libzmq 4.3.4" */
    char *space = strchr(library, ' ');
    const char *version = space != NULL ? space + 1 : "";
    if (space != NULL)
        *space = '\0';
    cJSON *versions = cJSON_CreateObject();
    if (cJSON_AddStringToObject(versions, "psring", PSR_VERSION) != NULL &&
        cJSON_AddStringToObject(versions, "backend", facts->identity) != NULL &&
        cJSON_AddStringToObject(versions, library, version) != NULL &&
        cJSON_AddStringToObject(versions, "libc", gnu_get_libc_version()) != NULL &&
        cJSON_AddStringToObject(versions, "compiler", __VERSION__) != NULL)
        return versions;
    cJSON_Delete(versions);
    return NULL;
}

/* ---- pairs ---- */

enum { PAIRS_MAX = 20 };

typedef struct pair_list {
    char **words; /* [2 * PAIRS_MAX + 1] */
    size_t used;
    bool failed;
} pair_list;

/* Nothing for "". */
static void put(pair_list *p, const char *key, const char *value)
{
    if (value == NULL)
        p->failed = true;
    if (value == NULL || value[0] == '\0' || p->used + 2 > 2 * PAIRS_MAX)
        return;
    p->words[p->used] = strdup(key);
    p->words[p->used + 1] = strdup(value);
    if (p->words[p->used] == NULL || p->words[p->used + 1] == NULL)
        p->failed = true;
    p->used += 2;
}

static void put_count(pair_list *p, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put(p, key, text);
}

/* Nine digits give a float32 back. */
static void put_floats(pair_list *p, const char *key, const float *values, uint32_t count)
{
    char text[PSR_FACTS_CHANNELS_MAX * 20] = "";
    for (uint32_t i = 0; i < count && i < PSR_FACTS_CHANNELS_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.9g", i > 0 ? "," : "",
                 (double)values[i]);
    put(p, key, text);
}

static void put_facts(pair_list *p, const psr_facts *facts)
{
    char content[PSR_CONTENT_TEXT_BYTES] = "";
    if (facts->content.train[0] != '\0')
        snprintf(content, sizeof content, "%s-%s", facts->content.train, facts->content.test);
    put(p, "processor", facts->processor);
    put(p, "backend", facts->identity);
    put(p, "data", facts->data_name);
    put(p, "data-content", content);
    if (facts->deviation[0] > 0) {
        put_floats(p, "mean", facts->mean, facts->channels);
        put_floats(p, "std", facts->deviation, facts->channels);
    }
    put_count(p, "channels", facts->channels);
    put_count(p, "height", facts->height);
    put_count(p, "width", facts->width);
    put_count(p, "classes", facts->classes);
}

/* What the network gets: --augment and --image-size make pictures of another side, or of one. */
static void put_side(pair_list *p, const psr_config *config, const psr_facts *facts)
{
    uint32_t side;
    const psr_picture_shape shape = {facts->height, facts->width};
    if (psr_augment_side_of(config, facts->channels, shape, &side) == PSR_OK)
        put_count(p, "side", side);
}

/* facts as JSON has the names as an array. */
static void put_class_names(pair_list *p, const psr_facts *facts)
{
    char *json = NULL;
    if (facts->class_names[0] == '\0')
        return;
    if (psr_facts_to_json(facts, &json) != PSR_OK) {
        p->failed = true;
        return;
    }
    cJSON *object = cJSON_Parse(json);
    char *names = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(object, "class_names"));
    put(p, "class_names", names);
    cJSON_Delete(object);
    free(names);
    free(json);
}

static void put_config(pair_list *p, const psr_config *config)
{
    char *json = NULL;
    if (psr_config_to_json(config, &json) != PSR_OK) {
        p->failed = true;
        return;
    }
    cJSON_Minify(json);
    put(p, "config", json);
    free(json);
}

psr_err psr_about_pairs(const psr_config *config, const psr_facts *facts, const char *command,
                        char ***ret_pairs)
{
    pair_list p = {.words = calloc(2 * PAIRS_MAX + 1, sizeof *p.words)};
    if (p.words == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint's metadata");
    put(&p, "psring", PSR_VERSION);
    put(&p, "command", command);
    put_facts(&p, facts);
    put_side(&p, config, facts);
    put_class_names(&p, facts);
    put_config(&p, config);
    if (p.failed) {
        for (size_t i = 0; i < p.used; i++)
            free(p.words[i]);
        free(p.words);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a checkpoint's metadata");
    }
    *ret_pairs = p.words;
    return PSR_OK;
}

void psr_about_pairs_free(char **pairs)
{
    for (char **word = pairs; word != NULL && *word != NULL; word++)
        free(*word);
    free(pairs);
}
