/* Members that may send training's scheduler anything, while they join and while the run is on:
 * ps/scheduler on comm/members' coordinator and its liveness. Each record of the input is one
 * message, news of a process, a person who asks for another mode, or time that passes. The test
 * checks that the run ends at most once, with a status and a line; that nothing is sent to
 * processes that have not joined; that its driver gets only existing members, steps and samples;
 * that each view follows the one before; and that every request for a mode is answered once. The
 * first two bytes say what the run is like, and how far it is. */
#include "tests/fuzz/records.h"

#include "base/text/printable.h"
#include "ps/parts.h"
#include "ps/scheduler/metrics/metrics_line.h"
#include "ps/scheduler/scheduler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What happens; who says it; the head; the payload's kind, its number, its length; how much time
 * passes. */
enum { WHAT, WHO, HEAD, KIND = HEAD + RECORDS_HEAD_BYTES, NUMBER, LENGTH, TIME, RECORD, FIRST = 2 };
enum { WORKERS = 3, SHARDS = 2, STEPS = 8, SAMPLES = 30, FLOATS = 32 };

RECORDS_MUTATOR(FIRST, RECORD);

typedef struct played {
    psr_coordinator *coordinator;
    psr_scheduler *scheduler;
    uint32_t shards, stretches;
    uint32_t epoch;           /* of the newest view that was sent */
    uint32_t asked, answered; /* of changes by hand */
    bool joined[WORKERS + SHARDS];
    unsigned ended;
    int64_t now_ms;
} played;

static size_t seat_of(psr_peer peer)
{
    if (peer.role == PSR_ROLE_WORKER && peer.rank < WORKERS)
        return peer.rank;
    if (peer.role == PSR_ROLE_SHARD && peer.rank < SHARDS)
        return WORKERS + peer.rank;
    abort();
}

/* ---- the driver ---- */

/* A view as its receiver reads it. */
static void see_view(played *p, const psr_head *head, const psr_payload *payload)
{
    const psr_message message = {.from = {PSR_ROLE_SCHEDULER, 0},
                                 .head = *head,
                                 .payload = payload->data,
                                 .payload_bytes = payload->bytes};
    const psr_view *view = NULL;
    if (psr_view_read(&message, &view) != PSR_OK)
        abort();
    if (p->stretches == 0 || (view->epoch != p->epoch && view->epoch != p->epoch + 1) ||
        view->first_step >= STEPS)
        abort();
    p->epoch = view->epoch;
    psr_view_release(view);
}

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    played *p = context;
    if (!p->joined[seat_of(to)])
        abort();
    if (head->type == PSR_MSG_VIEW)
        see_view(p, head, payload);
    return PSR_OK;
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    played *p = context;
    if (p->joined[seat_of(peer)])
        abort();
    if (strcmp(endpoint, "bad") == 0)
        return psr_fail(PSR_ERR_USAGE, "endpoint bad");
    p->joined[seat_of(peer)] = true;
    return PSR_OK;
}

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    (void)context, (void)join;
    if (status == PSR_OK || *line == '\0')
        abort();
}

static void on_joined(void *context, const psr_view_member *entry, uint32_t count, uint32_t total)
{
    (void)context, (void)entry;
    if (count > total)
        abort();
}

static psr_err on_plan(void *context, psr_mode mode, psr_plan *ret_plan)
{
    const played *p = context;
    static const psr_part parts[] = {{{16, 16}, 0}, {{0, 16}, 1}};
    const psr_plan_options plan = {.route = mode == PSR_MODE_PS ? PSR_ROUTE_SHARD : PSR_ROUTE_RING,
                                   .ranks = WORKERS,
                                   .shards = p->shards,
                                   .slice_floats = 8,
                                   .window = 2};
    return psr_plan_make(&plan, parts, 2, ret_plan);
}

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const psr_view *members, psr_beginning *ret_beginning)
{
    static psr_tensor tensor = {"t", 1, {FLOATS, 1, 1, 1}, 0, FLOATS};
    static const psr_layout layout = {&tensor, 1, FLOATS, FLOATS};
    (void)facts, (void)members;
    ret_beginning->first_step = 0;
    ret_beginning->evaluates_first = config->checkpoint_every.steps == 2;
    ret_beginning->layout = &layout;
    return on_plan(context, config->mode, &ret_beginning->plan);
}

static psr_err on_change_decided(void *context, const psr_mode_change *change,
                                 const psr_config *config)
{
    const played *p = context;
    if (p->stretches == 0 || change->first_step >= STEPS || change->pause_s != 0 ||
        psr_config_mode_at(config, change->first_step) != change->mode)
        abort();
    return PSR_OK;
}

static void on_change_happened(void *context, const psr_mode_change *change)
{
    const played *p = context;
    if (p->stretches == 0 || change->first_step >= STEPS || !(change->pause_s >= 0))
        abort();
}

static void on_change_answered(void *context, psr_err status, const char *line)
{
    played *p = context;
    (void)status;
    if (++p->answered > p->asked || p->ended > 0 || *line == '\0')
        abort();
}

static psr_err on_restore(void *context)
{
    (void)context;
    return PSR_OK;
}

static bool is_line(const char *text, size_t size)
{
    const size_t length = strnlen(text, size);
    return length < size && psr_is_printable(text, length);
}

static psr_err on_started(void *context, const psr_computing *computing)
{
    (void)context;
    return is_line(computing->algorithms, sizeof computing->algorithms) &&
                   is_line(computing->engines, sizeof computing->engines) &&
                   is_line(computing->loops, sizeof computing->loops) &&
                   is_line(computing->input, sizeof computing->input)
               ? PSR_OK
               : PSR_ERR_USAGE;
}

static psr_err on_metrics(void *context, const psr_metrics_line *line)
{
    (void)context;
    if (line->worker >= WORKERS || line->rank >= WORKERS || line->step < 1 || line->step > STEPS)
        abort();
    return PSR_OK;
}

static psr_err on_norms(void *context, const psr_metrics_line *line)
{
    (void)context;
    (void)line;
    abort(); /* no configuration here asks for them */
}

static psr_err on_made_up(void *context, const psr_metrics_line *line)
{
    (void)context;
    if (line->worker != 0 || line->rank != 0 || line->step != 0)
        abort();
    return PSR_OK;
}

static void on_evaluating(void *context, uint32_t rank, uint64_t step, uint64_t counted)
{
    (void)context;
    if (rank >= WORKERS || step > STEPS + 1 || counted > SAMPLES)
        abort();
}

static void on_done(void *context, uint32_t rank, const char *json, size_t size)
{
    (void)context;
    if (rank >= WORKERS || (size > 0 && json == NULL))
        abort();
}

static void on_carried(void *context, uint32_t shard, const psr_traffic *traffic)
{
    (void)traffic;
    if (shard >= ((played *)context)->shards)
        abort();
}

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data,
                             size_t offset, size_t count)
{
    (void)context, (void)section;
    volatile float last = count > 0 ? data[count - 1] : 0;
    (void)last;
    if (step > STEPS || offset + count < offset)
        abort();
    return offset + count <= FLOATS ? PSR_OK
                                    : psr_fail(PSR_ERR_PROTOCOL, "it is not within the section");
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    (void)context;
    if (step > STEPS)
        abort();
    return PSR_OK;
}

static void on_say(void *context, const char *line)
{
    (void)context;
    if (*line == '\0')
        abort();
}

static void on_ended(void *context, psr_err status, const char *line)
{
    (void)status;
    if (((played *)context)->ended++ > 0 || *line == '\0')
        abort();
}

/* ---- members ---- */

static void hear(played *p, psr_peer from, psr_head head, const void *bytes, size_t count,
                 size_t size)
{
    psr_message *message = records_message(from, head, size, bytes, count);
    psr_coordinator_message(p->coordinator, message, p->now_ms);
    psr_message_free(&message);
}

static void say(played *p, psr_peer from, psr_message_type type, const char *text)
{
    hear(p, from, (psr_head){.type = type}, text, strlen(text), strlen(text));
}

#define JOIN_TEXT                                                                                  \
    "{\"version\": \"" PSR_VERSION "\", \"host\": \"h\", \"endpoint\": \"e\", \"pid\": 1}"
#define FACTS_TEXT                                                                                 \
    "{\"identity\": \"\", \"data_name\": \"\", \"data_train\": \"\", \"data_test\": \"\", "        \
    "\"train_count\": 0, \"test_count\": %d, \"channels\": 0, \"height\": 0, \"width\": 0, "       \
    "\"classes\": 0, \"steps_per_epoch\": 1, \"total_steps\": %" PRIu64                            \
    ", \"parameter_count\": 0}"

/* What is due of that type, with a number of the liar's. */
static void write_text(psr_message_type type, psr_peer from, uint64_t number, char *text,
                       size_t size)
{
    switch (type) {
    case PSR_MSG_JOIN:
        snprintf(text, size, "%s",
                 number == 7
                     ? "{\"version\": \"9.9.9\", \"host\": \"h\", \"endpoint\": \"e\", \"pid\": 1}"
                 : number == 6 ? "{\"version\": \"" PSR_VERSION
                                 "\", \"host\": \"h\", \"endpoint\": \"bad\", \"pid\": 1}"
                               : JOIN_TEXT);
        return;
    case PSR_MSG_FACTS:
        snprintf(text, size, FACTS_TEXT, SAMPLES, number > 0 ? number : STEPS);
        return;
    case PSR_MSG_READY:
        snprintf(text, size, number == 0 ? "" : "{\"algorithms\": \"auto\"}");
        return;
    case PSR_MSG_METRICS:
        snprintf(text, size,
                 "{\"step\": %" PRIu64 ", \"rank\": %" PRIu32
                 ", \"loss\": 0.5, \"hash\": \"%016" PRIx64 "\"}",
                 number, from.rank, number & 1);
        return;
    case PSR_MSG_DONE:
        snprintf(text, size,
                 from.role == PSR_ROLE_SHARD ? "{\"gradient_bytes\": %" PRIu64
                                               ", \"weight_bytes\": 1}"
                                             : "{\"loss\": %" PRIu64 "}",
                 number);
        return;
    default:
        snprintf(text, size, "what it says: %" PRIu64, number);
    }
}

static void tell(played *p, psr_peer from, const uint8_t *record)
{
    static const psr_message_type often[] = {
        PSR_MSG_PROGRESS,   PSR_MSG_PROGRESS,   PSR_MSG_PROGRESS, PSR_MSG_METRICS, PSR_MSG_METRICS,
        PSR_MSG_CHECKPOINT, PSR_MSG_CHECKPOINT, PSR_MSG_HELD,     PSR_MSG_DONE,    PSR_MSG_FAILED,
        PSR_MSG_FACTS,      PSR_MSG_READY,      PSR_MSG_JOIN,     PSR_MSG_BOUND,   PSR_MSG_BOUND};
    static const float floats[FLOATS];
    const uint8_t which = record[WHAT] >> 4;
    const psr_message_type type =
        which < sizeof often / sizeof often[0] ? often[which] : (psr_message_type)record[KIND];
    psr_head head = records_head(type, record + HEAD, WORKERS);
    char text[512];
    if (type == PSR_MSG_CHECKPOINT && record[KIND] < 224) { /* as many as it says */
        head.encoding = PSR_ENCODING_FLOAT32;
        size_t count = head.fields[1] <= FLOATS ? head.fields[1] : record[LENGTH];
        hear(p, from, head, floats, sizeof floats, count * sizeof *floats);
        return;
    }
    write_text(type, from, records_number(record[NUMBER], STEPS), text, sizeof text);
    size_t length = strlen(text);
    if (record[KIND] >= 240) /* torn, or too long */
        length = (size_t)record[LENGTH] * (record[KIND] == 255 ? 512 : 1);
    if (type == PSR_MSG_PROGRESS || type == PSR_MSG_HELD || type == PSR_MSG_BOUND)
        length = record[KIND] >= 240 ? length : 0;
    hear(p, from, head, text, strlen(text) + 1, length);
}

/* A person asks for a mode: any, while the run is on. */
static void ask(played *p, uint8_t mode)
{
    if (!psr_coordinator_running(p->coordinator))
        return;
    (void)psr_scheduler_mode(p->scheduler);
    p->asked++; /* it may be answered at once */
    if (psr_scheduler_change(p->scheduler, (psr_mode)(mode % (PSR_MODE_RING + 2))) != PSR_OK)
        p->asked--;
}

static void event(played *p, const uint8_t *record)
{
    const psr_role role = (record[WHO] & 1) != 0 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER;
    const uint64_t rank =
        records_number(record[WHO] >> 1, role == PSR_ROLE_SHARD ? SHARDS : WORKERS);
    const psr_peer from = {role, record[WHO] >= 254 ? PSR_RANK_ANY : (uint32_t)rank};
    switch (record[WHAT] & 15) {
    case 0:
        p->now_ms += 16 * (int64_t)record[TIME];
        psr_coordinator_tick(p->coordinator, p->now_ms);
        if (!psr_coordinator_ended(p->coordinator) && psr_coordinator_next_tick(p->coordinator) < 0)
            abort();
        return;
    case 1:
        psr_scheduler_stop(p->scheduler);
        return;
    case 2:
        psr_coordinator_lost(p->coordinator, from, (record[KIND] & 1) != 0 ? "h" : NULL,
                             record[KIND] & 2, "exit status 1", p->now_ms);
        return;
    case 3:
        if (!psr_coordinator_running(p->coordinator))
            return;
        psr_scheduler_checkpointed(p->scheduler, record[NUMBER] % (STEPS + 1));
        return;
    case 5:
        ask(p, record[KIND]);
        return;
    default:
        tell(p, from, record);
        p->now_ms += record[TIME] & 15;
    }
}

/* ---- a run ---- */

static psr_peer member(uint32_t i)
{
    return i < WORKERS ? (psr_peer){PSR_ROLE_WORKER, i} : (psr_peer){PSR_ROLE_SHARD, i - WORKERS};
}

static void bring_up(played *p, uint8_t stage)
{
    char facts[512];
    write_text(PSR_MSG_FACTS, member(0), 0, facts, sizeof facts);
    for (uint32_t i = 0; i < WORKERS + p->shards && (stage & 3) > 0; i++)
        say(p, member(i), PSR_MSG_JOIN, JOIN_TEXT);
    for (uint32_t i = 0; i < WORKERS + p->shards && (stage & 3) > 1; i++)
        say(p, member(i), PSR_MSG_FACTS, i < WORKERS ? facts : "");
    for (uint32_t i = 0; i < WORKERS + p->shards && (stage & 3) > 2; i++)
        say(p, member(i), PSR_MSG_READY, "");
}

/* A run that changes, and may be changed: ps@1,ring@3,ps@6 or the other way round; or nothing is
 * planned. */
static void set_stretches(psr_config *config, uint8_t how)
{
    const psr_mode other = config->mode == PSR_MODE_PS ? PSR_MODE_RING : PSR_MODE_PS;
    config->sync = PSR_SYNC_BSP;
    config->stretches[0] = (psr_stretch){config->mode, 0};
    config->stretches[1] = (psr_stretch){other, 2};
    config->stretches[2] = (psr_stretch){config->mode, 5};
    config->stretch_count = (how & 128) != 0 ? 1 : 3;
}

static psr_config config_of(uint8_t how)
{
    psr_config config;
    psr_config_defaults(&config);
    config.mode = (how & 1) != 0 ? PSR_MODE_RING : PSR_MODE_PS;
    config.workers = WORKERS;
    config.shards = SHARDS;
    config.momentum = 0.5;
    config.sync = (how & 2) != 0 && (how & 1) == 0 ? PSR_SYNC_SSP : PSR_SYNC_BSP;
    config.ssp_bound = 1;
    config.checkpoint_every = (psr_duration){.steps = 1 + (how >> 2 & 3)};
    config.deadline_s = 1;
    if ((how & 64) != 0) {
        set_stretches(&config, how);
        return config;
    }
    if (config.mode == PSR_MODE_RING)
        config.shards = 0;
    if ((how & 16) != 0 && (how & 1) == 0)
        strcpy(config.compress_weights, "fp16");
    if ((how & 32) != 0)
        strcpy(config.compress, "1bit");
    return config;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FIRST)
        return 0;
    played p = {0};
    const psr_scheduler_events events = {
        .context = &p,
        .ways = {.context = &p, .send = on_send, .connect = on_connect, .refuse = on_refuse},
        .joined = on_joined,
        .begin = on_begin,
        .plan = on_plan,
        .change_decided = on_change_decided,
        .change_happened = on_change_happened,
        .change_answered = on_change_answered,
        .restore = on_restore,
        .started = on_started,
        .metrics = on_metrics,
        .norms = on_norms,
        .made_up = on_made_up,
        .evaluating = on_evaluating,
        .done = on_done,
        .carried = on_carried,
        .checkpoint = on_checkpoint,
        .last_checkpoint = on_last_checkpoint,
        .say = on_say,
        .ended = on_ended};
    const psr_config config = config_of(data[0]);
    p.shards = psr_config_shards(&config);
    p.stretches = (data[0] & 64) != 0 ? config.stretch_count : 0;
    if (psr_scheduler_new(&config, &events, "h", 0, &p.scheduler) != PSR_OK)
        abort();
    p.coordinator = psr_scheduler_coordinator(p.scheduler);
    bring_up(&p, data[1]);
    for (data += FIRST, size -= FIRST; size >= RECORD; data += RECORD, size -= RECORD) {
        event(&p, data);
        if (psr_coordinator_ended(p.coordinator) != (p.ended > 0) || p.asked > p.answered + 1)
            abort();
    }
    psr_scheduler_free(p.scheduler);
    return 0;
}
