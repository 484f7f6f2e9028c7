#include "comm/trace/trace_event.h"

#include "net/big_endian.h"
#include "net/violation.h"

#include <inttypes.h>

bool psr_trace_is_computing(psr_trace_kind kind)
{
    return kind < PSR_TRACE_BEGIN;
}

bool psr_trace_is_of_pass(psr_trace_kind kind)
{
    return kind >= PSR_TRACE_FORWARD && kind <= PSR_TRACE_LAYER_BACK;
}

/* Where each number stands in an event's bytes, and how many bytes it has. */
typedef struct place {
    uint8_t at, bytes;
} place;

static const place KIND = {0, 1}, TYPE = {1, 1}, ROLE = {2, 1}, INDEX = {4, 4}, COUNT = {8, 4},
                   RANK = {12, 4}, STEP = {16, 8}, BEGIN = {24, 8}, DURATION = {32, 8},
                   BYTES = {40, 8}, PART = {48, 8};

static void put(uint8_t *bytes, place where, uint64_t value)
{
    psr_put_be(bytes + where.at, value, where.bytes);
}

static uint64_t get(const uint8_t *bytes, place where)
{
    return psr_get_be(bytes + where.at, where.bytes);
}

void psr_trace_event_write(const psr_trace_event *event,
                           uint8_t bytes[static PSR_TRACE_EVENT_BYTES])
{
    psr_put_be(bytes, 0, 4);
    put(bytes, KIND, (uint64_t)event->kind);
    put(bytes, TYPE, (uint64_t)event->type);
    put(bytes, ROLE, (uint64_t)event->peer.role);
    put(bytes, INDEX, event->index);
    put(bytes, COUNT, event->count);
    put(bytes, RANK, event->peer.rank);
    put(bytes, STEP, event->step);
    put(bytes, BEGIN, (uint64_t)event->begin_ns);
    put(bytes, DURATION, (uint64_t)event->duration_ns);
    put(bytes, BYTES, event->bytes);
    put(bytes, PART, event->part);
}

psr_err psr_trace_events_in(const psr_message *message, size_t *ret_count)
{
    const size_t count = message->payload_bytes / PSR_TRACE_EVENT_BYTES;
    if (message->payload_bytes % PSR_TRACE_EVENT_BYTES != 0 || count > PSR_TRACE_EVENTS_PER_MESSAGE)
        return psr_violation(message, "its payload of %zu bytes is not one to %d events of a trace",
                             message->payload_bytes, PSR_TRACE_EVENTS_PER_MESSAGE);
    *ret_count = count;
    return PSR_OK;
}

/* What the index of an event counts, and below what it is. */
static uint64_t most_indices(psr_trace_kind kind, const psr_msg_limits *limits, uint32_t nodes)
{
    switch (kind) {
    case PSR_TRACE_STEP:
        return UINT32_MAX; /* in local mode one process plays all ranks */
    case PSR_TRACE_LAYER:
    case PSR_TRACE_LAYER_BACK:
        return nodes;
    case PSR_TRACE_WAIT_BUCKET:
    case PSR_TRACE_BEGIN:
    case PSR_TRACE_LANDED:
    case PSR_TRACE_OUT:
    case PSR_TRACE_IN:
        return limits->buckets;
    case PSR_TRACE_FOLD:
    case PSR_TRACE_UPDATE:
        return (uint64_t)UINT32_MAX + 1; /* local mode folds all buckets at once */
    default:
        return (uint64_t)UINT32_MAX + 1;
    }
}

static bool is_possible(const psr_trace_event *event, const psr_msg_limits *limits, uint32_t nodes)
{
    const uint32_t members[] = {[PSR_ROLE_SCHEDULER] = 1,
                                [PSR_ROLE_SHARD] = limits->shards,
                                [PSR_ROLE_WORKER] = limits->workers};
    const bool message = event->kind == PSR_TRACE_OUT || event->kind == PSR_TRACE_IN;
    return event->index < most_indices(event->kind, limits, nodes) && event->step < limits->steps &&
           event->begin_ns >= 0 && event->begin_ns <= PSR_TRACE_NS_MAX && event->duration_ns >= 0 &&
           event->duration_ns <= PSR_TRACE_NS_MAX &&
           (!message || event->peer.rank < members[event->peer.role]);
}

psr_err psr_trace_event_read(const psr_message *message, size_t i, const psr_msg_limits *limits,
                             uint32_t nodes, psr_trace_event *ret_event)
{
    const uint8_t *bytes = (const uint8_t *)message->payload + i * PSR_TRACE_EVENT_BYTES;
    const uint64_t kind = get(bytes, KIND), role = get(bytes, ROLE);
    if (kind >= PSR_TRACE_KINDS || role > PSR_ROLE_WORKER)
        return psr_violation(message,
                             "event %zu is of kind %" PRIu64 " with a peer of role %" PRIu64, i,
                             kind, role);
    const psr_trace_event event = {
        .kind = (psr_trace_kind)kind,
        .index = (uint32_t)get(bytes, INDEX),
        .count = (uint32_t)get(bytes, COUNT),
        .step = get(bytes, STEP),
        .begin_ns = (int64_t)get(bytes, BEGIN),
        .duration_ns = (int64_t)get(bytes, DURATION),
        .type = (psr_message_type)get(bytes, TYPE),
        .peer = {(psr_role)role, (uint32_t)get(bytes, RANK)},
        .bytes = get(bytes, BYTES),
        .part = get(bytes, PART),
    };
    if (!is_possible(&event, limits, nodes))
        return psr_violation(message, "event %zu names what the run does not have", i);
    *ret_event = event;
    return PSR_OK;
}
