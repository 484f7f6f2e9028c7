#include "deploy/report/page/page_private.h"

#include "base/show/summary.h"
#include "base/text/json.h"
#include "deploy/report/bench_file.h"
#include "deploy/report/page/html.h"

#include <string.h>

#define RUNS_SHOWN 16 /* a longer table is folded */

/* ---- runs, configuration, machine ---- */

void psr_page_put_runs(const psr_page *p)
{
    static const psr_figure figures[] = {PSR_FIGURE_STEPS,        PSR_FIGURE_TRAIN_S,
                                         PSR_FIGURE_IMAGES_PER_S, PSR_FIGURE_STEADY_IMAGES_PER_S,
                                         PSR_FIGURE_LOSS,         PSR_FIGURE_TEST_ACCURACY};
    const size_t count = sizeof figures / sizeof *figures;
    const bool folded = p->runs->count > RUNS_SHOWN;
    psr_page_put(p, "<h2>Runs</h2>\n");
    if (folded)
        fprintf(p->to, "<details><summary>All %zu runs</summary>\n", p->runs->count);
    psr_page_put(p, "<div class=wide><table><tr><th>run<th>status");
    for (size_t f = 0; f < count; f++)
        psr_page_put_text(p, "<th>", psr_figure_definitions[figures[f]].name, "");
    psr_page_put(p, "<th>hash</tr>\n");
    for (size_t i = 0; i < p->runs->count; i++) {
        const psr_run_record *run = &p->runs->items[i];
        char text[PSR_RUNS_NAME_BYTES];
        psr_runs_name(p->runs, i, text, sizeof text);
        psr_page_put_text(p, "<tr><td>", text, "");
        psr_page_put_text(p, "<td>", psr_run_status_name(run->status), "");
        for (size_t f = 0; f < count; f++) {
            char figure[PSR_FIGURE_TEXT_BYTES];
            psr_summary_text(run->outcome, figures[f], figure);
            psr_page_put_text(p, "<td>", figure, "");
        }
        const char *hash = psr_run_record_hash(run);
        psr_page_put_text(p, "<td><code>", hash != NULL ? hash : "-", "</code></tr>\n");
    }
    psr_page_put(p, folded ? "</table></div></details>\n" : "</table></div>\n");
    for (size_t i = 0; i < p->runs->count; i++) {
        char text[PSR_SUMMARY_BYTES], name[PSR_RUNS_NAME_BYTES];
        psr_summary_stretches(p->runs->items[i].outcome, "", text);
        psr_runs_name(p->runs, i, name, sizeof name);
        if (text[0] == '\0')
            continue;
        psr_page_put_text(p, "<p>Stretches of ", name,
                          ", which changed its architecture:</p>\n<pre>");
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
            psr_page_put_text(p, "", line, "\n");
        psr_page_put(p, "</pre>\n");
    }
}

static bool is_option_equal(const psr_page *p, const cJSON *option)
{
    return !psr_page_differs_in(p, option->string) && strcmp(option->string, "out") != 0 &&
           cJSON_IsString(option) && option->valuestring[0] != '\0';
}

void psr_page_put_configuration(const psr_page *p)
{
    if (p->groups.count == 0)
        return;
    const psr_run_record *run = &p->runs->items[p->groups.items[0].runs[0]];
    const cJSON *facts = cJSON_GetObjectItemCaseSensitive(run->json, "facts"),
                *hosts = cJSON_GetObjectItemCaseSensitive(run->json, "hosts"), *host, *option;
    const char *identity = psr_json_text(facts, "identity"),
               *version = psr_json_text(run->json, "version"),
               *started = psr_json_text(run->json, "started");
    psr_page_put(p, "<h2>Configuration and machine</h2>\n<p>");
    if (version != NULL)
        psr_page_put_text(p, "psring ", version, "");
    if (identity != NULL)
        psr_page_put_text(p, ", ", identity, "");
    psr_page_put(p, hosts != NULL ? ", on" : "");
    cJSON_ArrayForEach(host, hosts) if (cJSON_IsString(host))
        psr_page_put_text(p, " ", host->valuestring, "");
    if (started != NULL)
        psr_page_put_text(p, ", ", started, "");
    psr_page_put(p,
                 ".</p>\n<details><summary>Options that are the same in all runs</summary>\n<p>");
    cJSON_ArrayForEach(option, cJSON_GetObjectItemCaseSensitive(run->json, "config"))
    {
        if (cJSON_IsString(option) && is_option_equal(p, option)) {
            psr_page_put_text(p, "<code>", option->string, " ");
            psr_page_put_text(p, "", option->valuestring, "</code>, ");
        }
    }
    psr_page_put(p, "and nothing else.</p></details>\n");
}

/* ---- what the figures leave open ---- */

/* Whether the machines of all readable runs are of one kind, and all on one host. */
static void compare_machines(const psr_page *p, bool *ret_alike, bool *ret_one_host)
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
static void put_how_made(const psr_page *p)
{
    for (size_t i = 0; i < p->runs->count; i++) {
        char name[PSR_RUNS_NAME_BYTES];
        if (p->runs->items[i].made[0] == '\0')
            continue;
        psr_runs_name(p->runs, i, name, sizeof name);
        psr_page_put_text(p, "<li>", name, ": ");
        psr_page_put_text(p, "", p->runs->items[i].made, "</li>\n");
    }
}

void psr_page_put_caveats(const psr_page *p)
{
    bool alike, one_host, few = false;
    compare_machines(p, &alike, &one_host);
    for (size_t g = 0; g < p->groups.count; g++)
        few = few || p->groups.items[g].rate_count < PSR_SAMPLES_LEAST;
    psr_page_put(p, "<h2>What this leaves open</h2>\n<ul>\n");
    if (few)
        fprintf(p->to,
                "<li>Some configurations ran fewer than %d times. Differences from them are read "
                "from the bars, and not called.</li>\n",
                PSR_SAMPLES_LEAST);
    if (one_host)
        psr_page_put(
            p, "<li>All processes ran on one host and shared its processor and memory. Over a "
               "network the ratios are others.</li>\n");
    if (!alike)
        psr_page_put(p,
                     "<li>The runs had different processors, threads or oneDNN versions.</li>\n");
    put_how_made(p);
    for (size_t i = 0; i < p->runs->count; i++) {
        const psr_run_record *run = &p->runs->items[i];
        char name[PSR_RUNS_NAME_BYTES];
        if (run->why[0] == '\0')
            continue;
        psr_runs_name(p->runs, i, name, sizeof name);
        psr_page_put_text(p, "<li>", name, ": ");
        psr_page_put_text(p, "", psr_run_status_name(run->status), ": ");
        psr_page_put_text(p, "", run->why, "</li>\n");
    }
    psr_page_put(p, "<li>Every figure is defined in docs/figures.md and in <code>psring report "
                    "--help</code>.</li>\n</ul>\n");
}

static void put_quoted(const psr_page *p, const char *word) /* for a POSIX shell */
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:=,@+%";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        psr_page_put_text(p, "", word, "");
        return;
    }
    psr_page_put(p, "&#39;");
    for (const char *end; *word; word = *end ? end + 1 : end) {
        char run[PSR_RUNS_NAME_BYTES];
        end = word + strcspn(word, "'");
        snprintf(run, sizeof run, "%.*s", (int)(end - word), word);
        psr_page_put_text(p, "", run, *end ? "&#39;\\&#39;&#39;" : "");
    }
    psr_page_put(p, "&#39;");
}

/* Of runs that a benchmark's file alone tells of: that of the whole file, once. */
static void put_benchmark(const psr_page *p, size_t run)
{
    const cJSON *command = psr_bench_record_command(&p->runs->items[run]), *word;
    for (size_t i = 0; i < run; i++)
        if (cJSON_Compare(psr_bench_record_command(&p->runs->items[i]), command, true))
            return;
    cJSON_ArrayForEach(word, command)
    {
        put_quoted(p, word->valuestring);
        psr_page_put(p, word->next != NULL ? " " : "\n");
    }
}

void psr_page_put_commands(const psr_page *p)
{
    psr_page_put(p, "<h2>To repeat it</h2>\n<pre class=lines>");
    for (size_t g = 0; g < p->groups.count; g++) {
        const psr_run_record *run = &p->runs->items[p->groups.items[g].runs[0]];
        if (psr_bench_record_command(run) != NULL)
            continue;
        psr_page_put(p, "psring train --config ");
        put_quoted(p, run->directory);
        psr_page_put(p, "\n");
    }
    for (size_t i = 0; i < p->runs->count; i++)
        if (psr_bench_record_command(&p->runs->items[i]) != NULL)
            put_benchmark(p, i);
    psr_page_put(p, "psring report");
    for (size_t i = 0; i < p->runs->given_count; i++) {
        psr_page_put(p, " ");
        put_quoted(p, p->runs->given[i]);
    }
    psr_page_put(p, " -o report.html</pre>\n");
}
