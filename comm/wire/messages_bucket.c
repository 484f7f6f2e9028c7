/* Parts of a bucket: between workers and shards, and between workers. */
#include "comm/wire/messages_private.h"

#include <math.h>
#include <string.h>

static psr_head part_head(psr_message_type type, uint32_t bucket, uint64_t step, psr_span span)
{
    return (psr_head){
        .type = type, .tag = bucket_tag(bucket, step), .fields = {span.offset, span.count}};
}

bool psr_msg_is_of_bucket(const psr_head *head)
{
    switch (head->type) {
    case PSR_MSG_INIT:
    case PSR_MSG_PUSH:
    case PSR_MSG_PULL:
    case PSR_MSG_WEIGHTS:
    case PSR_MSG_RING:
        return true;
    case PSR_MSG_VALUES:
        return head->tag.group == PSR_GROUP_OF_BUCKETS;
    default:
        return false;
    }
}

uint64_t psr_msg_step(const psr_head *head)
{
    return head->tag.round;
}

uint32_t psr_msg_bucket(const psr_head *head)
{
    return head->tag.slot - 1;
}

psr_span psr_msg_span(const psr_head *head)
{
    return span_of(head);
}

enum { INIT_SECTION = AFTER_SPAN };

psr_head psr_msg_init_head(const psr_msg_init *init)
{
    psr_head head = part_head(PSR_MSG_INIT, init->bucket, init->step, init->span);
    head.fields[INIT_SECTION] = init->section;
    return head;
}

psr_err psr_msg_init_read(const psr_message *message, psr_msg_init *ret_init)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, INIT_SECTION, UINT32_MAX));
    *ret_init = (psr_msg_init){bucket, head->tag.round, span_of(head),
                               (uint32_t)head->fields[INIT_SECTION]};
    return PSR_OK;
}

enum { PUSH_ANSWER = AFTER_SPAN };

psr_head psr_msg_push_head(const psr_msg_push *push)
{
    psr_head head = part_head(PSR_MSG_PUSH, push->bucket, push->step, push->span);
    head.fields[PUSH_ANSWER] = push->answer;
    return head;
}

psr_err psr_msg_push_read(const psr_message *message, psr_msg_push *ret_push)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, PUSH_ANSWER, 1));
    *ret_push =
        (psr_msg_push){bucket, head->tag.round, span_of(head), head->fields[PUSH_ANSWER] == 1};
    return PSR_OK;
}

enum { PULL_TAKEN = AFTER_SPAN };

psr_head psr_msg_pull_head(const psr_msg_pull *pull)
{
    psr_head head = part_head(PSR_MSG_PULL, pull->bucket, pull->step, pull->span);
    head.fields[PULL_TAKEN] = pull->taken;
    return head;
}

psr_err psr_msg_pull_read(const psr_message *message, psr_msg_pull *ret_pull)
{
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    *ret_pull = (psr_msg_pull){bucket, message->head.tag.round, span_of(&message->head),
                               message->head.fields[PULL_TAKEN]};
    return PSR_OK;
}

enum { ASK_TAKEN = AFTER_SPAN, ASK_SECTION };

psr_head psr_msg_ask_head(const psr_msg_ask *ask)
{
    psr_head head = part_head(PSR_MSG_ASK, ask->bucket, ask->step, ask->span);
    head.fields[ASK_TAKEN] = ask->taken;
    head.fields[ASK_SECTION] = ask->section;
    return head;
}

psr_err psr_msg_ask_read(const psr_message *message, psr_msg_ask *ret_ask)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, ASK_SECTION, UINT32_MAX));
    *ret_ask = (psr_msg_ask){bucket, head->tag.round, span_of(head), head->fields[ASK_TAKEN],
                             (uint32_t)head->fields[ASK_SECTION]};
    return PSR_OK;
}

enum { WEIGHTS_STALENESS = AFTER_SPAN, WEIGHTS_RECEIVED };

psr_head psr_msg_weights_head(const psr_msg_weights *weights)
{
    psr_head head = part_head(PSR_MSG_WEIGHTS, weights->bucket, weights->step, weights->span);
    head.fields[WEIGHTS_STALENESS] = weights->staleness;
    head.fields[WEIGHTS_RECEIVED] = weights->received;
    return head;
}

psr_err psr_msg_weights_read(const psr_message *message, psr_msg_weights *ret_weights)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    *ret_weights =
        (psr_msg_weights){bucket, head->tag.round, span_of(head), head->fields[WEIGHTS_STALENESS],
                          head->fields[WEIGHTS_RECEIVED]};
    return PSR_OK;
}

psr_head psr_msg_ack_head(uint64_t received)
{
    return (psr_head){.type = PSR_MSG_ACK, .fields = {received}};
}

psr_err psr_msg_ack_read(const psr_message *message, uint64_t *ret_received)
{
    *ret_received = message->head.fields[0];
    return PSR_OK;
}

enum { STATE_ARRAY = AFTER_SPAN };

psr_head psr_msg_state_head(const psr_msg_state *state)
{
    psr_head head = {.type = PSR_MSG_STATE,
                     .tag = {.round = state->step},
                     .fields = {state->span.offset, state->span.count}};
    head.fields[STATE_ARRAY] = state->array;
    return head;
}

psr_err psr_msg_state_read(const psr_message *message, psr_msg_state *ret_state)
{
    const psr_head *head = &message->head;
    PSR_TRY(check_view(message));
    PSR_TRY(field_at_most(message, STATE_ARRAY, UINT32_MAX));
    *ret_state =
        (psr_msg_state){head->tag.round, span_of(head), (uint32_t)head->fields[STATE_ARRAY]};
    return PSR_OK;
}

enum { NORM_PHASE, NORM_VALUE };

psr_head psr_msg_norm_head(const psr_msg_norm *norm)
{
    psr_head head = {.type = PSR_MSG_NORM,
                     .tag = bucket_tag(norm->bucket, norm->step),
                     .fields = {(uint64_t)norm->phase}};
    memcpy(&head.fields[NORM_VALUE], &norm->value, sizeof norm->value);
    return head;
}

psr_err psr_msg_norm_read(const psr_message *message, psr_msg_norm *ret_norm)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    double value;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, NORM_PHASE, PSR_NORM_PHASES - 1));
    memcpy(&value, &head->fields[NORM_VALUE], sizeof value);
    if (isnan(value) || value < 0)
        return psr_violation(message, "its value is %g, which is no sum of squares", value);
    *ret_norm = (psr_msg_norm){.bucket = bucket,
                               .step = head->tag.round,
                               .phase = (psr_norm_phase)head->fields[NORM_PHASE],
                               .value = value};
    return PSR_OK;
}

enum { RING_PHASE = AFTER_SPAN, RING_CHUNK, RING_HOP };

uint64_t psr_msg_part(const psr_head *head)
{
    if (head->type == PSR_MSG_VALUES)
        return psr_msg_slice_of_values(head);
    return head->type == PSR_MSG_RING
               ? head->fields[OFFSET] * PSR_RING_PHASES + head->fields[RING_PHASE]
               : head->fields[OFFSET];
}

psr_head psr_msg_ring_head(const psr_msg_ring *ring)
{
    psr_head head = part_head(PSR_MSG_RING, ring->bucket, ring->step, ring->span);
    head.fields[RING_PHASE] = (uint64_t)ring->phase;
    head.fields[RING_CHUNK] = ring->chunk;
    head.fields[RING_HOP] = ring->hop;
    return head;
}

psr_err psr_msg_ring_read(const psr_message *message, psr_msg_ring *ret_ring)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, RING_PHASE, PSR_RING_PHASES - 1));
    PSR_TRY(field_at_most(message, RING_CHUNK, UINT32_MAX));
    PSR_TRY(field_at_most(message, RING_HOP, UINT32_MAX));
    *ret_ring = (psr_msg_ring){.bucket = bucket,
                               .step = head->tag.round,
                               .span = span_of(head),
                               .phase = (psr_ring_phase)head->fields[RING_PHASE],
                               .chunk = (uint32_t)head->fields[RING_CHUNK],
                               .hop = (uint32_t)head->fields[RING_HOP]};
    return PSR_OK;
}

psr_head psr_msg_in_epoch(psr_head head, uint32_t epoch)
{
    head.tag.epoch = epoch;
    return head;
}

psr_head psr_msg_in_group(psr_head head, uint32_t epoch, uint32_t group)
{
    head.tag.epoch = epoch;
    head.tag.group = group;
    return head;
}

psr_err psr_msg_out_of_group(psr_message *message, uint32_t epoch)
{
    if (message->head.tag.epoch != epoch)
        return psr_violation(message, "this is epoch %" PRIu32, epoch);
    message->head.tag.epoch = message->head.tag.group = 0;
    return PSR_OK;
}
