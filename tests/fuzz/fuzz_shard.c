/* Workers that may send a shard anything in well-formed heads. Each record of the input is one
 * message; its fields are near what would be right, but for one of them, so that the fuzzer gets
 * past the first checks. A shard refuses with PROTOCOL or NUMERIC. The first byte says what the run
 * is like. */
#include "tests/fuzz/records.h"

#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "ps/shard/shard.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, TWIST = 8, RECORD = TWIST + RECORDS_TWIST_BYTES };

RECORDS_MUTATOR(1, RECORD);

/* By the input's first byte; the last two are as the first. */
static const struct {
    const char *text;
    psr_encoding encoding; /* of a push */
} compressions[] = {{"none", PSR_ENCODING_FLOAT32},  {"fp16", PSR_ENCODING_FP16},
                    {"bf16", PSR_ENCODING_BF16},     {"int8", PSR_ENCODING_INT8},
                    {"topk:0.3", PSR_ENCODING_TOPK}, {"1bit", PSR_ENCODING_1BIT},
                    {"none", PSR_ENCODING_FLOAT32},  {"none", PSR_ENCODING_FLOAT32}};

/* The same, by its highest bits. */
static const char *const pulled[] = {"none", "int8", "topk:0.3", "1bit"};

/* Fields of any value, also one that no psr_msg_NAME_head writes. */
static psr_head make_head(const uint8_t *record, psr_message_type type, psr_encoding of_push)
{
    uint64_t step = record[1] >> 4, flags = record[2];
    psr_span span = {(size_t)record[3] * 4, record[4]};
    psr_head head = {.type = type};
    switch (type) {
    case PSR_MSG_INIT:
    case PSR_MSG_PUSH:
    case PSR_MSG_PULL:
        head.tag = (psr_tag){.slot = (record[1] + 1u) & 15, .round = step};
        head.fields[0] = span.offset;
        head.fields[1] = span.count;
        head.fields[2] = flags;
        break;
    case PSR_MSG_ACK:
        head.fields[0] = record[5];
        break;
    default:
        break;
    }
    records_twist(&head, record + TWIST, 80);
    static const psr_encoding others[] = {PSR_ENCODING_BYTES, PSR_ENCODING_FP16,
                                          PSR_ENCODING_FLOAT64};
    head.encoding = record[6] >> 6         ? others[(record[6] >> 6) - 1]
                    : type == PSR_MSG_PUSH ? of_push
                    : type == PSR_MSG_INIT ? PSR_ENCODING_FLOAT32
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
    const psr_peer from = {record[0] >> 7 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER, record[0] >> 5 & 3};
    psr_message *m =
        records_message(from, make_head(record, type, of_push), payload_bytes, record + 7, 1);
    if (compressed)
        shape(of_push, (void *)(uintptr_t)m->payload, payload_bytes);
    return m;
}

/* ---- the shard ---- */

static psr_err give_back(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    (void)context, (void)head;
    if (to.role != PSR_ROLE_WORKER || to.rank >= WORKERS)
        abort();
    if (payload != NULL && payload->bytes > 0) { /* what is sent can be read */
        volatile uint8_t last = ((const uint8_t *)payload->data)[payload->bytes - 1];
        (void)last;
    }
    if (payload != NULL && payload->release != NULL)
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
    config.checkpoint_every = (psr_duration){.steps = 1};
    strcpy(config.compress, compressions[choice >> 3 & 7].text);
    if (config.sync == PSR_SYNC_BSP)
        strcpy(config.compress_weights, pulled[choice >> 6]);
    return config;
}

static void play_shard(const uint8_t *data, size_t size, const psr_config *config,
                       psr_encoding of_push)
{
    psr_layout layout = {0};
    psr_buckets buckets = {0};
    psr_plan plan;
    psr_shard *shard = NULL;
    if (psr_layout_add(&layout, "a", 2, (uint32_t[]){5, 6}) ||
        psr_layout_add(&layout, "b", 1, (uint32_t[]){20}) ||
        psr_buckets_plan(&layout, 128, &buckets) ||
        psr_parts_plan(config, config->mode, &layout, &buckets, NULL, &plan))
        abort();
    /* one is another's, where tensors may be apart */
    plan.buckets[buckets.count - 1].home = config->optimizer != PSR_OPTIMIZER_LARS;
    psr_shard_options options = {.config = config,
                                 .layout = &layout,
                                 .plan = &plan,
                                 .total_steps = 8,
                                 .outbox = {.context = NULL, .send = give_back}};
    if (psr_shard_new(&options, &shard) != PSR_OK)
        abort();
    psr_table_shard *table = psr_shard_table(shard);
    static const psr_message_type types[] = {PSR_MSG_INIT, PSR_MSG_PUSH, PSR_MSG_PUSH,
                                             PSR_MSG_PUSH, PSR_MSG_PULL, PSR_MSG_PULL,
                                             PSR_MSG_ACK,  PSR_MSG_INIT};
    for (; size >= RECORD; data += RECORD, size -= RECORD) {
        psr_message *message = make(data, types[data[0] & 7], of_push);
        psr_err err = psr_table_shard_message(table, &message);
        if (message != NULL || (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_NUMERIC))
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    psr_config config = make_config(data[0]);
    play_shard(data + 1, size - 1, &config, compressions[data[0] >> 3 & 7].encoding);
    return 0;
}
