#include "deploy/report/page/page_private.h"

#include "deploy/report/bench_file.h"
#include "deploy/report/page/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- throughput ---- */

void psr_page_put_throughput(const psr_page *p)
{
    size_t count = psr_page_measured(p);
    if (count == 0)
        return;
    double most = 0;
    for (size_t g = 0; g < count; g++)
        most = fmax(most, p->groups.items[g].most);
    psr_page_put_text(
        p, "<h2>Throughput</h2>\n<p class=soft>", psr_figure_definitions[p->groups.rate].name,
        ", images of all workers a second: the median, and the least and the most of the "
        "runs.</p>\n");
    for (size_t g = 0; g < count; g++) {
        const psr_run_group *group = &p->groups.items[g];
        char name[PSR_PAGE_NAME_BYTES], value[PSR_PAGE_TEXT_BYTES];
        psr_page_group_name(p, g, name);
        char median[PSR_HTML_NUMBER_BYTES], slowest[PSR_HTML_NUMBER_BYTES],
            fastest[PSR_HTML_NUMBER_BYTES];
        snprintf(value, sizeof value, group->done > 1 ? "%s (%s to %s)" : "%s (one run)",
                 psr_html_number(group->median, median), psr_html_number(group->least, slowest),
                 psr_html_number(group->most, fastest));
        psr_html_part part = {group->median, g, NULL};
        psr_html_bar(p->to, name, &part, 1, most, value);
    }
}

/* ---- scaling ---- */

/* One way to train, with several numbers of workers. */
typedef struct scaling {
    double workers[PSR_RUNS_MAX], rates[PSR_RUNS_MAX];
    char name[64];
    size_t count;
} scaling;

static int by_workers(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* "ps, 2 shards", "ring", "no exchange". */
static void name_way(const psr_page *p, size_t group, char name[64])
{
    const psr_run_record *run = &p->runs->items[p->groups.items[group].runs[0]];
    const char *mode = psr_page_option(p, group, "mode"),
               *shards = psr_page_option(p, group, "shards");
    const bool has_shards = psr_page_differs_in(p, "shards") && strcmp(mode, "ps") == 0;
    if (!psr_run_record_exchanges(run))
        snprintf(name, 64, "no exchange");
    else if (has_shards)
        snprintf(name, 64, "%.20s, %.20s shard%s", mode, shards,
                 strcmp(shards, "1") == 0 ? "" : "s");
    else
        snprintf(name, 64, "%.60s", mode);
}

/* The groups of a way, in the order of their workers. */
static void collect_way(const psr_page *p, const char *name, scaling *s)
{
    double pairs[PSR_RUNS_MAX][2];
    char other[64];
    *s = (scaling){0};
    snprintf(s->name, sizeof s->name, "%s", name);
    for (size_t g = 0; g < psr_page_measured(p); g++)
        if (name_way(p, g, other), strcmp(other, name) == 0) {
            pairs[s->count][0] = strtod(psr_page_option(p, g, "workers"), NULL);
            pairs[s->count++][1] = p->groups.items[g].median;
        }
    qsort(pairs, s->count, sizeof *pairs, by_workers);
    for (size_t i = 0; i < s->count; i++) {
        s->workers[i] = pairs[i][0];
        s->rates[i] = pairs[i][1];
    }
}

/* Only where nothing but way and workers differs: a line of other points would join what cannot be
 * compared. */
static bool shows_scaling(const psr_page *p)
{
    int others = cJSON_GetArraySize(p->runs->differing) - psr_page_differs_in(p, "workers") -
                 psr_page_differs_in(p, "mode") - psr_page_differs_in(p, "shards") -
                 psr_page_differs_in(p, "exchange");
    return psr_page_differs_in(p, "workers") && others == 0 && psr_page_measured(p) > 1;
}

static size_t collect_scaling(const psr_page *p, scaling ways[static PSR_HTML_COLOURS - 1])
{
    size_t count = 0;
    for (size_t g = 0; g < psr_page_measured(p) && count < PSR_HTML_COLOURS - 1; g++) {
        char name[64];
        bool seen = false;
        name_way(p, g, name);
        for (size_t m = 0; m < count; m++)
            seen = seen || strcmp(ways[m].name, name) == 0;
        if (!seen)
            collect_way(p, name, &ways[count++]);
    }
    return count;
}

void psr_page_put_scaling(const psr_page *p)
{
    scaling ways[PSR_HTML_COLOURS - 1];
    psr_html_line lines[PSR_HTML_COLOURS];
    if (!shows_scaling(p))
        return;
    size_t count = collect_scaling(p, ways);
    double each = 0, least = INFINITY, most = 0; /* the best rate of a worker, and how many */
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < ways[m].count; i++) {
            each = fmax(each, ways[m].rates[i] / ways[m].workers[i]);
            least = fmin(least, ways[m].workers[i]);
            most = fmax(most, ways[m].workers[i]);
        }
    double limit_x[] = {least, most}, limit_y[] = {each * least, each * most};
    for (size_t m = 0; m < count; m++)
        lines[m] = (psr_html_line){.name = ways[m].name,
                                   .x = ways[m].workers,
                                   .y = ways[m].rates,
                                   .count = ways[m].count,
                                   .colour = m};
    lines[count] = (psr_html_line){.name = "limit: each worker as fast as the fastest one here",
                                   .x = limit_x,
                                   .y = limit_y,
                                   .count = 2,
                                   .colour = PSR_HTML_COLOURS - 1,
                                   .dashed = 1};
    psr_page_put(p, "<h2>Scaling</h2>\n");
    psr_html_chart(p->to, "workers", "images a second", lines, count + 1, 1);
}

/* ---- where a step's time goes ---- */

#define NEARLY_NONE 0.001 /* of a step: what is hidden without an exchange */

enum { COMPUTE, EXPOSED, WAIT, LOAD, REST, PARTS };
static const char *const part_names[PARTS] = {
    "forward and backward passes", "the exchange that nothing hides", "waiting for other workers",
    "waiting for data", "the rest, until the slowest worker had its weights"};

/* A time of a step: the figure of a run directory, and the name in a file of psring bench train
 * whose run directories were not kept. */
typedef struct step_time {
    psr_figure figure;
    const char *name;
} step_time;

static const step_time whole_step = {PSR_FIGURE_TRAIN_S, "step_s"},
                       computing = {PSR_FIGURE_COMPUTE_S, "compute_s"},
                       waiting = {PSR_FIGURE_WAIT_S, "exposed_mean_s"},
                       exposed = {PSR_FIGURE_EXPOSED_S_MIN, "exposed_s"},
                       hidden = {PSR_FIGURE_HIDDEN_S, "hidden_s"},
                       loading = {PSR_FIGURE_LOAD_WAIT_S, "load_wait_s"};

static bool is_of_bench_file(const psr_page *p, const psr_run_group *group)
{
    return isfinite(psr_bench_record_step(&p->runs->items[group->runs[0]], whole_step.name));
}

/* The mean of a time over the group's runs, a step, in ms. */
static double step_ms(const psr_page *p, const psr_run_group *group, step_time time)
{
    double sum = 0;
    if (!is_of_bench_file(p, group))
        return 1000 * psr_run_group_figure(p->runs, group, time.figure) /
               psr_run_group_figure(p->runs, group, PSR_FIGURE_OWN_STEPS);
    for (size_t i = 0; i < group->done; i++)
        sum += psr_bench_record_step(&p->runs->items[group->runs[i]], time.name);
    return group->done > 0 ? 1000 * sum / (double)group->done : NAN;
}

/* In ms, means over workers and runs; the exchange is that of the worker that waits least for it,
 * as the others wait for their fellows too. Returns the whole step's; NaN: not known. */
static double parts_of_step(const psr_page *p, const psr_run_group *group, double ms[PARTS])
{
    double whole = step_ms(p, group, whole_step);
    double wait = step_ms(p, group, waiting);
    ms[COMPUTE] = step_ms(p, group, computing);
    ms[EXPOSED] = step_ms(p, group, exposed);
    if (!isfinite(ms[EXPOSED]))
        ms[EXPOSED] = wait; /* a run of an older version */
    ms[WAIT] = fmax(wait - ms[EXPOSED], 0);
    ms[LOAD] = step_ms(p, group, loading);
    ms[REST] = fmax(whole - ms[COMPUTE] - wait - ms[LOAD], 0);
    return whole;
}

void psr_page_put_parts(const psr_page *p)
{
    double most = 0, ms[PARTS];
    bool warm = false, cold = false; /* without warm-up, and with it */
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        most = fmax(most, parts_of_step(p, &p->groups.items[g], ms)); /* fmax leaves NaN out */
        warm = warm || is_of_bench_file(p, &p->groups.items[g]);
        cold = cold || !is_of_bench_file(p, &p->groups.items[g]);
    }
    if (!(most > 0))
        return;
    psr_page_put(p, "<h2>Where a step's time goes</h2>\n<p class=legend>");
    for (size_t i = 0; i < PARTS; i++) {
        fprintf(p->to, "<span><i class=s%zu></i>", i);
        psr_page_put_text(p, "", part_names[i], "</span> ");
    }
    psr_page_put(p, "</p>\n");
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        char name[PSR_PAGE_NAME_BYTES], value[PSR_PAGE_TEXT_BYTES], titles[PARTS][128];
        psr_html_part parts[PARTS];
        double whole = parts_of_step(p, &p->groups.items[g], ms);
        for (size_t i = 0; i < PARTS; i++) {
            snprintf(titles[i], sizeof titles[i], "%s: %.3g ms", part_names[i], ms[i]);
            parts[i] = (psr_html_part){ms[i], i, titles[i]};
        }
        psr_page_group_name(p, g, name);
        const double behind = step_ms(p, &p->groups.items[g], hidden);
        snprintf(value, sizeof value, "%.3g ms, %.3g hidden", whole,
                 behind < NEARLY_NONE * whole ? 0 : behind);
        psr_html_bar(p->to, name, parts, PARTS, most, value);
    }
    psr_page_put(p, "<p class=soft>Means over workers and runs, ");
    psr_page_put(p, !warm   ? "warm-up included"
                    : !cold ? "after the warm-up"
                            : "after the warm-up where only the benchmark's file was kept");
    psr_page_put(p, ". Hidden: gradients or weights were under way while the worker did something "
                    "else.</p>\n");
}

/* ---- bytes ---- */

/* Of a step, in the mean of the group's runs; *ret_lent is NaN where it is not known how they went,
 * as in a benchmark's file. */
static double bytes_of_step(const psr_page *p, const psr_run_group *group, double *ret_lent)
{
    const double steps = psr_run_group_figure(p->runs, group, PSR_FIGURE_OWN_STEPS);
    *ret_lent = psr_run_group_figure(p->runs, group, PSR_FIGURE_BYTES_LENT) / steps;
    return psr_run_group_figure(p->runs, group, PSR_FIGURE_BYTES_SENT) / steps;
}

void psr_page_put_bytes(const psr_page *p)
{
    double most = 0, lent;
    bool known = true;
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        most = fmax(most, bytes_of_step(p, &p->groups.items[g], &lent));
        known = known && isfinite(lent);
    }
    if (!(most > 0))
        return;
    psr_page_put(p, "<h2>Bytes that workers send in a step</h2>\n");
    if (known)
        psr_page_put(p, "<p class=legend><span><i class=s0></i>through sockets</span> "
                        "<span><i class=s1></i>through memory that processes of a host "
                        "share</span></p>\n");
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        char name[PSR_PAGE_NAME_BYTES], value[PSR_PAGE_TEXT_BYTES];
        const double sent = bytes_of_step(p, &p->groups.items[g], &lent);
        const psr_html_part ways[] = {{sent - lent, 0, "through sockets"},
                                      {lent, 1, "through shared memory"}},
                            all = {sent, 0, NULL};
        psr_page_group_name(p, g, name);
        snprintf(value, sizeof value, "%.3f MB", sent / 1e6);
        psr_html_bar(p->to, name, known ? ways : &all, known ? 2 : 1, most, value);
    }
}
