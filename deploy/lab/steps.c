#include "deploy/lab/steps.h"

#include "base/system/file.h"
#include "base/text/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_BYTES (64u << 10) /* of metrics.jsonl: more than its last line */
#define BENCH_BYTES_MAX ((size_t)256 << 20)

/* ---- a run ---- */

/* begin: the steps' beginning, from a line of the first step; else the line's own time. */
static double time_of(const char *line, size_t size, bool begin)
{
    cJSON *json = cJSON_ParseWithLength(line, size);
    const double end = psr_json_number(json, "unix_s", NAN);
    const double taken = psr_json_number(json, "train_s", NAN);
    cJSON_Delete(json);
    return begin ? end - taken : end;
}

static bool read_times(const char *head, size_t head_size, const char *tail, size_t tail_size,
                       psr_lab_span *ret_span)
{
    const char *end = memchr(head, '\n', head_size);
    const char *last = memrchr(tail, '\n', tail_size);
    if (end == NULL || last == NULL)
        return false;
    const char *before = memrchr(tail, '\n', (size_t)(last - tail));
    before = before != NULL ? before + 1 : tail;
    *ret_span = (psr_lab_span){.from_s = time_of(head, (size_t)(end - head), true),
                               .to_s = time_of(before, (size_t)(last - before), false)};
    return ret_span->from_s <= ret_span->to_s;
}

bool psr_lab_steps_of_run(const char *directory, psr_lab_span *ret_span)
{
    char path[4352];
    uint64_t size = 0;
    int fd = -1;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    if (psr_file_open(path, &fd, &size) != PSR_OK)
        return false;
    const size_t part = size < END_BYTES ? (size_t)size : END_BYTES;
    char *head = malloc(part + 1), *tail = malloc(part + 1);
    const bool found = head != NULL && tail != NULL &&
                       psr_file_read_at(fd, path, head, part, 0) == PSR_OK &&
                       psr_file_read_at(fd, path, tail, part, size - part) == PSR_OK &&
                       read_times(head, part, tail, part, ret_span);
    free(head);
    free(tail);
    close(fd);
    return found;
}

/* ---- a benchmark ---- */

static bool span_of(const char *line, size_t size, psr_lab_span *ret_span)
{
    cJSON *json = cJSON_ParseWithLength(line, size);
    *ret_span = (psr_lab_span){.from_s = psr_json_number(json, "steps_from_unix_s", NAN),
                               .to_s = psr_json_number(json, "steps_to_unix_s", NAN)};
    cJSON_Delete(json);
    return ret_span->from_s <= ret_span->to_s;
}

static size_t count_lines(const char *text, size_t size)
{
    size_t lines = 0;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + size - at))) != NULL; at++)
        lines++;
    return lines;
}

psr_err psr_lab_steps_of_bench(const char *path, psr_lab_span **ret_spans, size_t *ret_count)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    *ret_spans = NULL;
    *ret_count = 0;
    if (psr_file_read(path, BENCH_BYTES_MAX, &bytes, &size) != PSR_OK)
        return PSR_OK;
    const char *text = (const char *)bytes, *end = text + size;
    psr_lab_span *spans = calloc(count_lines(text, size) + 1, sizeof *spans);
    if (spans == NULL) {
        free(bytes);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the times of a benchmark's runs");
    }
    const char *newline;
    for (const char *at = text; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at = newline + 1)
        *ret_count += span_of(at, (size_t)(newline - at), &spans[*ret_count]);
    *ret_spans = spans;
    free(bytes);
    return PSR_OK;
}
