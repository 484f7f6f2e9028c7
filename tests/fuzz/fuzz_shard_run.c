/* Members and a scheduler that may send a shard anything while views follow each other: STATE that
 * is not the sender's to hand over, of another array, twice, torn or too long; messages of views
 * that are over, that have not come or that never exist; views in any order. Each record of the
 * input is one message; all of its fields but one are near what would be right. The test checks
 * that the shard refuses with PROTOCOL or NUMERIC, blames only existing members, and writes nothing
 * outside its part. The first byte says what the run is like. */
#include "tests/fuzz/records.h"

#include "comm/view/plan.h"
#include "comm/view/view.h"
#include "comm/wire/messages.h"
#include "ps/parts.h"
#include "ps/shard/shard_run.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, SHARDS = 2, STEPS = 12, ME = 0, FIRST = 1 };
/* What it is; who says it; its epoch behind the present one; its step; where, how many and of which
 * array; how many floats come; of which byte. */
enum { WHAT, WHO, EPOCH, STEP, PLACE, COUNT, ARRAY, FLOATS, BYTE, TWIST };
enum { RECORD = TWIST + RECORDS_TWIST_BYTES };

RECORDS_MUTATOR(FIRST, RECORD);

typedef struct played {
    psr_config config;
    psr_layout layout;
    psr_buckets buckets;
    psr_plan plan;
    psr_shard_run *run;
    uint32_t epoch; /* of the last VIEW */
    bool reached[SHARDS];
} played;

/* ---- what it sends ---- */

static psr_err give_back(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    (void)context, (void)head;
    const uint32_t there_are = to.role == PSR_ROLE_WORKER  ? WORKERS
                               : to.role == PSR_ROLE_SHARD ? SHARDS
                                                           : 1;
    if (to.rank >= there_are)
        abort();
    if (payload != NULL && payload->bytes > 0) { /* what is sent can be read */
        volatile uint8_t last = ((const uint8_t *)payload->data)[payload->bytes - 1];
        (void)last;
    }
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static psr_err reach(void *peers, psr_peer shard)
{
    played *p = peers;
    if (shard.role != PSR_ROLE_SHARD || shard.rank >= SHARDS || shard.rank == ME ||
        p->reached[shard.rank])
        abort();
    p->reached[shard.rank] = true;
    return PSR_OK;
}

/* ---- what it is told ---- */

static psr_message *tell_view(played *p, const uint8_t *record)
{
    psr_view view = {.epoch = p->epoch + (record[EPOCH] < 240 ? 1u : record[EPOCH] & 3u),
                     .first_step = record[STEP] & 15};
    psr_view_member members[WORKERS + SHARDS];
    for (uint32_t i = 0; i < WORKERS + SHARDS; i++)
        members[i] = (psr_view_member){
            .peer = {i < WORKERS ? PSR_ROLE_WORKER : PSR_ROLE_SHARD, i < WORKERS ? i : i - WORKERS},
            .host = "h",
            .endpoint = "e"};
    view.members = members;
    view.member_count = WORKERS + SHARDS;
    strcpy(p->config.route, (record[PLACE] & 3) == 0   ? "a=ps,b=ring"
                            : (record[PLACE] & 3) == 1 ? "c=ps"
                                                       : "");
    char *json = NULL;
    if (psr_parts_plan(&p->config, (record[ARRAY] & 1) != 0 ? PSR_MODE_PS : PSR_MODE_RING,
                       &p->layout, &p->buckets, NULL, &view.plan) != PSR_OK ||
        psr_view_to_json(&view, &json) != PSR_OK)
        abort();
    const size_t size = strlen(json);
    if (record[COUNT] >= 208) /* a letter of it is another one */
        json[((size_t)record[COUNT] << 8 | record[FLOATS]) % size] = (char)record[BYTE];
    psr_head head = psr_msg_view_head(&(psr_msg_view){view.epoch, view.first_step});
    records_twist(&head, record + TWIST, p->epoch);
    psr_message *message =
        records_message((psr_peer){PSR_ROLE_SCHEDULER, 0}, head, size, json, size);
    p->epoch = p->epoch < view.epoch ? view.epoch : p->epoch;
    psr_plan_done(&view.plan);
    free(json);
    return message;
}

static psr_message *tell_order(const uint8_t *record)
{
    static const psr_message_type orders[] = {PSR_MSG_START, PSR_MSG_START, PSR_MSG_BYE,
                                              PSR_MSG_HOLD};
    psr_head head = (record[ARRAY] & 4) != 0 ? psr_msg_stop_at_head(record[STEP] & 15)
                                             : (psr_head){.type = orders[record[ARRAY] & 3]};
    records_twist(&head, record + TWIST, STEPS);
    return records_message((psr_peer){PSR_ROLE_SCHEDULER, 0}, head, 0, "", 1);
}

/* A bucket, or a run at any place. */
static psr_span span_of(const played *p, const uint8_t *record)
{
    const uint32_t b = record[PLACE] % (p->buckets.count + 1);
    if (b == p->buckets.count)
        return (psr_span){record[COUNT], record[FLOATS]};
    const psr_span bucket = p->plan.buckets[b].span;
    const size_t at = record[COUNT] < 128 ? 0 : 16;
    return (psr_span){bucket.offset + at, bucket.count > at ? bucket.count - at : bucket.count};
}

static psr_message *tell_values(const played *p, const uint8_t *record, psr_message_type type)
{
    static const float floats[2] = {0.5f, -0.25f};
    const psr_span span = span_of(p, record);
    const uint32_t bucket = record[PLACE] % (p->buckets.count + 1);
    psr_head head =
        type == PSR_MSG_STATE
            ? psr_msg_state_head(&(psr_msg_state){record[STEP], span, record[ARRAY] & 3})
        : type == PSR_MSG_PUSH
            ? psr_msg_push_head(&(psr_msg_push){
                  .bucket = bucket, .step = record[STEP], .span = span, .answer = true})
            : psr_msg_init_head(
                  &(psr_msg_init){.bucket = bucket, .step = record[STEP], .span = span});
    size_t count = record[FLOATS] < 224 ? span.count : record[FLOATS];
    if (type == PSR_MSG_STATE && (record[ARRAY] & 12) == 12) { /* the view has begun */
        head = psr_msg_state_head(&(psr_msg_state){.step = record[STEP]});
        count = 0;
    }
    const uint32_t epoch =
        record[EPOCH] < 224 ? p->epoch - (record[EPOCH] & 1) : p->epoch + (record[EPOCH] & 7);
    head = psr_msg_in_group(head, epoch, 0);
    if (count > 0)
        head.encoding = PSR_ENCODING_FLOAT32;
    records_twist(&head, record + TWIST, p->epoch);
    const psr_role role = (record[WHO] & 8) != 0 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER;
    const uint32_t rank = record[WHO] % (role == PSR_ROLE_SHARD ? SHARDS : WORKERS);
    if (record[BYTE] < 224)
        return records_message((psr_peer){role, rank}, head, count * sizeof(float), floats,
                               sizeof floats);
    return records_message((psr_peer){role, rank}, head, count * sizeof(float) + (record[BYTE] & 3),
                           &record[BYTE], 1);
}

static psr_message *make(played *p, const uint8_t *record)
{
    switch (record[WHAT] & 7) {
    case 0:
    case 1:
        return tell_view(p, record);
    case 2:
        return tell_order(record);
    case 3:
        return tell_values(p, record, PSR_MSG_PUSH);
    case 4:
        return tell_values(p, record, PSR_MSG_INIT);
    default:
        return tell_values(p, record, PSR_MSG_STATE);
    }
}

/* ---- the run ---- */

static void open_run(played *p, uint8_t how)
{
    const char *const names[] = {"a", "b", "c"};
    psr_config_defaults(&p->config);
    p->config.mode = (how & 1) != 0 ? PSR_MODE_RING : PSR_MODE_PS;
    p->config.workers = WORKERS;
    p->config.shards = SHARDS;
    p->config.momentum = (how & 2) != 0 ? 0.5 : 0;
    p->config.optimizer = (how & 4) != 0   ? PSR_OPTIMIZER_ADAM
                          : (how & 8) != 0 ? PSR_OPTIMIZER_LARS
                                           : PSR_OPTIMIZER_SGD;
    p->config.slice_bytes = 128;
    for (size_t i = 0; i < 3; i++)
        if (psr_layout_add(&p->layout, names[i], 1, (uint32_t[]){32}) != PSR_OK)
            abort();
    if (psr_buckets_plan(&p->layout, 32 * sizeof(float), &p->buckets) != PSR_OK ||
        psr_parts_plan(&p->config, p->config.mode, &p->layout, &p->buckets, NULL, &p->plan) !=
            PSR_OK)
        abort();
    const psr_shard_options options = {.config = &p->config,
                                       .layout = &p->layout,
                                       .plan = &p->plan,
                                       .shard = ME,
                                       .total_steps = STEPS,
                                       .outbox = {.context = p, .send = give_back},
                                       .peers = p,
                                       .reach = reach};
    if (psr_shard_run_new(&options, &p->run) != PSR_OK || psr_shard_run_begin(p->run) != PSR_OK)
        abort();
}

static void check_report(const played *p)
{
    psr_msg_progress told = {0};
    psr_shard_run_report(p->run, &told);
    const uint32_t there_are = told.waits_for.role == PSR_ROLE_WORKER  ? WORKERS
                               : told.waits_for.role == PSR_ROLE_SHARD ? SHARDS
                                                                       : 1;
    if (!told.waits || told.waits_for.rank >= there_are || told.bucket >= p->buckets.count)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    played p = {0};
    if (size < FIRST)
        return 0;
    open_run(&p, data[0]);
    for (data += FIRST, size -= FIRST; size >= RECORD; data += RECORD, size -= RECORD) {
        psr_message *message = make(&p, data);
        psr_err err = psr_shard_run_message(p.run, &message);
        if (message != NULL || (err != PSR_OK && err != PSR_ERR_PROTOCOL && err != PSR_ERR_NUMERIC))
            abort();
        if (err != PSR_OK) /* the run is over */
            break;
        check_report(&p);
    }
    psr_shard_run_free(p.run);
    psr_plan_done(&p.plan);
    psr_buckets_done(&p.buckets);
    psr_layout_done(&p.layout);
    return 0;
}
