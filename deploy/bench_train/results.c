#include "deploy/bench_train/results.h"

#include "base/system/file.h"
#include "base/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define SHOWN_BYTES 160

static psr_err io_failure(const char *path, const char *what)
{
    return psr_fail(PSR_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

static psr_err write_line(const psr_results *results, const cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a line of %s", results->path);
    size_t size = strlen(text);
    text[size++] = '\n'; /* in the place of the zero */
    psr_err err = psr_file_write_all(results->fd, text, size) == size
                      ? PSR_OK
                      : io_failure(results->path, "cannot be written");
    free(text);
    if (err == PSR_OK && fdatasync(results->fd) != 0 && errno != EINVAL)
        err = io_failure(results->path, "cannot be written");
    return err;
}

/* ---- whether the same is measured ---- */

static void show(const cJSON *item, char text[static SHOWN_BYTES])
{
    char *printed = item != NULL ? cJSON_PrintUnformatted(item) : NULL;
    const char *string = cJSON_GetStringValue(item);
    snprintf(text, SHOWN_BYTES, "%s",
             item == NULL      ? "nothing"
             : string != NULL  ? string
             : printed != NULL ? printed
                               : "?");
    free(printed);
}

static psr_err differ(const char *path, const char *name, const cJSON *there, const cJSON *here)
{
    char a[SHOWN_BYTES], b[SHOWN_BYTES];
    show(there, a);
    show(here, b);
    return psr_fail(
        PSR_ERR_USAGE,
        "--out %s has another benchmark: %s is '%s' there and '%s' here; give the same, "
        "or another --out",
        path, name, a, b);
}

static psr_err compare_members(const char *path, const char *name, const cJSON *there,
                               const cJSON *here)
{
    const cJSON *item;
    if (!cJSON_IsObject(here))
        return cJSON_Compare(there, here, true) ? PSR_OK : differ(path, name, there, here);
    cJSON_ArrayForEach(item, here) PSR_TRY(compare_members(
        path, item->string, cJSON_GetObjectItemCaseSensitive(there, item->string), item));
    return cJSON_GetArraySize(there) == cJSON_GetArraySize(here) ? PSR_OK
                                                                 : differ(path, name, there, here);
}

/* ---- an earlier file ---- */

static psr_err not_ours(const char *path)
{
    return psr_fail(PSR_ERR_FORMAT,
                    "--out %s is no file of psring bench train; give one, or a name that is free",
                    path);
}

static psr_err take_line(psr_results *results, size_t number, cJSON *line, const cJSON *header)
{
    if (!cJSON_IsObject(line) || !psr_json_is_printable(line)) {
        cJSON_Delete(line);
        return not_ours(results->path);
    }
    if (number > 0)
        return cJSON_AddItemToArray(results->records, line)
                   ? PSR_OK
                   : psr_fail(PSR_ERR_NOMEM, "no memory for the lines of %s", results->path);
    psr_err err = psr_json_text(line, "bench") == NULL
                      ? not_ours(results->path)
                      : compare_members(results->path, "it", line, header);
    cJSON_Delete(line);
    return err;
}

static psr_err read_lines(psr_results *results, const char *text, size_t size, const cJSON *header)
{
    size_t number = 0, whole = 0;
    for (const char *newline; whole < size; whole = (size_t)(newline - text) + 1) {
        newline = memchr(text + whole, '\n', size - whole);
        if (newline == NULL)
            break;
        PSR_TRY(take_line(results, number++,
                          cJSON_ParseWithLength(text + whole, (size_t)(newline - text) - whole),
                          header));
    }
    if (number == 0 && size > 0 && text[0] != '{')
        return not_ours(results->path);
    if (whole < size && ftruncate(results->fd, (off_t)whole) != 0)
        return io_failure(results->path, "cannot be cut");
    return number == 0 ? write_line(results, header) : PSR_OK;
}

static psr_err open_file(psr_results *results, const cJSON *header)
{
    uint8_t *text = NULL;
    size_t size = 0;
    results->fd = open(results->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (results->fd < 0)
        return io_failure(results->path, "cannot be opened");
    PSR_TRY(psr_file_read(results->path, FILE_BYTES_MAX, &text, &size));
    psr_err err = read_lines(results, (const char *)text, size, header);
    free(text);
    return err;
}

void psr_results_name(char *path, size_t size)
{
    const time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(path, size, "psring-runs/bench-%Y%m%d-%H%M%S.jsonl", &local);
}

psr_err psr_results_open(const char *path, const cJSON *header, psr_results *ret_results)
{
    psr_results results = {.path = path, .fd = -1, .records = cJSON_CreateArray()};
    psr_err err = results.records != NULL ? open_file(&results, header)
                                          : psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    if (err == PSR_OK)
        *ret_results = results;
    else
        psr_results_done(&results);
    return err;
}

void psr_results_done(psr_results *results)
{
    if (results->fd >= 0)
        close(results->fd);
    cJSON_Delete(results->records);
    *results = (psr_results){.fd = -1};
}

/* ---- records ---- */

psr_err psr_results_add(psr_results *results, cJSON *record)
{
    psr_err err = write_line(results, record);
    if (err == PSR_OK && cJSON_AddItemToArray(results->records, record))
        return PSR_OK;
    cJSON_Delete(record);
    return err != PSR_OK ? err
                         : psr_fail(PSR_ERR_NOMEM, "no memory for a record of %s", results->path);
}

static bool is_text(const cJSON *record, const char *name, const char *text)
{
    const char *has = psr_json_text(record, name);
    return has != NULL && strcmp(has, text) == 0;
}

const cJSON *psr_results_find(const psr_results *results, const char *group,
                              const char *configuration, uint32_t repetition)
{
    const cJSON *record, *newest = NULL;
    cJSON_ArrayForEach(record, results->records)
    {
        if (psr_json_number(record, "repetition", 0) == repetition &&
            is_text(record, "group", group) && is_text(record, "configuration", configuration))
            newest = record;
    }
    return newest;
}

bool psr_results_is_done(const cJSON *record)
{
    return record != NULL && is_text(record, "status", "done");
}
