#include "deploy/report/page/page_private.h"

#include "base/text/json.h"
#include "deploy/report/page/html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void psr_page_put_question(const psr_page *p)
{
    char name[PSR_PAGE_NAME_BYTES];
    psr_page_put(p, "<p class=soft>psring report</p>\n<h1>");
    if (p->groups.count > 1) {
        fprintf(p->to, "Which of these %zu configurations of ", p->groups.count);
        psr_html_text(p->to, psr_page_differs_in(p, "model") ? "training"
                                                             : psr_page_option(p, 0, "model"));
        psr_page_put(p, " is the fastest, and do they end with the same bits?</h1>\n");
    } else if (p->groups.count == 1) {
        psr_page_group_name(p, 0, name);
        psr_page_put_text(p, "How fast did ", name, " train?</h1>\n");
    } else {
        psr_page_put(p, "No run could be read</h1>\n");
    }
}

/* ---- the fastest ---- */

/* Groups that are compared, the fastest first: those of one training that have a rate, and whose
 * workers exchange anything, since the others only show what the exchange costs. */
typedef struct candidates {
    const psr_run_group *groups[PSR_RUNS_MAX];
    size_t at[PSR_RUNS_MAX]; /* their numbers */
    size_t count;
} candidates;

static void find_candidates(const psr_page *p, size_t like, candidates *all)
{
    all->count = 0;
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        const psr_run_record *run = &p->runs->items[p->groups.items[g].runs[0]];
        if (p->groups.items[g].training != p->groups.items[like].training ||
            !psr_run_record_exchanges(run))
            continue;
        all->at[all->count] = g;
        all->groups[all->count++] = &p->groups.items[g];
    }
}

/* Whether the fastest may be called so before all the others. */
static bool is_called(const candidates *all)
{
    for (size_t i = 1; i < all->count; i++)
        if (psr_run_group_compare(all->groups[0], all->groups[i]) != PSR_SAMPLES_HIGHER)
            return false;
    return true;
}

/* Why the fastest may not be called so. */
static const char *why_not(const candidates *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->groups[i]->rate_count < PSR_SAMPLES_LEAST)
            return "with so few runs of each is no more than a reading";
    return "lies inside the spread of the runs";
}

static void put_fastest_of(const psr_page *p, const candidates *all)
{
    char name[PSR_PAGE_NAME_BYTES], text[PSR_PAGE_TEXT_BYTES], rate[PSR_HTML_NUMBER_BYTES];
    const psr_run_group *best = all->groups[0];
    psr_page_group_name(p, all->at[0], name);
    psr_html_number(best->median, rate);
    if (all->count == 1) {
        snprintf(text, sizeof text, "%s trained %s images a second. ", name, rate);
    } else {
        char other[PSR_PAGE_NAME_BYTES];
        psr_page_group_name(p, all->at[1], other);
        bool called = is_called(all);
        snprintf(text, sizeof text,
                 called ? "%s is the fastest: %s images a second in the median, %.2f times %s. "
                        : "No configuration can be called the fastest: the highest median, %s with "
                          "%s images a second, is %.2f times that of %s, which %s. ",
                 name, rate, best->median / all->groups[1]->median, other, why_not(all));
    }
    psr_html_text(p->to, text);
}

static bool several_trainings(const psr_page *p)
{
    for (size_t g = 1; g < psr_page_measured(p); g++)
        if (p->groups.items[g].training != p->groups.items[0].training)
            return true;
    return false;
}

/* A sentence for each network, number of workers and batch. */
static void put_fastest(const psr_page *p)
{
    candidates all;
    if (psr_page_measured(p) == 0) {
        psr_page_put(p, "No run ended well, so there is no rate. ");
        return;
    }
    for (size_t g = 0; g < psr_page_measured(p); g++) {
        if (g > 0 && p->groups.items[g].training == p->groups.items[g - 1].training)
            continue;
        find_candidates(p, g, &all);
        if (all.count > 0)
            put_fastest_of(p, &all);
        psr_page_put(p, several_trainings(p) ? "<br>\n" : "");
    }
}

/* ---- the bits ---- */

/* Options that change no bit where the others are equal. */
static bool is_of_architecture(const char *option)
{
    static const char *const names[] = {
        "mode",      "shards",     "route",       "bucket-size",     "slice-size", "window",
        "transport", "no-encrypt", "deadline",    "log-every",       "hash",       "loader-threads",
        "eval",      "eval-every", "compress-as", "checkpoint-every"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

/* Whether a run's bits are defined: by arrival, and where workers run ahead, they are not. */
static bool is_repeatable(const psr_run_record *run)
{
    const char *sync = psr_run_record_option(run, "sync"),
               *fold = psr_run_record_option(run, "fold");
    return (sync == NULL || strcmp(sync, "bsp") == 0) &&
           (fold == NULL || strcmp(fold, "arrival") != 0);
}

/* With --seconds runs take as many steps as they manage. */
static bool took_as_many_steps(const psr_run_record *a, const psr_run_record *b)
{
    return psr_json_number(a->outcome, "steps", 0) == psr_json_number(b->outcome, "steps", 0);
}

static bool must_be_equal(const psr_page *p, size_t a, size_t b)
{
    const psr_run_record *one = &p->runs->items[a], *other = &p->runs->items[b];
    const cJSON *option;
    if (!is_repeatable(one) || !is_repeatable(other) || !took_as_many_steps(one, other))
        return false;
    cJSON_ArrayForEach(option, p->runs->differing)
    {
        if (!is_of_architecture(option->valuestring) &&
            !psr_run_records_agree(&p->runs->items[a], &p->runs->items[b], option->valuestring))
            return false;
    }
    return true;
}

static void put_bits(const psr_page *p)
{
    size_t compared = 0, other = 0;
    for (size_t a = 0; a < p->runs->count; a++)
        for (size_t b = a + 1; b < p->runs->count; b++) {
            const char *x = psr_run_record_hash(&p->runs->items[a]),
                       *y = psr_run_record_hash(&p->runs->items[b]);
            if (x == NULL || y == NULL || !must_be_equal(p, a, b))
                continue;
            compared++;
            other += strcmp(x, y) != 0;
        }
    psr_page_put(
        p, compared == 0
               ? "No two of them have a weight hash, took as many steps and differ in nothing but "
                 "the architecture, so there are no bits to compare."
           : other == 0 ? "All runs that differ in nothing but the architecture ended with the "
                          "same bits."
                        : "Runs that differ in nothing but the architecture ended with other bits: "
                          "see their hashes below.");
}

void psr_page_put_answer(const psr_page *p)
{
    psr_page_put(p, "<p class=answer>");
    put_fastest(p);
    put_bits(p);
    psr_page_put(p, "</p>\n");
}
