#include "deploy/report/page/page_private.h"

#include "deploy/report/page/html.h"
#include "deploy/report/step_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of each trace, so that a page stays short. */
#define TRACES_MAX 4
#define WORKERS_MAX 4
#define SHARDS_MAX 4
#define BUCKETS_MAX 32
/* A row's own coordinates; it is stretched to the page's width. A third of its height is a lane. */
#define ROW_WIDTH 1000.0
#define ROW_HEIGHT 9.0
#define LANE (ROW_HEIGHT / 3)
#define NARROWEST 1.5 /* so that what is short can be seen */

typedef struct traced {
    psr_step_trace trace;
    size_t group;
    double zero_us, length_us; /* the step's beginning, and until all of it is over */
} traced;

typedef struct timeline {
    const psr_page *page;
    traced items[TRACES_MAX];
    size_t count;
    double tick_us; /* between two marks of the axis */
    size_t ticks;
    char damaged[PSR_PAGE_TEXT_BYTES]; /* why a trace is not shown; "": none */
} timeline;

/* ---- which steps ---- */

/* The window is the first worker's: from its step's beginning to its last weights. */
static bool find_window(traced *t)
{
    double begin = INFINITY, end = -INFINITY;
    for (size_t i = 0; i < t->trace.span_count; i++) {
        const psr_step_span *span = &t->trace.spans[i];
        if (span->process != 0 || span->step != t->trace.step)
            continue;
        if (span->part == PSR_STEP_WHOLE)
            begin = fmin(begin, span->begin_us);
        if (span->part == PSR_STEP_WHOLE || span->part == PSR_STEP_BUCKET)
            end = fmax(end, span->end_us);
    }
    t->zero_us = begin;
    t->length_us = end - begin;
    return t->length_us > 0 && isfinite(t->length_us);
}

static bool has_mode(const timeline *l, size_t group)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(psr_page_option(l->page, l->items[i].group, "mode"),
                   psr_page_option(l->page, group, "mode")) == 0)
            return true;
    return false;
}

/* The first run of a configuration that has a trace. */
static psr_err read_group(timeline *l, size_t group)
{
    const psr_run_group *g = &l->page->groups.items[group];
    for (size_t i = 0; i < g->count; i++) {
        traced *t = &l->items[l->count];
        psr_err err = psr_step_trace_read(l->page->runs->items[g->runs[i]].directory, &t->trace);
        if (err == PSR_ERR_NOMEM)
            return err;
        if (err != PSR_OK) {
            if (err != PSR_ERR_NOT_FOUND)
                snprintf(l->damaged, sizeof l->damaged, "%s", psr_err_detail());
            continue;
        }
        t->group = group;
        if (find_window(t)) {
            l->count++;
            return PSR_OK;
        }
        psr_step_trace_done(&t->trace);
    }
    return PSR_OK;
}

/* Of each mode the fastest configuration that has a trace; shards before the ring. */
static psr_err read_traces(timeline *l)
{
    for (int shards = 1; shards >= 0; shards--)
        for (size_t g = 0; g < l->page->groups.count && l->count < TRACES_MAX; g++)
            if ((strncmp(psr_page_option(l->page, g, "mode"), "ps", 2) == 0) == shards &&
                !has_mode(l, g))
                PSR_TRY(read_group(l, g));
    return PSR_OK;
}

/* Four to ten marks, at round numbers, of which the last is behind the longest step. */
static void choose_ticks(timeline *l)
{
    double longest = 0;
    for (size_t i = 0; i < l->count; i++)
        longest = fmax(longest, l->items[i].length_us);
    const double digit = pow(10, floor(log10(longest / 4)));
    l->tick_us = longest / 4 >= 5 * digit   ? 5 * digit
                 : longest / 4 >= 2 * digit ? 2 * digit
                                            : digit;
    l->ticks = (size_t)ceil(longest / l->tick_us);
}

/* ---- rows ---- */

typedef struct row {
    const timeline *line;
    const traced *of;
} row;

static void begin_row(const row *r, const char *kind, const char *name, uint32_t number)
{
    FILE *to = r->line->page->to;
    fprintf(to,
            "<b>%s %u</b><svg class=%s viewBox=\"0 0 %.0f %.0f\" preserveAspectRatio=none "
            "role=img aria-label=\"%s %u\" style=\"background-size:%.3f%% 100%%\">",
            name, number, kind, ROW_WIDTH, ROW_HEIGHT, name, number,
            100.0 / (double)r->line->ticks);
}

static void end_row(const row *r)
{
    psr_page_put(r->line->page, "</svg>\n");
}

/* Where a span lies in its row. False: outside. */
static bool place(const row *r, const psr_step_span *span, double *ret_x, double *ret_width)
{
    const double scale = ROW_WIDTH / (r->line->tick_us * (double)r->line->ticks);
    const double begin = fmax(span->begin_us - r->of->zero_us, 0),
                 end = fmin(span->end_us - r->of->zero_us, r->of->length_us);
    if (end < begin)
        return false;
    *ret_x = begin * scale;
    *ret_width = fmin(fmax((end - begin) * scale, NARROWEST), ROW_WIDTH - *ret_x);
    return true;
}

/* What a row has of a part: of one process or of all (process: UINT32_MAX), of one bucket or of
 * all (NO_BUCKET). */
typedef struct selection {
    psr_step_part part;
    uint32_t process, bucket;
} selection;

static bool is_selected(const psr_step_span *span, const selection *s)
{
    return span->part == s->part && (s->process == UINT32_MAX || span->process == s->process) &&
           (s->bucket == PSR_STEP_NO_BUCKET || span->bucket == s->bucket);
}

/* One path for all. */
static void put_path(const row *r, const char *kind, double top, double height, selection s)
{
    FILE *to = r->line->page->to;
    bool any = false;
    for (size_t i = 0; i < r->of->trace.span_count; i++) {
        const psr_step_span *span = &r->of->trace.spans[i];
        double x, width;
        if (!is_selected(span, &s) || !place(r, span, &x, &width))
            continue;
        if (!any)
            fprintf(to, "<path class=%s d=\"", kind);
        any = true;
        fprintf(to, "M%.2f,%.0fh%.2fv%.0fh-%.2fz", x, top, width, height, width);
    }
    if (any)
        fputs("\"/>", to);
}

/* A box for each layer, with its name while the pointer is on it. */
static void put_layers(const row *r, const char *kind, selection s)
{
    FILE *to = r->line->page->to;
    for (size_t i = 0; i < r->of->trace.span_count; i++) {
        const psr_step_span *span = &r->of->trace.spans[i];
        double x, width;
        if (!is_selected(span, &s) || !place(r, span, &x, &width))
            continue;
        fprintf(to, "<rect class=%s x=%.2f width=%.2f height=%.0f><title>", kind, x, width,
                ROW_HEIGHT);
        psr_html_text(to, span->name);
        fprintf(to,
                s.part == PSR_STEP_WAIT      ? ", %.3g ms"
                : s.part == PSR_STEP_FORWARD ? " forward, %.3g ms"
                                             : " backward, %.3g ms",
                (span->end_us - span->begin_us) / 1000);
        fputs("</title></rect>", to);
    }
}

static void put_compute(const row *r, uint32_t process)
{
    begin_row(r, "compute", "worker", r->of->trace.processes[process].rank);
    put_layers(r, "s0", (selection){PSR_STEP_FORWARD, process, PSR_STEP_NO_BUCKET});
    put_layers(r, "s5", (selection){PSR_STEP_BACKWARD, process, PSR_STEP_NO_BUCKET});
    put_layers(r, "s1", (selection){PSR_STEP_WAIT, process, PSR_STEP_NO_BUCKET});
    end_row(r);
}

static void put_bucket(const row *r, uint32_t bucket)
{
    begin_row(r, "bucket", "bucket", bucket);
    put_path(r, "way", 0, ROW_HEIGHT, (selection){PSR_STEP_BUCKET, 0, bucket});
    put_path(r, "s2", 0, LANE, (selection){PSR_STEP_SEND, 0, bucket});
    put_path(r, "s3", LANE, LANE, (selection){PSR_STEP_FOLD, UINT32_MAX, bucket});
    put_path(r, "s3", LANE, LANE, (selection){PSR_STEP_UPDATE, 0, bucket});
    put_path(r, "s4", 2 * LANE, LANE, (selection){PSR_STEP_RECEIVE, 0, bucket});
    end_row(r);
}

static void put_shard(const row *r, uint32_t process)
{
    begin_row(r, "compute", "shard", r->of->trace.processes[process].rank);
    put_path(r, "s4", 0, ROW_HEIGHT, (selection){PSR_STEP_RECEIVE, process, PSR_STEP_NO_BUCKET});
    put_path(r, "s3", 0, ROW_HEIGHT, (selection){PSR_STEP_FOLD, process, PSR_STEP_NO_BUCKET});
    put_path(r, "s2", 0, ROW_HEIGHT, (selection){PSR_STEP_SEND, process, PSR_STEP_NO_BUCKET});
    end_row(r);
}

/* ---- a step ---- */

static uint32_t buckets_of(const psr_step_trace *trace)
{
    uint32_t count = 0;
    for (size_t i = 0; i < trace->span_count; i++) {
        const psr_step_span *span = &trace->spans[i];
        if (span->part == PSR_STEP_BUCKET && span->bucket != PSR_STEP_NO_BUCKET &&
            span->bucket >= count)
            count = span->bucket + 1;
    }
    return count;
}

static void put_caption(const row *r)
{
    const psr_page *p = r->line->page;
    char name[PSR_PAGE_NAME_BYTES];
    double exchange_us, exposed_us;
    psr_page_group_name(p, r->of->group, name);
    psr_page_put_text(p, "<h3>", name, "</h3>\n");
    fprintf(p->to, "<p class=soft>Step %llu of worker %u: %.3g ms until all its weights are there.",
            (unsigned long long)r->of->trace.step, r->of->trace.processes[0].rank,
            r->of->length_us / 1000);
    if (psr_step_trace_exchange(&r->of->trace, 0, &exchange_us, &exposed_us))
        fprintf(p->to, " Its exchange takes %.3g ms: %.3g ms hidden, %.3g ms exposed.",
                exchange_us / 1000, (exchange_us - exposed_us) / 1000, exposed_us / 1000);
    psr_page_put(p, "</p>\n");
}

static void put_axis(const timeline *l)
{
    psr_page_put(l->page, "<div class=x>");
    for (size_t i = 0; i <= l->ticks; i++)
        fprintf(l->page->to, "<b style=\"left:%.2f%%\">%.4g%s</b>",
                100 * (double)i / (double)l->ticks, l->tick_us * (double)i / 1000,
                i == 0 ? " ms" : "");
    psr_page_put(l->page, "</div>");
}

static void put_rest(const psr_page *p, const char *what, size_t count, size_t shown)
{
    if (count > shown)
        fprintf(p->to, "<p class=soft>The first %zu of %zu %s.</p>\n", shown, count, what);
}

static void put_step(const timeline *l, const traced *t)
{
    const row r = {l, t};
    const psr_step_trace *trace = &t->trace;
    const uint32_t buckets = buckets_of(trace);
    size_t workers = 0, shards = 0;
    put_caption(&r);
    psr_page_put(l->page, "<div class=rows>\n");
    for (uint32_t i = 0; i < trace->process_count; i++)
        if (!trace->processes[i].is_shard && workers++ < WORKERS_MAX)
            put_compute(&r, i);
    for (uint32_t b = 0; b < buckets && b < BUCKETS_MAX; b++)
        put_bucket(&r, b);
    for (uint32_t i = 0; i < trace->process_count; i++)
        if (trace->processes[i].is_shard && shards++ < SHARDS_MAX)
            put_shard(&r, i);
    put_axis(l);
    psr_page_put(l->page, "</div>\n");
    put_rest(l->page, "workers", workers, WORKERS_MAX);
    put_rest(l->page, "buckets", buckets, BUCKETS_MAX);
    put_rest(l->page, "shards", shards, SHARDS_MAX);
}

static void put_legend(const psr_page *p)
{
    static const char *const legend[][2] = {
        {"s0", "forward pass, by layer"},
        {"s5", "backward pass"},
        {"s1", "waiting"},
        {"way", "a bucket is under way"},
        {"s2", "messages leave: pushes, hops, weights"},
        {"s3", "fold and update"},
        {"s4", "messages are taken"},
    };
    psr_page_put(p, "<p class=legend>");
    for (size_t i = 0; i < sizeof legend / sizeof *legend; i++)
        fprintf(p->to, "<span><i class=%s></i>%s</span> ", legend[i][0], legend[i][1]);
    psr_page_put(p, "</p>\n");
}

static void put_timeline(timeline *l)
{
    const psr_page *p = l->page;
    psr_page_put(p, "<h2>One step</h2>\n");
    if (l->count > 0) {
        choose_ticks(l);
        put_legend(p);
        for (size_t i = 0; i < l->count; i++)
            put_step(l, &l->items[i]);
        fprintf(p->to,
                "<p class=soft>%s Buckets are the first worker's; what is too short to be seen is "
                "drawn wider. The whole trace is the run's trace.json (docs/seeing.md).</p>\n",
                l->count > 1 ? "All steps have one time axis." : "");
    } else if (l->damaged[0] == '\0') {
        psr_page_put(p, "<p class=soft>None of these runs has a trace. <code>psring train "
                        "--trace</code> writes one, of which a step is shown here.</p>\n");
    }
    if (l->damaged[0] != '\0')
        psr_page_put_text(p, "<p>A trace is not shown: ", l->damaged, ".</p>\n");
}

psr_err psr_page_put_timeline(const psr_page *p)
{
    timeline *l = calloc(1, sizeof *l);
    if (l == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a timeline");
    l->page = p;
    psr_err err = read_traces(l);
    if (err == PSR_OK && p->groups.count > 0)
        put_timeline(l);
    for (size_t i = 0; i < l->count; i++)
        psr_step_trace_done(&l->items[i].trace);
    free(l);
    return err;
}
