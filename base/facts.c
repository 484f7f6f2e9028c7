#include "base/facts.h"

#include "base/config/pace_json.h"
#include "base/text/json_fields.h"
#include "base/text/printable.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- facts ---- */

/* As many as the data have channels. */
static cJSON *numbers_of(const psr_facts *facts, const float *values)
{
    cJSON *array = cJSON_CreateArray();
    for (uint32_t c = 0; c < facts->channels && c < PSR_FACTS_CHANNELS_MAX; c++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)values[c]));
    return array;
}

static cJSON *names_of(const char *names)
{
    char name[PSR_CLASS_NAMES_MAX];
    cJSON *array = cJSON_CreateArray();
    for (const char *end; (end = strchr(names, '\n')) != NULL; names = end + 1) {
        memcpy(name, names, (size_t)(end - names));
        name[end - names] = '\0';
        cJSON_AddItemToArray(array, cJSON_CreateString(name));
    }
    return array;
}

static void put_facts(psr_fields_writer *w, const psr_facts *facts)
{
    psr_fields_put_text(w, "identity", facts->identity);
    psr_fields_put_text(w, "data_name", facts->data_name);
    psr_fields_put_text(w, "data_train", facts->content.train);
    psr_fields_put_text(w, "data_test", facts->content.test);
    psr_fields_put_number(w, "train_count", facts->train_count);
    psr_fields_put_number(w, "test_count", facts->test_count);
    psr_fields_put_number(w, "channels", facts->channels);
    psr_fields_put_number(w, "height", facts->height);
    psr_fields_put_number(w, "width", facts->width);
    psr_fields_put_number(w, "classes", facts->classes);
    psr_fields_put_number(w, "steps_per_epoch", facts->steps_per_epoch);
    psr_fields_put_number(w, "total_steps", facts->total_steps);
    psr_fields_put_number(w, "parameter_count", facts->parameter_count);
    psr_fields_put_item(w, "mean", numbers_of(facts, facts->mean));
    psr_fields_put_item(w, "std", numbers_of(facts, facts->deviation));
    psr_fields_put_text(w, "processor", facts->processor);
    if (facts->group[0] != '\0')
        psr_fields_put_text(w, "group", facts->group);
    psr_fields_put_item(w, "class_names", names_of(facts->class_names));
    if (facts->memory_fixed_bytes == 0)
        return;
    psr_fields_put_number(w, "memory_fixed_bytes", facts->memory_fixed_bytes);
    psr_fields_put_number(w, "memory_sample_bytes", facts->memory_sample_bytes);
    psr_fields_put_number(w, "memory_host_bytes", facts->memory_host_bytes);
    psr_fields_put_number(w, "memory_free_bytes", facts->memory_free_bytes);
}

static psr_err read_numbers(const cJSON *object, const char *name, float *values)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, name), *item;
    size_t count = 0;
    if (array != NULL &&
        (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > PSR_FACTS_CHANNELS_MAX))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no list of at most %d numbers", name,
                        PSR_FACTS_CHANNELS_MAX);
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) < 1e30))
            return psr_fail(PSR_ERR_FORMAT, "field \"%s\" has something that is no number", name);
        values[count++] = (float)item->valuedouble;
    }
    return PSR_OK;
}

static psr_err read_names(const cJSON *object, char names[static PSR_CLASS_NAMES_MAX])
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, "class_names"), *item;
    size_t used = 0;
    if (array != NULL && !cJSON_IsArray(array))
        return psr_fail(PSR_ERR_FORMAT, "field \"class_names\" is no list");
    cJSON_ArrayForEach(item, array)
    {
        const size_t length = cJSON_IsString(item) ? strlen(item->valuestring) : 0;
        if (!cJSON_IsString(item) || !psr_is_printable(item->valuestring, length) ||
            used + length + 2 > PSR_CLASS_NAMES_MAX)
            return psr_fail(PSR_ERR_FORMAT,
                            "field \"class_names\" has something that is no short name");
        memcpy(names + used, item->valuestring, length);
        used += length;
        names[used++] = '\n';
    }
    names[used] = '\0';
    return PSR_OK;
}

/* No machine has more. */
#define MEMORY_MAX ((uint64_t)1 << 50)

static psr_err read_memory(const cJSON *object, psr_facts *facts)
{
    if (cJSON_GetObjectItemCaseSensitive(object, "memory_fixed_bytes") == NULL)
        return PSR_OK;
    PSR_TRY(
        psr_fields_number(object, "memory_fixed_bytes", MEMORY_MAX, &facts->memory_fixed_bytes));
    PSR_TRY(
        psr_fields_number(object, "memory_sample_bytes", MEMORY_MAX, &facts->memory_sample_bytes));
    PSR_TRY(psr_fields_number(object, "memory_host_bytes", MEMORY_MAX, &facts->memory_host_bytes));
    return psr_fields_number(object, "memory_free_bytes", MEMORY_MAX, &facts->memory_free_bytes);
}

/* Missing where the mode has no group. */
static psr_err read_group(const cJSON *object, char group[PSR_GROUP_TEXT_BYTES])
{
    if (cJSON_GetObjectItemCaseSensitive(object, "group") == NULL)
        return PSR_OK;
    PSR_TRY(psr_fields_text(object, "group", group, PSR_GROUP_TEXT_BYTES));
    const size_t length = strlen(group);
    return length == PSR_GROUP_TEXT_BYTES - 1 && strspn(group, "0123456789abcdef") == length
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT, "field \"group\" is not %d hexadecimal digits",
                          PSR_GROUP_TEXT_BYTES - 1);
}

static psr_err read_known(const cJSON *object, psr_facts *facts)
{
    PSR_TRY(read_memory(object, facts));
    PSR_TRY(read_numbers(object, "mean", facts->mean));
    PSR_TRY(read_numbers(object, "std", facts->deviation));
    if (cJSON_GetObjectItemCaseSensitive(object, "processor") != NULL)
        PSR_TRY(psr_fields_text(object, "processor", facts->processor, sizeof facts->processor));
    PSR_TRY(read_group(object, facts->group));
    return read_names(object, facts->class_names);
}

static psr_err read_content(const cJSON *object, const char *name, char text[PSR_CONTENT_BYTES])
{
    PSR_TRY(psr_fields_text(object, name, text, PSR_CONTENT_BYTES));
    return text[0] == '\0' || psr_content_begins(text)
               ? PSR_OK
               : psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no hash of samples", name);
}

static psr_err read_facts(const cJSON *object, psr_facts *facts)
{
    PSR_TRY(psr_fields_text(object, "identity", facts->identity, sizeof facts->identity));
    PSR_TRY(psr_fields_text(object, "data_name", facts->data_name, sizeof facts->data_name));
    PSR_TRY(read_content(object, "data_train", facts->content.train));
    PSR_TRY(read_content(object, "data_test", facts->content.test));
    PSR_TRY(psr_fields_u32(object, "train_count", &facts->train_count));
    PSR_TRY(psr_fields_u32(object, "test_count", &facts->test_count));
    PSR_TRY(psr_fields_u32(object, "channels", &facts->channels));
    PSR_TRY(psr_fields_u32(object, "height", &facts->height));
    PSR_TRY(psr_fields_u32(object, "width", &facts->width));
    PSR_TRY(psr_fields_u32(object, "classes", &facts->classes));
    PSR_TRY(psr_fields_number(object, "steps_per_epoch", UINT64_MAX, &facts->steps_per_epoch));
    PSR_TRY(psr_fields_number(object, "total_steps", UINT64_MAX, &facts->total_steps));
    PSR_TRY(psr_fields_number(object, "parameter_count", UINT64_MAX, &facts->parameter_count));
    return read_known(object, facts);
}

psr_err psr_facts_to_json(const psr_facts *facts, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    put_facts(&w, facts);
    return psr_fields_finish(&w, ret_json);
}

psr_err psr_facts_from_json(psr_bytes json, psr_facts *ret_facts)
{
    cJSON *object = NULL;
    psr_facts facts = {0};
    PSR_TRY(psr_fields_parse(json.data, json.size, &object));
    psr_err err = read_facts(object, &facts);
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_facts = facts;
    return err;
}

psr_err psr_facts_agree(const psr_facts *a, const char *who_a, const psr_facts *b,
                        const char *who_b, bool mixed)
{
    if (!mixed && strcmp(a->identity, b->identity) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "%s computes with %s, %s with %s: their bits could differ; use the same on "
                        "all hosts, or give --mixed-hosts",
                        who_a, a->identity, who_b, b->identity);
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
    const struct {
        const char *what, *a, *b;
    } samples[] = {
        {"training", a->content.train, b->content.train},
        {"test", a->content.test, b->content.test},
    };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        if (strcmp(samples[i].a, samples[i].b) != 0)
            return psr_fail(PSR_ERR_USAGE,
                            "%s has other %s samples (%s, content %s) than %s (%s, content %s): "
                            "--data must hold the same samples on all hosts",
                            who_a, samples[i].what, a->data_name, samples[i].a, who_b, b->data_name,
                            samples[i].b);
    return PSR_OK;
}

/* ---- starts ---- */

psr_err psr_worker_start_to_json(const psr_worker_start *start, char **ret_json)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_number(&w, "first_step", start->first_step);
    psr_fields_put_number(&w, "total_steps", start->total_steps);
    psr_fields_put_number(&w, "evaluates_first", start->evaluates_first);
    if (start->group[0] != '\0')
        psr_fields_put_text(&w, "group", start->group);
    if (start->loss_scale > 0) {
        psr_fields_put_number(&w, "loss_scale", start->loss_scale);
        psr_fields_put_number(&w, "loss_scale_taken", start->loss_scale_taken);
    }
    if (start->skipped_steps > 0)
        psr_fields_put_number(&w, "skipped_steps", start->skipped_steps);
    psr_pace_put(&w, &start->pace);
    return psr_fields_finish(&w, ret_json);
}

static psr_err read_loss_scale(const cJSON *object, psr_worker_start *start)
{
    if (cJSON_HasObjectItem(object, "skipped_steps"))
        PSR_TRY(
            psr_fields_number(object, "skipped_steps", start->first_step, &start->skipped_steps));
    if (!cJSON_HasObjectItem(object, "loss_scale"))
        return PSR_OK;
    PSR_TRY(psr_fields_u32(object, "loss_scale", &start->loss_scale));
    PSR_TRY(psr_fields_u32(object, "loss_scale_taken", &start->loss_scale_taken));
    if ((start->loss_scale & (start->loss_scale - 1)) != 0)
        return psr_fail(PSR_ERR_FORMAT, "field loss_scale: not a power of two");
    return PSR_OK;
}

psr_err psr_worker_start_from_json(psr_bytes json, psr_worker_start *ret_start)
{
    cJSON *object = NULL;
    psr_worker_start start = {0};
    uint64_t first = 0;
    PSR_TRY(psr_fields_parse(json.data, json.size, &object));
    psr_err err = psr_fields_number(object, "first_step", UINT64_MAX, &start.first_step);
    if (err == PSR_OK)
        err = psr_fields_number(object, "total_steps", UINT64_MAX, &start.total_steps);
    if (err == PSR_OK)
        err = psr_fields_number(object, "evaluates_first", 1, &first);
    if (err == PSR_OK)
        err = psr_pace_take(object, &start.pace);
    if (err == PSR_OK)
        err = read_group(object, start.group);
    if (err == PSR_OK)
        err = read_loss_scale(object, &start);
    start.evaluates_first = first != 0;
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_start = start;
    return err;
}
