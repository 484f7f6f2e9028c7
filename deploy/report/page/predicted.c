#include "deploy/report/page/predicted.h"

#include "base/system/file.h"
#include "base/text/json.h"
#include "deploy/report/page/html.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)16 << 20)
#define FORMAT "psring predicted 1"

/* ---- reading ---- */

static bool is_same_directory(const char *a, const char *b)
{
    char *x = realpath(a, NULL), *y = realpath(b, NULL);
    const bool same = x != NULL && y != NULL && strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

/* The run of a row; runs->count: the report has it not. */
static size_t run_of(const psr_runs *runs, const cJSON *row)
{
    const char *directory = psr_json_text(row, "run");
    size_t i = 0;
    while (i < runs->count &&
           (directory == NULL || !is_same_directory(directory, runs->directories[i])))
        i++;
    return i;
}

static double time_of(const cJSON *row, const char *name)
{
    return psr_json_number(row, name, NAN);
}

static bool is_time(double s)
{
    return isfinite(s) && s > 0;
}

static psr_err check_rows(const psr_runs *runs, const char *path, const cJSON *rows)
{
    const cJSON *row;
    bool any = false;
    cJSON_ArrayForEach(row, rows)
    {
        const bool predicted = psr_json_text(row, "not_predicted") == NULL;
        if (psr_json_text(row, "run") == NULL ||
            (predicted && (!is_time(time_of(row, "measured_step_s")) ||
                           !is_time(time_of(row, "predicted_step_s")))))
            return psr_fail(PSR_ERR_FORMAT, "--predicted %s: a row has no run, or no times", path);
        any = any || run_of(runs, row) < runs->count;
    }
    if (!any)
        return psr_fail(PSR_ERR_USAGE, "--predicted %s: it speaks of none of these runs", path);
    return PSR_OK;
}

psr_err psr_predicted_read(psr_runs *runs, const char *path)
{
    uint8_t *text = NULL;
    size_t size = 0;
    PSR_TRY(psr_file_read(path, FILE_BYTES_MAX, &text, &size));
    cJSON *json = cJSON_ParseWithLength((const char *)text, size);
    free(text);
    const char *format = psr_json_text(json, "format");
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(json, "beside");
    psr_err err = PSR_OK;
    if (format == NULL || strcmp(format, FORMAT) != 0 || !cJSON_IsArray(rows))
        err =
            psr_fail(PSR_ERR_FORMAT,
                     "--predicted %s: it is not what psring predict --beside --json writes", path);
    if (err == PSR_OK)
        err = check_rows(runs, path, rows);
    if (err != PSR_OK) {
        cJSON_Delete(json);
        return err;
    }
    cJSON_Delete(runs->predicted);
    runs->predicted = json;
    return PSR_OK;
}

/* ---- the section ---- */

static void put_cell(FILE *to, const char *text)
{
    fputs("<td>", to);
    psr_html_text(to, text != NULL ? text : "-");
}

/* "ps, 2 workers, 1 shards beside", as far as it is known. */
static void put_configuration(FILE *to, const cJSON *row)
{
    char text[256];
    const char *mode = psr_json_text(row, "mode"), *placement = psr_json_text(row, "placement");
    int length = snprintf(text, sizeof text, "%.32s, %.0f workers", mode != NULL ? mode : "?",
                          psr_json_number(row, "workers", 0));
    if (placement != NULL)
        snprintf(text + length, sizeof text - (size_t)length, ", %.0f shards, %.32s",
                 psr_json_number(row, "shards", 0), placement);
    put_cell(to, text);
}

static void put_row(const psr_runs *runs, FILE *to, const cJSON *row)
{
    char name[PSR_RUNS_NAME_BYTES], text[64];
    const size_t run = run_of(runs, row);
    const char *why = psr_json_text(row, "not_predicted");
    if (run == runs->count)
        return;
    psr_runs_name(runs, run, name, sizeof name);
    fputs("<tr>", to);
    put_cell(to, name);
    if (why != NULL) {
        fputs("<td colspan=5>not predicted: ", to);
        psr_html_text(to, why);
        fputs("</tr>\n", to);
        return;
    }
    const double measured = time_of(row, "measured_step_s"),
                 predicted = time_of(row, "predicted_step_s");
    put_configuration(to, row);
    snprintf(text, sizeof text, "%.4g ms", 1e3 * measured);
    put_cell(to, text);
    snprintf(text, sizeof text, "%.4g ms", 1e3 * predicted);
    put_cell(to, text);
    snprintf(text, sizeof text, "%+.1f%%", 100 * (predicted / measured - 1));
    put_cell(to, text);
    put_cell(to, psr_json_text(row, "limited_by"));
    fputs("</tr>\n", to);
}

static bool has_own_time(const psr_runs *runs, const cJSON *rows)
{
    const cJSON *row;
    bool own = false;
    cJSON_ArrayForEach(row, rows)
    {
        const char *from = psr_json_text(row, "compute_from");
        own =
            own || (from != NULL && strcmp(from, "itself") == 0 && run_of(runs, row) < runs->count);
    }
    return own;
}

void psr_predicted_put(const psr_runs *runs, FILE *to)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(runs->predicted, "beside"), *row;
    if (runs->predicted == NULL)
        return;
    fputs("<h2>Measured beside predicted</h2>\n<div class=wide><table><tr><th>run<th>configuration"
          "<th>a step took<th>predicted<th>difference<th>limited by</tr>\n",
          to);
    cJSON_ArrayForEach(row, rows) put_row(runs, to, row);
    fputs("</table></div>\n<p class=soft>By <code>psring predict --beside</code>: psring&#39;s own "
          "machines in virtual time, over links of the given rates. After warm-up.",
          to);
    if (has_own_time(runs, rows))
        fputs(" Where no run without exchange was given, the computing time is the run&#39;s own, "
              "which the exchange may have lengthened.",
              to);
    fputs("</p>\n", to);
}
