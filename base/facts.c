#include "base/facts.h"

#include "base/config/pace_json.h"
#include "base/text/json_fields.h"

#include <inttypes.h>
#include <string.h>

/* ---- facts ---- */

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
    return psr_fields_number(object, "parameter_count", UINT64_MAX, &facts->parameter_count);
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
                        const char *who_b)
{
    if (strcmp(a->identity, b->identity) != 0)
        return psr_fail(
            PSR_ERR_USAGE,
            "%s computes with %s, %s with %s: their bits could differ; use the same on all hosts",
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
    psr_pace_put(&w, &start->pace);
    return psr_fields_finish(&w, ret_json);
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
    start.evaluates_first = first != 0;
    cJSON_Delete(object);
    if (err == PSR_OK)
        *ret_start = start;
    return err;
}
