#include "deploy/report/bench_file.h"

#include "base/config/config_texts.h"
#include "base/figures.h"
#include "base/system/file.h"
#include "base/text/json.h"
#include "deploy/bench_train/grid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)
/* In a record, what the file says of the run, and the command that wrote the file. */
#define LINE_NAME "bench_line"
#define COMMAND_NAME "bench_command"

struct psr_bench_file {
    const char *path; /* borrowed */
    cJSON *lines;     /* an array, owned: the head, then the newest of each repetition */
    cJSON *command;   /* an array of words, owned */
    psr_grid grid;
};

static const cJSON *head_of(const psr_bench_file *f)
{
    return cJSON_GetArrayItem(f->lines, 0);
}

static const cJSON *line_of(const psr_bench_file *f, size_t i)
{
    return cJSON_GetArrayItem(f->lines, (int)i + 1);
}

/* ---- reading ---- */

static psr_err not_ours(const char *path)
{
    return psr_fail(PSR_ERR_FORMAT,
                    "%s is no file of psring bench train; give one, or run directories", path);
}

static bool is_same_repetition(const cJSON *a, const cJSON *b)
{
    return psr_json_number(a, "repetition", 0) == psr_json_number(b, "repetition", 0) &&
           strcmp(psr_json_text(a, "group"), psr_json_text(b, "group")) == 0 &&
           strcmp(psr_json_text(a, "configuration"), psr_json_text(b, "configuration")) == 0;
}

/* Consumes line. What failed was measured again: the later line counts. */
static psr_err take_line(psr_bench_file *f, cJSON *line, size_t number)
{
    const double repetition = psr_json_number(line, "repetition", NAN);
    const bool whole = number == 1 ? cJSON_IsObject(line)
                                   : psr_json_text(line, "group") != NULL &&
                                         psr_json_text(line, "configuration") != NULL &&
                                         psr_json_text(line, "status") != NULL && repetition >= 1;
    if (!whole || !psr_json_is_printable(line)) {
        cJSON_Delete(line);
        return number == 1 ? not_ours(f->path)
                           : psr_fail(PSR_ERR_FORMAT,
                                      "%s: line %zu is no repetition as psring bench train writes "
                                      "it; delete the line, or measure again",
                                      f->path, number);
    }
    for (int i = 1; i < cJSON_GetArraySize(f->lines); i++)
        if (is_same_repetition(cJSON_GetArrayItem(f->lines, i), line)) {
            cJSON_ReplaceItemInArray(f->lines, i, line);
            return PSR_OK;
        }
    if (cJSON_AddItemToArray(f->lines, line))
        return PSR_OK;
    cJSON_Delete(line);
    return psr_fail(PSR_ERR_NOMEM, "no memory for %s", f->path);
}

static psr_err take_lines(psr_bench_file *f, const char *text, size_t size)
{
    size_t number = 0;
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL)
            break;
        PSR_TRY(take_line(f, cJSON_ParseWithLength(at, (size_t)(newline - at)), ++number));
        at = newline + 1;
    }
    return number > 0 ? PSR_OK : not_ours(f->path);
}

static bool add_word(cJSON *words, const char *name, const char *value)
{
    char *word = NULL;
    if (value == NULL)
        return true;
    if (asprintf(&word, "%s%s", name, value) < 0)
        return false;
    cJSON *item = cJSON_CreateString(word);
    free(word);
    if (item != NULL && cJSON_AddItemToArray(words, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool add_lists(const cJSON *head, cJSON *words)
{
    const cJSON *item;
    char name[64];
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(head, "lists"))
    {
        snprintf(name, sizeof name, "--%s=", item->string);
        if (!add_word(words, name, cJSON_GetStringValue(item)))
            return false;
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(head, "places"))
    {
        if (!add_word(words, "", cJSON_GetStringValue(item)))
            return false;
    }
    return add_word(words, "--ps-hostfile=", psr_json_text(head, "ps-hostfile"));
}

/* Of config the options that are not the defaults. */
static psr_err add_options(const psr_config *config, cJSON *words, bool *ret_whole)
{
    char **own = NULL, **others = NULL;
    psr_config defaults;
    psr_config_defaults(&defaults);
    psr_err err = psr_config_to_arguments(config, &own);
    if (err == PSR_OK)
        err = psr_config_to_arguments(&defaults, &others);
    for (size_t i = 0; err == PSR_OK && own[i] != NULL; i++) {
        bool is_default = false;
        for (size_t k = 0; others[k] != NULL; k++)
            is_default = is_default || strcmp(own[i], others[k]) == 0;
        *ret_whole = *ret_whole && (is_default || add_word(words, "", own[i]));
    }
    psr_config_arguments_free(own);
    psr_config_arguments_free(others);
    return err;
}

static double repetitions_of(const psr_bench_file *f)
{
    double most = 1;
    for (size_t i = 0; i < psr_bench_file_count(f); i++)
        most = fmax(most, psr_json_number(line_of(f, i), "repetition", 1));
    return most;
}

static psr_err make_command(psr_bench_file *f, const psr_config *config)
{
    static const char *const first[] = {"psring", "bench", "train"};
    const cJSON *head = head_of(f);
    char word[64];
    bool whole = (f->command = cJSON_CreateArray()) != NULL;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        whole = whole && add_word(f->command, "", first[i]);
    whole = whole && add_lists(head, f->command);
    PSR_TRY(add_options(config, f->command, &whole));
    static const char *const targets[] = {"until-loss", "until-accuracy"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const double value = psr_json_number(head, targets[i], NAN);
        snprintf(word, sizeof word, "--%s=%.15g", targets[i], value);
        whole = whole && (isnan(value) || add_word(f->command, "", word));
    }
    snprintf(word, sizeof word, "--repetitions=%.0f", repetitions_of(f));
    whole = whole && add_word(f->command, "", word);
    whole = whole && add_word(f->command, "--out=", f->path);
    return whole ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for %s", f->path);
}

/* The configurations that the head speaks of. */
static psr_err make_grid(psr_bench_file *f)
{
    const cJSON *head = head_of(f), *lists = cJSON_GetObjectItemCaseSensitive(head, "lists");
    const char *bench = psr_json_text(head, "bench"), *values[PSR_GRID_LISTS];
    char *options = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(head, "options"));
    psr_config config;
    psr_config_defaults(&config);
    for (size_t i = 0; i < PSR_GRID_LISTS; i++)
        values[i] = psr_json_text(lists, psr_grid_list_name((psr_grid_list)i));
    if (bench == NULL || strcmp(bench, "train") != 0 || options == NULL) {
        free(options);
        return not_ours(f->path);
    }
    psr_err err = psr_config_from_json(&config, options, strlen(options));
    free(options);
    if (err == PSR_OK)
        err = psr_grid_make(&config, values, psr_json_text(head, "ps-hostfile") != NULL, &f->grid);
    return err == PSR_OK ? make_command(f, &config) : psr_fail_context(err, "%s", f->path);
}

psr_err psr_bench_file_read(const char *path, psr_bench_file **ret)
{
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, FILE_BYTES_MAX, &text, &size));
    psr_bench_file *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->path = path;
        f->lines = cJSON_CreateArray();
    }
    psr_err err = f != NULL && f->lines != NULL ? take_lines(f, (const char *)text, size)
                                                : psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    free(text);
    if (err == PSR_OK)
        err = make_grid(f);
    if (err != PSR_OK) {
        psr_bench_file_free(f);
        return err;
    }
    *ret = f;
    return PSR_OK;
}

void psr_bench_file_free(psr_bench_file *f)
{
    if (f == NULL)
        return;
    psr_grid_done(&f->grid);
    cJSON_Delete(f->lines);
    cJSON_Delete(f->command);
    free(f);
}

/* ---- what it says ---- */

size_t psr_bench_file_count(const psr_bench_file *f)
{
    return (size_t)cJSON_GetArraySize(f->lines) - 1;
}

psr_err psr_bench_file_name(const psr_bench_file *f, size_t i, char **ret_name)
{
    const cJSON *line = line_of(f, i);
    char *name = NULL;
    if (asprintf(&name, "%s.runs/%s, %s, %.0f", f->path, psr_json_text(line, "group"),
                 psr_json_text(line, "configuration"), psr_json_number(line, "repetition", 0)) < 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run's name");
    *ret_name = name;
    return PSR_OK;
}

/* NULL: the head has no such configuration. */
static const psr_grid_cell *cell_of(const psr_bench_file *f, const cJSON *line)
{
    for (size_t i = 0; i < f->grid.count; i++) {
        char group[1024];
        psr_grid_group_name(&f->grid, f->grid.cells[i].group, group, sizeof group);
        if (strcmp(group, psr_json_text(line, "group")) == 0 &&
            strcmp(f->grid.cells[i].name, psr_json_text(line, "configuration")) == 0)
            return &f->grid.cells[i];
    }
    return NULL;
}

static bool add(cJSON *object, const char *name, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToObject(object, name, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool copy_figure(cJSON *outcome, psr_figure figure, const cJSON *line, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(line, name);
    return !cJSON_IsNumber(value) ||
           add(outcome, psr_figure_definitions[figure].name, cJSON_Duplicate(value, true));
}

/* run.json's outcome, as far as the line has it. Every run of a benchmark begins anew, so its own
 * steps are all. */
static bool fill_outcome(const cJSON *line, cJSON *outcome)
{
    static const struct {
        psr_figure figure;
        const char *name;
    } copied[] = {{PSR_FIGURE_STEPS, "steps"},
                  {PSR_FIGURE_OWN_STEPS, "steps"},
                  {PSR_FIGURE_TRAIN_S, "train_s"},
                  {PSR_FIGURE_IMAGES_PER_S, "whole_images_per_s"},
                  {PSR_FIGURE_TOGETHER_IMAGES_PER_S, "images_per_s"},
                  {PSR_FIGURE_STALENESS, "staleness"},
                  {PSR_FIGURE_STALENESS_MAX, "staleness_max"},
                  {PSR_FIGURE_LOSS, "loss"},
                  {PSR_FIGURE_TEST_ACCURACY, "test_accuracy"}};
    static const char *const others[] = {"links", "placement", "hash"};
    bool whole = true;
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        whole = whole && copy_figure(outcome, copied[i].figure, line, copied[i].name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, others[i]);
        whole = whole && (item == NULL || add(outcome, others[i], cJSON_Duplicate(item, true)));
    }
    const double bytes = psr_json_number(line, "step_bytes", NAN),
                 steps = psr_json_number(line, "steps", NAN);
    return whole &&
           (!isfinite(bytes * steps) ||
            cJSON_AddNumberToObject(outcome, psr_figure_definitions[PSR_FIGURE_BYTES_SENT].name,
                                    bytes * steps) != NULL);
}

static bool fill_record(const psr_bench_file *f, const psr_grid_cell *cell, const cJSON *line,
                        cJSON *json)
{
    const char *version = psr_json_text(head_of(f), "psring");
    char *text = NULL;
    cJSON *outcome = cJSON_CreateObject(), *config = NULL;
    if (psr_config_to_json(&cell->config, &text) == PSR_OK)
        config = cJSON_Parse(text);
    free(text);
    psr_config_to_texts(config);
    const bool whole = fill_outcome(line, outcome);
    return add(json, "outcome", outcome) && add(json, "config", config) && whole &&
           add(json, LINE_NAME, cJSON_Duplicate(line, true)) &&
           add(json, COMMAND_NAME, cJSON_Duplicate(f->command, true)) &&
           (version == NULL || cJSON_AddStringToObject(json, "version", version) != NULL);
}

psr_err psr_bench_file_record(const psr_bench_file *f, size_t i, const char *directory,
                              psr_run_record *ret)
{
    const cJSON *line = line_of(f, i);
    const char *why = psr_json_text(line, "line");
    const psr_grid_cell *cell = cell_of(f, line);
    const bool done = strcmp(psr_json_text(line, "status"), "done") == 0;
    psr_run_record r = {.directory = directory,
                        .status = done ? PSR_RUN_DONE : PSR_RUN_FAILED,
                        .json = cJSON_CreateObject()};
    if (cell == NULL) {
        cJSON_Delete(r.json);
        return psr_fail(PSR_ERR_FORMAT, "%s: its first line speaks of no %s, %s", f->path,
                        psr_json_text(line, "group"), psr_json_text(line, "configuration"));
    }
    if (!fill_record(f, cell, line, r.json)) {
        cJSON_Delete(r.json);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run of %s", f->path);
    }
    r.outcome = cJSON_GetObjectItemCaseSensitive(r.json, "outcome");
    if (!done)
        snprintf(r.why, sizeof r.why, "%s", why != NULL ? why : "it failed");
    psr_run_record_tell_how_made(&r);
    *ret = r;
    return PSR_OK;
}

double psr_bench_record_step(const psr_run_record *record, const char *name)
{
    return psr_json_number(cJSON_GetObjectItemCaseSensitive(record->json, LINE_NAME), name, NAN);
}

const cJSON *psr_bench_record_command(const psr_run_record *record)
{
    return cJSON_GetObjectItemCaseSensitive(record->json, COMMAND_NAME);
}
