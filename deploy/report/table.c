#include "deploy/report/table.h"

#include "base/config/help_width.h"
#include "base/figures.h"
#include "base/text/printable.h"
#include "base/show/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CELL_BYTES 64
#define LINE_WIDTH 80 /* where stdout is no terminal */
#define NAME_WIDTH_MAX 50
#define OPTION_WIDTH_MAX 24
#define OPTION_COLUMNS_MAX 64
#define COLUMNS_MAX 80
#define HEAD_WIDTH 8 /* a wider name is cut at its underscores, into at most so many lines: */
#define HEAD_LINES 3

static const psr_figure table_figures[] = {
    PSR_FIGURE_STEPS,  PSR_FIGURE_TRAIN_S, PSR_FIGURE_IMAGES_PER_S, PSR_FIGURE_STEADY_IMAGES_PER_S,
    PSR_FIGURE_WAIT_S, PSR_FIGURE_LOSS,    PSR_FIGURE_TEST_ACCURACY};
#define TABLE_FIGURES (sizeof table_figures / sizeof *table_figures)

/* A table that is too wide is printed as several blocks of columns, each with the names of the
 * runs. The first block has the options of the runs, and the figures begin a new block. */
typedef struct table {
    size_t columns, rows; /* row 0 has the names of the columns */
    size_t first_figure;
    int line_width;
    bool wide; /* for one line */
    bool right[COLUMNS_MAX];
    bool equal[COLUMNS_MAX]; /* the same in all rows: printed below the table and not as a column */
    int widths[COLUMNS_MAX];
    char cells[PSR_RUNS_MAX + 1][COLUMNS_MAX][CELL_BYTES];
    char heads[HEAD_LINES][COLUMNS_MAX][CELL_BYTES];
} table;

static char *next_cell(table *t, size_t row, size_t *column)
{
    return t->cells[row][(*column)++];
}

static size_t option_columns(const psr_runs *r)
{
    size_t count = (size_t)cJSON_GetArraySize(r->differing);
    return count < OPTION_COLUMNS_MAX ? count : OPTION_COLUMNS_MAX;
}

static void fill_head(const psr_runs *r, table *t)
{
    size_t c = 0, option_count = option_columns(r);
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "run");
    const cJSON *name = cJSON_GetArrayItem(r->differing, 0);
    for (size_t i = 0; i < option_count; i++, name = name->next)
        snprintf(next_cell(t, 0, &c), CELL_BYTES, "%s", name->valuestring);
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "status");
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "hash");
    snprintf(next_cell(t, 0, &c), CELL_BYTES, "shards are");
    t->first_figure = c;
    for (size_t i = 0; i < TABLE_FIGURES; i++) {
        t->right[c] = true;
        snprintf(next_cell(t, 0, &c), CELL_BYTES, "%s",
                 psr_figure_definitions[table_figures[i]].name);
    }
    t->columns = c;
}

/* Of a long name the end is kept, which says more than the beginning. */
static void fill_name(const psr_runs *r, size_t i, char cell[CELL_BYTES])
{
    char name[PSR_RUNS_NAME_BYTES];
    psr_runs_name(r, i, name, sizeof name);
    size_t size = strlen(name);
    bool cut = size > NAME_WIDTH_MAX;
    snprintf(cell, CELL_BYTES, "%s%.*s", cut ? ".." : "", NAME_WIDTH_MAX,
             name + (cut ? size - NAME_WIDTH_MAX + 2 : 0));
}

static void fill_option(const psr_run_record *run, const char *name, char cell[CELL_BYTES])
{
    const char *value = psr_run_record_option(run, name);
    if (value != NULL && strcmp(name, "shards") == 0 && strcmp(value, "auto") == 0)
        value = NULL; /* the run had no shards, or run.json would have their number */
    if (value != NULL && value[0] == '\0')
        value = "(none)";
    bool cut = value != NULL && strlen(value) > OPTION_WIDTH_MAX;
    snprintf(cell, CELL_BYTES, "%.*s%s", cut ? OPTION_WIDTH_MAX - 2 : OPTION_WIDTH_MAX,
             value ? value : "-", cut ? ".." : "");
}

static void fill_row(const psr_runs *r, size_t i, table *t)
{
    const psr_run_record *run = &r->items[i];
    size_t c = 0, row = i + 1, option_count = option_columns(r);
    fill_name(r, i, next_cell(t, row, &c));
    const cJSON *name = cJSON_GetArrayItem(r->differing, 0);
    for (size_t k = 0; k < option_count; k++, name = name->next)
        fill_option(run, name->valuestring, next_cell(t, row, &c));
    snprintf(next_cell(t, row, &c), CELL_BYTES, "%s", psr_run_status_name(run->status));
    snprintf(next_cell(t, row, &c), CELL_BYTES, "%s",
             psr_run_record_hash(run) ? psr_run_record_hash(run) : "-");
    const char *placement = psr_run_record_placement(run);
    snprintf(next_cell(t, row, &c), CELL_BYTES, "%s", placement != NULL ? placement : "-");
    for (size_t f = 0; f < TABLE_FIGURES; f++) {
        char text[PSR_FIGURE_TEXT_BYTES];
        psr_summary_text(run->outcome, table_figures[f], text);
        snprintf(next_cell(t, row, &c), CELL_BYTES, "%s", text);
    }
}

/* Counts characters of UTF-8: bytes that begin one. */
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
    t->wide = whole - 2 > t->line_width;
}

static size_t next_shown(const table *t, size_t column)
{
    while (column < t->columns && t->equal[column])
        column++;
    return column;
}

/* The end of the block that begins with this column. */
static size_t block_end(const table *t, size_t begin)
{
    int width = t->widths[0];
    size_t c = begin;
    for (; c < t->columns; c++) {
        width += t->equal[c] ? 0 : 2 + t->widths[c];
        if (c > begin && (width > t->line_width || (t->wide && c == t->first_figure)))
            break;
    }
    return c;
}

/* Prints the runs' names and the columns from begin to end. Blanks are printed only before a cell,
 * so that no line ends in a blank. */
static void print_line(const table *t, char cells[COLUMNS_MAX][CELL_BYTES], size_t begin,
                       size_t end)
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
        bool full = at + 3 + width > t->line_width;
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

/* Prints the stretches of each run that changed its architecture. */
static void print_stretches(const psr_runs *r)
{
    for (size_t i = 0; i < r->count; i++) {
        char name[CELL_BYTES], text[PSR_SUMMARY_BYTES];
        fill_name(r, i, name);
        psr_summary_stretches(r->items[i].outcome, "  ", text);
        if (text[0])
            psr_print(stdout, "\nStretches of %s:\n%s", name, text);
    }
}

static void print_remarks(const psr_runs *r)
{
    const char *before = "\n";
    for (size_t i = 0; i < r->count; i++) {
        const psr_run_record *run = &r->items[i];
        char name[CELL_BYTES];
        fill_name(r, i, name);
        if (run->why[0]) {
            psr_print(stdout, "%s%s: %s: %s\n", before, name, psr_run_status_name(run->status),
                      run->why);
            before = "";
        }
    }
    for (size_t i = 0; i < r->count; i++) {
        char name[CELL_BYTES];
        fill_name(r, i, name);
        if (r->items[i].made[0]) {
            psr_print(stdout, "%s%s: %s\n", before, name, r->items[i].made);
            before = "";
        }
    }
    int count = cJSON_GetArraySize(r->differing);
    if (count > OPTION_COLUMNS_MAX)
        psr_print(stdout, "\nThey differ in %d options more; --json has all.\n",
                  count - OPTION_COLUMNS_MAX);
}

psr_err psr_runs_print_table(const psr_runs *r)
{
    table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a table");
    t->rows = r->count + 1;
    t->line_width = isatty(STDOUT_FILENO) ? (int)psr_help_width() : LINE_WIDTH;
    fill_head(r, t);
    for (size_t i = 0; i < r->count; i++)
        fill_row(r, i, t);
    print_cells(t);
    free(t);
    print_stretches(r);
    print_remarks(r);
    psr_print(stdout,
              "\ntrain_s and wait_s are seconds, wait_s as mean (least-most) over workers;\n"
              "psring report --help defines all figures.\n");
    bool equal;
    size_t hashes = psr_runs_hashes(r, &equal);
    if (hashes > 1)
        psr_print(stdout, "%s\n",
                  !equal ? "The weight hashes differ."
                  : hashes == 2
                      ? "The two weight hashes are equal: both runs ended with the same bits."
                      : "All weight hashes are equal: the runs ended with the same bits.");
    return PSR_OK;
}
