#include "deploy/report/step_trace.h"

#include "base/system/file.h"
#include "base/text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_BYTES_MAX ((size_t)1 << 30)
#define PATH_BYTES 4352
#define COUNT_MAX 0x1p32

static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
static const char tail[] = "\n\"otherData\":";

typedef struct reader {
    const char *path;
    psr_step_trace *trace;
    size_t processes_max, spans_max; /* for which there is memory */
} reader;

/* ---- numbers of an event ---- */

/* A whole number from 0 to below 2^32. */
static bool count_of(const cJSON *object, const char *name, uint32_t *ret)
{
    const double value = psr_json_number(object, name, -1);
    if (!(value >= 0 && value < COUNT_MAX && value == floor(value)))
        return false;
    *ret = (uint32_t)value;
    return true;
}

static bool time_of(const cJSON *object, const char *name, double *ret_us)
{
    *ret_us = psr_json_number(object, name, NAN);
    return isfinite(*ret_us) && fabs(*ret_us) < 0x1p53;
}

/* PARTS: it is not drawn. */
static psr_step_part part_of(const cJSON *event)
{
    static const char *const names[PSR_STEP_PARTS] = {
        "step", "forward", "backward", "wait", "bucket", "send", "receive", "fold", "update"};
    const char *category = psr_json_text(event, "cat");
    size_t part = 0;
    while (part < PSR_STEP_PARTS && (category == NULL || strcmp(category, names[part]) != 0))
        part++;
    return (psr_step_part)part;
}

/* ---- room ---- */

/* Makes room for one item more behind count. NULL: there is no memory; items are as before. */
static void *grown(void *items, size_t item_bytes, size_t count, size_t *max)
{
    if (count < *max)
        return items;
    const size_t most = *max > 0 ? 2 * *max : 64;
    void *more = realloc(items, most * item_bytes);
    if (more != NULL)
        *max = most;
    return more;
}

/* ---- lines ---- */

/* "worker 3 on HOST", "shard 0 on HOST"; anything else is not drawn. */
static psr_err take_process(reader *r, const cJSON *event, uint32_t pid)
{
    psr_step_trace *t = r->trace;
    const char *name = psr_json_text(cJSON_GetObjectItemCaseSensitive(event, "args"), "name");
    psr_step_process process = {.pid = pid};
    if (name == NULL || (sscanf(name, "worker %" SCNu32, &process.rank) != 1 &&
                         sscanf(name, "shard %" SCNu32, &process.rank) != 1))
        return PSR_OK;
    process.is_shard = name[0] == 's';
    psr_step_process *more =
        grown(t->processes, sizeof *t->processes, t->process_count, &r->processes_max);
    if (more == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", r->path);
    t->processes = more;
    t->processes[t->process_count++] = process;
    return PSR_OK;
}

/* A span as a whole, or one end of it: the other is NaN then. */
static psr_err take_span(reader *r, const cJSON *event, char phase, uint32_t pid)
{
    psr_step_trace *t = r->trace;
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(event, "args");
    const char *name = psr_json_text(event, "name");
    psr_step_span span = {.process = pid, .part = part_of(event), .bucket = PSR_STEP_NO_BUCKET};
    double at_us, lasts_us = 0;
    uint32_t step;
    if (span.part == PSR_STEP_PARTS || !count_of(args, "step", &step) ||
        step + UINT64_C(1) < t->step || step > t->step + 1)
        return PSR_OK;
    (void)count_of(args, "bucket", &span.bucket);
    if (name == NULL || !time_of(event, "ts", &at_us) ||
        (phase == 'X' && (!time_of(event, "dur", &lasts_us) || lasts_us < 0)))
        return psr_fail(PSR_ERR_FORMAT, "its span has no name, or no time");
    span.step = step;
    span.begin_us = phase == 'e' ? NAN : at_us;
    span.end_us = phase == 'b' ? NAN : at_us + lasts_us;
    snprintf(span.name, sizeof span.name, "%s", name);
    psr_step_span *more = grown(t->spans, sizeof *t->spans, t->span_count, &r->spans_max);
    if (more == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", r->path);
    t->spans = more;
    t->spans[t->span_count++] = span;
    return PSR_OK;
}

static psr_err take_event(reader *r, const cJSON *event)
{
    const char *phase = psr_json_text(event, "ph"), *name = psr_json_text(event, "name");
    uint32_t pid;
    if (phase == NULL || name == NULL || !count_of(event, "pid", &pid))
        return psr_fail(PSR_ERR_FORMAT, "it is no event of a trace");
    if (strcmp(phase, "M") == 0)
        return strcmp(name, "process_name") == 0 ? take_process(r, event, pid) : PSR_OK;
    if (strcmp(phase, "X") == 0 || strcmp(phase, "b") == 0 || strcmp(phase, "e") == 0)
        return take_span(r, event, phase[0], pid);
    return PSR_OK; /* arrows are not drawn */
}

/* psring writes an event a line; so a large trace is never in memory as JSON. */
static psr_err take_lines(reader *r, const char *text, const char *end)
{
    size_t number = 1;
    for (const char *at = text, *newline; at < end; at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL)
            newline = end;
        const char *stop = newline > at && newline[-1] == ',' ? newline - 1 : newline;
        cJSON *event = cJSON_ParseWithLength(at, (size_t)(stop - at));
        number++;
        psr_err err = event != NULL ? take_event(r, event)
                                    : psr_fail(PSR_ERR_FORMAT, "it is no event of a trace");
        cJSON_Delete(event);
        if (err == PSR_ERR_FORMAT)
            return psr_fail(err, "%s: line %zu: %s", r->path, number, psr_err_detail());
        if (err != PSR_OK)
            return err;
    }
    return PSR_OK;
}

/* ---- the whole ---- */

/* The last place of the tail: an event's name may say anything. NULL: there is none. */
static const char *find_tail(const char *text, size_t size)
{
    const size_t length = sizeof tail - 1;
    for (size_t left = size; left >= length; left--)
        if (memcmp(text + left - length, tail, length) == 0)
            return text + left - length;
    return NULL;
}

/* The step in the middle of those that "otherData" says are traced. */
static psr_err read_tail(reader *r, const char *at)
{
    cJSON *other = cJSON_Parse(at + sizeof tail - 1); /* what follows it is ignored */
    uint32_t first, last;
    const bool good = count_of(other, "first_step", &first) && count_of(other, "last_step", &last);
    cJSON_Delete(other);
    if (!good || first == 0 || last < first)
        return psr_fail(PSR_ERR_FORMAT, "%s does not say which steps it has", r->path);
    r->trace->step = first + (last - first) / 2;
    return PSR_OK;
}

static int by_role(const void *one, const void *other)
{
    const psr_step_process *a = one, *b = other;
    if (a->is_shard != b->is_shard)
        return a->is_shard ? 1 : -1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int by_place(const void *one, const void *other)
{
    const psr_step_span *a = one, *b = other;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (isnan(a->begin_us) || isnan(b->begin_us)) /* an end behind its beginning */
        return (isnan(a->begin_us) != 0) - (isnan(b->begin_us) != 0);
    return (a->begin_us > b->begin_us) - (a->begin_us < b->begin_us);
}

/* From the file's number of a process to its place in the list. False: it has no name. */
static bool place_process(const psr_step_trace *t, uint32_t *process)
{
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].pid == *process) {
            *process = (uint32_t)i;
            return true;
        }
    return false;
}

/* Joins the two ends of a bucket; drops what has but one, or no process. */
static void join_ends(psr_step_trace *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->span_count; i++) {
        psr_step_span span = t->spans[i];
        const psr_step_span *next = i + 1 < t->span_count ? &t->spans[i + 1] : NULL;
        if (isnan(span.end_us) && next != NULL && isnan(next->begin_us) &&
            next->process == span.process && next->bucket == span.bucket &&
            next->step == span.step && next->part == span.part) {
            span.end_us = next->end_us;
            i++;
        }
        if (span.begin_us <= span.end_us)
            t->spans[kept++] = span;
    }
    t->span_count = kept;
}

static void arrange(psr_step_trace *t)
{
    size_t kept = 0;
    if (t->process_count > 0)
        qsort(t->processes, t->process_count, sizeof *t->processes, by_role);
    for (size_t i = 0; i < t->span_count; i++)
        if (place_process(t, &t->spans[i].process))
            t->spans[kept++] = t->spans[i];
    t->span_count = kept;
    if (kept > 0)
        qsort(t->spans, kept, sizeof *t->spans, by_place);
    join_ends(t);
}

psr_err psr_step_trace_parse(const char *path, const char *text, size_t size,
                             psr_step_trace *ret_trace)
{
    psr_step_trace trace = {0};
    reader r = {.path = path, .trace = &trace};
    const size_t begin = sizeof head - 1;
    const char *end = size >= begin + sizeof tail && memcmp(text, head, begin) == 0
                          ? find_tail(text + begin, size - begin)
                          : NULL;
    if (end == NULL || end - text < 2 || memcmp(end - 2, "],", 2) != 0)
        return psr_fail(PSR_ERR_FORMAT, "%s is no whole trace of psring train", path);
    psr_err err = read_tail(&r, end);
    if (err == PSR_OK)
        err = take_lines(&r, text + begin, end - 2);
    if (err != PSR_OK) {
        psr_step_trace_done(&trace);
        return err;
    }
    arrange(&trace);
    *ret_trace = trace;
    return PSR_OK;
}

psr_err psr_step_trace_read(const char *directory, psr_step_trace *ret_trace)
{
    char path[PATH_BYTES];
    uint8_t *text = NULL;
    size_t size = 0;
    int length = snprintf(path, sizeof path, "%s/trace.json", directory);
    if (length < 0 || (size_t)length >= sizeof path)
        return psr_fail(PSR_ERR_USAGE, "the name is too long for a directory");
    PSR_TRY(psr_file_read(path, TRACE_BYTES_MAX, &text, &size));
    psr_err err = psr_step_trace_parse(path, (const char *)text, size, ret_trace);
    free(text);
    return err;
}

void psr_step_trace_done(psr_step_trace *trace)
{
    free(trace->processes);
    free(trace->spans);
    *trace = (psr_step_trace){0};
}

/* ---- the exchange ---- */

static bool is_wait_for_weights(const psr_step_span *span)
{
    return span->part == PSR_STEP_WAIT && (strncmp(span->name, "wait for bucket", 15) == 0 ||
                                           strcmp(span->name, "wait for all weights") == 0);
}

bool psr_step_trace_exchange(const psr_step_trace *trace, uint32_t process, double *ret_us,
                             double *ret_exposed_us)
{
    double begin = INFINITY, end = -INFINITY, exposed = 0;
    for (size_t i = 0; i < trace->span_count; i++) {
        const psr_step_span *span = &trace->spans[i];
        if (span->process != process || span->step != trace->step || span->part != PSR_STEP_BUCKET)
            continue;
        begin = fmin(begin, span->begin_us);
        end = fmax(end, span->end_us);
    }
    for (size_t i = 0; i < trace->span_count; i++) { /* waits of a thread do not overlap */
        const psr_step_span *span = &trace->spans[i];
        if (span->process == process && span->step == trace->step && is_wait_for_weights(span))
            exposed += fmax(fmin(span->end_us, end) - fmax(span->begin_us, begin), 0);
    }
    if (!(end >= begin))
        return false;
    *ret_us = end - begin;
    *ret_exposed_us = fmin(exposed, end - begin);
    return true;
}
