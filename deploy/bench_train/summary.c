#include "deploy/bench_train/summary.h"

#include "base/config/help_width.h"
#include "base/text/json.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "deploy/bench_train/samples.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_WIDTH_LEAST = 13, NAME_WIDTH_MOST = 20, SENTENCES_BYTES = 8192, TEXT_BYTES = 64 };

/* A configuration's repetitions that were done. */
typedef struct row {
    const psr_grid_cell *cell;
    const cJSON *of[PSR_SAMPLES_MAX];
    size_t count;
    double rates[PSR_SAMPLES_MAX];
    const char *failed; /* why the newest one failed; NULL: none did */
} row;

typedef struct printer {
    const psr_bench_summary *s;
    FILE *to;
    row *rows; /* [grid->count] */
    int name_width;
} printer;

/* ---- values ---- */

static void fill_row(const printer *p, size_t i)
{
    const psr_bench_summary *s = p->s;
    row *r = &p->rows[i];
    char group[PSR_GRID_NAME_MAX];
    *r = (row){.cell = &s->grid->cells[i]};
    psr_grid_group_name(s->grid, r->cell->group, group, sizeof group);
    for (uint32_t k = 1; k <= s->repetitions && r->count < PSR_SAMPLES_MAX; k++) {
        const cJSON *record = psr_results_find(s->results, group, r->cell->name, k);
        const double rate = psr_json_number(record, "images_per_s", NAN);
        if (record != NULL && !psr_results_is_done(record))
            r->failed = psr_json_text(record, "line");
        if (!psr_results_is_done(record) || !isfinite(rate))
            continue;
        r->rates[r->count] = rate;
        r->of[r->count++] = record;
    }
}

/* The median over repetitions; NaN: some lack it. */
static double median(const row *r, const char *name)
{
    double values[PSR_SAMPLES_MAX];
    for (size_t i = 0; i < r->count; i++) {
        values[i] = psr_json_number(r->of[i], name, NAN);
        if (!isfinite(values[i]))
            return NAN;
    }
    return psr_samples_median(values, r->count);
}

static double rate_of(const row *r)
{
    return psr_samples_median(r->rates, r->count);
}

static double spread_of(const row *r)
{
    return r->count >= 2 ? psr_samples_spread(r->rates, r->count) / rate_of(r) : NAN;
}

/* NULL: the group has no such configuration, or it was never done. */
static const row *without_exchange(const printer *p, uint32_t group)
{
    for (size_t i = 0; i < p->s->grid->count; i++)
        if (p->rows[i].cell->group == group && !p->rows[i].cell->config.exchange &&
            p->rows[i].count > 0)
            return &p->rows[i];
    return NULL;
}

/* One worker with the same network and batch; without an exchange if that was measured. */
static const row *one_worker(const printer *p, const psr_config *config)
{
    const row *found = NULL;
    for (size_t i = 0; i < p->s->grid->count; i++) {
        const row *r = &p->rows[i];
        const psr_config *other = &r->cell->config;
        if (other->workers == 1 && r->count > 0 && other->batch_size == config->batch_size &&
            strcmp(other->model, config->model) == 0 && (found == NULL || !other->exchange))
            found = r;
    }
    return found;
}

/* Seconds in which the busiest link carries what it must; NaN: not known. */
static double link_limit_s(const printer *p, const row *r)
{
    const double least = median(r, "least_link_bytes");
    return least > 0 ? least / p->s->link_bytes_per_s : least;
}

/* The rate if nothing but computing and, where its rate is known, the busiest link took time. */
static double limit_of(const printer *p, const row *r)
{
    const row *none = without_exchange(p, r->cell->group);
    const double compute_s = median(none != NULL ? none : r, none != NULL ? "step_s" : "compute_s");
    const double link_s = link_limit_s(p, r);
    const double images =
        (double)r->cell->config.workers * psr_config_step_samples(&r->cell->config);
    return isnan(link_s) || !(compute_s > 0) ? NAN : images / fmax(compute_s, link_s);
}

/* ---- tables ---- */

static void cell(const printer *p, int width, int decimals, double value, const char *unit)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%.*f%s", decimals, value, unit);
    psr_print(p->to, "%*s", width, isfinite(value) ? text : "-");
}

static int decimals_of(double value)
{
    return value < 10 ? 2 : value < 1000 ? 1 : 0;
}

static void name(const printer *p, const char *text)
{
    psr_print(p->to, "%-*.*s", p->name_width, p->name_width, text);
}

static bool in_group(const printer *p, size_t i, uint32_t group)
{
    return p->s->grid->cells[i].group == group;
}

static void print_rates(const printer *p, uint32_t group)
{
    const row *none = without_exchange(p, group);
    name(p, "");
    psr_print(p->to, "%9s%7s%6s%8s%8s%7s%8s%7s\n", "images/s", "spread", "eff", "step ms",
              "compute", "hidden", "exposed", "wait");
    for (size_t i = 0; i < p->s->grid->count; i++) {
        const row *r = &p->rows[i];
        if (!in_group(p, i, group))
            continue;
        name(p, r->cell->name);
        if (r->count == 0) {
            psr_print(p->to, "  %s\n", r->failed != NULL ? "failed" : "not yet measured");
            continue;
        }
        cell(p, 9, decimals_of(rate_of(r)), rate_of(r), "");
        cell(p, 7, 1, 100 * spread_of(r), "%");
        cell(p, 6, 0, none != NULL ? 100 * rate_of(r) / rate_of(none) : NAN, "%");
        cell(p, 8, 1, 1e3 * median(r, "step_s"), "");
        cell(p, 8, 1, 1e3 * median(r, "compute_s"), "");
        cell(p, 7, 1, 1e3 * median(r, "hidden_s"), "");
        cell(p, 8, 1, 1e3 * median(r, "exposed_s"), "");
        cell(p, 7, 1, 1e3 * median(r, "waiting_s"), "");
        psr_print(p->to, "\n");
    }
}

static void print_bytes(const printer *p, uint32_t group)
{
    const psr_measure_targets *t = &p->s->targets;
    const char *target = !isnan(t->loss) ? "to_loss_s" : !isnan(t->accuracy) ? "to_accuracy_s" : "";
    name(p, "");
    psr_print(p->to, "%9s%9s%9s%8s%9s%7s%7s\n", "sent MB", "link MB", "least MB", "busy", "limit/s",
              "scale", target[0] != '\0' ? "goal s" : "stale");
    for (size_t i = 0; i < p->s->grid->count; i++) {
        const row *r = &p->rows[i];
        if (!in_group(p, i, group) || r->count == 0)
            continue;
        const row *one = one_worker(p, &r->cell->config);
        const double link = median(r, "link_bytes"), limit = limit_of(p, r);
        name(p, r->cell->name);
        cell(p, 9, 2, median(r, "step_bytes") / 1e6, "");
        cell(p, 9, 2, link / 1e6, "");
        cell(p, 9, 2, median(r, "least_link_bytes") / 1e6, "");
        cell(p, 8, 0, 100 * link / p->s->link_bytes_per_s / median(r, "step_s"), "%");
        cell(p, 9, isfinite(limit) ? decimals_of(limit) : 0, limit, "");
        cell(p, 7, 0, one != NULL ? 100 * rate_of(r) / rate_of(one) / r->cell->config.workers : NAN,
             "%");
        if (target[0] != '\0')
            cell(p, 7, 1, median(r, target), "");
        else
            cell(p, 7, 1, median(r, "staleness"), "");
        psr_print(p->to, "\n");
    }
}

/* ---- the answer ---- */

static psr_samples_verdict verdict(const row *a, const row *b)
{
    return psr_samples_compare(a->rates, a->count, b->rates, b->count);
}

/* How many of the group can be compared, those that exchange; and the fastest. */
static const row *fastest(const printer *p, uint32_t group, size_t *ret_count)
{
    const row *best = NULL;
    *ret_count = 0;
    for (size_t i = 0; i < p->s->grid->count; i++) {
        const row *r = &p->rows[i];
        if (!in_group(p, i, group) || r->count == 0 || !psr_grid_exchanges(r->cell))
            continue;
        *ret_count += 1;
        if (best == NULL || rate_of(r) > rate_of(best))
            best = r;
    }
    return best;
}

/* The fastest of those that differ from best; and the names of those that do not. */
static const row *next_that_differs(const printer *p, const row *best, psr_text_end *together)
{
    const row *next = NULL;
    for (size_t i = 0; i < p->s->grid->count; i++) {
        const row *r = &p->rows[i];
        if (!in_group(p, i, best->cell->group) || r == best || r->count == 0 ||
            !psr_grid_exchanges(r->cell))
            continue;
        if (verdict(best, r) != PSR_SAMPLES_HIGHER)
            psr_text_add(together, ", %s", r->cell->name);
        else if (next == NULL || rate_of(r) > rate_of(next))
            next = r;
    }
    return next;
}

static void add_why(psr_text_end *end, const row *best, const row *next)
{
    const double a = 1e3 * median(best, "exposed_s"), b = 1e3 * median(next, "exposed_s"),
                 wait_a = 1e3 * median(best, "waiting_s"), wait_b = 1e3 * median(next, "waiting_s"),
                 compute_a = 1e3 * median(best, "compute_s"),
                 compute_b = 1e3 * median(next, "compute_s");
    psr_text_add(end,
                 " Of its step of %.1f ms the exchange exposes %.1f ms, it waits %.1f ms and "
                 "computes %.1f ms; %s: %.1f, %.1f and %.1f ms of %.1f.",
                 1e3 * median(best, "step_s"), a, wait_a, compute_a, next->cell->name, b, wait_b,
                 compute_b, 1e3 * median(next, "step_s"));
}

static void add_too_few(psr_text_end *end, const row *best, size_t repetitions)
{
    psr_text_add(end,
                 "%s has the highest median, and nothing can be called different: that takes %d "
                 "repetitions of each, and there are %zu.",
                 best->cell->name, PSR_SAMPLES_LEAST, repetitions);
}

static size_t fewest(const printer *p, uint32_t group)
{
    size_t least = PSR_SAMPLES_MAX;
    for (size_t i = 0; i < p->s->grid->count; i++)
        if (in_group(p, i, group) && p->rows[i].count > 0 && psr_grid_exchanges(p->rows[i].cell) &&
            p->rows[i].count < least)
            least = p->rows[i].count;
    return least;
}

static void add_answer(const printer *p, uint32_t group, psr_text_end *end)
{
    size_t count = 0;
    char together[1024] = "";
    psr_text_end names = {together, sizeof together};
    const row *best = fastest(p, group, &count);
    if (best == NULL || count < 2)
        return;
    if (fewest(p, group) < PSR_SAMPLES_LEAST) {
        add_too_few(end, best, fewest(p, group));
        return;
    }
    const row *next = next_that_differs(p, best, &names);
    if (next == NULL) {
        psr_text_add(end,
                     "No difference lies outside the spread: %s%s are equally fast, as far as %zu "
                     "repetitions tell.",
                     best->cell->name, together, best->count);
        return;
    }
    psr_text_add(end, "%s%s: the fastest, %.*f images/s, %.1f%% more than %s.", best->cell->name,
                 together, decimals_of(rate_of(best)), rate_of(best),
                 100 * (rate_of(best) / rate_of(next) - 1), next->cell->name);
    if (together[0] != '\0')
        psr_text_add(end, " Between these no difference lies outside the spread.");
    add_why(end, best, next);
}

/* Whether a run of the configuration must end in the bits of the others. */
static bool has_the_bits(const row *r)
{
    const psr_config *config = &r->cell->config;
    return r->count > 0 && config->exchange && config->sync == PSR_SYNC_BSP &&
           config->fold != PSR_FOLD_ARRIVAL && config->seconds == 0 &&
           config->mode != PSR_MODE_MPI && strcmp(config->compress, "none") == 0 &&
           strcmp(config->compress_weights, "none") == 0;
}

static void add_bits(const printer *p, uint32_t group, psr_text_end *end)
{
    const char *hash = NULL;
    size_t count = 0;
    bool equal = true;
    for (size_t i = 0; i < p->s->grid->count; i++) {
        const row *r = &p->rows[i];
        for (size_t k = 0; in_group(p, i, group) && has_the_bits(r) && k < r->count; k++) {
            const char *other = psr_json_text(r->of[k], "hash");
            equal = equal && other != NULL && (hash == NULL || strcmp(hash, other) == 0);
            hash = other != NULL ? other : hash;
            count++;
        }
    }
    if (count > 1)
        psr_text_add(end,
                     equal
                         ? " All %zu runs with --sync bsp and no compression ended in the same "
                           "bits."
                         : " THE WEIGHTS DIFFER among %zu runs that should have ended in the same "
                           "bits.",
                     count);
}

static void print_failures(const printer *p, uint32_t group)
{
    for (size_t i = 0; i < p->s->grid->count; i++)
        if (in_group(p, i, group) && p->rows[i].failed != NULL) {
            char line[1400];
            snprintf(line, sizeof line, "%s: a run failed: %s", p->rows[i].cell->name,
                     p->rows[i].failed);
            psr_help_wrap(p->to, line, 0, 2);
        }
}

static psr_err print_group(const printer *p, uint32_t group)
{
    char heading[PSR_GRID_NAME_MAX], *text = malloc(SENTENCES_BYTES);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a summary");
    psr_text_end end = {text, SENTENCES_BYTES};
    text[0] = '\0';
    psr_grid_group_name(p->s->grid, group, heading, sizeof heading);
    psr_print(p->to, "\n%s\n", heading);
    print_rates(p, group);
    psr_print(p->to, "\n");
    print_bytes(p, group);
    add_answer(p, group, &end);
    add_bits(p, group, &end);
    if (text[0] != '\0') {
        psr_print(p->to, "\n");
        psr_help_wrap(p->to, text[0] == ' ' ? text + 1 : text, 0, 0);
    }
    print_failures(p, group);
    free(text);
    return PSR_OK;
}

psr_err psr_bench_summary_print(const psr_bench_summary *s, FILE *to)
{
    printer p = {.s = s,
                 .to = to,
                 .rows = calloc(s->grid->count + 1, sizeof *p.rows),
                 .name_width = NAME_WIDTH_LEAST};
    psr_err err = p.rows != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a summary");
    for (size_t i = 0; err == PSR_OK && i < s->grid->count; i++) {
        const int width = (int)strlen(s->grid->cells[i].name);
        fill_row(&p, i);
        p.name_width = width > p.name_width ? width : p.name_width;
    }
    p.name_width = p.name_width < NAME_WIDTH_MOST ? p.name_width : NAME_WIDTH_MOST;
    for (uint32_t g = 0; err == PSR_OK && g < s->grid->groups; g++)
        err = print_group(&p, g);
    free(p.rows);
    return err;
}
