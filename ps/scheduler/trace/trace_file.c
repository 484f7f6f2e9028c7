#include "ps/scheduler/trace/trace_file.h"

#include "base/text/printable.h"
#include "base/text/text.h"
#include "comm/trace/tracer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES (PSR_TENSOR_NAME_MAX + 64)
#define MEMBER_MAX_BYTES (PSR_HOST_MAX + 64)

typedef struct heard {
    psr_msg_trace says; /* with its last piece */
    bool begun, whole;  /* a piece has come; the last one has */
} heard;

struct psr_trace_file {
    psr_trace_file_options options;
    char path[PSR_PATH_MAX + 32], beside[PSR_PATH_MAX + 48];
    FILE *file;
    bool any;       /* an event was written */
    heard *members; /* [view->member_count] */
    psr_trace_figures figures;
};

/* What is written of one event. */
typedef struct row {
    uint32_t pid, tid;
    int64_t at_ns, lasts_ns; /* at: since START */
    const psr_trace_event *event;
    psr_peer self;
} row;

static psr_err fail(const psr_trace_file *file, const char *what)
{
    return psr_fail(PSR_ERR_IO, "%s %s: %s", file->path, what, strerror(errno));
}

/* Errors show in ferror. */
static void put(psr_trace_file *file, const char *format, ...) PSR_PRINTF(2, 3);

static void put(psr_trace_file *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vfprintf(file->file, format, args);
    va_end(args);
}

/* Begins an event's object. */
static void begin_event(psr_trace_file *file)
{
    put(file, "%s\n{", file->any ? "," : "");
    file->any = true;
}

/* Microseconds with all nanoseconds. */
static void put_us(psr_trace_file *file, const char *name, int64_t ns)
{
    const uint64_t size = ns < 0 ? (uint64_t)-ns : (uint64_t)ns;
    put(file, "\"%s\":%s%" PRIu64 ".%03" PRIu64, name, ns < 0 ? "-" : "", size / 1000, size % 1000);
}

static void put_text(psr_trace_file *file, const char *name, const char *text)
{
    put(file, "\"%s\":\"", name);
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\' || *text == 0x7f)
            put(file, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            put(file, "%c", *text);
    put(file, "\"");
}

/* ---- who and where ---- */

static uint32_t pid_of(const psr_trace_file *file, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER ? 1 + peer.rank
                                        : 1 + psr_view_workers(file->options.view) + peer.rank;
}

/* Perfetto looks names of threads up by tid alone, so no two processes have the same. That of a
 * process's first thread is its pid, as Linux has it. */
static uint32_t tid_of_compute(const psr_trace_file *file, psr_peer self)
{
    return pid_of(file, self);
}

static uint32_t tid_of_exchange(const psr_trace_file *file, psr_peer self)
{
    return file->options.view->member_count + pid_of(file, self);
}

/* Of passes, which a GPU computes while the thread goes on; or waits for weights. */
static uint32_t tid_of_gpu(const psr_trace_file *file, psr_peer self)
{
    return 2 * file->options.view->member_count + pid_of(file, self);
}

static uint32_t tid_of(const psr_trace_file *file, psr_peer self, psr_trace_kind kind)
{
    if (psr_trace_is_of_pass(kind) && psr_config_uses_gpu(file->options.config, NULL))
        return tid_of_gpu(file, self);
    return psr_trace_is_computing(kind) || self.role == PSR_ROLE_SHARD || file->options.one_thread
               ? tid_of_compute(file, self)
               : tid_of_exchange(file, self);
}

static void name_row(psr_trace_file *file, psr_peer self, uint32_t tid, const char *name)
{
    begin_event(file);
    put(file,
        "\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
        ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
        pid_of(file, self), tid, name);
}

/* Names of hosts come from elsewhere. */
static void describe(const psr_view_member *member, char text[static MEMBER_MAX_BYTES])
{
    snprintf(text, MEMBER_MAX_BYTES, "%s %" PRIu32 " on %s", psr_role_name(member->peer.role),
             member->peer.rank, member->host);
    psr_printable_line(text, strlen(text));
}

static void name_process(psr_trace_file *file, const psr_view_member *member)
{
    char text[MEMBER_MAX_BYTES];
    const uint32_t pid = pid_of(file, member->peer);
    describe(member, text);
    begin_event(file);
    put(file, "\"ph\":\"M\",\"pid\":%" PRIu32 ",\"name\":\"process_name\",\"args\":{", pid);
    put_text(file, "name", text);
    put(file, "}}");
    begin_event(file);
    put(file,
        "\"ph\":\"M\",\"pid\":%" PRIu32
        ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%" PRIu32 "}}",
        pid, pid);
    const bool shard = member->peer.role == PSR_ROLE_SHARD;
    name_row(file, member->peer, tid_of_compute(file, member->peer),
             shard ? "fold and update" : "compute");
    if (!shard && !file->options.one_thread)
        name_row(file, member->peer, tid_of_exchange(file, member->peer), "exchange");
    if (!shard && psr_config_uses_gpu(file->options.config, NULL))
        name_row(file, member->peer, tid_of_gpu(file, member->peer), "GPU");
}

/* ---- what an event is called ---- */

/* What a message is to who sends it. */
static const char *verb_of(psr_message_type type)
{
    switch (type) {
    case PSR_MSG_PUSH:
        return "push";
    case PSR_MSG_PULL:
        return "pull";
    case PSR_MSG_WEIGHTS:
        return "weights";
    case PSR_MSG_RING:
    case PSR_MSG_VALUES:
        return "hop";
    default:
        return psr_message_name(type);
    }
}

static void name_event(const psr_trace_file *file, const psr_trace_event *event,
                       char name[static NAME_MAX_BYTES])
{
    static const char *const words[PSR_TRACE_KINDS] = {
        [PSR_TRACE_FORWARD] = "forward",
        [PSR_TRACE_BACKWARD] = "backward",
        [PSR_TRACE_DATA] = "wait for data",
        [PSR_TRACE_WAIT_ALL] = "wait for all weights",
        [PSR_TRACE_WAIT_ROOM] = "wait for the exchange",
        [PSR_TRACE_WAIT_OTHERS] = "wait for others",
        [PSR_TRACE_EVALUATION] = "evaluation",
        [PSR_TRACE_CHECKPOINT] = "checkpoint",
        [PSR_TRACE_BEGIN] = "bucket",
        [PSR_TRACE_LANDED] = "bucket",
        [PSR_TRACE_FOLD] = "fold and update",
        [PSR_TRACE_UPDATE] = "update",
        [PSR_TRACE_WAIT_BUCKET] = "wait for bucket",
    };
    psr_text_end end = {name, NAME_MAX_BYTES};
    name[0] = '\0';
    switch (event->kind) {
    case PSR_TRACE_STEP:
        psr_text_add(&end, "step %" PRIu64, event->step + 1);
        return;
    case PSR_TRACE_LAYER:
    case PSR_TRACE_LAYER_BACK:
        psr_text_add(&end, "%s", file->options.net->nodes[event->index].name);
        return;
    case PSR_TRACE_OUT:
        psr_text_add(&end, "%s %" PRIu32, verb_of(event->type), event->index);
        return;
    case PSR_TRACE_IN:
        psr_text_add(&end, "take %s %" PRIu32, verb_of(event->type), event->index);
        return;
    default:
        psr_text_add(&end, "%s", words[event->kind]);
        if (event->index != PSR_TRACE_NO_INDEX &&
            (event->kind == PSR_TRACE_WAIT_BUCKET || event->kind >= PSR_TRACE_BEGIN))
            psr_text_add(&end, " %" PRIu32, event->index);
        return;
    }
}

static const char *category_of(psr_trace_kind kind)
{
    static const char *const words[PSR_TRACE_KINDS] = {
        "step", "pass",  "pass",  "forward", "backward", "wait", "wait",    "wait", "wait",
        "wait", "aside", "aside", "bucket",  "bucket",   "send", "receive", "fold", "update"};
    return words[kind];
}

/* The same at both ends of a message. Perfetto reads it as a hexadecimal number. */
static uint64_t digest_of(psr_peer from, psr_peer to, const psr_trace_event *event)
{
    const uint64_t words[] = {(uint64_t)from.role,   from.rank,    (uint64_t)to.role, to.rank,
                              (uint64_t)event->type, event->index, event->step,       event->part};
    uint64_t digest = UINT64_C(14695981039346656037); /* FNV-1a, by bytes */
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (int shift = 0; shift < 64; shift += 8)
            digest = (digest ^ (words[i] >> shift & 0xff)) * UINT64_C(1099511628211);
    return digest;
}

/* ---- events ---- */

static void begin_row(psr_trace_file *file, const row *r, const char *phase, const char *category,
                      const char *name)
{
    begin_event(file);
    put(file, "\"ph\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"cat\":\"%s\",", phase,
        r->pid, r->tid, category);
    put_text(file, "name", name);
    put(file, ",");
    put_us(file, "ts", r->at_ns);
}

/* The arrow of a message leaves at the beginning of its OUT and ends at that of its IN. */
static void put_flow(psr_trace_file *file, const row *r)
{
    const psr_trace_event *event = r->event;
    const bool out = event->kind == PSR_TRACE_OUT;
    begin_row(file, r, out ? "s" : "f", "message", psr_message_name(event->type));
    put(file, ",\"id\":\"%016" PRIx64 "\"%s}",
        out ? digest_of(r->self, event->peer, event) : digest_of(event->peer, r->self, event),
        out ? "" : ",\"bp\":\"e\"");
}

static void put_args(psr_trace_file *file, const psr_trace_event *event)
{
    put(file, ",\"args\":{\"step\":%" PRIu64, event->step + 1);
    switch (event->kind) {
    case PSR_TRACE_STEP:
        put(file, ",\"rank\":%" PRIu32, event->index);
        break;
    case PSR_TRACE_LAYER:
    case PSR_TRACE_LAYER_BACK:
        put(file, ",\"nodes\":%" PRIu32, event->count);
        break;
    case PSR_TRACE_OUT:
    case PSR_TRACE_IN:
        put(file, ",\"bytes\":%" PRIu64 ",\"peer\":\"%s %" PRIu32 "\"", event->bytes,
            psr_role_name(event->peer.role), event->peer.rank);
        break;
    default:
        break;
    }
    if ((event->kind == PSR_TRACE_WAIT_BUCKET || event->kind >= PSR_TRACE_BEGIN) &&
        event->index != PSR_TRACE_NO_INDEX)
        put(file, ",\"bucket\":%" PRIu32, event->index);
    put(file, "}}");
}

static void put_event(psr_trace_file *file, const row *r)
{
    const psr_trace_event *event = r->event;
    char name[NAME_MAX_BYTES];
    name_event(file, event, name);
    if (event->kind == PSR_TRACE_BEGIN || event->kind == PSR_TRACE_LANDED) {
        begin_row(file, r, event->kind == PSR_TRACE_BEGIN ? "b" : "e", "bucket", name);
        put(file, ",\"id\":\"%" PRIx64 "\"",
            digest_of(r->self, r->self,
                      &(psr_trace_event){.index = event->index, .step = event->step}));
    } else {
        begin_row(file, r, "X", category_of(event->kind), name);
        put(file, ",");
        put_us(file, "dur", r->lasts_ns);
    }
    put_args(file, event);
    if (event->kind == PSR_TRACE_OUT || event->kind == PSR_TRACE_IN)
        put_flow(file, r);
}

/* The member's place in the view; the number of members: it is none. */
static uint32_t place_of(const psr_trace_file *file, psr_peer peer)
{
    const psr_view *view = file->options.view;
    uint32_t i = 0;
    while (i < view->member_count && !psr_peer_equal(view->members[i].peer, peer))
        i++;
    return i;
}

/* By the scheduler's clock. What seems to be before START is so by an error of the clocks alone;
 * Perfetto takes no negative time. */
static row row_of(const psr_trace_file *file, psr_peer from, const psr_msg_trace *says,
                  const psr_trace_event *event)
{
    const int64_t at_ns = event->begin_ns + psr_trace_offset_at(says, event->begin_ns) -
                          file->options.start_ns,
                  early_ns = at_ns < 0 ? -at_ns : 0;
    return (row){.pid = pid_of(file, from),
                 .tid = tid_of(file, from, event->kind),
                 .at_ns = at_ns + early_ns,
                 .lasts_ns = event->duration_ns > early_ns ? event->duration_ns - early_ns : 0,
                 .event = event,
                 .self = from};
}

psr_err psr_trace_file_take(psr_trace_file *file, const psr_message *message,
                            const psr_msg_trace *says, bool first, const psr_msg_limits *limits)
{
    static const psr_trace_event none;
    const uint32_t nodes = file->options.net->node_count, place = place_of(file, message->from);
    psr_trace_event event = none;
    size_t count = 0;
    PSR_TRY(psr_trace_events_in(message, &count));
    for (size_t i = 0; i < count; i++)
        PSR_TRY(psr_trace_event_read(message, i, limits, nodes, &event));
    if (place == file->options.view->member_count)
        return psr_fail(PSR_ERR_NOT_FOUND, "a trace of %s %" PRIu32 ", which is not in the view",
                        psr_role_name(message->from.role), message->from.rank);

    if (first) {
        const uint64_t error_ns =
            says->begin.error_ns > says->end.error_ns ? says->begin.error_ns : says->end.error_ns;
        file->figures.dropped += says->dropped;
        if (error_ns > file->figures.error_ns)
            file->figures.error_ns = error_ns;
        name_process(file, &file->options.view->members[place]);
    }
    for (size_t i = 0; i < count; i++) {
        PSR_TRY(psr_trace_event_read(message, i, limits, nodes, &event));
        const row r = row_of(file, message->from, says, &event);
        put_event(file, &r);
    }
    file->figures.events += count;
    file->members[place] = (heard){.says = *says, .begun = true, .whole = says->left == 0};
    return ferror(file->file) || fflush(file->file) != 0 ? fail(file, "cannot be written") : PSR_OK;
}

uint32_t psr_trace_file_missing(const psr_trace_file *file)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < file->options.view->member_count; i++)
        missing += !file->members[i].whole;
    return missing;
}

psr_trace_figures psr_trace_file_figures(const psr_trace_file *file)
{
    return file->figures;
}

/* ---- life ---- */

psr_err psr_trace_file_new(const psr_trace_file_options *options, psr_trace_file **ret_file)
{
    psr_trace_file *file = calloc(1, sizeof *file);
    if (file == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--trace: no memory for a file");
    file->options = *options;
    file->members = calloc((size_t)options->view->member_count + 1, sizeof *file->members);
    snprintf(file->path, sizeof file->path, "%s/trace.json", options->directory);
    snprintf(file->beside, sizeof file->beside, "%s.new", file->path);
    if (file->members != NULL)
        file->file = fopen(file->beside, "we");
    psr_err err = file->members == NULL ? psr_fail(PSR_ERR_NOMEM, "--trace: no memory for a file")
                  : file->file == NULL  ? fail(file, "cannot be made")
                                        : PSR_OK;
    if (err != PSR_OK) {
        psr_trace_file_free(file);
        return err;
    }
    put(file, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    *ret_file = file;
    return PSR_OK;
}

void psr_trace_file_free(psr_trace_file *file)
{
    if (file == NULL)
        return;
    if (file->file != NULL) {
        (void)fclose(file->file);
        (void)unlink(file->beside);
    }
    free(file->members);
    free(file);
}

static void put_clock(psr_trace_file *file, uint32_t i, bool first)
{
    const psr_msg_trace *says = &file->members[i].says;
    char text[MEMBER_MAX_BYTES];
    describe(&file->options.view->members[i], text);
    put(file, "%s\n{", first ? "" : ",");
    put_text(file, "process", text);
    put(file, ",\"pid\":%" PRIu32 ",", pid_of(file, file->options.view->members[i].peer));
    put_us(file, "offset_us", says->begin.offset_ns);
    put(file, ",");
    put_us(file, "error_us", (int64_t)says->begin.error_ns);
    put(file, ",");
    put_us(file, "offset_at_end_us", says->end.offset_ns);
    put(file, ",");
    put_us(file, "error_at_end_us", (int64_t)says->end.error_ns);
    put(file, ",\"dropped\":%" PRIu64 "}", says->dropped);
}

/* Whose events are not all there. */
static void put_missing(psr_trace_file *file)
{
    bool first = true;
    put(file, ",\n\"missing\":[");
    for (uint32_t i = 0; i < file->options.view->member_count; i++) {
        char text[MEMBER_MAX_BYTES];
        if (file->members[i].whole)
            continue;
        describe(&file->options.view->members[i], text);
        put(file, "%s{", first ? "" : ",");
        put_text(file, "process", text);
        put(file, "}");
        first = false;
    }
    put(file, "]");
}

static void put_end(psr_trace_file *file, bool well)
{
    char mode[PSR_OPTION_TEXT_MAX];
    const psr_config *config = file->options.config;
    const psr_traced_steps *steps = &file->options.steps;
    put(file, "],\n\"otherData\":{\"version\":\"psring %s\"", PSR_VERSION);
    if (psr_config_get(config, "mode", mode, sizeof mode) == PSR_OK)
        put(file, ",\"mode\":\"%s\"", mode);
    put(file, ",\"first_step\":%" PRIu64 ",\"last_step\":%" PRIu64 ",", steps->first + 1,
        steps->first + steps->count);
    put_text(file, "model", config->model);
    put(file, ",\"events\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\n\"clocks\":[",
        file->figures.events, file->figures.dropped);
    bool first = true;
    for (uint32_t i = 0; i < file->options.view->member_count; i++) {
        if (file->members[i].begun) {
            put_clock(file, i, first);
            first = false;
        }
    }
    put(file, "]");
    if (!well)
        put_missing(file);
    put(file, "}}\n");
}

psr_err psr_trace_file_end(psr_trace_file *file, bool well)
{
    put_end(file, well);
    if (ferror(file->file) || fflush(file->file) != 0 || fsync(fileno(file->file)) != 0)
        return fail(file, "cannot be written");
    FILE *whole = file->file;
    file->file = NULL;
    if (fclose(whole) != 0 || rename(file->beside, file->path) != 0) {
        psr_err err = fail(file, "cannot be put in place");
        (void)unlink(file->beside);
        return err;
    }
    return PSR_OK;
}
