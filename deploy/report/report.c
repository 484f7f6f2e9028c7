/* `psring report DIR...`: one row per run, however it ended, from its run.json; the options in
 * which the runs differ; and whether the weights are the same bits. As a table, JSON or CSV: one
 * set of columns, written in three ways. Or as a page for a browser (deploy/report/page/page.h). */
#include "deploy/commands.h"

#include "base/figures.h"
#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "base/text/json.h"
#include "deploy/report/page/page.h"
#include "deploy/report/page/predicted.h"
#include "deploy/report/runs.h"
#include "base/show/summary.h"
#include "deploy/report/table.h"

#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_JSON = 1000, KEY_CSV, KEY_PREDICTED, KEY_OUTPUT = 'o' };
typedef enum format { TABLE, JSON, CSV, PAGE } format;

typedef struct report {
    format format;
    const char *output;    /* of PAGE */
    const char *predicted; /* a file; NULL: none */
    psr_runs runs;
} report;

/* ---- the command line ---- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    report *r = state->input;
    psr_runs *runs = &r->runs;
    switch (key) {
    case KEY_JSON:
    case KEY_CSV:
    case KEY_OUTPUT:
        if (r->format != TABLE)
            psr_options_refuse(state, "--json, --csv and -o are ways to write the same; give one");
        r->format = key == KEY_JSON ? JSON : key == KEY_CSV ? CSV : PAGE;
        r->output = arg;
        return 0;
    case KEY_PREDICTED:
        r->predicted = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (psr_runs_add(runs, arg) != PSR_OK)
            psr_options_refuse(state, psr_err_detail());
        return 0;
    case ARGP_KEY_END:
        if (runs->count == 0)
            psr_options_refuse(state, "no run is named; give one or more run directories");
        if (r->predicted != NULL && r->format != PAGE)
            psr_options_refuse(state, "--predicted: it goes with -o");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "write one JSON object, with every figure", 0},
    {"csv", KEY_CSV, NULL, 0, "write comma-separated values with a head, every figure", 0},
    {"output", KEY_OUTPUT, "FILE.html", 0,
     "write one page for a browser: the answer, throughput, a step's time by part, one step as a "
     "timeline (of runs with --trace), bytes of each link, the loss",
     0},
    {"predicted", KEY_PREDICTED, "FILE", 0,
     "with -o: show beside each run what psring predict --beside RUN.. --json has written", 0},
    {0}};

static const char doc[] =
    "Compares runs in one table, with the options in which they differ, and says whether their "
    "weights are the same bits.\v"
    "A run that failed, was interrupted or is not over is a row that says so, with the steps that "
    "it has completed. With --csv an option that is called as a figure is option_steps and the "
    "like, and a run that changed its architecture has a row more for each stretch: the last "
    "columns (stretch_..) say of which.\n"
    "\n"
    "Examples (bench.jsonl is of psring bench train; with --keep-runs the page has losses and "
    "steps too):\n"
    "  psring report psring-runs/A psring-runs/B\n"
    "  psring report psring-runs/* -o report.html\n"
    "  psring report bench.jsonl -o report.html\n"
    "\n"
    "Exit status: 0 also when hashes differ or runs failed; 2 when a directory cannot be read.\n"
    "\n"
    "The figures (docs/figures.md has more of them and of metrics.jsonl's fields):\n";

/* Makes the help from the definitions of the figures. The caller owns the result. */
static char *full_doc(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to == NULL)
        return NULL;
    fputs(doc, to);
    for (size_t i = 0; i < PSR_FIGURE_COUNT; i++) {
        const psr_figure_definition *d = &psr_figure_definitions[i];
        fprintf(to, "  %s%s%s: %s\n", d->name, d->unit[0] ? ", " : "", d->unit, d->definition);
    }
    fputs("  hash: XXH3-64 of all weights; equal hashes are equal bits\n", to);
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- JSON ---- */

static cJSON *number_or_null(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

static bool add(cJSON *object, const char *name, cJSON *item)
{
    if (cJSON_AddItemToObject(object, name, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *text_or_null(const char *text)
{
    return text != NULL ? cJSON_CreateString(text) : cJSON_CreateNull();
}

static bool add_run(const psr_runs *r, size_t i, cJSON *rows)
{
    const psr_run_record *run = &r->items[i];
    char name[PSR_RUNS_NAME_BYTES];
    psr_runs_name(r, i, name, sizeof name);
    cJSON *row = cJSON_CreateObject(), *differing = cJSON_CreateObject();
    bool whole = cJSON_AddItemToArray(rows, row) && add(row, "run", cJSON_CreateString(name)) &&
                 add(row, "directory", cJSON_CreateString(run->directory)) &&
                 add(row, "status", cJSON_CreateString(psr_run_status_name(run->status))) &&
                 add(row, "why", cJSON_CreateString(run->why)) &&
                 add(row, "made", cJSON_CreateString(run->made));
    const cJSON *option;
    cJSON_ArrayForEach(option, r->differing) whole =
        whole && add(differing, option->valuestring,
                     text_or_null(psr_run_record_option(run, option->valuestring)));
    if (!add(row, "options", differing))
        return false;
    for (size_t f = 0; f < PSR_FIGURE_COUNT && whole; f++)
        whole = add(row, psr_figure_definitions[f].name,
                    number_or_null(psr_summary_figure(run->outcome, (psr_figure)f)));
    static const char *const copied[] = {"stretches", "placement", "links"};
    for (size_t k = 0; k < sizeof copied / sizeof *copied; k++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(run->outcome, copied[k]);
        if (item != NULL)
            whole = whole && add(row, copied[k], cJSON_Duplicate(item, true));
    }
    return whole && add(row, "hash", text_or_null(psr_run_record_hash(run)));
}

static psr_err print_json(const psr_runs *r)
{
    bool equal;
    cJSON *all = cJSON_CreateObject(), *runs = cJSON_CreateArray();
    bool whole = add(all, "runs", runs);
    for (size_t i = 0; i < r->count && whole; i++)
        whole = add_run(r, i, runs);
    size_t hashes = psr_runs_hashes(r, &equal);
    whole = whole && add(all, "differing", cJSON_Duplicate(r->differing, true)) &&
            add(all, "equal_hashes", hashes > 1 ? cJSON_CreateBool(equal) : cJSON_CreateNull());
    char *text = whole ? cJSON_Print(all) : NULL;
    cJSON_Delete(all);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a report");
    psr_print(stdout, "%s\n", text);
    free(text);
    return PSR_OK;
}

/* ---- CSV (RFC 4180, lines ended by a newline alone) ---- */

static void print_field(const char *text, bool first)
{
    psr_print(stdout, "%s", first ? "" : ",");
    if (text[strcspn(text, "\",\r\n")] == '\0') {
        psr_print(stdout, "%s", text);
        return;
    }
    psr_print(stdout, "\"");
    for (const char *end; *text; text = end) { /* quotes are doubled */
        end = text + strcspn(text, "\"");
        end += *end == '"';
        psr_print(stdout, "%.*s%s", (int)(end - text), text, end[-1] == '"' ? "\"" : "");
    }
    psr_print(stdout, "\"");
}

/* The columns after a run's own, which only a stretch has. They are empty in a run's row. */
static const char *const stretch_columns[] = {"mode", "first_step", "seconds", "pause_s"};
enum { STRETCH_COLUMNS = sizeof stretch_columns / sizeof stretch_columns[0] };

static void print_number(double value)
{
    char text[32] = "";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.17g", value);
    print_field(text, false);
}

/* Prints the row of a run, or of one of its stretches (not NULL). A stretch has some of a run's
 * figures, under the same names. */
static void print_csv_row(const psr_runs *r, size_t i, const cJSON *stretch)
{
    const psr_run_record *run = &r->items[i];
    char text[256];
    psr_runs_name(r, i, text, sizeof text);
    print_field(text, true);
    print_field(psr_run_status_name(run->status), false);
    const cJSON *option;
    cJSON_ArrayForEach(option, r->differing)
    {
        const char *value = psr_run_record_option(run, option->valuestring);
        print_field(value != NULL ? value : "", false);
    }
    for (size_t f = 0; f < PSR_FIGURE_COUNT; f++)
        print_number(psr_summary_figure(stretch != NULL ? stretch : run->outcome, (psr_figure)f));
    const char *hash = stretch == NULL ? psr_run_record_hash(run) : NULL;
    const char *mode = stretch != NULL ? psr_json_text(stretch, stretch_columns[0]) : NULL;
    print_field(hash != NULL ? hash : "", false);
    print_field(stretch == NULL ? run->why : "", false);
    print_field(run->made, false);
    print_field(mode != NULL ? mode : "", false);
    for (size_t c = 1; c < STRETCH_COLUMNS; c++)
        print_number(stretch != NULL ? psr_json_number(stretch, stretch_columns[c], NAN) : NAN);
    psr_print(stdout, "\n");
}

static void print_csv_rows(const psr_runs *r, size_t i)
{
    const cJSON *stretches = cJSON_GetObjectItemCaseSensitive(r->items[i].outcome, "stretches"),
                *stretch;
    print_csv_row(r, i, NULL);
    cJSON_ArrayForEach(stretch, stretches) print_csv_row(r, i, stretch);
}

/* No two columns have one name: an option that is called as a figure or another column is
 * option_NAME. */
static void print_option_name(const char *option)
{
    static const char *const others[] = {"run", "status", "hash", "why", "made"};
    bool taken = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        taken = taken || strcmp(option, others[i]) == 0;
    for (size_t f = 0; f < PSR_FIGURE_COUNT; f++)
        taken = taken || strcmp(option, psr_figure_definitions[f].name) == 0;
    psr_print(stdout, ",%s", taken ? "option_" : "");
    psr_print(stdout, "%s", option);
}

static void print_csv(const psr_runs *r)
{
    print_field("run", true);
    print_field("status", false);
    const cJSON *option;
    cJSON_ArrayForEach(option, r->differing) print_option_name(option->valuestring);
    for (size_t f = 0; f < PSR_FIGURE_COUNT; f++)
        print_field(psr_figure_definitions[f].name, false);
    print_field("hash", false);
    print_field("why", false);
    print_field("made", false);
    for (size_t c = 0; c < STRETCH_COLUMNS; c++)
        psr_print(stdout, ",stretch_%s", stretch_columns[c]);
    psr_print(stdout, "\n");
    for (size_t i = 0; i < r->count; i++)
        print_csv_rows(r, i);
}

/* ---- the command ---- */

static psr_err print_report(report *r)
{
    switch (r->format) {
    case JSON:
        return print_json(&r->runs);
    case CSV:
        print_csv(&r->runs);
        return PSR_OK;
    case PAGE:
        if (r->predicted != NULL)
            PSR_TRY(psr_predicted_read(&r->runs, r->predicted));
        PSR_TRY(psr_runs_write_page(&r->runs, r->output));
        psr_print(stdout, "%s: %zu runs\n", r->output, r->runs.count);
        return PSR_OK;
    case TABLE:
        break;
    }
    return psr_runs_print_table(&r->runs);
}

static psr_err run_report(report *r)
{
    psr_runs *runs = &r->runs;
    const bool readable = psr_runs_read(runs);
    PSR_TRY(psr_run_records_differ(runs->items, runs->count, &runs->differing));
    PSR_TRY(print_report(r));
    return readable ? PSR_OK
                    : psr_fail(PSR_ERR_USAGE, "a directory could not be read, as its row says");
}

int psr_command_report(int argc, char **argv)
{
    report *r = calloc(1, sizeof *r);
    char *text = full_doc();
    psr_err err =
        r != NULL && text != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a report");
    if (err == PSR_OK) {
        const struct argp argp = {options, parse, "DIR...", text, NULL, NULL, NULL};
        psr_options_parse(&argp, argc, argv, 0, NULL, r);
        err = run_report(r);
    }
    if (err != PSR_OK)
        psr_print(stderr, "psring report: %s\n", psr_err_detail());
    if (r != NULL)
        psr_runs_done(&r->runs);
    free(r);
    free(text);
    return psr_err_exit_status(err);
}
