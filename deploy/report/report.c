/* `psring report DIR...`: one row per run, however it ended, from its run.json; the options in which the runs differ; and
 * whether the weights are the same bits. As a table, JSON or CSV: one set of columns, written in three ways. */
#include "deploy/commands.h"

#include "base/figures.h"
#include "base/options_argp.h"
#include "base/printable.h"
#include "deploy/report/json.h"
#include "deploy/report/run_record.h"
#include "deploy/report/summary.h"

#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 64
#define CELL_BYTES 64
#define LINE_WIDTH_MAX 100
#define NAME_WIDTH_MAX 60
#define OPTION_WIDTH_MAX 24
#define OPTION_COLUMNS_MAX 64
#define COLUMNS_MAX 80
#define HEAD_WIDTH 8 /* a wider name is cut at its underscores, into at most so many lines: */
#define HEAD_LINES 3

enum { KEY_JSON = 1000, KEY_CSV };
typedef enum format { TABLE, JSON, CSV } format;

typedef struct report {
    format format;
    const char *directories[RUNS_MAX];
    psr_run_record runs[RUNS_MAX];
    size_t count;
    cJSON *differing; /* names of options, owned */
} report;

/* ---- the command line ---- */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    report *r = state->input;
    switch (key) {
    case KEY_JSON:
    case KEY_CSV:
        if (r->format != TABLE)
            psr_options_refuse(state, "--json and --csv are two ways to write the same; give one");
        r->format = key == KEY_JSON ? JSON : CSV;
        return 0;
    case ARGP_KEY_ARG:
        if (r->count == RUNS_MAX)
            psr_options_refuse(state, "more than 64 runs; give fewer");
        r->directories[r->count++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (r->count == 0)
            psr_options_refuse(state, "no run is named; give one or more run directories");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"json", KEY_JSON, NULL, 0, "write one JSON object, with every figure", 0},
    {"csv", KEY_CSV, NULL, 0, "write comma-separated values with a head, every figure", 0},
    {0}};

static const char doc[] =
    "Compares runs in one table, with the options in which they differ, and says whether their weights are "
    "the same bits.\v"
    "A run that failed, was interrupted or is not over is a row that says so, with the steps that it has "
    "completed.\n"
    "Exit status: 0 also when hashes differ or runs failed; 2 when a directory cannot be read.\n"
    "Example:\n"
    "  psring report psring-runs/A psring-runs/B\n"
    "\n"
    "The figures (docs/figures.md has more of them and of metrics.jsonl's fields):\n";

/* The help is made of the definitions. ret owns. */
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

/* ---- columns ---- */

static const psr_figure table_figures[] = {
    PSR_FIGURE_STEPS,  PSR_FIGURE_TRAIN_S, PSR_FIGURE_IMAGES_PER_S, PSR_FIGURE_STEADY_IMAGES_PER_S,
    PSR_FIGURE_WAIT_S, PSR_FIGURE_LOSS,    PSR_FIGURE_TEST_ACCURACY};
#define TABLE_FIGURES (sizeof table_figures / sizeof *table_figures)

static const char *hash_of(const psr_run_record *run)
{
    return psr_json_text(run->outcome, "hash");
}

/* A directory's own name, without what leads to it. */
static void print_own_name(const char *directory, char *text, size_t size)
{
    size_t end = strlen(directory), begin;
    while (end > 1 && directory[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && directory[begin - 1] != '/'; begin--)
        ;
    snprintf(text, size, "%.*s", (int)(end - begin), directory + begin);
}

/* What a run is called: its directory's own name, or all that was given where another has the same. */
static void print_name(const report *r, size_t i, char *text, size_t size)
{
    char own[CELL_BYTES], other[CELL_BYTES];
    print_own_name(r->directories[i], own, sizeof own);
    bool tells = own[0] != '\0' && own[0] != '.';
    for (size_t k = 0; k < r->count && tells; k++) {
        print_own_name(r->directories[k], other, sizeof other);
        tells = k == i || strcmp(own, other) != 0;
    }
    snprintf(text, size, "%s", tells ? own : r->directories[i]);
}

/* ---- the table ---- */

/* Where it is too wide for one line, its columns stand in several blocks below one another, each with the runs' names; the first block
 * says what the runs are, and the figures begin another. */
typedef struct table {
    size_t columns, rows; /* row 0 has the names of the columns */
    size_t first_figure;
    bool wide;
    bool right[COLUMNS_MAX];
    bool equal[COLUMNS_MAX]; /* in all rows: told below the table, which then has no such column */
    int widths[COLUMNS_MAX];
    char cells[RUNS_MAX + 1][COLUMNS_MAX][CELL_BYTES];
    char heads[HEAD_LINES][COLUMNS_MAX][CELL_BYTES];
} table;

static char *next_cell(table *t, size_t row, size_t *column)
{
    return t->cells[row][(*column)++];
}

static size_t option_columns(const report *r)
{
    size_t count = (size_t)cJSON_GetArraySize(r->differing);
    return count < OPTION_COLUMNS_MAX ? count : OPTION_COLUMNS_MAX;
}

static void fill_head(const report *r, table *t)
{
    size_t c = 0, option_count = option_columns(r);
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "run");
    const cJSON *name = cJSON_GetArrayItem(r->differing, 0);
    for (size_t i = 0; i < option_count; i++, name = name->next)
        snprintf(next_cell(t, 0, &c), CELL_BYTES, "%s", name->valuestring);
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "status");
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "hash");
    t->first_figure = c;
    for (size_t i = 0; i < TABLE_FIGURES; i++) {
        t->right[c] = true;
        snprintf(next_cell(t, 0, &c), CELL_BYTES, "%s", psr_figure_definitions[table_figures[i]].name);
    }
    t->columns = c;
}

/* The end of a long name tells more than its beginning. */
static void fill_name(const report *r, size_t i, char cell[CELL_BYTES])
{
    char name[4096];
    print_name(r, i, name, sizeof name);
    size_t size = strlen(name);
    bool cut = size > NAME_WIDTH_MAX;
    snprintf(cell, CELL_BYTES, "%s%.*s", cut ? ".." : "", NAME_WIDTH_MAX,
             name + (cut ? size - NAME_WIDTH_MAX + 2 : 0));
}

static void fill_option(const psr_run_record *run, const char *name, char cell[CELL_BYTES])
{
    const char *value = psr_run_record_option(run, name), *mode = psr_run_record_option(run, "mode");
    if (strcmp(name, "shards") == 0 && mode != NULL && strcmp(mode, "ps") != 0)
        value = NULL; /* run.json has the option's default, and the run had no shards */
    if (value != NULL && value[0] == '\0')
        value = "(none)";
    bool cut = value != NULL && strlen(value) > OPTION_WIDTH_MAX;
    snprintf(cell, CELL_BYTES, "%.*s%s", cut ? OPTION_WIDTH_MAX - 2 : OPTION_WIDTH_MAX, value ? value : "-",
             cut ? ".." : "");
}

static void fill_row(const report *r, size_t i, table *t)
{
    const psr_run_record *run = &r->runs[i];
    size_t c = 0, row = i + 1, option_count = option_columns(r);
    fill_name(r, i, next_cell(t, row, &c));
    const cJSON *name = cJSON_GetArrayItem(r->differing, 0);
    for (size_t k = 0; k < option_count; k++, name = name->next)
        fill_option(run, name->valuestring, next_cell(t, row, &c));
    snprintf(next_cell(t, row, &c), CELL_BYTES, "%s", psr_run_status_name(run->status));
    snprintf(next_cell(t, row, &c), CELL_BYTES, "%s", hash_of(run) ? hash_of(run) : "-");
    for (size_t f = 0; f < TABLE_FIGURES; f++) {
        char text[PSR_FIGURE_TEXT_BYTES];
        psr_summary_text(run->outcome, table_figures[f], text);
        snprintf(next_cell(t, row, &c), CELL_BYTES, "%s", text);
    }
}

/* Characters, not bytes: of UTF-8 those that begin one. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static bool is_equal(const table *t, size_t column)
{
    for (size_t row = 2; row < t->rows; row++)
        if (strcmp(t->cells[row][column], t->cells[1][column]) != 0)
            return false;
    return t->rows > 2 && column > 0;
}

/* Cuts a column's name, behind underscores, into lines of `width` where its words allow it. */
static void cut_head(table *t, size_t column, int width)
{
    size_t line = 0;
    for (const char *word = t->cells[0][column], *end; *word; word = end) {
        end = word + strcspn(word, "_");
        end += *end == '_';
        char *text = t->heads[line][column];
        if (text[0] && width_of(text) + (int)(end - word) > width && line + 1 < HEAD_LINES)
            text = t->heads[++line][column];
        strncat(text, word, (size_t)(end - word));
    }
}

static void lay_out(table *t)
{
    int whole = 0;
    for (size_t c = 0; c < t->columns; c++) {
        int width = 0;
        t->equal[c] = is_equal(t, c);
        for (size_t row = 1; row < t->rows; row++)
            width = width_of(t->cells[row][c]) > width ? width_of(t->cells[row][c]) : width;
        cut_head(t, c, width > HEAD_WIDTH ? width : HEAD_WIDTH);
        for (size_t line = 0; line < HEAD_LINES; line++)
            width = width_of(t->heads[line][c]) > width ? width_of(t->heads[line][c]) : width;
        t->widths[c] = width;
        whole += t->equal[c] ? 0 : 2 + width;
    }
    t->wide = whole - 2 > LINE_WIDTH_MAX;
}

static size_t next_shown(const table *t, size_t column)
{
    while (column < t->columns && t->equal[column])
        column++;
    return column;
}

/* Where the block ends that begins with this column. */
static size_t block_end(const table *t, size_t begin)
{
    int width = t->widths[0];
    size_t c = begin;
    for (; c < t->columns; c++) {
        width += t->equal[c] ? 0 : 2 + t->widths[c];
        if (c > begin && (width > LINE_WIDTH_MAX || (t->wide && c == t->first_figure)))
            break;
    }
    return c;
}

/* The runs' names and the columns from begin to end. Blanks are printed before what comes behind them, so that no line ends in one. */
static void print_line(const table *t, char cells[COLUMNS_MAX][CELL_BYTES], size_t begin, size_t end)
{
    int blanks = 0;
    for (size_t c = 0; c < end; c = next_shown(t, c == 0 ? begin : c + 1)) {
        int rest = t->widths[c] - width_of(cells[c]);
        if (cells[c][0])
            psr_print(stdout, "%*s%s", blanks + (t->right[c] ? rest : 0), "", cells[c]);
        else
            rest += blanks;
        blanks = 2 + (t->right[c] && cells[c][0] ? 0 : rest);
    }
    psr_print(stdout, "\n");
}

static void print_block(table *t, size_t begin, size_t end)
{
    for (size_t line = 0; line < HEAD_LINES; line++) {
        bool empty = t->heads[line][0][0] == '\0';
        for (size_t c = next_shown(t, begin); c < end; c = next_shown(t, c + 1))
            empty = empty && t->heads[line][c][0] == '\0';
        if (!empty)
            print_line(t, t->heads[line], begin, end);
    }
    for (size_t row = 1; row < t->rows; row++)
        print_line(t, t->cells[row], begin, end);
}

static void print_equal(const table *t)
{
    int at = 0;
    for (size_t c = 0; c < t->columns; c++) {
        if (!t->equal[c] || strcmp(t->cells[1][c], "-") == 0)
            continue;
        int width = width_of(t->cells[0][c]) + 1 + width_of(t->cells[1][c]);
        bool full = at + 3 + width > LINE_WIDTH_MAX;
        psr_print(stdout, "%s%s %s",
                  at == 0 ? "\nIn all: "
                  : full  ? ",\n        "
                          : ", ",
                  t->cells[0][c], t->cells[1][c]);
        at = (at == 0 || full ? 8 : at + 2) + width;
    }
    if (at > 0)
        psr_print(stdout, "\n");
}

static void print_cells(table *t)
{
    lay_out(t);
    size_t begin = next_shown(t, 1);
    do {
        size_t end = block_end(t, begin);
        print_block(t, begin, end);
        begin = next_shown(t, end);
        if (begin < t->columns)
            psr_print(stdout, "\n");
    } while (begin < t->columns);
    print_equal(t);
}

static void print_remarks(const report *r)
{
    const char *before = "\n";
    for (size_t i = 0; i < r->count; i++) {
        const psr_run_record *run = &r->runs[i];
        char name[CELL_BYTES];
        print_name(r, i, name, sizeof name);
        if (run->why[0]) {
            psr_print(stdout, "%s%s: %s: %s\n", before, name, psr_run_status_name(run->status), run->why);
            before = "";
        }
    }
    int count = cJSON_GetArraySize(r->differing);
    if (count > OPTION_COLUMNS_MAX)
        psr_print(stdout, "\nThey differ in %d options more; --json has all.\n", count - OPTION_COLUMNS_MAX);
}

/* Runs with a hash: how many, and whether all have the same. */
static size_t count_hashes(const report *r, bool *ret_equal)
{
    const char *one = NULL;
    size_t count = 0;
    *ret_equal = true;
    for (size_t i = 0; i < r->count; i++) {
        const char *hash = hash_of(&r->runs[i]);
        if (hash == NULL)
            continue;
        count++;
        *ret_equal = *ret_equal && (one == NULL || strcmp(one, hash) == 0);
        one = hash;
    }
    return count;
}

static psr_err print_table(const report *r)
{
    table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    t->rows = r->count + 1;
    fill_head(r, t);
    for (size_t i = 0; i < r->count; i++)
        fill_row(r, i, t);
    print_cells(t);
    free(t);
    print_remarks(r);
    psr_print(stdout, "\ntrain_s and wait_s are seconds, wait_s as mean (least-most) over workers;\n"
                      "psring report --help defines all figures.\n");
    bool equal;
    size_t hashes = count_hashes(r, &equal);
    if (hashes > 1)
        psr_print(stdout, "%s\n",
                  !equal        ? "The weight hashes differ."
                  : hashes == 2 ? "The two weight hashes are equal: both runs ended with the same bits."
                                : "All weight hashes are equal: the runs ended with the same bits.");
    return PSR_OK;
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
    return text ? cJSON_CreateString(text) : cJSON_CreateNull();
}

static bool add_run(const report *r, size_t i, cJSON *runs)
{
    const psr_run_record *run = &r->runs[i];
    char name[CELL_BYTES];
    print_name(r, i, name, sizeof name);
    cJSON *row = cJSON_CreateObject(), *differing = cJSON_CreateObject();
    bool whole = cJSON_AddItemToArray(runs, row) && add(row, "run", cJSON_CreateString(name)) &&
                 add(row, "directory", cJSON_CreateString(run->directory)) &&
                 add(row, "status", cJSON_CreateString(psr_run_status_name(run->status))) &&
                 add(row, "why", cJSON_CreateString(run->why));
    const cJSON *option;
    cJSON_ArrayForEach(option, r->differing) whole =
        whole &&
        add(differing, option->valuestring, text_or_null(psr_run_record_option(run, option->valuestring)));
    if (!add(row, "options", differing))
        return false;
    for (size_t f = 0; f < PSR_FIGURE_COUNT && whole; f++)
        whole = add(row, psr_figure_definitions[f].name,
                    number_or_null(psr_summary_figure(run->outcome, (psr_figure)f)));
    return whole && add(row, "hash", text_or_null(hash_of(run)));
}

static psr_err print_json(const report *r)
{
    bool equal;
    cJSON *all = cJSON_CreateObject(), *runs = cJSON_CreateArray();
    bool whole = add(all, "runs", runs);
    for (size_t i = 0; i < r->count && whole; i++)
        whole = add_run(r, i, runs);
    size_t hashes = count_hashes(r, &equal);
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

static void print_csv_row(const report *r, size_t i)
{
    const psr_run_record *run = &r->runs[i];
    char text[256];
    print_name(r, i, text, sizeof text);
    print_field(text, true);
    print_field(psr_run_status_name(run->status), false);
    const cJSON *option;
    cJSON_ArrayForEach(option, r->differing)
    {
        const char *value = psr_run_record_option(run, option->valuestring);
        print_field(value ? value : "", false);
    }
    for (size_t f = 0; f < PSR_FIGURE_COUNT; f++) {
        double value = psr_summary_figure(run->outcome, (psr_figure)f);
        text[0] = '\0';
        if (isfinite(value))
            snprintf(text, sizeof text, "%.17g", value);
        print_field(text, false);
    }
    print_field(hash_of(run) ? hash_of(run) : "", false);
    print_field(run->why, false);
    psr_print(stdout, "\n");
}

static void print_csv(const report *r)
{
    print_field("run", true);
    print_field("status", false);
    const cJSON *option;
    cJSON_ArrayForEach(option, r->differing) print_field(option->valuestring, false);
    for (size_t f = 0; f < PSR_FIGURE_COUNT; f++)
        print_field(psr_figure_definitions[f].name, false);
    print_field("hash", false);
    print_field("why", false);
    psr_print(stdout, "\n");
    for (size_t i = 0; i < r->count; i++)
        print_csv_row(r, i);
}

/* ---- the command ---- */

static psr_err print_report(const report *r)
{
    switch (r->format) {
    case JSON:
        return print_json(r);
    case CSV:
        print_csv(r);
        return PSR_OK;
    case TABLE:
        break;
    }
    return print_table(r);
}

static psr_err run_report(report *r)
{
    bool unreadable = false;
    for (size_t i = 0; i < r->count; i++) {
        psr_run_record_read(r->directories[i], &r->runs[i]);
        unreadable = unreadable || r->runs[i].status == PSR_RUN_UNREADABLE;
    }
    PSR_TRY(psr_run_records_differ(r->runs, r->count, &r->differing));
    PSR_TRY(print_report(r));
    return unreadable ? psr_fail(PSR_ERR_USAGE, "a directory could not be read, as its row says") : PSR_OK;
}

int psr_command_report(int argc, char **argv)
{
    report *r = calloc(1, sizeof *r);
    char *text = full_doc();
    psr_err err = r && text ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a report");
    if (err == PSR_OK) {
        const struct argp argp = {options, parse, "DIR...", text, NULL, NULL, NULL};
        psr_options_parse(&argp, argc, argv, 0, NULL, r);
        err = run_report(r);
    }
    if (err != PSR_OK)
        psr_print(stderr, "psring report: %s\n", psr_err_detail());
    for (size_t i = 0; r && i < r->count; i++)
        psr_run_record_done(&r->runs[i]);
    if (r)
        cJSON_Delete(r->differing);
    free(r);
    free(text);
    return psr_err_exit_status(err);
}
