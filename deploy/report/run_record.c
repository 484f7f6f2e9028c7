#include "deploy/report/run_record.h"

#include "base/config/config_texts.h"
#include "base/figures.h"
#include "base/system/file.h"
#include "base/text/json.h"
#include "base/text/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_JSON_BYTES_MAX (16u << 20)
#define METRICS_BYTES_MAX ((size_t)1 << 30)
#define LAB_JSON_BYTES_MAX (1u << 20)
#define RANKS_MAX 1024
#define PATH_BYTES 4352

/* ---- a run without an outcome: what its metrics tell ---- */

/* The steps that all ranks have completed, from the newest line of each rank. The last line may be
 * torn. -1: not known. */
static double completed_steps(const char *text, size_t size, uint32_t ranks)
{
    double newest[RANKS_MAX] = {0};
    for (const char *at = text, *end = text + size; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL)
            break;
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(newline - at));
        double rank = psr_json_number(line, "rank", -1), step = psr_json_number(line, "step", -1);
        cJSON_Delete(line);
        if (rank >= 0 && rank < ranks && step >= 0 && step < 0x1p53)
            newest[(size_t)rank] = step;
        at = newline + 1;
    }
    double steps = ranks > 0 ? newest[0] : -1;
    for (uint32_t r = 1; r < ranks; r++)
        steps = fmin(steps, newest[r]);
    return steps;
}

static psr_err read_steps(psr_run_record *r)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->directory);
    const char *workers = psr_run_record_option(r, "workers");
    unsigned long ranks = workers != NULL ? strtoul(workers, NULL, 10) : 0;
    PSR_TRY(psr_file_read(path, METRICS_BYTES_MAX, &text, &size));
    double steps =
        completed_steps((const char *)text, size, ranks <= RANKS_MAX ? (uint32_t)ranks : 0);
    free(text);
    cJSON *outcome = cJSON_AddObjectToObject(r->json, "outcome");
    if (outcome == NULL ||
        (steps >= 0 && cJSON_AddNumberToObject(
                           outcome, psr_figure_definitions[PSR_FIGURE_STEPS].name, steps) == NULL))
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    r->outcome = outcome;
    return PSR_OK;
}

/* ---- run.json ---- */

static psr_err read_run(psr_run_record *r)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    int length = snprintf(path, sizeof path, "%s/run.json", r->directory);
    if (length < 0 || (size_t)length >= sizeof path)
        return psr_fail(PSR_ERR_USAGE, "the name is too long for a directory");
    const psr_err err = psr_file_read(path, RUN_JSON_BYTES_MAX, &text, &size);
    if (err == PSR_ERR_NOT_FOUND)
        return psr_fail_context(err, "%s is no run's directory", r->directory);
    PSR_TRY(err);
    r->json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    if (!cJSON_IsObject(r->json) ||
        !cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(r->json, "config")))
        return psr_fail(PSR_ERR_FORMAT,
                        "%s is no run.json as psring train writes it: a JSON object with config",
                        path);
    psr_config_to_texts(cJSON_GetObjectItemCaseSensitive(r->json, "config"));
    if (!psr_json_is_printable(r->json))
        return psr_fail(PSR_ERR_FORMAT,
                        "%s holds control characters, which psring train does not write", path);
    r->outcome = cJSON_GetObjectItemCaseSensitive(r->json, "outcome");
    if (r->outcome == NULL)
        return read_steps(r);
    if (!cJSON_IsObject(r->outcome) || psr_json_text(r->outcome, "status") == NULL)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s has an outcome without a status, which psring train does not write",
                        path);
    return PSR_OK;
}

/* ---- how its numbers were made ---- */

/* What psring lab has left beside a benchmark's file, of whose runs this is one: "B.lab.json" for
 * "B.runs/1-2". false: it is none. */
static bool find_benchs_lab(const char *directory, char path[static PATH_BYTES])
{
    static const char runs[] = ".runs/";
    const char *at = NULL;
    for (const char *next = directory; (next = strstr(next, runs)) != NULL; next++)
        at = next;
    return at != NULL && snprintf(path, PATH_BYTES, "%.*s.lab.json", (int)(at - directory),
                                  directory) < PATH_BYTES;
}

/* What psring lab has left beside run.json; NULL: nothing that can be read. */
static cJSON *read_lab(const char *directory)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    const bool is_path = snprintf(path, sizeof path, "%s/lab.json", directory) < PATH_BYTES;
    if ((!is_path || psr_file_read(path, LAB_JSON_BYTES_MAX, &text, &size) != PSR_OK) &&
        (!find_benchs_lab(directory, path) ||
         psr_file_read(path, LAB_JSON_BYTES_MAX, &text, &size) != PSR_OK))
        return NULL;
    cJSON *lab = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    return lab;
}

void psr_run_record_tell_how_made(psr_run_record *r)
{
    static const char played[] = "played:";
    psr_text_end end = {r->made, sizeof r->made};
    const char *backend = psr_run_record_option(r, "backend");
    const char *dilate = psr_run_record_option(r, "dilate");
    if (backend != NULL && strncmp(backend, played, sizeof played - 1) == 0) {
        psr_text_add(&end, "played from %.300s", backend + sizeof played - 1);
        if (dilate != NULL && strcmp(dilate, "1") != 0)
            psr_text_add(&end, ", dilated by %.20s", dilate);
    }
    cJSON *lab = read_lab(r->directory);
    const char *name = psr_json_text(lab, "lab"), *why = psr_json_text(lab, "why");
    if (name != NULL) {
        psr_text_add(&end, "%sin the lab %.300s", r->made[0] != '\0' ? ", " : "", name);
        if (!psr_json_true(lab, "valid"))
            psr_text_add(&end, ", INVALID: %.300s", why != NULL ? why : "it does not say why");
    }
    cJSON_Delete(lab);
}

void psr_run_record_read(const char *directory, psr_run_record *ret)
{
    psr_run_record r = {.directory = directory};
    if (read_run(&r) != PSR_OK) {
        cJSON_Delete(r.json);
        r = (psr_run_record){.directory = directory, .status = PSR_RUN_UNREADABLE};
        snprintf(r.why, sizeof r.why, "%s", psr_err_detail());
        *ret = r;
        return;
    }
    const char *status = psr_json_text(r.outcome, "status"),
               *line = psr_json_text(r.outcome, "line");
    if (status == NULL) {
        r.status = PSR_RUN_UNFINISHED;
        snprintf(r.why, sizeof r.why,
                 "run.json has no outcome: it is still running, or its scheduler was killed");
    } else if (strcmp(status, psr_err_name(PSR_OK)) != 0) {
        r.status = strcmp(status, psr_err_name(PSR_ERR_CANCELLED)) == 0 ? PSR_RUN_INTERRUPTED
                                                                        : PSR_RUN_FAILED;
        snprintf(r.why, sizeof r.why, "%s", line != NULL ? line : status);
    }
    psr_run_record_tell_how_made(&r);
    *ret = r;
}

void psr_run_record_done(psr_run_record *record)
{
    cJSON_Delete(record->json);
    record->json = NULL;
    record->outcome = NULL;
}

const char *psr_run_status_name(psr_run_status status)
{
    static const char *const names[] = {[PSR_RUN_DONE] = "done",
                                        [PSR_RUN_INTERRUPTED] = "interrupted",
                                        [PSR_RUN_FAILED] = "failed",
                                        [PSR_RUN_UNFINISHED] = "unfinished",
                                        [PSR_RUN_UNREADABLE] = "unreadable"};
    return names[status];
}

const char *psr_run_record_option(const psr_run_record *record, const char *name)
{
    return psr_json_text(cJSON_GetObjectItemCaseSensitive(record->json, "config"), name);
}

bool psr_run_record_exchanges(const psr_run_record *record)
{
    const char *exchange = psr_run_record_option(record, "exchange");
    return exchange == NULL || strcmp(exchange, "false") != 0;
}

const char *psr_run_record_hash(const psr_run_record *record)
{
    return psr_json_text(record->outcome, "hash");
}

const char *psr_run_record_placement(const psr_run_record *record)
{
    const char *shards =
        psr_json_text(cJSON_GetObjectItemCaseSensitive(record->outcome, "placement"), "shards");
    return shards == NULL || strcmp(shards, "none") == 0 ? NULL : shards;
}

/* ---- in what they differ ---- */

bool psr_run_records_agree(const psr_run_record *a, const psr_run_record *b, const char *name)
{
    const char *one = psr_run_record_option(a, name), *other = psr_run_record_option(b, name);
    return one == other || (one != NULL && other != NULL && strcmp(one, other) == 0);
}

static bool all_equal(const psr_run_record *records, size_t count, const psr_run_record *one,
                      const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (records[i].json != NULL && !psr_run_records_agree(&records[i], one, name))
            return false;
    return true;
}

bool psr_run_records_lists(const cJSON *names, const char *name)
{
    const cJSON *listed;
    cJSON_ArrayForEach(listed, names) if (strcmp(listed->valuestring, name) == 0) return true;
    return false;
}

psr_err psr_run_records_differ(const psr_run_record *records, size_t count, cJSON **ret_names)
{
    cJSON *names = cJSON_CreateArray();
    bool whole = names != NULL;
    for (size_t i = 0; i < count && whole; i++) {
        const cJSON *option;
        cJSON_ArrayForEach(option, cJSON_GetObjectItemCaseSensitive(records[i].json, "config"))
        {
            if (strcmp(option->string, "out") != 0 &&
                !psr_run_records_lists(names, option->string) &&
                !all_equal(records, count, &records[i], option->string))
                whole = whole && cJSON_AddItemToArray(names, cJSON_CreateString(option->string));
        }
    }
    if (!whole) {
        cJSON_Delete(names);
        return psr_fail(PSR_ERR_NOMEM, "no memory to compare %zu runs", count);
    }
    *ret_names = names;
    return PSR_OK;
}
