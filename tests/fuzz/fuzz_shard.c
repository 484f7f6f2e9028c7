/* Members that may send a shard and a scheduler anything in well-formed heads. Each record of the input is
 * one message; its fields are near what would be right, so that the fuzzer gets past the first checks. A
 * shard refuses with PROTOCOL or NUMERIC; a scheduler ends the run, once. */
#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "ps/scheduler/scheduler.h"
#include "ps/shard/shard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORD = 8, WORKERS = 3 };

static void release(psr_message *message)
{
    free(message);
}

/* By the input's first byte; the last two are as the first. */
static const struct {
    const char *text;
    psr_encoding encoding; /* of a push */
} compressions[] = {{"none", PSR_ENCODING_FLOAT32},  {"fp16", PSR_ENCODING_FP16},
                    {"bf16", PSR_ENCODING_BF16},     {"int8", PSR_ENCODING_INT8},
                    {"topk:0.3", PSR_ENCODING_TOPK}, {"1bit", PSR_ENCODING_1BIT},
                    {"none", PSR_ENCODING_FLOAT32},  {"none", PSR_ENCODING_FLOAT32}};

/* Fields of any value, also one that no psr_msg_NAME_head writes. */
static psr_head make_head(const uint8_t *record, psr_message_type type, psr_encoding of_push)
{
    uint64_t step = record[1] >> 4, flags = record[2];
    psr_span span = {(size_t)record[3] * 4, record[4]};
    psr_head head = {.type = type};
    switch (type) {
    case PSR_MSG_INIT:
    case PSR_MSG_PUSH:
    case PSR_MSG_PULL: /* has two fields */
        head.tag = (psr_tag){.slot = (record[1] + 1u) & 15, .round = step};
        head.fields[0] = span.offset;
        head.fields[1] = span.count;
        head.fields[2] = type == PSR_MSG_PULL ? 0 : flags;
        break;
    case PSR_MSG_PROGRESS:
        head.tag = (psr_tag){.slot = (record[1] + 1u) & 15, .round = step};
        head.fields[0] = flags;
        head.fields[1] = record[5];
        head.fields[2] = record[3] & 1;
        head.fields[3] = record[3] >> 1 & 3;
        head.fields[4] = record[3] >> 3;
        head.fields[5] = record[4] & 1;
        head.fields[6] = record[4] >> 1;
        break;
    case PSR_MSG_CHECKPOINT:
        head = psr_msg_checkpoint_head(&(psr_msg_piece){step, record[1] & 15, span});
        break;
    case PSR_MSG_DONE:
        head.fields[0] = step;
        head.fields[1] = flags;
        break;
    case PSR_MSG_HELD:
        head.fields[0] = step;
        break;
    case PSR_MSG_FAILED:
        head.fields[0] = flags;
        break;
    case PSR_MSG_ACK:
        head.fields[0] = record[5];
        break;
    default:
        break;
    }
    bool floats = type == PSR_MSG_INIT || type == PSR_MSG_CHECKPOINT;
    static const psr_encoding others[] = {PSR_ENCODING_BYTES, PSR_ENCODING_FP16, PSR_ENCODING_FLOAT64};
    head.encoding = record[6] >> 6         ? others[(record[6] >> 6) - 1]
                    : type == PSR_MSG_PUSH ? of_push
                    : floats               ? PSR_ENCODING_FLOAT32
                                           : PSR_ENCODING_BYTES;
    return head;
}

/* What is all of one byte is no value of these; mostly it is brought near one. */
static void shape(psr_encoding encoding, void *payload, size_t bytes)
{
    uint32_t *words = payload;
    if (encoding == PSR_ENCODING_TOPK)
        for (uint32_t i = 0; i < bytes / 8; i++)
            words[i] = i;
    if (encoding == PSR_ENCODING_1BIT && bytes >= 8) {
        words[0] &= 0x7fffffff;
        words[1] |= 0x80000000;
    }
}

/* A message whose payload is of its exact size, so that a read beyond it is seen. */
static psr_message *make(const uint8_t *record, psr_message_type type, psr_encoding of_push)
{
    bool compressed = type == PSR_MSG_PUSH && of_push != PSR_ENCODING_FLOAT32;
    size_t payload_bytes = (size_t)(record[6] & 63) * (compressed ? 1 : 4);
    struct {
        psr_message base;
        double payload[];
    } *m = malloc(sizeof *m + payload_bytes);
    if (m == NULL)
        abort();
    memset(m->payload, record[7], payload_bytes);
    if (compressed)
        shape(of_push, m->payload, payload_bytes);
    m->base = (psr_message){
        .from = {record[0] >> 7 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER, record[0] >> 5 & 3},
        .head = make_head(record, type, of_push),
        .payload = m->payload,
        .payload_bytes = payload_bytes,
        .release = release,
    };
    return &m->base;
}

/* ---- the shard ---- */

static psr_err give_back(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)context, (void)head;
    if (to.role != PSR_ROLE_WORKER || to.rank >= WORKERS)
        abort();
    if (payload && payload->bytes > 0) { /* what is sent can be read */
        volatile uint8_t last = ((const uint8_t *)payload->data)[payload->bytes - 1];
        (void)last;
    }
    if (payload && payload->release)
        payload->release(payload->context);
    return PSR_OK;
}

static psr_config make_config(uint8_t choice)
{
    psr_config config;
    psr_config_defaults(&config);
    config.mode = PSR_MODE_PS;
    config.workers = WORKERS;
    config.shards = 1;
    config.slice_bytes = 64;
    config.momentum = 0.5;
    config.optimizer = choice & 1 ? PSR_OPTIMIZER_LARS : PSR_OPTIMIZER_SGD;
    config.sync = choice & 2 && !(choice & 1) ? PSR_SYNC_SSP : PSR_SYNC_BSP;
    config.fold = choice & 4 ? PSR_FOLD_ARRIVAL : PSR_FOLD_RANK;
    config.ssp_bound = 1;
    config.checkpoint_every = 1;
    if (!(choice & 128))
        strcpy(config.compress, compressions[choice >> 3 & 7].text);
    return config;
}

static void play_shard(const uint8_t *data, size_t size, const psr_config *config, psr_encoding of_push)
{
    psr_layout layout = {0};
    psr_buckets buckets = {0};
    psr_plan plan;
    psr_shard *shard = NULL;
    if (psr_layout_add(&layout, "a", 2, (uint32_t[]){5, 6}) ||
        psr_layout_add(&layout, "b", 1, (uint32_t[]){20}) || psr_buckets_plan(&layout, 128, &buckets) ||
        psr_parts_plan(config, &buckets, NULL, &plan))
        abort();
    plan.buckets[buckets.count - 1].home =
        config->optimizer != PSR_OPTIMIZER_LARS; /* one is another's, where tensors may be apart */
    psr_shard_options options = {.config = config,
                                 .layout = &layout,
                                 .plan = &plan,
                                 .total_steps = 8,
                                 .outbox = {.context = NULL, .send = give_back}};
    if (psr_shard_new(&options, &shard) != PSR_OK)
        abort();
    psr_table_shard *table = psr_shard_table(shard);
    static const psr_message_type types[] = {PSR_MSG_INIT, PSR_MSG_PUSH, PSR_MSG_PUSH, PSR_MSG_PUSH,
                                             PSR_MSG_PULL, PSR_MSG_PULL, PSR_MSG_ACK,  PSR_MSG_INIT};
    for (; size >= RECORD; data += RECORD, size -= RECORD) {
        psr_message *message = make(data, types[data[0] & 7], of_push);
        psr_err err = psr_table_shard_message(table, &message);
        if (message || (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_NUMERIC))
            abort();
        uint64_t step;
        uint32_t bucket, rank;
        if (psr_table_shard_waits(table, &step, &bucket, &rank) &&
            (rank >= WORKERS || bucket >= buckets.count))
            abort();
        if (err == PSR_ERR_NUMERIC)
            break; /* the run is over */
    }
    psr_shard_free(shard);
    psr_plan_done(&plan);
    psr_buckets_done(&buckets);
    psr_layout_done(&layout);
}

/* ---- the scheduler ---- */

typedef struct ending {
    unsigned times;
} ending;

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)context, (void)to, (void)head, (void)payload;
    return PSR_OK;
}

static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    (void)context, (void)peer, (void)endpoint;
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

static psr_err on_begin(void *context, const psr_config *config, const psr_facts *facts,
                        const psr_view *members, psr_beginning *ret_beginning)
{
    (void)context, (void)config, (void)facts, (void)members;
    static const psr_part part = {{0, 32}, 0};
    const psr_plan_options plan = {
        .route = PSR_ROUTE_SHARD, .ranks = WORKERS, .shards = 1, .slice_floats = 16, .window = 2};
    static psr_tensor tensor = {"t", 1, {32, 1, 1, 1}, 0, 32};
    static const psr_layout layout = {&tensor, 1, 32, 32};
    ret_beginning->first_step = 0;
    ret_beginning->layout = &layout;
    return psr_plan_make(&plan, &part, 1, &ret_beginning->plan);
}

static psr_err on_restore(void *context)
{
    (void)context;
    return PSR_OK;
}

static psr_err on_started(void *context, const char *algorithms)
{
    (void)context, (void)algorithms;
    return PSR_OK;
}

static psr_err on_metrics(void *context, const psr_metrics_line *line)
{
    (void)context, (void)line;
    return PSR_OK;
}

static psr_err on_checkpoint(void *context, uint64_t step, uint32_t section, const float *data, size_t offset,
                             size_t count)
{
    (void)context, (void)step, (void)section, (void)offset;
    volatile float last = count > 0 ? data[count - 1] : 0;
    (void)last;
    return PSR_OK;
}

static psr_err on_last_checkpoint(void *context, uint64_t step)
{
    (void)context, (void)step;
    return PSR_OK;
}

static void on_say(void *context, const char *line)
{
    (void)context, (void)line;
}

static void on_evaluating(void *context, uint32_t rank, uint64_t step, uint64_t counted)
{
    (void)context, (void)step, (void)counted;
    if (rank >= WORKERS)
        abort();
}

static void on_done(void *context, uint32_t rank, const char *json, size_t size)
{
    (void)context, (void)json, (void)size;
    if (rank >= WORKERS)
        abort();
}

static void on_carried(void *context, uint32_t shard, const psr_traffic *traffic)
{
    (void)context, (void)traffic;
    if (shard > 0)
        abort();
}

static void on_ended(void *context, psr_err status, const char *line)
{
    (void)status, (void)line;
    if (((ending *)context)->times++ > 0)
        abort();
}

static void say(psr_coordinator *coordinator, psr_peer from, psr_message_type type, const char *text)
{
    psr_message message = {
        .from = from, .head = {.type = type}, .payload = text, .payload_bytes = text ? strlen(text) : 0};
    psr_coordinator_message(coordinator, &message, 0);
}

/* All have joined; the first byte says how far they are. */
static void bring_up(psr_coordinator *coordinator, uint8_t stage)
{
    static const char join[] =
        "{\"version\": \"" PSR_VERSION "\", \"host\": \"h\", \"endpoint\": \"e\", \"pid\": 1}";
    static const char facts[] =
        "{\"identity\": \"\", \"data_name\": \"\", \"train_count\": 0, \"test_count\": 0, \"channels\": 0, "
        "\"height\": 0, "
        "\"width\": 0, \"classes\": 0, \"steps_per_epoch\": 1, \"total_steps\": 8, \"parameter_count\": 0}";
    for (uint32_t i = 0; i <= WORKERS; i++) {
        psr_peer peer = i < WORKERS ? (psr_peer){PSR_ROLE_WORKER, i} : (psr_peer){PSR_ROLE_SHARD, 0};
        say(coordinator, peer, PSR_MSG_JOIN, join);
        if (stage & 1)
            say(coordinator, peer, PSR_MSG_FACTS, i < WORKERS ? facts : NULL);
    }
    for (uint32_t i = 0; i <= WORKERS && (stage & 3) == 3; i++)
        say(coordinator, i < WORKERS ? (psr_peer){PSR_ROLE_WORKER, i} : (psr_peer){PSR_ROLE_SHARD, 0},
            PSR_MSG_READY, NULL);
}

static void play_scheduler(const uint8_t *data, size_t size, const psr_config *config, uint8_t stage)
{
    ending end = {0};
    psr_scheduler *scheduler = NULL;
    const psr_scheduler_events events = {
        .context = &end,
        .send = on_send,
        .connect = on_connect,
        .refuse = on_refuse,
        .joined = on_joined,
        .begin = on_begin,
        .restore = on_restore,
        .started = on_started,
        .metrics = on_metrics,
        .evaluating = on_evaluating,
        .done = on_done,
        .carried = on_carried,
        .checkpoint = on_checkpoint,
        .last_checkpoint = on_last_checkpoint,
        .say = on_say,
        .ended = on_ended,
    };
    if (psr_scheduler_new(config, &events, "h", 0, &scheduler) != PSR_OK)
        abort();
    psr_coordinator *coordinator = psr_scheduler_coordinator(scheduler);
    bring_up(coordinator, stage);
    static const psr_message_type types[] = {
        PSR_MSG_JOIN, PSR_MSG_READY,      PSR_MSG_PROGRESS, PSR_MSG_METRICS, PSR_MSG_HELD,
        PSR_MSG_DONE, PSR_MSG_CHECKPOINT, PSR_MSG_FAILED,   PSR_MSG_FACTS,   PSR_MSG_PUSH};
    int64_t now_ms = 0;
    for (; size >= RECORD; data += RECORD, size -= RECORD) {
        switch (data[0] & 15) {
        case 10:
            now_ms += data[1] * 16;
            psr_coordinator_tick(coordinator, now_ms);
            break;
        case 11:
            psr_scheduler_stop(scheduler);
            break;
        case 12:
            psr_coordinator_lost(coordinator,
                                 (psr_peer){data[1] & 1 ? PSR_ROLE_WORKER : PSR_ROLE_SHARD, data[2] & 3},
                                 NULL, data[2] & 4, "exit status 1", now_ms);
            break;
        case 13:
            psr_scheduler_checkpointed(scheduler, data[1]);
            break;
        default: {
            psr_message *message = make(data, types[(data[0] & 15) % 10], PSR_ENCODING_FLOAT32);
            psr_coordinator_message(coordinator, message, now_ms);
            psr_message_free(&message);
            break;
        }
        }
        if (psr_coordinator_ended(coordinator) != (end.times > 0))
            abort();
    }
    psr_scheduler_free(scheduler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    psr_config config = make_config(data[0]);
    if (data[0] & 128)
        play_scheduler(data + 1, size - 1, &config, data[0] >> 3);
    else
        play_shard(data + 1, size - 1, &config, compressions[data[0] >> 3 & 7].encoding);
    return 0;
}
