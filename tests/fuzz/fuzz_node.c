/* Members that may send anything in well-formed heads: to a node of a communicator, and to its coordinator. Each record of the input is one
 * message to one of the two, or time that passes; fields are near what would be right, so that the fuzzer gets past the first checks. What is
 * wrong becomes a failure with a line; nothing is sent to a rank that has not joined, or was given up. */
#include "comm/node/coordinator.h"
#include "comm/node/node_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 3, RANK = 1, RECORD = 8, COUNT = 5, DEADLINE_MS = 1000 };
/* Groups with a table: in one this node is a worker, in the other a shard. */
enum { OF_WORKER = 2, OF_SHARD = 3, TABLE_PARTS = 2 };
static const size_t table_parts[TABLE_PARTS] = {2, 5};

typedef struct played {
    psr_node *node;
    psr_node_coordinator *coordinator;
    bool connected[RANKS], cut[RANKS]; /* the coordinator's */
    int64_t now_ms;
} played;

static void give_back(const psr_payload *payload)
{
    if (payload != NULL && payload->release != NULL)
        payload->release(payload->context);
}

static psr_err send_of_node(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    (void)context;
    (void)to;
    (void)head;
    give_back(payload);
    return PSR_OK;
}

static psr_err send_of_coordinator(void *context, psr_peer to, const psr_head *head,
                                   const psr_payload *payload)
{
    const played *p = context;
    (void)head;
    if (to.role != PSR_ROLE_WORKER || to.rank >= RANKS || !p->connected[to.rank] || p->cut[to.rank])
        abort();
    give_back(payload);
    return PSR_OK;
}

static void refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    (void)context, (void)join;
    if (status == PSR_OK || *line == '\0')
        abort();
}

static psr_err connect_to(void *context, psr_peer peer, const char *endpoint)
{
    (void)endpoint;
    if (((played *)context)->connected[peer.rank])
        abort(); /* a rank joins once */
    ((played *)context)->connected[peer.rank] = true;
    return PSR_OK;
}

static void cut(void *context, psr_peer peer)
{
    ((played *)context)->cut[peer.rank] = true;
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

static void release(psr_message *message)
{
    free(message);
}

/* A message whose payload is of its exact size, so that a read beyond it is seen. */
static psr_message *make(psr_peer from, psr_head head, const void *payload, size_t bytes)
{
    struct {
        psr_message base;
        double payload[];
    } *m = malloc(sizeof *m + bytes);
    if (m == NULL)
        abort();
    if (bytes > 0)
        memcpy(m->payload, payload, bytes);
    m->base = (psr_message){
        .from = from, .head = head, .payload = m->payload, .payload_bytes = bytes, .release = release};
    return &m->base;
}

static const uint8_t bytes[32] = "what it says";

static psr_msg_failure failure_of(const uint8_t *record)
{
    return (psr_msg_failure){.status = (psr_err)(record[3] % (PSR_ERR_LAST + 2)),
                             .rank = record[4] & 7,
                             .other = record[4] >> 3,
                             .number = record[5],
                             .within_ms = (uint64_t)record[6] * 10};
}

static psr_head head_to_node(const uint8_t *record)
{
    const psr_tag tag = {.group = record[1] & 1, .slot = record[1] >> 1 & 1, .round = record[1] >> 2 & 3};
    const psr_msg_call call = psr_call_message(&(psr_call){.kind = PSR_KIND_ALL_REDUCE,
                                                           .algorithm = PSR_ALGORITHM_DIRECT,
                                                           .type = PSR_TYPE_INT32,
                                                           .count = record[3] & 1 ? COUNT : 1});
    const psr_msg_failure failure = failure_of(record);
    switch (record[0] >> 2 & 3) {
    case 0:
        return psr_msg_values_head(&(psr_msg_values){tag, call, record[4], record[5], call});
    case 1:
        return psr_msg_credit_head(&(psr_msg_credit){tag, call, record[5]});
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
        head = psr_msg_pull_head(&(psr_msg_pull){bucket, step, span});
    else if (record[5] % 4 == 2)
        head = psr_msg_weights_head(&(psr_msg_weights){bucket, step, span, record[5] > 128, received});
    if (record[6] < 240)
        head.encoding = PSR_ENCODING_FLOAT32;
    return psr_msg_in_group(head, record[6] == 0, group);
}

/* As long as what the head says, or not. */
static void tell_table(played *p, const uint8_t *record)
{
    static const float values[32];
    const psr_head head = head_to_table(record);
    const bool has_values = head.type == PSR_MSG_PUSH || head.type == PSR_MSG_WEIGHTS;
    size_t size = record[7] < 240 ? (has_values ? head.fields[1] * sizeof(float) : 0) : record[7] - 240u;
    psr_message *message =
        make((psr_peer){PSR_ROLE_WORKER, record[2] & 3}, head, values, size < sizeof values ? size : 0);
    psr_node_message(p->node, &message, p->now_ms);
    if (message != NULL)
        abort();
}

static void tell_node(played *p, const uint8_t *record)
{
    const psr_head head = head_to_node(record);
    const psr_peer from = head.type == PSR_MSG_VERDICT ? (psr_peer){PSR_ROLE_SCHEDULER, 0}
                                                       : (psr_peer){PSR_ROLE_WORKER, record[2] & 3};
    psr_message *message = make(from, head, bytes, record[7] % sizeof bytes);
    psr_node_message(p->node, &message, p->now_ms);
    const psr_failure *failure = psr_node_failure(p->node);
    if (message != NULL || (failure != NULL && memchr(failure->line, 0, sizeof failure->line) == NULL))
        abort();
}

/* A JOIN that can be read, or bytes. */
static void join(played *p, psr_peer from, bool readable)
{
    const psr_join says = {.version = PSR_VERSION, .host = "host", .endpoint = "ipc:///run/x", .pid = 1};
    char *json = NULL;
    if (psr_join_to_json(&says, &json) != PSR_OK)
        abort();
    psr_message *message =
        make(from, (psr_head){.type = PSR_MSG_JOIN}, json, readable ? strlen(json) : strlen(json) / 2);
    psr_node_coordinator_message(p->coordinator, message, p->now_ms);
    psr_message_free(&message);
    free(json);
}

static psr_head head_to_coordinator(const uint8_t *record)
{
    static const psr_message_type plain[] = {PSR_MSG_FACTS, PSR_MSG_READY, PSR_MSG_METRICS, PSR_MSG_FACTS};
    const psr_msg_failure failure = failure_of(record);
    switch (record[1] % 6) {
    case 0:
        return psr_msg_progress_head(&(psr_msg_progress){.phase = PSR_PHASE_FORWARD,
                                                         .counter = record[3],
                                                         .waits = record[4] & 1,
                                                         .waits_for = {PSR_ROLE_WORKER, record[5] & 7}});
    case 1:
        return psr_msg_finding_head(&failure);
    case 2:
        return psr_msg_done_head(&(psr_msg_done){0});
    case 3:
        return psr_msg_failed_head(failure.status);
    default:
        return (psr_head){.type = plain[record[1] >> 3 & 3]};
    }
}

static void tell_coordinator(played *p, const uint8_t *record)
{
    psr_peer from = {record[2] & 4 ? PSR_ROLE_SHARD : PSR_ROLE_WORKER, record[2] & 3};
    if ((record[2] & 8) != 0)
        from.rank = PSR_RANK_ANY;
    if ((record[0] & 4) != 0) {
        join(p, from, record[1] > 0);
        return;
    }
    psr_message *message = make(from, head_to_coordinator(record), bytes, record[7] % 4);
    psr_node_coordinator_message(p->coordinator, message, p->now_ms);
    psr_message_free(&message);
}

static void event(played *p, const uint8_t *record)
{
    int64_t next_ms = 0;
    switch (record[0] & 3) {
    case 0:
        tell_coordinator(p, record);
        return;
    case 3:
        tell_table(p, record);
        return;
    case 1:
        p->now_ms += record[1];
        psr_node_coordinator_tick(p->coordinator, p->now_ms, &next_ms);
        psr_node_tick(p->node, p->now_ms, &next_ms);
        return;
    default:
        tell_node(p, record);
    }
}

/* Asks for all that there is: what is pulled, and pushed, goes on as messages allow. */
static void begin_tables(played *p, psr_consistency consistency, psr_node_request *ret_requests[TABLE_PARTS])
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
        if (psr_node_group_new(p->node, 0, id, id == OF_WORKER ? as_worker : as_shard, RANKS, &group) !=
                PSR_OK ||
            psr_node_table_new(group, &options) != PSR_OK)
            abort();
        psr_node_take(p->node, PSR_NODE_OPEN_GROUP, group, 0);
        for (uint32_t part = 0; part < TABLE_PARTS && id == OF_WORKER; part++) {
            if (psr_node_table_request_new(group, part == 0 ? PSR_NODE_PUSH_PULL : PSR_NODE_PULL, part,
                                           values, values, DEADLINE_MS, NULL, &ret_requests[part]) != PSR_OK)
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
    const psr_node_coordinator_options of_coordinator = {.ranks = RANKS,
                                                         .deadline_ms = DEADLINE_MS,
                                                         .join_deadline_ms = DEADLINE_MS,
                                                         .host = "host",
                                                         .context = p,
                                                         .send = send_of_coordinator,
                                                         .connect = connect_to,
                                                         .refuse = refuse,
                                                         .cut = cut,
                                                         .retire = cut_of_node};
    const psr_request_options options = {.kind = PSR_KIND_ALL_REDUCE,
                                         .algorithm = PSR_ALGORITHM_DIRECT,
                                         .type = PSR_TYPE_INT32,
                                         .send = x,
                                         .receive = x,
                                         .count = COUNT};
    psr_node_group *group = NULL;
    psr_node_request *request = NULL;
    if (psr_node_new(&of_node, 0, &p->node) != PSR_OK ||
        psr_node_coordinator_new(&of_coordinator, 0, &p->coordinator) != PSR_OK ||
        psr_node_group_new(p->node, 0, 0, ranks, RANKS, &group) != PSR_OK ||
        psr_node_request_new(group, &options, DEADLINE_MS, "played", &request) != PSR_OK)
        abort();
    psr_node_take(p->node, PSR_NODE_OPEN_GROUP, group, 0);
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
    psr_node_free(p->node);
    psr_node_coordinator_free(p->coordinator);
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
