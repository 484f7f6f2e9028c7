#include "deploy/report/page/page_private.h"

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

/* Whether the fastest may be called so before all the others. */
static bool is_called(const psr_page *p, size_t count)
{
    for (size_t g = 1; g < count; g++)
        if (psr_run_group_compare(&p->groups.items[0], &p->groups.items[g]) != PSR_SAMPLES_HIGHER)
            return false;
    return true;
}

/* Why the fastest may not be called so. */
static const char *why_not(const psr_page *p, size_t count)
{
    for (size_t g = 0; g < count; g++)
        if (p->groups.items[g].rate_count < PSR_SAMPLES_LEAST)
            return "with so few runs of each is no more than a reading";
    return "lies inside the spread of the runs";
}

static void put_fastest(const psr_page *p)
{
    size_t count = psr_page_measured(p);
    const psr_run_group *best = &p->groups.items[0];
    char name[PSR_PAGE_NAME_BYTES], text[PSR_PAGE_TEXT_BYTES];
    if (count == 0) {
        psr_page_put(p, "No run ended well, so there is no rate. ");
        return;
    }
    psr_page_group_name(p, 0, name);
    char rate[PSR_HTML_NUMBER_BYTES];
    psr_html_number(best->median, rate);
    if (count == 1) {
        snprintf(text, sizeof text, "%s trained %s images a second. ", name, rate);
    } else {
        const psr_run_group *next = &p->groups.items[1];
        char other[PSR_PAGE_NAME_BYTES];
        psr_page_group_name(p, 1, other);
        bool called = is_called(p, count);
        snprintf(text, sizeof text,
                 called ? "%s is the fastest: %s images a second in the median, %.2f times %s. "
                        : "No configuration can be called the fastest: the highest median, %s with "
                          "%s images a second, is %.2f times that of %s, which %s. ",
                 name, rate, best->median / next->median, other, why_not(p, count));
    }
    psr_html_text(p->to, text);
}

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

static bool must_be_equal(const psr_page *p, size_t a, size_t b)
{
    const cJSON *option;
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
               ? "No two of them have a weight hash and differ in nothing but the architecture, so "
                 "there are no bits to compare."
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
