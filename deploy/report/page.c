#include "deploy/report/page.h"

#include "base/show/summary.h"
#include "base/system/file.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "deploy/report/curves.h"
#include "deploy/report/groups.h"
#include "deploy/report/html.h"
#include "deploy/report/page_style.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 512
#define TEXT_BYTES 1024

typedef struct page {
    const psr_runs *runs;
    psr_run_groups groups;
    FILE *to;
} page;

static void put(const page *p, const char *text)
{
    fputs(text, p->to);
}

static void put_text(const page *p, const char *before, const char *text, const char *after)
{
    put(p, before);
    psr_html_text(p->to, text);
    put(p, after);
}

static void name_of(const page *p, size_t group, char name[NAME_BYTES])
{
    psr_run_group_name(p->runs, &p->groups.items[group], name, NAME_BYTES);
}

/* Groups with a rate: the first so many. */
static size_t measured(const page *p)
{
    size_t count = 0;
    while (count < p->groups.count && isfinite(p->groups.items[count].median))
        count++;
    return count;
}

/* An option of the group's first run, "" if there is none. */
static const char *option_of(const page *p, size_t group, const char *name)
{
    const char *value =
        psr_run_record_option(&p->runs->items[p->groups.items[group].runs[0]], name);
    return value != NULL ? value : "";
}

static bool differ_in(const page *p, const char *name)
{
    return psr_run_records_lists(p->runs->differing, name);
}

/* ---- the question and the answer ---- */

static void put_question(const page *p)
{
    char name[NAME_BYTES];
    put(p, "<p class=soft>psring report</p>\n<h1>");
    if (p->groups.count > 1) {
        fprintf(p->to, "Which of these %zu configurations of ", p->groups.count);
        psr_html_text(p->to, differ_in(p, "model") ? "training" : option_of(p, 0, "model"));
        put(p, " is the fastest, and do they end with the same bits?</h1>\n");
    } else if (p->groups.count == 1) {
        name_of(p, 0, name);
        put_text(p, "How fast did ", name, " train?</h1>\n");
    } else {
        put(p, "No run could be read</h1>\n");
    }
}

/* Whether the fastest may be called so before all the others. */
static bool is_called(const page *p, size_t count)
{
    for (size_t g = 1; g < count; g++)
        if (psr_run_group_compare(&p->groups.items[0], &p->groups.items[g]) != PSR_SAMPLES_HIGHER)
            return false;
    return true;
}

/* Why the fastest may not be called so. */
static const char *why_not(const page *p, size_t count)
{
    for (size_t g = 0; g < count; g++)
        if (p->groups.items[g].rate_count < PSR_SAMPLES_LEAST)
            return "with so few runs of each is no more than a reading";
    return "lies inside the spread of the runs";
}

static void put_fastest(const page *p)
{
    size_t count = measured(p);
    const psr_run_group *best = &p->groups.items[0];
    char name[NAME_BYTES], text[TEXT_BYTES];
    if (count == 0) {
        put(p, "No run ended well, so there is no rate. ");
        return;
    }
    name_of(p, 0, name);
    char rate[PSR_HTML_NUMBER_BYTES];
    psr_html_number(best->median, rate);
    if (count == 1) {
        snprintf(text, sizeof text, "%s trained %s images a second. ", name, rate);
    } else {
        const psr_run_group *next = &p->groups.items[1];
        char other[NAME_BYTES];
        name_of(p, 1, other);
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

static bool must_be_equal(const page *p, size_t a, size_t b)
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

static void put_bits(const page *p)
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
    put(p, compared == 0
               ? "No two of them have a weight hash and differ in nothing but the architecture, so "
                 "there are no bits to compare."
           : other == 0 ? "All runs that differ in nothing but the architecture ended with the "
                          "same bits."
                        : "Runs that differ in nothing but the architecture ended with other bits: "
                          "see their hashes below.");
}

static void put_answer(const page *p)
{
    put(p, "<p class=answer>");
    put_fastest(p);
    put_bits(p);
    put(p, "</p>\n");
}

/* ---- throughput ---- */

static void put_throughput(const page *p)
{
    size_t count = measured(p);
    if (count == 0)
        return;
    double most = 0;
    for (size_t g = 0; g < count; g++)
        most = fmax(most, p->groups.items[g].most);
    put_text(p, "<h2>Throughput</h2>\n<p class=soft>", psr_figure_definitions[p->groups.rate].name,
             ", images of all workers a second: the median, and the least and the most of the "
             "runs.</p>\n");
    for (size_t g = 0; g < count; g++) {
        const psr_run_group *group = &p->groups.items[g];
        char name[NAME_BYTES], value[TEXT_BYTES];
        name_of(p, g, name);
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
static void collect_mode(const page *p, const char *mode, scaling *s)
{
    double pairs[PSR_RUNS_MAX][2];
    *s = (scaling){0};
    snprintf(s->mode, sizeof s->mode, "%s", mode);
    for (size_t g = 0; g < measured(p); g++)
        if (strcmp(option_of(p, g, "mode"), mode) == 0) {
            pairs[s->count][0] = strtod(option_of(p, g, "workers"), NULL);
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
static bool shows_scaling(const page *p)
{
    int others = cJSON_GetArraySize(p->runs->differing) - differ_in(p, "workers") -
                 differ_in(p, "mode") - differ_in(p, "shards");
    return differ_in(p, "workers") && others == 0 && measured(p) > 1;
}

static size_t collect_scaling(const page *p, scaling modes[static PSR_HTML_COLOURS])
{
    size_t count = 0;
    for (size_t g = 0; g < measured(p) && count < PSR_HTML_COLOURS; g++) {
        bool seen = false;
        for (size_t m = 0; m < count; m++)
            seen = seen || strcmp(modes[m].mode, option_of(p, g, "mode")) == 0;
        if (!seen)
            collect_mode(p, option_of(p, g, "mode"), &modes[count++]);
    }
    return count;
}

static void put_scaling(const page *p)
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
    put(p, "<h2>Scaling</h2>\n");
    psr_html_chart(p->to, "workers", "images a second", lines, count + 1, 1);
}

/* ---- where a step's time goes ---- */

enum { COMPUTE, EXPOSED, WAIT, LOAD, REST, PARTS };
static const char *const part_names[PARTS] = {
    "forward and backward passes", "the exchange that nothing hides", "waiting for other workers",
    "waiting for data", "the rest, until the slowest worker had its weights"};

/* The mean of a figure over the group's runs, a step, in ms. */
static double step_ms(const page *p, const psr_run_group *group, psr_figure figure)
{
    return 1000 * psr_run_group_figure(p->runs, group, figure) /
           psr_run_group_figure(p->runs, group, PSR_FIGURE_OWN_STEPS);
}

/* In ms, means over workers and runs; the exchange is that of the worker that waits least for it,
 * as the others wait for their fellows too. Returns the whole step's; NaN: not known. */
static double parts_of_step(const page *p, const psr_run_group *group, double ms[PARTS])
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

static void put_parts(const page *p)
{
    double most = 0, ms[PARTS];
    for (size_t g = 0; g < measured(p); g++)
        most = fmax(most, parts_of_step(p, &p->groups.items[g], ms)); /* fmax leaves NaN out */
    if (!(most > 0))
        return;
    put(p, "<h2>Where a step's time goes</h2>\n<p class=legend>");
    for (size_t i = 0; i < PARTS; i++) {
        fprintf(p->to, "<span><i class=s%zu></i>", i);
        put_text(p, "", part_names[i], "</span> ");
    }
    put(p, "</p>\n");
    for (size_t g = 0; g < measured(p); g++) {
        char name[NAME_BYTES], value[TEXT_BYTES], titles[PARTS][128];
        psr_html_part parts[PARTS];
        double whole = parts_of_step(p, &p->groups.items[g], ms);
        for (size_t i = 0; i < PARTS; i++) {
            snprintf(titles[i], sizeof titles[i], "%s: %.3g ms", part_names[i], ms[i]);
            parts[i] = (psr_html_part){ms[i], i, titles[i]};
        }
        name_of(p, g, name);
        snprintf(value, sizeof value, "%.3g ms, %.3g hidden", whole,
                 step_ms(p, &p->groups.items[g], PSR_FIGURE_HIDDEN_S));
        psr_html_bar(p->to, name, parts, PARTS, most, value);
    }
    put(p, "<p class=soft>Means over workers and runs, warm-up included. Hidden: gradients or "
           "weights were under way while the worker did something else.</p>\n");
}

/* ---- bytes ---- */

static void put_bytes(const page *p)
{
    double most = 0;
    for (size_t g = 0; g < measured(p); g++)
        most = fmax(most,
                    psr_run_group_figure(p->runs, &p->groups.items[g], PSR_FIGURE_BYTES_SENT) /
                        psr_run_group_figure(p->runs, &p->groups.items[g], PSR_FIGURE_OWN_STEPS));
    if (!(most > 0))
        return;
    put(p, "<h2>Bytes that workers send in a step</h2>\n<p class=legend>"
           "<span><i class=s0></i>through sockets</span> <span><i class=s1></i>through memory that "
           "processes of a host share</span></p>\n");
    for (size_t g = 0; g < measured(p); g++) {
        const psr_run_group *group = &p->groups.items[g];
        char name[NAME_BYTES], value[TEXT_BYTES];
        double steps = psr_run_group_figure(p->runs, group, PSR_FIGURE_OWN_STEPS),
               sent = psr_run_group_figure(p->runs, group, PSR_FIGURE_BYTES_SENT) / steps,
               lent = psr_run_group_figure(p->runs, group, PSR_FIGURE_BYTES_LENT) / steps;
        psr_html_part parts[] = {{sent - lent, 0, "through sockets"},
                                 {lent, 1, "through shared memory"}};
        name_of(p, g, name);
        snprintf(value, sizeof value, "%.3f MB", sent / 1e6);
        psr_html_bar(p->to, name, parts, 2, most, value);
    }
}

/* ---- the loss ---- */

typedef struct loss_curve {
    psr_curve curve;
    double steps[PSR_CURVE_POINTS_MAX], seconds[PSR_CURVE_POINTS_MAX], losses[PSR_CURVE_POINTS_MAX];
    char name[NAME_BYTES];
} loss_curve;

static void fill_curve(const page *p, size_t group, loss_curve *curve)
{
    const char *directory = p->runs->items[p->groups.items[group].runs[0]].directory;
    if (psr_curve_read(directory, &curve->curve) != PSR_OK)
        curve->curve.count = 0; /* a run without metrics has no line */
    for (size_t i = 0; i < curve->curve.count; i++) {
        curve->steps[i] = curve->curve.points[i].step;
        curve->seconds[i] = curve->curve.points[i].train_s;
        curve->losses[i] = curve->curve.points[i].loss;
    }
    name_of(p, group, curve->name);
}

static void put_losses(const page *p, const loss_curve *curves, size_t count)
{
    psr_html_line lines[PSR_HTML_COLOURS];
    size_t drawn = 0, each = 1;
    for (int by_seconds = 0; by_seconds <= 1; by_seconds++) {
        drawn = 0;
        for (size_t g = 0; g < count; g++) {
            if (curves[g].curve.count < 2)
                continue;
            each = curves[g].curve.steps_per_point > each ? curves[g].curve.steps_per_point : each;
            lines[drawn++] = (psr_html_line){.name = curves[g].name,
                                             .x = by_seconds ? curves[g].seconds : curves[g].steps,
                                             .y = curves[g].losses,
                                             .count = curves[g].curve.count,
                                             .colour = g,
                                             .dashed = g % 2 == 1};
        }
        if (drawn == 0)
            return;
        put(p, by_seconds ? "<h2>Loss against seconds of training</h2>\n"
                          : "<h2>Loss against steps</h2>\n<p class=soft>Where two runs have the "
                            "same bits their lines lie on one another.</p>\n");
        psr_html_chart(p->to, by_seconds ? "seconds" : "step", "loss", lines, drawn, 0);
    }
    fprintf(p->to, "<p class=soft>The first run of each configuration%s",
            count < p->groups.count ? ", the first eight" : "");
    if (each > 1)
        fprintf(p->to, "; a point is the mean of %zu steps", each);
    put(p, ".</p>\n");
}

static psr_err put_curves(const page *p)
{
    size_t count = p->groups.count < PSR_HTML_COLOURS ? p->groups.count : PSR_HTML_COLOURS;
    loss_curve *curves = calloc(count > 0 ? count : 1, sizeof *curves);
    if (curves == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the losses of %zu runs", count);
    for (size_t g = 0; g < count; g++)
        fill_curve(p, g, &curves[g]);
    put_losses(p, curves, count);
    free(curves);
    return PSR_OK;
}

/* ---- runs, configuration, machine ---- */

static void put_runs(const page *p)
{
    static const psr_figure figures[] = {PSR_FIGURE_STEPS,        PSR_FIGURE_TRAIN_S,
                                         PSR_FIGURE_IMAGES_PER_S, PSR_FIGURE_STEADY_IMAGES_PER_S,
                                         PSR_FIGURE_LOSS,         PSR_FIGURE_TEST_ACCURACY};
    const size_t count = sizeof figures / sizeof *figures;
    put(p, "<h2>Runs</h2>\n<div class=wide><table><tr><th>run<th>status");
    for (size_t f = 0; f < count; f++)
        put_text(p, "<th>", psr_figure_definitions[figures[f]].name, "");
    put(p, "<th>hash</tr>\n");
    for (size_t i = 0; i < p->runs->count; i++) {
        const psr_run_record *run = &p->runs->items[i];
        char text[PSR_RUNS_NAME_BYTES];
        psr_runs_name(p->runs, i, text, sizeof text);
        put_text(p, "<tr><td>", text, "");
        put_text(p, "<td>", psr_run_status_name(run->status), "");
        for (size_t f = 0; f < count; f++) {
            char figure[PSR_FIGURE_TEXT_BYTES];
            psr_summary_text(run->outcome, figures[f], figure);
            put_text(p, "<td>", figure, "");
        }
        const char *hash = psr_run_record_hash(run);
        put_text(p, "<td><code>", hash != NULL ? hash : "-", "</code></tr>\n");
    }
    put(p, "</table></div>\n");
    for (size_t i = 0; i < p->runs->count; i++) {
        char text[PSR_SUMMARY_BYTES], name[PSR_RUNS_NAME_BYTES];
        psr_summary_stretches(p->runs->items[i].outcome, "", text);
        psr_runs_name(p->runs, i, name, sizeof name);
        if (text[0] == '\0')
            continue;
        put_text(p, "<p>Stretches of ", name, ", which changed its architecture:</p>\n<pre>");
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            put_text(p, "", line, "\n");
        put(p, "</pre>\n");
    }
}

static bool is_option_equal(const page *p, const cJSON *option)
{
    return !differ_in(p, option->string) && strcmp(option->string, "out") != 0 &&
           cJSON_IsString(option) && option->valuestring[0] != '\0';
}

static void put_configuration(const page *p)
{
    if (p->groups.count == 0)
        return;
    const psr_run_record *run = &p->runs->items[p->groups.items[0].runs[0]];
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(run->json, "facts"),
                *hosts = cJSON_GetObjectItemCaseSensitive(run->json, "hosts"), *host, *option;
    const char *identity = psr_json_text(facts, "identity"),
               *version = psr_json_text(run->json, "version"),
               *started = psr_json_text(run->json, "started");
    put(p, "<h2>Configuration and machine</h2>\n<p>");
    if (version != NULL)
        put_text(p, "psring ", version, "");
    if (identity != NULL)
        put_text(p, ", ", identity, "");
    put(p, hosts != NULL ? ", on" : "");
    cJSON_ArrayForEach(host, hosts) if (cJSON_IsString(host))
        put_text(p, " ", host->valuestring, "");
    if (started != NULL)
        put_text(p, ", ", started, "");
    put(p, ".</p>\n<details><summary>Options that are the same in all runs</summary>\n<p>");
    cJSON_ArrayForEach(option, cJSON_GetObjectItemCaseSensitive(run->json, "config"))
    {
        if (is_option_equal(p, option)) {
            put_text(p, "<code>", option->string, " ");
            put_text(p, "", option->valuestring, "</code>, ");
        }
    }
    put(p, "and nothing else.</p></details>\n");
}

/* ---- what the figures leave open ---- */

/* Whether the machines of all readable runs are of one kind, and all on one host. */
static void compare_machines(const page *p, bool *ret_alike, bool *ret_one_host)
{
    const char *first = NULL;
    *ret_alike = *ret_one_host = true;
    for (size_t i = 0; i < p->runs->count; i++) {
        const cJSON *json = p->runs->items[i].json;
        const char *identity =
            psr_json_text(cJSON_GetObjectItemCaseSensitive(json, "facts"), "identity");
        if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "hosts")) > 1)
            *ret_one_host = false;
        if (identity == NULL)
            continue;
        *ret_alike = *ret_alike && (first == NULL || strcmp(first, identity) == 0);
        first = identity;
    }
}

/* Of runs that were played, or in a lab. */
static void put_how_made(const page *p)
{
    for (size_t i = 0; i < p->runs->count; i++) {
        char name[PSR_RUNS_NAME_BYTES];
        if (p->runs->items[i].made[0] == '\0')
            continue;
        psr_runs_name(p->runs, i, name, sizeof name);
        put_text(p, "<li>", name, ": ");
        put_text(p, "", p->runs->items[i].made, "</li>\n");
    }
}

static void put_caveats(const page *p)
{
    bool alike, one_host, few = false;
    compare_machines(p, &alike, &one_host);
    for (size_t g = 0; g < p->groups.count; g++)
        few = few || p->groups.items[g].rate_count < PSR_SAMPLES_LEAST;
    put(p, "<h2>What this leaves open</h2>\n<ul>\n");
    if (few)
        fprintf(p->to,
                "<li>Some configurations ran fewer than %d times. Differences from them are read "
                "from the bars, and not called.</li>\n",
                PSR_SAMPLES_LEAST);
    if (one_host)
        put(p, "<li>All processes ran on one host and shared its processor and memory. Over a "
               "network the ratios are others.</li>\n");
    if (!alike)
        put(p, "<li>The runs had different processors, threads or oneDNN versions.</li>\n");
    put_how_made(p);
    for (size_t i = 0; i < p->runs->count; i++) {
        const psr_run_record *run = &p->runs->items[i];
        char name[PSR_RUNS_NAME_BYTES];
        if (run->why[0] == '\0')
            continue;
        psr_runs_name(p->runs, i, name, sizeof name);
        put_text(p, "<li>", name, ": ");
        put_text(p, "", psr_run_status_name(run->status), ": ");
        put_text(p, "", run->why, "</li>\n");
    }
    put(p, "<li>Every figure is defined in docs/figures.md and in <code>psring report "
           "--help</code>.</li>\n</ul>\n");
}

static void put_quoted(const page *p, const char *word) /* for a POSIX shell */
{
    put(p, "&#39;");
    for (const char *end; *word; word = *end ? end + 1 : end) {
        char run[PSR_RUNS_NAME_BYTES];
        end = word + strcspn(word, "'");
        snprintf(run, sizeof run, "%.*s", (int)(end - word), word);
        put_text(p, "", run, *end ? "&#39;\\&#39;&#39;" : "");
    }
    put(p, "&#39;");
}

static void put_commands(const page *p)
{
    put(p, "<h2>To repeat it</h2>\n<pre>");
    for (size_t g = 0; g < p->groups.count; g++) {
        put(p, "psring train --config ");
        put_quoted(p, p->runs->items[p->groups.items[g].runs[0]].directory);
        put(p, "\n");
    }
    put(p, "psring report");
    for (size_t i = 0; i < p->runs->count; i++) {
        put(p, " ");
        put_quoted(p, p->runs->items[i].directory);
    }
    put(p, " -o report.html</pre>\n");
}

/* ---- the page ---- */

static psr_err put_page(const page *p)
{
    put(p, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
           "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
           "<title>psring report</title>\n<style>\n");
    put(p, psr_page_style);
    put(p, "</style></head><body>\n");
    put_question(p);
    put_answer(p);
    put_throughput(p);
    put_scaling(p);
    put_parts(p);
    put_bytes(p);
    PSR_TRY(put_curves(p));
    put_runs(p);
    put_configuration(p);
    put_caveats(p);
    put_commands(p);
    put(p, "</body></html>\n");
    return PSR_OK;
}

psr_err psr_runs_write_page(const psr_runs *runs, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    page *p = calloc(1, sizeof *p);
    FILE *to = open_memstream(&text, &size);
    psr_err err =
        p != NULL && to != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for a page");
    if (err == PSR_OK) {
        p->runs = runs;
        p->to = to;
        psr_run_groups_make(runs, &p->groups);
        err = put_page(p);
    }
    if (to != NULL && fclose(to) != 0 && err == PSR_OK)
        err = psr_fail(PSR_ERR_NOMEM, "no memory for a page");
    if (err == PSR_OK)
        err = psr_file_write_atomic(path, text, size);
    free(text);
    free(p);
    return err;
}
