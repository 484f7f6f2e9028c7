#include "deploy/report/groups.h"

#include "base/show/summary.h"
#include "base/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool are_alike(const psr_runs *r, size_t a, size_t b)
{
    const cJSON *name;
    cJSON_ArrayForEach(name, r->differing)
    {
        if (!psr_run_records_agree(&r->items[a], &r->items[b], name->valuestring))
            return false;
    }
    return true;
}

static psr_run_group *group_of(const psr_runs *r, size_t run, psr_run_groups *groups)
{
    for (size_t g = 0; g < groups->count; g++)
        if (are_alike(r, groups->items[g].runs[0], run))
            return &groups->items[g];
    return &groups->items[groups->count++];
}

/* ---- rates ---- */

static psr_figure rate_of_all(const psr_runs *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].status == PSR_RUN_DONE &&
            !isfinite(psr_summary_figure(r->items[i].outcome, PSR_FIGURE_TOGETHER_IMAGES_PER_S)))
            return PSR_FIGURE_IMAGES_PER_S;
    return PSR_FIGURE_TOGETHER_IMAGES_PER_S;
}

static void measure(const psr_runs *r, psr_figure figure, psr_run_group *group)
{
    for (size_t i = 0; i < group->done && group->rate_count < PSR_SAMPLES_MAX; i++) {
        double rate = psr_summary_figure(r->items[group->runs[i]].outcome, figure);
        if (isfinite(rate))
            group->rates[group->rate_count++] = rate;
    }
    group->median = psr_samples_median(group->rates, group->rate_count);
    group->least = group->most = group->median;
    for (size_t i = 0; i < group->rate_count; i++) {
        group->least = fmin(group->least, group->rates[i]);
        group->most = fmax(group->most, group->rates[i]);
    }
}

static int fastest_first(const void *a, const void *b)
{
    const psr_run_group *x = a, *y = b;
    if (isnan(x->median) || isnan(y->median))
        return isnan(x->median) - isnan(y->median);
    return (x->median < y->median) - (x->median > y->median);
}

void psr_run_groups_make(const psr_runs *r, psr_run_groups *groups)
{
    *groups = (psr_run_groups){.rate = rate_of_all(r)};
    for (int done = 1; done >= 0; done--) /* in each group those that ended well come first */
        for (size_t i = 0; i < r->count; i++) {
            if (r->items[i].json == NULL || (r->items[i].status == PSR_RUN_DONE) != (done == 1))
                continue;
            psr_run_group *group = group_of(r, i, groups);
            group->runs[group->count++] = i;
            group->done += (size_t)done;
        }
    for (size_t g = 0; g < groups->count; g++)
        measure(r, groups->rate, &groups->items[g]);
    qsort(groups->items, groups->count, sizeof *groups->items, fastest_first);
}

psr_samples_verdict psr_run_group_compare(const psr_run_group *a, const psr_run_group *b)
{
    return psr_samples_compare(a->rates, a->rate_count, b->rates, b->rate_count);
}

/* ---- what is shown of a group ---- */

void psr_run_group_name(const psr_runs *r, const psr_run_group *group, char *text, size_t size)
{
    const psr_run_record *run = &r->items[group->runs[0]];
    psr_text_end end = {text, size};
    const char *before = "";
    const cJSON *name;
    text[0] = '\0';
    cJSON_ArrayForEach(name, r->differing)
    {
        const char *value = psr_run_record_option(run, name->valuestring);
        if (value == NULL || value[0] == '\0' ||
            (strcmp(name->valuestring, "shards") == 0 && strcmp(value, "auto") == 0))
            continue; /* a ring has no shards */
        psr_text_add(&end, "%s%s %s", before, name->valuestring, value);
        before = ", ";
    }
    if (text[0] == '\0')
        psr_runs_name(r, group->runs[0], text, size);
}

double psr_run_group_figure(const psr_runs *r, const psr_run_group *group, psr_figure figure)
{
    double sum = 0;
    for (size_t i = 0; i < group->done; i++)
        sum += psr_summary_figure(r->items[group->runs[i]].outcome, figure);
    return group->done > 0 ? sum / (double)group->done : NAN;
}
