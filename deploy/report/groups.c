#include "deploy/report/groups.h"

#include "base/show/summary.h"
#include "base/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_placed_alike(const psr_runs *r, size_t a, size_t b)
{
    const char *one = psr_run_record_placement(&r->items[a]),
               *other = psr_run_record_placement(&r->items[b]);
    return one == NULL || other == NULL || strcmp(one, other) == 0;
}

static bool are_alike(const psr_runs *r, size_t a, size_t b)
{
    const cJSON *name;
    if (!is_placed_alike(r, a, b))
        return false;
    cJSON_ArrayForEach(name, r->differing)
    {
        if (!psr_run_records_agree(&r->items[a], &r->items[b], name->valuestring))
            return false;
    }
    return true;
}

/* Whether two runs do the same work in a step, so that their rates can be compared. */
static bool do_the_same(const psr_runs *r, size_t a, size_t b)
{
    static const char *const names[] = {"model", "workers", "batch-size"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!psr_run_records_agree(&r->items[a], &r->items[b], names[i]))
            return false;
    return true;
}

static void number_trainings(const psr_runs *r, psr_run_groups *groups)
{
    size_t count = 0;
    for (size_t g = 0; g < groups->count; g++) {
        size_t like = 0;
        while (like < g && !do_the_same(r, groups->items[like].runs[0], groups->items[g].runs[0]))
            like++;
        groups->items[g].training = like < g ? groups->items[like].training : count++;
    }
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

static int by_training(const void *a, const void *b)
{
    const psr_run_group *x = a, *y = b;
    if (isnan(x->median) || isnan(y->median))
        return isnan(x->median) - isnan(y->median);
    if (x->training != y->training)
        return x->training < y->training ? -1 : 1;
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
    number_trainings(r, groups);
    for (size_t g = 0; g < groups->count; g++)
        measure(r, groups->rate, &groups->items[g]);
    qsort(groups->items, groups->count, sizeof *groups->items, by_training);
}

psr_samples_verdict psr_run_group_compare(const psr_run_group *a, const psr_run_group *b)
{
    return psr_samples_compare(a->rates, a->rate_count, b->rates, b->rate_count);
}

/* ---- what is shown of a group ---- */

/* Options that are named before the others, since these are what is compared. */
static const char *const first_named[] = {"model", "mode", "workers", "shards"};

static bool is_first_named(const char *name)
{
    for (size_t i = 0; i < sizeof first_named / sizeof *first_named; i++)
        if (strcmp(name, first_named[i]) == 0)
            return true;
    return false;
}

/* Whether runs of one network always agree in that option too. */
static bool goes_with_the_network(const psr_runs *r, const char *name)
{
    for (size_t a = 0; a < r->count; a++)
        for (size_t b = a + 1; b < r->count; b++)
            if (r->items[a].json != NULL && r->items[b].json != NULL &&
                psr_run_records_agree(&r->items[a], &r->items[b], "model") &&
                !psr_run_records_agree(&r->items[a], &r->items[b], name))
                return false;
    return true;
}

/* What says nothing that other options do not say: what the data are beside their name, and what
 * follows from the network. */
static bool is_told_by_others(const psr_runs *r, const char *name)
{
    static const char *const of_network[] = {"data",    "bucket-size", "slice-size", "image-size",
                                             "seconds", "steps",       "epochs"};
    if (strcmp(name, "data-content") == 0)
        return psr_run_records_lists(r->differing, "data");
    for (size_t i = 0; i < sizeof of_network / sizeof *of_network; i++)
        if (strcmp(name, of_network[i]) == 0)
            return psr_run_records_lists(r->differing, "model") && goes_with_the_network(r, name);
    return false;
}

static void name_option(const psr_runs *r, const psr_run_record *run, const char *name,
                        psr_text_end *end, const char **before)
{
    const char *value = psr_run_record_option(run, name);
    const bool exchanges = psr_run_record_exchanges(run);
    if (value == NULL || value[0] == '\0' || is_told_by_others(r, name))
        return;
    if (strcmp(name, "shards") == 0 && (strcmp(value, "auto") == 0 || !exchanges))
        return; /* a ring has no shards */
    if (strcmp(name, "exchange") == 0 && exchanges)
        return;
    if (strcmp(name, "mode") == 0 && !exchanges)
        return;
    if (strcmp(name, "exchange") == 0)
        psr_text_add(end, "%sno exchange", *before);
    else
        psr_text_add(end, "%s%s %s", *before, name, value);
    *before = ", ";
}

/* Where its shards are, if others are elsewhere. */
static void name_placement(const psr_runs *r, size_t run, psr_text_end *end, const char **before)
{
    for (size_t i = 0; i < r->count; i++)
        if (!is_placed_alike(r, i, run)) {
            psr_text_add(end, "%s%s", *before, psr_run_record_placement(&r->items[run]));
            *before = ", ";
            return;
        }
}

void psr_run_group_name(const psr_runs *r, const psr_run_group *group, char *text, size_t size)
{
    const psr_run_record *run = &r->items[group->runs[0]];
    psr_text_end end = {text, size};
    const char *before = "";
    const cJSON *name;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof first_named / sizeof *first_named; i++)
        if (psr_run_records_lists(r->differing, first_named[i]))
            name_option(r, run, first_named[i], &end, &before);
    name_placement(r, group->runs[0], &end, &before);
    cJSON_ArrayForEach(name, r->differing)
    {
        if (!is_first_named(name->valuestring))
            name_option(r, run, name->valuestring, &end, &before);
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
