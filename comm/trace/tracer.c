#include "comm/trace/tracer.h"

#include "base/clock.h"
#include "base/system/machine.h"
#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

#define NONE UINT64_MAX

/* What one thread records. */
typedef struct record {
    psr_trace_event *events; /* [max] */
    uint64_t count, max, dropped;
} record;

typedef enum stage { STAGE_NEW, STAGE_BEGINS, STAGE_RECORDS, STAGE_ENDS, STAGE_SENT } stage;

struct psr_tracer {
    psr_tracer_options options;
    psr_observer observer;
    record computing, exchanging;

    /* the exchanging thread's: what has begun and has not ended */
    uint64_t out;      /* index of the last OUT in exchanging; NONE: it was not kept */
    psr_observed in;   /* the message that is being dealt with; kind is IN if there is one */
    psr_observed work; /* FOLDS or UPDATES, likewise */

    /* the clock */
    stage stage;
    bool ends;                     /* psr_tracer_end was called while it begins */
    uint64_t asked;                /* CLOCKs so far */
    int64_t asked_ns, answered_ns; /* stamps of the last CLOCK and CLOCKED */
    uint64_t shortest_ns;          /* of the present stage */
    uint64_t machine;
    psr_clock_reading begin, end, *now; /* now: that of the present stage */
};

/* ---- recording ---- */

static psr_trace_event *next(record *r)
{
    if (r->count < r->max)
        return &r->events[r->count++];
    r->dropped++;
    return NULL;
}

static void keep(record *r, const psr_trace_event *event)
{
    psr_trace_event *at = next(r);
    if (at != NULL)
        *at = *event;
}

bool psr_tracer_has(const psr_tracer *tracer, uint64_t step)
{
    return step - tracer->options.first < tracer->options.count;
}

uint64_t psr_tracer_first(const psr_tracer *tracer)
{
    return tracer->options.first;
}

uint64_t psr_tracer_end_step(const psr_tracer *tracer)
{
    return tracer->options.first + tracer->options.count;
}

void psr_tracer_span(psr_tracer *tracer, psr_trace_kind kind, uint64_t step, uint32_t index,
                     uint32_t count, int64_t begin_ns, int64_t end_ns)
{
    if (!psr_tracer_has(tracer, step))
        return;
    keep(&tracer->computing, &(psr_trace_event){.kind = kind,
                                                .index = index,
                                                .count = count,
                                                .step = step,
                                                .begin_ns = begin_ns,
                                                .duration_ns = end_ns - begin_ns});
}

static psr_trace_event event_of(psr_trace_kind kind, const psr_observed *observed)
{
    return (psr_trace_event){.kind = kind,
                             .index = observed->bucket,
                             .step = observed->step,
                             .begin_ns = observed->stamp_ns,
                             .type = observed->type,
                             .peer = observed->peer,
                             .bytes = observed->bytes,
                             .part = observed->part};
}

static void see_out(psr_tracer *tracer, const psr_observed *observed)
{
    tracer->out = NONE;
    if (observed->type == PSR_MSG_CLOCK)
        tracer->asked_ns = observed->stamp_ns;
    if (observed->bucket == PSR_OBSERVED_NO_BUCKET || !psr_tracer_has(tracer, observed->step))
        return;
    psr_trace_event *event = next(&tracer->exchanging);
    if (event == NULL)
        return;
    *event = event_of(PSR_TRACE_OUT, observed);
    tracer->out = tracer->exchanging.count - 1;
}

static void see_in(psr_tracer *tracer, const psr_observed *observed)
{
    if (observed->type == PSR_MSG_CLOCKED)
        tracer->answered_ns = observed->stamp_ns;
    tracer->in = *observed;
}

/* What had begun ends with this stamp. */
static void end_span(psr_tracer *tracer, psr_trace_kind kind, const psr_observed *begun,
                     int64_t stamp_ns)
{
    psr_trace_event event = event_of(kind, begun);
    event.duration_ns = stamp_ns - begun->stamp_ns;
    keep(&tracer->exchanging, &event);
}

static void see_taken(psr_tracer *tracer, int64_t stamp_ns)
{
    const psr_observed *in = &tracer->in;
    if (in->kind == PSR_OBSERVED_IN && in->bucket != PSR_OBSERVED_NO_BUCKET &&
        psr_tracer_has(tracer, in->step))
        end_span(tracer, PSR_TRACE_IN, in, stamp_ns);
    tracer->in.kind = PSR_OBSERVED_TAKEN;
}

static void see(void *context, const psr_observed *observed)
{
    psr_tracer *tracer = context;
    const bool has = psr_tracer_has(tracer, observed->step);
    psr_trace_event event;
    switch (observed->kind) {
    case PSR_OBSERVED_OUT:
        see_out(tracer, observed);
        break;
    case PSR_OBSERVED_SENT:
        if (tracer->out != NONE)
            tracer->exchanging.events[tracer->out].duration_ns =
                observed->stamp_ns - tracer->exchanging.events[tracer->out].begin_ns;
        tracer->out = NONE;
        break;
    case PSR_OBSERVED_IN:
        see_in(tracer, observed);
        break;
    case PSR_OBSERVED_TAKEN:
        see_taken(tracer, observed->stamp_ns);
        break;
    case PSR_OBSERVED_BEGIN:
    case PSR_OBSERVED_LANDED:
        event = event_of(observed->kind == PSR_OBSERVED_BEGIN ? PSR_TRACE_BEGIN : PSR_TRACE_LANDED,
                         observed);
        if (has)
            keep(&tracer->exchanging, &event);
        break;
    case PSR_OBSERVED_FOLDS:
    case PSR_OBSERVED_UPDATES:
        tracer->work = *observed;
        break;
    case PSR_OBSERVED_FOLDED:
    case PSR_OBSERVED_UPDATED:
        if (has)
            end_span(tracer,
                     observed->kind == PSR_OBSERVED_FOLDED ? PSR_TRACE_FOLD : PSR_TRACE_UPDATE,
                     &tracer->work, observed->stamp_ns);
        break;
    }
}

const psr_observer *psr_tracer_observer(const psr_tracer *tracer)
{
    return &tracer->observer;
}

/* ---- life ---- */

/* A generous count: of each slice a message out and one in for each rank, their folds, and what a
 * ring's hops cut smaller. */
psr_tracer_options psr_tracer_room(const psr_plan *plan, uint64_t first, uint64_t count,
                                   uint32_t nodes, uint32_t turns)
{
    uint64_t exchanged = 0;
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        const uint64_t slices = plan->buckets[b].span.count / plan->slice_floats + 1;
        exchanged += 8 + (slices + plan->ranks) * (4 * (uint64_t)plan->ranks + 4);
    }
    psr_tracer_options options = {
        .first = first,
        .count = count,
        .computing_max = nodes > 0 ? 2 * ((uint64_t)nodes + plan->bucket_count + 16) * turns : 0,
        .exchanging_max = exchanged};
    /* The share of each stays the same where there is too much. */
    const uint64_t most = PSR_TRACE_EVENTS_MAX / 2;
    options.computing_max =
        options.computing_max > most / count ? most : options.computing_max * count;
    options.exchanging_max =
        options.exchanging_max > most / count ? most : options.exchanging_max * count;
    return options;
}

/* The memory is touched now, and not while steps are timed. */
static psr_err make_room(record *r, uint64_t max)
{
    r->events = malloc((size_t)(max + 1) * sizeof *r->events);
    if (r->events == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--trace: no memory for %" PRIu64 " events", max);
    memset(r->events, 0, (size_t)(max + 1) * sizeof *r->events);
    r->max = max;
    return PSR_OK;
}

psr_err psr_tracer_new(const psr_tracer_options *options, psr_tracer **ret_tracer)
{
    psr_tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "--trace: no memory for a tracer");
    tracer->options = *options;
    tracer->observer = (psr_observer){.context = tracer, .see = see, .work = true};
    tracer->out = NONE;
    tracer->in.kind = PSR_OBSERVED_TAKEN;
    tracer->machine = psr_trace_machine();
    psr_err err = make_room(&tracer->computing, options->computing_max);
    if (err == PSR_OK)
        err = make_room(&tracer->exchanging, options->exchanging_max);
    if (err != PSR_OK) {
        psr_tracer_free(tracer);
        return err;
    }
    *ret_tracer = tracer;
    return PSR_OK;
}

void psr_tracer_free(psr_tracer *tracer)
{
    if (tracer == NULL)
        return;
    free(tracer->computing.events);
    free(tracer->exchanging.events);
    free(tracer);
}

/* ---- the clock ---- */

uint64_t psr_trace_machine(void)
{
    char id[PSR_MACHINE_BYTES];
    uint64_t digest = 0;
    psr_machine_id(id);
    for (const char *c = id; *c != '\0'; c++) /* FNV-1a */
        digest = ((digest != 0 ? digest : UINT64_C(14695981039346656037)) ^ (uint8_t)*c) *
                 UINT64_C(1099511628211);
    return digest;
}

psr_head psr_trace_answer_clock(const psr_msg_clock *asked, uint64_t machine)
{
    const psr_msg_clocked answer = {.number = asked->number,
                                    .stamp_ns = psr_clock_ns(),
                                    .same_machine = machine != 0 && asked->machine == machine,
                                    .skipped_ns = psr_clock_skipped_ns()};
    return psr_msg_clocked_head(&answer);
}

static psr_err ask(psr_tracer *tracer, const psr_outbox *outbox)
{
    const psr_head head =
        psr_msg_clock_head(&(psr_msg_clock){.number = ++tracer->asked, .machine = tracer->machine});
    return outbox->send(outbox->context, scheduler, &head, NULL);
}

/* Half of the round trip is how wrong it can be to take its middle for the scheduler's moment. On
 * one machine both clocks are the same one, but for the time that each has stood still; then the
 * difference is known, if it agrees with what was measured (a container may have shifted its
 * clock). */
static void read_clock(psr_tracer *tracer, const psr_msg_clocked *says)
{
    const uint64_t round_ns = (uint64_t)(tracer->answered_ns - tracer->asked_ns);
    if (round_ns >= tracer->shortest_ns)
        return;
    const int64_t middle_ns = tracer->asked_ns + (int64_t)(round_ns / 2);
    psr_clock_reading reading = {middle_ns, says->stamp_ns - middle_ns, round_ns / 2 + 1};
    const int64_t known_ns = psr_clock_skipped_ns() - says->skipped_ns;
    const int64_t apart_ns = known_ns - reading.offset_ns;
    if (says->same_machine && apart_ns <= (int64_t)reading.error_ns &&
        -apart_ns <= (int64_t)reading.error_ns) {
        reading.offset_ns = known_ns;
        reading.error_ns = 0;
    }
    tracer->shortest_ns = round_ns;
    *tracer->now = reading;
}

static psr_err begin_reading(psr_tracer *tracer, stage now, psr_clock_reading *reading,
                             const psr_outbox *outbox)
{
    tracer->stage = now;
    tracer->now = reading;
    tracer->shortest_ns = UINT64_MAX;
    return ask(tracer, outbox);
}

int64_t psr_trace_offset_at(const psr_msg_trace *trace, int64_t at_ns)
{
    const psr_clock_reading *a = &trace->begin, *b = &trace->end;
    if (b->at_ns <= a->at_ns || at_ns >= b->at_ns)
        return b->offset_ns;
    if (at_ns <= a->at_ns)
        return a->offset_ns;
    const double share = (double)(at_ns - a->at_ns) / (double)(b->at_ns - a->at_ns);
    return a->offset_ns + (int64_t)(share * (double)(b->offset_ns - a->offset_ns));
}

/* ---- to the scheduler ---- */

/* As people read it: what begins first comes first, and of two the one that holds the other. */
static int by_begin(const void *one, const void *other)
{
    const psr_trace_event *a = one, *b = other;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return (a->duration_ns < b->duration_ns) - (a->duration_ns > b->duration_ns);
}

/* One piece: events from *at on. */
static psr_err send_piece(const psr_tracer *tracer, const record *r, uint64_t *at, uint64_t *left,
                          const psr_outbox *outbox)
{
    uint8_t bytes[PSR_TRACE_EVENTS_PER_MESSAGE * PSR_TRACE_EVENT_BYTES];
    size_t count = 0;
    while (count < PSR_TRACE_EVENTS_PER_MESSAGE && *at < r->count)
        psr_trace_event_write(&r->events[(*at)++], bytes + count++ * PSR_TRACE_EVENT_BYTES);
    *left -= count;
    const psr_msg_trace says = {.left = *left,
                                .dropped = tracer->computing.dropped + tracer->exchanging.dropped,
                                .begin = tracer->begin,
                                .end = tracer->end};
    const psr_head head = psr_msg_trace_head(&says);
    const psr_payload payload = {.data = bytes, .bytes = count * PSR_TRACE_EVENT_BYTES};
    return outbox->send(outbox->context, scheduler, &head, count > 0 ? &payload : NULL);
}

/* At least one piece, so that the scheduler knows that all have come. */
static psr_err send_events(psr_tracer *tracer, const psr_outbox *outbox)
{
    record *records[] = {&tracer->computing, &tracer->exchanging};
    uint64_t left = tracer->computing.count + tracer->exchanging.count;
    tracer->stage = STAGE_SENT;
    bool any = false;
    for (size_t i = 0; i < 2; i++) {
        record *r = records[i];
        qsort(r->events, r->count, sizeof *r->events, by_begin);
        for (uint64_t at = 0; at < r->count || (i == 1 && !any); any = true)
            PSR_TRY(send_piece(tracer, r, &at, &left, outbox));
    }
    return PSR_OK;
}

psr_err psr_tracer_begin(psr_tracer *tracer, const psr_outbox *outbox)
{
    return begin_reading(tracer, STAGE_BEGINS, &tracer->begin, outbox);
}

psr_err psr_tracer_end(psr_tracer *tracer, const psr_outbox *outbox)
{
    if (tracer->stage == STAGE_NEW)
        return PSR_OK;
    if (tracer->stage == STAGE_RECORDS)
        return begin_reading(tracer, STAGE_ENDS, &tracer->end, outbox);
    tracer->ends = true; /* the first readings are not over */
    return PSR_OK;
}

psr_err psr_tracer_clocked(psr_tracer *tracer, const psr_message *message, const psr_outbox *outbox)
{
    psr_msg_clocked says;
    PSR_TRY(psr_msg_clocked_read(message, &says));
    if (says.number != tracer->asked ||
        (tracer->stage != STAGE_BEGINS && tracer->stage != STAGE_ENDS))
        return psr_violation(message, "it answers what was not asked");
    read_clock(tracer, &says);
    if (tracer->asked % PSR_TRACE_CLOCKS != 0)
        return ask(tracer, outbox);
    if (tracer->stage == STAGE_ENDS)
        return send_events(tracer, outbox);
    tracer->stage = STAGE_RECORDS;
    return tracer->ends ? begin_reading(tracer, STAGE_ENDS, &tracer->end, outbox) : PSR_OK;
}

bool psr_tracer_begun(const psr_tracer *tracer)
{
    return tracer->stage != STAGE_NEW;
}

bool psr_tracer_sent(const psr_tracer *tracer)
{
    return tracer->stage == STAGE_SENT;
}
