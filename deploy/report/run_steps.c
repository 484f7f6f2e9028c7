#include "deploy/report/run_steps.h"

#include "base/system/file.h"
#include "base/text/json.h"
#include "base/text/printable.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_BYTES_MAX ((size_t)1 << 30)
#define RANKS_MAX 1024
#define PATH_BYTES 4352

static int compare(const void *one, const void *other)
{
    const psr_run_step *a = one, *b = other;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

static bool is_hash(const char *text)
{
    return text != NULL && strlen(text) == PSR_RUN_HASH_BYTES - 1 &&
           strspn(text, "0123456789abcdef") == PSR_RUN_HASH_BYTES - 1;
}

static bool read_line(const char *text, size_t size, psr_run_step *ret_step)
{
    cJSON *line = cJSON_ParseWithLength(text, size);
    const double step = psr_json_number(line, "step", 0), rank = psr_json_number(line, "rank", -1);
    const char *hash = psr_json_text(line, "hash");
    const bool whole = step >= 1 && step < 0x1p53 && step == floor(step) && rank >= 0 &&
                       rank < RANKS_MAX && rank == floor(rank) && (hash == NULL || is_hash(hash));
    if (whole) {
        *ret_step = (psr_run_step){.step = (uint64_t)step,
                                   .rank = (uint32_t)rank,
                                   .loss = psr_json_number(line, "loss", NAN),
                                   .train_s = psr_json_number(line, "train_s", NAN),
                                   .images = psr_json_number(line, "images", NAN),
                                   .staleness = psr_json_number(line, "staleness", NAN),
                                   .images_per_s = psr_json_number(line, "images_per_s", NAN),
                                   .test_loss = psr_json_number(line, "test_loss", NAN),
                                   .bytes_sent = psr_json_number(line, "bytes_sent", NAN),
                                   .bytes_received = psr_json_number(line, "bytes_received", NAN)};
        snprintf(ret_step->hash, sizeof ret_step->hash, "%s", hash != NULL ? hash : "");
    }
    cJSON_Delete(line);
    return whole;
}

static size_t count_lines(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] == '\n';
    return count;
}

static psr_err read_lines(const char *path, const char *text, size_t size, psr_run_steps *steps)
{
    const char *at = text, *end = text + size, *newline;
    for (; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL; at = newline + 1) {
        psr_run_step *step = &steps->items[steps->count];
        if (!read_line(at, (size_t)(newline - at), step))
            return psr_fail(PSR_ERR_FORMAT, "%s: line %zu is no step of a run", path,
                            steps->count + 1);
        steps->count++;
        if (step->rank >= steps->ranks)
            steps->ranks = step->rank + 1;
    }
    steps->torn = at < end;
    if (steps->count == 0)
        return psr_fail(PSR_ERR_FORMAT, "%s: it has no steps", path);
    qsort(steps->items, steps->count, sizeof *steps->items, compare);
    return PSR_OK;
}

psr_err psr_run_steps_read(const char *directory, psr_run_steps *ret_steps)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    psr_run_steps steps = {0};
    int length = snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    if (length < 0 || (size_t)length >= sizeof path)
        return psr_fail(PSR_ERR_USAGE, "the name is too long for a directory");
    PSR_TRY(psr_file_read(path, METRICS_BYTES_MAX, &text, &size));
    steps.items = calloc(count_lines((const char *)text, size) + 1, sizeof *steps.items);
    psr_err err = steps.items != NULL ? read_lines(path, (const char *)text, size, &steps)
                                      : psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    free(text);
    if (err != PSR_OK) {
        psr_run_steps_done(&steps);
        return err;
    }
    *ret_steps = steps;
    return PSR_OK;
}

void psr_run_steps_tell_torn(const psr_run_steps *steps, const char *command, const char *directory)
{
    if (steps->torn)
        psr_print(stderr, "%s: %s/metrics.jsonl: its last line is torn and left out\n", command,
                  directory);
}

void psr_run_steps_done(psr_run_steps *steps)
{
    free(steps->items);
    *steps = (psr_run_steps){0};
}

const psr_run_step *psr_run_steps_find(const psr_run_steps *steps, uint32_t rank, uint64_t step)
{
    const psr_run_step key = {.step = step, .rank = rank};
    return bsearch(&key, steps->items, steps->count, sizeof *steps->items, compare);
}
