#include "deploy/report/page/page_private.h"

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

typedef struct scaling {
    double workers[PSR_RUNS_MAX], rates[PSR_RUNS_MAX];
    char mode[64];
    size_t count;
} scaling;

static int by_workers(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* The groups of a mode, in the order of their workers. */
static void collect_mode(const psr_page *p, const char *mode, scaling *s)
{
    double pairs[PSR_RUNS_MAX][2];
    *s = (scaling){0};
    snprintf(s->mode, sizeof s->mode, "%s", mode);
    for (size_t g = 0; g < psr_page_measured(p); g++)
        if (strcmp(psr_page_option(p, g, "mode"), mode) == 0) {
            pairs[s->count][0] = strtod(psr_page_option(p, g, "workers"), NULL);
            pairs[s->count++][1] = p->groups.items[g].median;
        }
    qsort(pairs, s->count, sizeof *pairs, by_workers);
    for (size_t i = 0; i < s->count; i++) {
        s->workers[i] = pairs[i][0];
        s->rates[i] = pairs[i][1];
    }
}

/* Only where nothing but mode and workers differs: a line of other points would join what cannot be
 * compared. */
static bool shows_scaling(const psr_page *p)
{
    int others = cJSON_GetArraySize(p->runs->differing) - psr_page_differs_in(p, "workers") -
                 psr_page_differs_in(p, "mode") - psr_page_differs_in(p, "shards");
    return psr_page_differs_in(p, "workers") && others == 0 && psr_page_measured(p) > 1;
}

static size_t collect_scaling(const psr_page *p, scaling modes[static PSR_HTML_COLOURS])
{
    size_t count = 0;
    for (size_t g = 0; g < psr_page_measured(p) && count < PSR_HTML_COLOURS; g++) {
        bool seen = false;
        for (size_t m = 0; m < count; m++)
            seen = seen || strcmp(modes[m].mode, psr_page_option(p, g, "mode")) == 0;
        if (!seen)
            collect_mode(p, psr_page_option(p, g, "mode"), &modes[count++]);
    }
    return count;
}

void psr_page_put_scaling(const psr_page *p)
{
    scaling modes[PSR_HTML_COLOURS];
    psr_html_line lines[PSR_HTML_COLOURS + 1];
    if (!shows_scaling(p))
        return;
    size_t count = collect_scaling(p, modes);
    double each = 0, least = INFINITY, most = 0; /* the best rate of a worker, and how many */
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < modes[m].count; i++) {
            each = fmax(each, modes[m].rates[i] / modes[m].workers[i]);
            least = fmin(least, modes[m].workers[i]);
            most = fmax(most, modes[m].workers[i]);
        }
    double limit_x[] = {least, most}, limit_y[] = {each * least, each * most};
    for (size_t m = 0; m < count; m++)
        lines[m] = (psr_html_line){.name = modes[m].mode,
                                   .x = modes[m].workers,
                                   .y = modes[m].rates,
                                   .count = modes[m].count,
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

enum { COMPUTE, EXPOSED, WAIT, LOAD, REST, PARTS };
static const char *const part_names[PARTS] = {
    "forward and backward passes", "the exchange that nothing hides", "waiting for other workers",
    "waiting for data", "the rest, until the slowest worker had its weights"};

/* The mean of a figure over the group's runs, a step, in ms. */
static double step_ms(const psr_page *p, const psr_run_group *group, psr_figure figure)
{
    return 1000 * psr_run_group_figure(p->runs, group, figure) /
           psr_run_group_figure(p->runs, group, PSR_FIGURE_OWN_STEPS);
}

/* In ms, means over workers and runs; the exchange is that of the worker that waits least for it,
 * as the others wait for their fellows too. Returns the whole step's; NaN: not known. */
static double parts_of_step(const psr_page *p, const psr_run_group *group, double ms[PARTS])
{
    double whole = step_ms(p, group, PSR_FIGURE_TRAIN_S);
    double wait = step_ms(p, group, PSR_FIGURE_WAIT_S);
    ms[COMPUTE] = step_ms(p, group, PSR_FIGURE_COMPUTE_S);
    ms[EXPOSED] = step_ms(p, group, PSR_FIGURE_EXPOSED_S_MIN);
    if (!isfinite(ms[EXPOSED]))
        ms[EXPOSED] = wait; /* a run of an older version */
    ms[WAIT] = fmax(wait - ms[EXPOSED], 0);
    ms[LOAD] = step_ms(p, group, PSR_FIGURE_LOAD_WAIT_S);
    ms[REST] = fmax(whole - ms[COMPUTE] - wait - ms[LOAD], 0);
    return whole;
}

void psr_page_put_parts(const psr_page *p)
{
    double most = 0, ms[PARTS];
    for (size_t g = 0; g < psr_page_measured(p); g++)
        most = fmax(most, parts_of_step(p, &p->groups.items[g], ms)); /* fmax leaves NaN out */
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
        snprintf(value, sizeof value, "%.3g ms, %.3g hidden", whole,
                 step_ms(p, &p->groups.items[g], PSR_FIGURE_HIDDEN_S));
        psr_html_bar(p->to, name, parts, PARTS, most, value);
    }
    psr_page_put(
        p, "<p class=soft>Means over workers and runs, warm-up included. Hidden: gradients or "
           "weights were under way while the worker did something else.</p>\n");
}

/* ---- bytes ---- */

void psr_page_put_bytes(const psr_page *p)
{
    double most = 0;
    for (size_t g = 0; g < psr_page_measured(p); g++)
        most = fmax(most,
                    psr_run_group_figure(p->runs, &p->groups.items[g], PSR_FIGURE_BYTES_SENT) /
                        psr_run_group_figure(p->runs, &p->groups.items[g], PSR_FIGURE_OWN_STEPS));
    if (!(most > 0))
        return;
    psr_page_put(
        p, "<h2>Bytes that workers send in a step</h2>\n<p class=legend>"
           "<span><i class=s0></i>through sockets</span> <span><i class=s1></i>through memory that "
           "processes of a host share</span></p>\n");
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        const psr_run_group *group = &p->groups.items[g];
        char name[PSR_PAGE_NAME_BYTES], value[PSR_PAGE_TEXT_BYTES];
        double steps = psr_run_group_figure(p->runs, group, PSR_FIGURE_OWN_STEPS),
               sent = psr_run_group_figure(p->runs, group, PSR_FIGURE_BYTES_SENT) / steps,
               lent = psr_run_group_figure(p->runs, group, PSR_FIGURE_BYTES_LENT) / steps;
        psr_html_part parts[] = {{sent - lent, 0, "through sockets"},
                                 {lent, 1, "through shared memory"}};
        psr_page_group_name(p, g, name);
        snprintf(value, sizeof value, "%.3f MB", sent / 1e6);
        psr_html_bar(p->to, name, parts, 2, most, value);
    }
}
