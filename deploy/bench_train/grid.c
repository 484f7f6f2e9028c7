#include "deploy/bench_train/grid.h"

#include "base/text/text.h"
#include "comm/wire/compression/compression.h"
#include "data/augment/plan.h"
#include "model/networks/network_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 32, VALUE_BYTES = 64 };

typedef struct values {
    char items[VALUES_MOST][VALUE_BYTES];
    size_t count;
} values;

/* One value of each list. */
typedef struct choice {
    const char *of[PSR_GRID_LISTS];
} choice;

typedef struct maker {
    const psr_config *base;
    values lists[PSR_GRID_LISTS];
    bool dedicated;
    psr_grid grid;
} maker;

static const char *const names[PSR_GRID_LISTS] = {
    "mode", "shards", "workers", "model", "batch-size", "bucket-size", "sync", "compress"};

const char *psr_grid_list_name(psr_grid_list list)
{
    return names[list];
}

/* ---- the lists ---- */

static bool is_known(const values *v, const char *value)
{
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->items[i], value) == 0)
            return true;
    return false;
}

static psr_err read_list(const char *name, const char *text, values *v)
{
    for (const char *at = text;; at++) {
        const size_t size = strcspn(at, ",");
        char value[VALUE_BYTES];
        if (size == 0)
            return psr_fail(PSR_ERR_USAGE, "--%s: '%s' has an empty value; give %s=A,B,..", name,
                            text, name);
        if (size >= sizeof value || v->count == VALUES_MOST)
            return psr_fail(PSR_ERR_USAGE,
                            "--%s: at most %d values of at most %d characters; give fewer", name,
                            VALUES_MOST, VALUE_BYTES - 1);
        snprintf(value, sizeof value, "%.*s", (int)size, at);
        if (is_known(v, value))
            return psr_fail(PSR_ERR_USAGE, "--%s: %s is there twice; give it once", name, value);
        strcpy(v->items[v->count++], value);
        at += size;
        if (*at == '\0')
            return PSR_OK;
    }
}

static psr_err check_modes(const values *v)
{
    static const char *const known[] = {"ps", "ring", "mpi", "local", "none"};
    for (size_t i = 0; i < v->count; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            found = found || strcmp(v->items[i], known[k]) == 0;
        if (!found)
            return psr_fail(
                PSR_ERR_USAGE,
                "--mode: '%s' cannot be compared; give some of ps, ring, mpi, local and "
                "none (no exchange)",
                v->items[i]);
    }
    return PSR_OK;
}

static psr_err read_lists(maker *m, const char *const lists[static PSR_GRID_LISTS])
{
    for (size_t i = 0; i < PSR_GRID_LISTS; i++) {
        char value[PSR_OPTION_TEXT_MAX];
        PSR_TRY(psr_config_get(m->base, names[i], value, sizeof value));
        const char *text = lists[i] != NULL     ? lists[i]
                           : i == PSR_GRID_MODE ? "ps,ring,none"
                                                : value;
        PSR_TRY(read_list(names[i], text, &m->lists[i]));
    }
    return check_modes(&m->lists[PSR_GRID_MODE]);
}

/* ---- cells ---- */

/* Whether values of that list make a difference in that mode. */
static bool matters(const char *mode, size_t list)
{
    const bool ps = strcmp(mode, "ps") == 0, ring = strcmp(mode, "ring") == 0;
    switch ((psr_grid_list)list) {
    case PSR_GRID_SHARDS:
    case PSR_GRID_SYNC:
        return ps;
    case PSR_GRID_COMPRESS:
        return ps || ring;
    case PSR_GRID_BUCKET_SIZE:
        return strcmp(mode, "none") != 0;
    default:
        return true;
    }
}

static void name_cell(const maker *m, const choice *c, psr_grid_cell *cell)
{
    static const psr_grid_list told[] = {PSR_GRID_SYNC, PSR_GRID_COMPRESS, PSR_GRID_BUCKET_SIZE};
    const char *mode = c->of[PSR_GRID_MODE];
    psr_text_end end = {cell->name, sizeof cell->name};
    psr_text_add(&end, "%s", strcmp(mode, "none") == 0 ? "no exchange" : mode);
    if (strcmp(mode, "ps") == 0)
        psr_text_add(&end, ":%" PRIu32 "%s", psr_config_shards(&cell->config),
                     cell->dedicated ? " dedicated"
                     : m->dedicated  ? " beside"
                                     : "");
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (m->lists[told[i]].count > 1 && matters(mode, told[i]))
            psr_text_add(&end, " %s", c->of[told[i]]);
}

static psr_err configure(const maker *m, const choice *c, psr_config *config)
{
    const char *mode = c->of[PSR_GRID_MODE];
    const bool none = strcmp(mode, "none") == 0;
    *config = *m->base;
    for (size_t i = 0; i < PSR_GRID_LISTS; i++)
        if (i != PSR_GRID_MODE && matters(mode, i))
            PSR_TRY(psr_config_set(config, names[i], c->of[i]));
    PSR_TRY(psr_config_set(config, "mode", none ? "ring" : mode));
    if (none)
        config->exchange = false;
    /* what this mode cannot have */
    psr_config other = *m->base;
    psr_config_defaults(&other);
    if (strcmp(mode, "ps") != 0) {
        config->shards = other.shards;
        config->sync = other.sync;
        config->ssp_bound = other.ssp_bound;
        config->fold = other.fold;
        strcpy(config->compress_weights, other.compress_weights);
    }
    if (!matters(mode, PSR_GRID_COMPRESS))
        strcpy(config->compress, other.compress);
    PSR_TRY(psr_compression_check_options(config->compress, config->compress_weights));
    PSR_TRY(psr_augment_check(config));
    PSR_TRY(psr_network_check(config));
    return psr_config_check(config);
}

static uint32_t group_of(psr_grid *grid, const psr_config *config)
{
    for (size_t i = 0; i < grid->count; i++) {
        const psr_config *other = &grid->cells[i].config;
        if (strcmp(other->model, config->model) == 0 && other->workers == config->workers &&
            other->batch_size == config->batch_size)
            return grid->cells[i].group;
    }
    return grid->groups++;
}

static bool is_there(const psr_grid *grid, uint32_t group, const char *name)
{
    for (size_t i = 0; i < grid->count; i++)
        if (grid->cells[i].group == group && strcmp(grid->cells[i].name, name) == 0)
            return true;
    return false;
}

static psr_err add_cell(maker *m, const choice *c, bool dedicated)
{
    if (m->grid.count == PSR_GRID_MOST)
        return psr_fail(PSR_ERR_USAGE,
                        "these lists make more than %d configurations; give shorter ones",
                        PSR_GRID_MOST);
    psr_grid_cell *cell = &m->grid.cells[m->grid.count];
    *cell = (psr_grid_cell){.dedicated = dedicated};
    PSR_TRY(configure(m, c, &cell->config));
    name_cell(m, c, cell);
    cell->group = group_of(&m->grid, &cell->config);
    /* A value that makes no difference in this mode makes no second configuration. */
    m->grid.count += !is_there(&m->grid, cell->group, cell->name);
    return PSR_OK;
}

/* Every combination of the lists from `list` on: the last lists change fastest, and groups stay
 * together. */
static psr_err add_cells(maker *m, size_t at, choice *c)
{
    static const psr_grid_list order[PSR_GRID_LISTS] = {
        PSR_GRID_MODEL,  PSR_GRID_WORKERS, PSR_GRID_BATCH_SIZE, PSR_GRID_MODE,
        PSR_GRID_SHARDS, PSR_GRID_SYNC,    PSR_GRID_COMPRESS,   PSR_GRID_BUCKET_SIZE};
    if (at == PSR_GRID_LISTS) {
        PSR_TRY(add_cell(m, c, false));
        return m->dedicated && strcmp(c->of[PSR_GRID_MODE], "ps") == 0 ? add_cell(m, c, true)
                                                                       : PSR_OK;
    }
    const values *v = &m->lists[order[at]];
    for (size_t i = 0; i < v->count; i++) {
        c->of[order[at]] = v->items[i];
        PSR_TRY(add_cells(m, at + 1, c));
    }
    return PSR_OK;
}

psr_err psr_grid_make(const psr_config *base, const char *const lists[static PSR_GRID_LISTS],
                      bool dedicated, psr_grid *ret_grid)
{
    maker *m = calloc(1, sizeof *m);
    choice c = {{NULL}};
    psr_err err = m != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for configurations");
    if (err == PSR_OK) {
        *m = (maker){.base = base, .dedicated = dedicated};
        m->grid.cells = calloc(PSR_GRID_MOST, sizeof *m->grid.cells);
        err = m->grid.cells != NULL ? read_lists(m, lists)
                                    : psr_fail(PSR_ERR_NOMEM, "no memory for configurations");
    }
    if (err == PSR_OK)
        err = add_cells(m, 0, &c);
    if (err == PSR_OK)
        *ret_grid = m->grid;
    else if (m != NULL)
        psr_grid_done(&m->grid);
    free(m);
    return err;
}

void psr_grid_done(psr_grid *grid)
{
    free(grid->cells);
    *grid = (psr_grid){0};
}

void psr_grid_group_name(const psr_grid *grid, uint32_t group, char *text, size_t size)
{
    size_t i = 0;
    while (i < grid->count && grid->cells[i].group != group)
        i++;
    if (i == grid->count) {
        snprintf(text, size, "-");
        return;
    }
    const psr_config *config = &grid->cells[i].config;
    snprintf(text, size, "%s, %" PRIu32 " worker%s, batches of %" PRIu32, config->model,
             config->workers, config->workers == 1 ? "" : "s", config->batch_size);
}

bool psr_grid_exchanges(const psr_grid_cell *cell)
{
    return cell->config.exchange && cell->config.mode != PSR_MODE_LOCAL;
}
