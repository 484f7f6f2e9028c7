/* Shards that may send a worker, whose pushes are compressed or not, anything in well-formed heads:
 * psr_table_message. Each record of the input is one event; fields are near what would be right, so
 * that the fuzzer gets past the first checks. What is refused must be PROTOCOL, nothing may be
 * written outside the parts, and no part lands that was not started. */
#include "tests/fuzz/records.h"

#include "comm/tables/table.h"
#include "comm/wire/messages.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE = 64, PARTS = 3, TWIST = 8, RECORD = TWIST + RECORDS_TWIST_BYTES };

RECORDS_MUTATOR(1, RECORD);

static const char *const compressions[] = {"none", "fp16", "bf16", "int8", "topk:0.2", "1bit"};
enum { COMPRESSIONS = sizeof compressions / sizeof compressions[0] };

/* How weights come back, by the input's first byte; as differences in BSP alone. */
static const char *pulled_by(uint8_t choice)
{
    static const char *const differences[] = {"int8", "topk:0.2", "1bit", "int8"};
    if ((choice & 0x80) == 0)
        return "none";
    return choice % 3 == PSR_CONSISTENCY_BSP && (choice & 0x40) != 0 ? differences[choice >> 4 & 3]
                                                                     : "fp16";
}

static const psr_part parts[PARTS] = {{{40, 20}, 0}, {{9, 23}, 1}, {{3, 1}, 2}};

typedef struct player {
    psr_table *table;
    float values[TABLE], pushed[TABLE], residual[TABLE];
    uint64_t started[PARTS], landed[PARTS]; /* rounds */
} player;

static psr_err give_back(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    (void)context, (void)head;
    if (to.role != PSR_ROLE_SHARD || to.rank > 1)
        abort();
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
    return PSR_OK;
}

static psr_err count_landed(void *context, uint64_t round, uint32_t part)
{
    player *p = context;
    if (++p->landed[part] != round + 1 || p->started[part] != round + 1)
        abort();
    return PSR_OK;
}

/* A message whose payload is of its exact size, so that a read beyond it is seen. */
static psr_message *make(const uint8_t *record, psr_message_type type, psr_compression pulled)
{
    const bool differs = type == PSR_MSG_WEIGHTS && psr_compression_has_residual(pulled);
    size_t payload_bytes = (size_t)record[6] * (differs ? 1 : 4);
    uint64_t received = record[5] & 63;
    psr_head head = type == PSR_MSG_ACK ? psr_msg_ack_head(received)
                    : type == PSR_MSG_INIT
                        ? psr_msg_init_head(&(psr_msg_init){
                              record[1] & 3, record[1] >> 4, {record[3], record[4]}, record[2] & 1})
                        : psr_msg_weights_head(&(psr_msg_weights){.bucket = record[1] & 3,
                                                                  .step = record[1] >> 4,
                                                                  .span = {record[3], record[4]},
                                                                  .staleness = record[2],
                                                                  .received = received});
    records_twist(&head, record + TWIST, PARTS);
    if (payload_bytes > 0) /* now and then in another than the type's */
        head.encoding = record[5] >> 6 == 3 ? PSR_ENCODING_FP16
                        : differs           ? pulled.encoding
                                            : PSR_ENCODING_FLOAT32;
    head.type = type;
    const psr_peer from = {record[0] >> 6 == 3 ? PSR_ROLE_WORKER : PSR_ROLE_SHARD,
                           record[0] >> 4 & 3};
    return records_message(from, head, payload_bytes, record + 7, 1);
}

static void start(player *p, uint32_t part)
{
    if (psr_table_done(p->table, part) != (p->started[part] == p->landed[part]))
        abort();
    if (!psr_table_done(p->table, part))
        return;
    for (size_t i = 0; i < parts[part].span.count; i++)
        p->pushed[parts[part].span.offset + i] = (float)(i % 5) - 2.0f;
    const psr_buffer buffer = {.data = p->pushed + parts[part].span.offset,
                               .count = parts[part].span.count,
                               .type = PSR_TYPE_FLOAT32};
    if (psr_table_start(p->table, part, p->started[part]++, &buffer) != PSR_OK)
        abort();
}

static void play(player *p, const uint8_t *data, size_t size, psr_compression pulled)
{
    static const psr_message_type types[] = {PSR_MSG_WEIGHTS, PSR_MSG_ACK,     PSR_MSG_WEIGHTS,
                                             PSR_MSG_PUSH,    PSR_MSG_WEIGHTS, PSR_MSG_ACK,
                                             PSR_MSG_WEIGHTS, PSR_MSG_INIT};
    for (; size >= RECORD; data += RECORD, size -= RECORD) {
        if ((data[0] & 7) == 0) {
            start(p, data[1] % PARTS);
            continue;
        }
        psr_message *message = make(data, types[data[0] & 7], pulled);
        psr_err err = psr_table_message(p->table, &message);
        if (message != NULL || (err != PSR_OK && err != PSR_ERR_PROTOCOL))
            abort();
        psr_waiting waiting;
        uint32_t part;
        if (psr_table_waits(p->table, &waiting, &part) && (part >= PARTS || waiting.peer.rank > 1))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    player p = {0};
    psr_compression compression, pulled;
    const psr_plan_options planned = {.route = PSR_ROUTE_SHARD,
                                      .ranks = 3,
                                      .shards = 2,
                                      .slice_floats = 4,
                                      .window = 2,
                                      .compression = &compression,
                                      .pulled = &pulled};
    psr_plan plan;
    if (psr_compression_parse(compressions[data[0] / 3 % COMPRESSIONS], &compression) != PSR_OK ||
        psr_compression_parse(pulled_by(data[0]), &pulled) != PSR_OK)
        abort();
    if (psr_plan_make(&planned, parts, PARTS, &plan) != PSR_OK)
        abort();
    const psr_table_options options = {.plan = &plan,
                                       .consistency = {(psr_consistency_kind)(data[0] % 3), 2},
                                       .values = p.values,
                                       .residual = p.residual,
                                       .outbox = {.context = NULL, .send = give_back},
                                       .context = &p,
                                       .landed = count_landed};
    for (size_t i = 0; i < TABLE; i++)
        p.values[i] = 1.0f;
    if (psr_table_new(&options, &p.table) != PSR_OK)
        abort();
    play(&p, data + 1, size - 1, pulled);
    for (size_t i = 0; i < TABLE; i++) {
        bool inside = false;
        for (size_t b = 0; b < PARTS; b++)
            inside = inside || (i >= parts[b].span.offset && i < psr_span_end(parts[b].span));
        if (!inside && (p.values[i] != 1.0f || p.residual[i] != 0))
            abort();
    }
    psr_table_free(p.table);
    psr_plan_done(&plan);
    return 0;
}
