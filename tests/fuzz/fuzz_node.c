/* Ranks, and a coordinator, that may send a node of a communicator anything in well-formed heads.
 * Each record of the input is one message, a wish for a smaller group, or time that passes; fields
 * are near what would be right, but for one of them, so that the fuzzer gets past the first checks.
 * What is wrong becomes a failure with a line, and nobody waits for ever. */
#include "tests/fuzz/records.h"

#include "comm/node/node_table.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, RANK = 1, COUNT = 5, DEADLINE_MS = 1000, SHRINKS = 4 };
enum { TWIST = 8, RECORD = TWIST + RECORDS_TWIST_BYTES };
/* Groups with a table: in one this node is a worker, in the other a shard. */
enum { OF_WORKER = 2, OF_SHARD = 3, TABLE_PARTS = 2 };
static const size_t table_parts[TABLE_PARTS] = {2, 5};

RECORDS_MUTATOR(0, RECORD);

typedef struct played {
    psr_node *node;
    psr_node_group *groups[1 + SHRINKS]; /* the first, and what it was shrunk
                                            to, one after the other */
    psr_node_shrink *shrinks[SHRINKS];
    size_t shrink_count;
    int64_t now_ms;
} played;

static void give_back(const psr_payload *payload)
{
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
}

static psr_err send_of_node(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    (void)context;
    (void)to;
    (void)head;
    give_back(payload);
    return PSR_OK;
}

static void cut_of_node(void *context, psr_peer peer)
{
    (void)context;
    (void)peer;
}

static void changed(void *context)
{
    (void)context;
}

static const uint8_t words[32] = "what it says";

static psr_msg_failure failure_of(const uint8_t *record)
{
    return (psr_msg_failure){.status = (psr_err)(record[3] % (PSR_ERR_LAST + 2)),
                             .scope = (psr_scope)(record[1] >> 3 & 3),
                             .epoch = record[1] >> 5 & 3,
                             .group = record[1] & 3,
                             .rank = record[4] & 3,
                             .other = (record[4] >> 3 & 3) > 0 ? record[4] >> 3 & 3 : PSR_RANK_ANY,
                             .number = record[5],
                             .within_ms = (uint64_t)record[6] * 10};
}

static psr_head head_to_node(const uint8_t *record)
{
    const psr_tag tag = {.epoch = record[1] >> 6,
                         .group = record[1] & 1,
                         .slot = record[1] >> 1 & 1,
                         .round = record[1] >> 2 & 3};
    const psr_msg_call call = psr_call_message(&(psr_call){.kind = PSR_KIND_ALL_REDUCE,
                                                           .algorithm = PSR_ALGORITHM_DIRECT,
                                                           .type = PSR_TYPE_INT32,
                                                           .count = record[3] & 1 ? COUNT : 1});
    const psr_msg_failure failure = failure_of(record);
    switch (record[0] >> 2 & 3) {
    case 0:
        return psr_msg_values_head(&(psr_msg_values){tag, call, record[4], record[5], call});
    case 1:
        return psr_msg_credit_head(&(psr_msg_credit){tag, call, record[5], 0});
    case 2:
        return psr_msg_ahead_head(&(psr_msg_ahead){(psr_tag){.group = tag.group}, record[5]});
    default:
        return psr_msg_verdict_head(&failure);
    }
}

static psr_head head_to_table(const uint8_t *record)
{
    static const psr_span spans[] = {{16, 5}, {0, 2}, {0, 5}, {UINT64_MAX, 2}};
    const uint32_t bucket = record[1] >> 2 & 3, group = OF_WORKER + (record[1] & 1);
    const psr_span span = spans[record[3] & 1 ? record[3] >> 1 & 3 : bucket & 1];
    const uint64_t step = record[4] & 3, received = record[4] >> 2;
    psr_head head = psr_msg_ack_head(received);
    if (record[5] % 4 == 0)
        head = psr_msg_push_head(&(psr_msg_push){bucket, step, span, record[5] < 250});
    else if (record[5] % 4 == 1)
        head = psr_msg_pull_head(&(psr_msg_pull){bucket, step, span, step});
    else if (record[5] % 4 == 2)
        head =
            psr_msg_weights_head(&(psr_msg_weights){bucket, step, span, record[5] > 128, received});
    else if (record[5] >= 220)
        head = psr_msg_init_head(&(psr_msg_init){bucket, step, span, record[5] >> 2 & 1});
    else if (record[5] >= 180)
        head = psr_msg_ask_head(&(psr_msg_ask){bucket, step, span, received, record[5] >> 2 & 1});
    if (record[6] < 240)
        head.encoding = PSR_ENCODING_FLOAT32;
    return psr_msg_in_group(head, record[6] == 0, group);
}

/* As long as what the head says, or not. */
static void tell_table(played *p, const uint8_t *record)
{
    static const float values[32];
    psr_head head = head_to_table(record);
    records_twist(&head, record + TWIST, TABLE_PARTS);
    const bool has_values =
        head.type == PSR_MSG_PUSH || head.type == PSR_MSG_WEIGHTS || head.type == PSR_MSG_INIT;
    const bool few = has_values && head.fields[1] <= sizeof values / sizeof values[0];
    size_t size = record[7] < 240 ? (few ? head.fields[1] * sizeof(float) : 0) : record[7] - 240u;
    psr_message *message = records_message((psr_peer){PSR_ROLE_WORKER, record[2] & 3}, head, size,
                                           values, sizeof values);
    psr_node_message(p->node, &message, p->now_ms);
    if (message != NULL)
        abort();
}

static void tell_node(played *p, const uint8_t *record)
{
    psr_head head = head_to_node(record);
    records_twist(&head, record + TWIST, COUNT);
    const psr_peer from = head.type == PSR_MSG_VERDICT ? (psr_peer){PSR_ROLE_SCHEDULER, 0}
                                                       : (psr_peer){PSR_ROLE_WORKER, record[2] & 3};
    psr_message *message =
        records_message(from, head, record[7] % sizeof words, words, sizeof words);
    psr_node_message(p->node, &message, p->now_ms);
    const psr_failure *failure = psr_node_failure(p->node);
    if (message != NULL ||
        (failure != NULL && memchr(failure->line, 0, sizeof failure->line) == NULL))
        abort();
}

/* The coordinator's other words: an answer to the wish for a smaller group, who has left, or what a
 * node does not take. */
static void tell_as_coordinator(played *p, const uint8_t *record)
{
    static const psr_message_type others[] = {PSR_MSG_BYE, PSR_MSG_ALIVE, PSR_MSG_PROGRESS,
                                              PSR_MSG_VALUES};
    static const uint32_t lists[][RANKS] = {{0, 1, 2}, {1, 2, 0}, {1, 0, 2},
                                            {1, 1, 2}, {0, 2, 1}, {1, RANKS, 0}};
    uint8_t ranks[4 * RANKS];
    psr_msg_rank_list_write(lists[record[5] % (sizeof lists / sizeof lists[0])], RANKS, ranks);
    psr_head head = psr_msg_shrunk_head(
        &(psr_msg_shrunk){.epoch = record[1] & 3,
                          .group = record[1] >> 2 & 1,
                          .status = (psr_err)(record[3] & 1 ? record[3] >> 1 : 0),
                          .rank = record[4] & 3,
                          .new_epoch = record[6] & 7});
    if (record[1] >= 224)
        head = (psr_head){.type = others[record[1] & 3]};
    else if (record[1] >= 192)
        head = psr_msg_left_head(&(psr_msg_left){record[3] & 3, record[4] & 15});
    records_twist(&head, record + TWIST, RANKS);
    size_t bytes = record[7] < 250 ? (record[7] % (RANKS + 1)) * 4u : record[7] - 250u;
    psr_message *message =
        records_message((psr_peer){PSR_ROLE_SCHEDULER, 0}, head, bytes, ranks, sizeof ranks);
    psr_node_message(p->node, &message, p->now_ms);
    if (message != NULL)
        abort();
}

/* Of the newest group, when the wish before has ended. */
static void wish_to_shrink(played *p)
{
    psr_node_group *newest = p->groups[0];
    for (size_t i = 0; i < p->shrink_count; i++) {
        if (!psr_node_shrink_ended(p->shrinks[i]))
            return;
        if (psr_node_shrink_result(p->shrinks[i], &p->groups[1 + i]) == PSR_OK)
            newest = p->groups[1 + i];
    }
    if (p->shrink_count == SHRINKS)
        return;
    psr_node_shrink **shrink = &p->shrinks[p->shrink_count];
    if (psr_node_shrink_new(newest, DEADLINE_MS, shrink) != PSR_OK)
        abort();
    p->shrink_count++;
    psr_node_take(p->node, PSR_NODE_SHRINK, *shrink, p->now_ms);
}

static void pass_time(played *p, uint8_t ms)
{
    int64_t next_ms = 0;
    psr_msg_progress report = {0};
    p->now_ms += ms;
    psr_node_tick(p->node, p->now_ms, &next_ms);
    psr_node_report(p->node, &report);
    if (report.waits &&
        (report.waits_for.role != PSR_ROLE_WORKER || report.waits_for.rank >= RANKS))
        abort();
}

static void event(played *p, const uint8_t *record)
{
    switch (record[0] & 3) {
    case 0:
        if ((record[0] & 4) != 0)
            wish_to_shrink(p);
        else
            tell_as_coordinator(p, record);
        return;
    case 1:
        pass_time(p, record[1]);
        return;
    case 3:
        tell_table(p, record);
        return;
    default:
        tell_node(p, record);
    }
}

/* Asks for all that there is: what is pulled, and pushed, goes on as messages allow. */
static void begin_tables(played *p, psr_consistency consistency,
                         psr_node_request *ret_requests[TABLE_PARTS])
{
    static const uint32_t as_worker[RANKS] = {0, RANK, 2}, as_shard[RANKS] = {0, 2, RANK};
    static float values[8];
    for (uint32_t id = OF_WORKER; id <= OF_SHARD; id++) {
        psr_node_group *group = NULL;
        const psr_node_table_options options = {.name = "t",
                                                .parts = table_parts,
                                                .part_count = TABLE_PARTS,
                                                .workers = 2,
                                                .consistency = consistency,
                                                .update = "sum"};
        if (psr_node_group_new(p->node, 0, id, id == OF_WORKER ? as_worker : as_shard, RANKS,
                               &group) != PSR_OK ||
            psr_node_table_new(group, &options) != PSR_OK)
            abort();
        psr_node_take(p->node, PSR_NODE_OPEN_GROUP, group, 0);
        for (uint32_t part = 0; part < TABLE_PARTS && id == OF_WORKER; part++) {
            static const psr_node_table_verb verbs[] = {PSR_NODE_PUSH_PULL, PSR_NODE_GET};
            const psr_node_table_task task = {
                .verb = verbs[part], .part = part, .values = values, .ret_values = values};
            if (psr_node_table_request_new(group, &task, DEADLINE_MS, NULL, &ret_requests[part]) !=
                PSR_OK)
                abort();
            psr_node_request_begins(ret_requests[part]);
            psr_node_take(p->node, PSR_NODE_START, ret_requests[part], 0);
        }
    }
}

static void play(played *p, const psr_view *view, const uint8_t *data, size_t size)
{
    static const uint32_t ranks[RANKS] = {0, 1, 2};
    int32_t x[COUNT] = {0};
    const psr_node_options of_node = {.view = view,
                                      .rank = RANK,
                                      .deadline_ms = DEADLINE_MS,
                                      .outbox = {.send = send_of_node},
                                      .context = p,
                                      .cut = cut_of_node,
                                      .retire = cut_of_node,
                                      .changed = changed};
    const psr_request_options options = {.kind = PSR_KIND_ALL_REDUCE,
                                         .algorithm = PSR_ALGORITHM_DIRECT,
                                         .type = PSR_TYPE_INT32,
                                         .send = x,
                                         .receive = x,
                                         .count = COUNT};
    psr_node_group **group = &p->groups[0];
    psr_node_request *request = NULL;
    if (psr_node_new(&of_node, 0, &p->node) != PSR_OK ||
        psr_node_group_new(p->node, 0, 0, ranks, RANKS, group) != PSR_OK ||
        psr_node_request_new(*group, &options, DEADLINE_MS, "played", &request) != PSR_OK)
        abort();
    psr_node_take(p->node, PSR_NODE_OPEN_GROUP, *group, 0);
    psr_node_request_begins(request);
    psr_node_take(p->node, PSR_NODE_START, request, 0);
    psr_node_request *of_table[TABLE_PARTS];
    begin_tables(p, (psr_consistency){(psr_consistency_kind)(size % 3), 1}, of_table);
    for (; size >= RECORD; data += RECORD, size -= RECORD)
        event(p, data);
    if (psr_node_failure(p->node) != NULL &&
        !(psr_node_request_ended(request) && psr_node_request_ended(of_table[0]) &&
          psr_node_request_ended(of_table[1])))
        abort(); /* it would wait for ever */
    for (size_t i = 0; i < p->shrink_count; i++) {
        if (psr_node_failure(p->node) != NULL && !psr_node_shrink_ended(p->shrinks[i]))
            abort();
        psr_node_shrink_free(p->shrinks[i]);
    }
    psr_node_free(p->node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    played p = {0};
    psr_view_member members[RANKS] = {{.host = "a"}, {.host = "b"}, {.host = "b"}};
    for (uint32_t r = 0; r < RANKS; r++)
        members[r].peer = (psr_peer){PSR_ROLE_WORKER, r};
    const psr_view view = {.members = members, .member_count = RANKS};
    play(&p, &view, data, size);
    return 0;
}
