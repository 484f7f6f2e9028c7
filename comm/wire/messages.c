/* In a head the fields have the order and the names of net/message.c's table. */
#include "comm/wire/messages.h"

#include "net/violation.h"

#include <inttypes.h>
#include <stdlib.h>

static psr_err at_most(const psr_message *message, const char *name, uint64_t value, uint64_t most)
{
    if (value <= most)
        return PSR_OK;
    return psr_violation(message, "its %s is %" PRIu64 ": %" PRIu64 " is the most", name, value,
                         most);
}

static psr_err field_at_most(const psr_message *message, size_t field, uint64_t most)
{
    return at_most(message, psr_head_field_name(message->head.type, field),
                   message->head.fields[field], most);
}

/* The tables of a run have one view and one group. */
static psr_err check_view(const psr_message *message)
{
    PSR_TRY(at_most(message, "epoch", message->head.tag.epoch, 0));
    return at_most(message, "group", message->head.tag.group, 0);
}

/* The places of a span's fields in the types that have one. */
enum { OFFSET, COUNT, AFTER_SPAN };

static psr_span span_of(const psr_head *head)
{
    return (psr_span){head->fields[OFFSET], head->fields[COUNT]};
}

/* ---- against what there is ---- */

static psr_err check_below(const psr_message *message, const char *name, uint64_t value,
                           uint64_t limit)
{
    if (value < limit)
        return PSR_OK;
    return psr_violation(message, "its %s is %" PRIu64 ", and there are %" PRIu64, name, value,
                         limit);
}

/* A process that exists. */
static psr_err check_peer(const psr_message *message, const psr_msg_limits *limits, uint64_t role,
                          uint64_t rank)
{
    const uint32_t counts[] = {[PSR_ROLE_SCHEDULER] = 1,
                               [PSR_ROLE_SHARD] = limits->shards,
                               [PSR_ROLE_WORKER] = limits->workers};
    PSR_TRY(at_most(message, "role", role, PSR_ROLE_WORKER));
    if (rank < counts[role])
        return PSR_OK;
    return psr_violation(message, "there is no %s %" PRIu64, psr_role_name((psr_role)role), rank);
}

/* A worker, or none. */
static psr_err check_rank(const psr_message *message, const psr_msg_limits *limits, uint64_t rank)
{
    return rank == PSR_RANK_ANY ? PSR_OK : check_peer(message, limits, PSR_ROLE_WORKER, rank);
}

static psr_err check_epoch(const psr_message *message, const psr_msg_limits *limits)
{
    return at_most(message, "epoch", message->head.tag.epoch, limits->epoch);
}

static uint64_t within(uint64_t within_ms)
{
    return within_ms < PSR_MSG_WITHIN_MS_MAX ? within_ms : PSR_MSG_WITHIN_MS_MAX;
}

/* ---- parts of a bucket ---- */

static psr_tag bucket_tag(uint32_t bucket, uint64_t step)
{
    return (psr_tag){.slot = bucket + 1, .round = step};
}

static psr_err read_bucket(const psr_message *message, uint32_t *ret_bucket)
{
    PSR_TRY(check_view(message));
    if (message->head.tag.slot == 0)
        return psr_violation(message, "its slot is 0, which is no bucket's");
    *ret_bucket = message->head.tag.slot - 1;
    return PSR_OK;
}

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

enum { RING_PHASE = AFTER_SPAN, RING_CHUNK, RING_HOP };

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

/* ---- operations of a group: the receiver checks that it has the tag's group ---- */

enum { CALL_WORD, CALL_ROOT, CALL_COUNT, AFTER_CALL };

static psr_head call_head(psr_message_type type, psr_tag tag, const psr_msg_call *call)
{
    return (psr_head){.type = type, .tag = tag, .fields = {call->word, call->root, call->count}};
}

static psr_err read_call(const psr_message *message, psr_msg_call *ret_call)
{
    const uint64_t *fields = message->head.fields;
    PSR_TRY(field_at_most(message, CALL_ROOT, UINT32_MAX));
    *ret_call = (psr_msg_call){fields[CALL_WORD], (uint32_t)fields[CALL_ROOT], fields[CALL_COUNT]};
    return PSR_OK;
}

enum { VALUES_TOTAL = AFTER_CALL, VALUES_SLICE, BEFORE_WORD, BEFORE_ROOT, BEFORE_COUNT };

psr_head psr_msg_values_head(const psr_msg_values *values)
{
    psr_head head = call_head(PSR_MSG_VALUES, values->tag, &values->call);
    head.fields[VALUES_TOTAL] = values->total;
    head.fields[VALUES_SLICE] = values->slice;
    head.fields[BEFORE_WORD] = values->before.word;
    head.fields[BEFORE_ROOT] = values->before.root;
    head.fields[BEFORE_COUNT] = values->before.count;
    return head;
}

psr_err psr_msg_values_read(const psr_message *message, psr_msg_values *ret_values)
{
    const psr_head *head = &message->head;
    psr_msg_call call;
    PSR_TRY(read_call(message, &call));
    PSR_TRY(field_at_most(message, BEFORE_ROOT, UINT32_MAX));
    *ret_values =
        (psr_msg_values){.tag = head->tag,
                         .call = call,
                         .total = head->fields[VALUES_TOTAL],
                         .slice = head->fields[VALUES_SLICE],
                         .before = {head->fields[BEFORE_WORD], (uint32_t)head->fields[BEFORE_ROOT],
                                    head->fields[BEFORE_COUNT]}};
    return PSR_OK;
}

enum { CREDIT_SLICES = AFTER_CALL, CREDIT_OFFER };

psr_head psr_msg_credit_head(const psr_msg_credit *credit)
{
    psr_head head = call_head(PSR_MSG_CREDIT, credit->tag, &credit->call);
    head.fields[CREDIT_SLICES] = credit->slices;
    head.fields[CREDIT_OFFER] = credit->offer;
    return head;
}

psr_err psr_msg_credit_read(const psr_message *message, psr_msg_credit *ret_credit)
{
    psr_msg_call call;
    PSR_TRY(read_call(message, &call));
    *ret_credit = (psr_msg_credit){message->head.tag, call, message->head.fields[CREDIT_SLICES],
                                   message->head.fields[CREDIT_OFFER]};
    return PSR_OK;
}

psr_head psr_msg_listen_head(uint32_t epoch, uint32_t group)
{
    return (psr_head){.type = PSR_MSG_LISTEN, .tag = {.epoch = epoch, .group = group}};
}

psr_head psr_msg_offer_head(const psr_msg_offer *offer)
{
    return call_head(PSR_MSG_OFFER, offer->tag, &offer->call);
}

psr_err psr_msg_offer_read(const psr_message *message, psr_msg_offer *ret_offer)
{
    psr_msg_call call;
    PSR_TRY(read_call(message, &call));
    *ret_offer = (psr_msg_offer){message->head.tag, call};
    return PSR_OK;
}

psr_head psr_msg_ahead_head(const psr_msg_ahead *ahead)
{
    return (psr_head){.type = PSR_MSG_AHEAD, .tag = ahead->tag, .fields = {ahead->operations}};
}

psr_err psr_msg_ahead_read(const psr_message *message, psr_msg_ahead *ret_ahead)
{
    *ret_ahead = (psr_msg_ahead){message->head.tag, message->head.fields[0]};
    return PSR_OK;
}

psr_tag psr_msg_tag(const psr_message *message)
{
    return message->head.tag;
}

/* ---- probes of psring doctor ---- */

psr_head psr_msg_probe_head(uint64_t number)
{
    return (psr_head){.type = PSR_MSG_PROBE, .fields = {number}};
}

psr_head psr_msg_probed_head(uint64_t number)
{
    return (psr_head){.type = PSR_MSG_PROBED, .fields = {number}};
}

uint64_t psr_msg_probe_number(const psr_message *message)
{
    return message->head.fields[0];
}

/* ---- member and scheduler ---- */

enum {
    PROGRESS_PHASE,
    PROGRESS_COUNTER,
    PROGRESS_WAITS,
    PROGRESS_ROLE,
    PROGRESS_RANK,
    PROGRESS_EVALUATES,
    PROGRESS_COUNTED
};

/* Its tag is that of its present bucket and step. */
psr_head psr_msg_progress_head(const psr_msg_progress *progress)
{
    psr_head head = {.type = PSR_MSG_PROGRESS, .tag = bucket_tag(progress->bucket, progress->step)};
    head.fields[PROGRESS_PHASE] = (uint64_t)progress->phase;
    head.fields[PROGRESS_COUNTER] = progress->counter;
    head.fields[PROGRESS_WAITS] = progress->waits;
    head.fields[PROGRESS_ROLE] = (uint64_t)progress->waits_for.role;
    head.fields[PROGRESS_RANK] = progress->waits_for.rank;
    head.fields[PROGRESS_EVALUATES] = progress->evaluates;
    head.fields[PROGRESS_COUNTED] = progress->counted;
    return head;
}

psr_err psr_msg_progress_read(const psr_message *message, const psr_msg_limits *limits,
                              psr_msg_progress *ret_progress)
{
    const psr_head *head = &message->head;
    uint32_t bucket = 0;
    PSR_TRY(read_bucket(message, &bucket));
    PSR_TRY(field_at_most(message, PROGRESS_PHASE, PSR_PHASE_HAND_OVER));
    PSR_TRY(field_at_most(message, PROGRESS_WAITS, 1));
    if (head->fields[PROGRESS_WAITS] == 1)
        PSR_TRY(
            check_peer(message, limits, head->fields[PROGRESS_ROLE], head->fields[PROGRESS_RANK]));
    PSR_TRY(field_at_most(message, PROGRESS_EVALUATES, 1));
    PSR_TRY(field_at_most(message, PROGRESS_COUNTED, limits->samples));
    PSR_TRY(at_most(message, "wire step", head->tag.round, limits->steps));
    if (bucket > 0)
        PSR_TRY(check_below(message, "bucket", bucket, limits->buckets));
    *ret_progress = (psr_msg_progress){.step = head->tag.round,
                                       .bucket = bucket,
                                       .phase = (psr_phase)head->fields[PROGRESS_PHASE],
                                       .counter = head->fields[PROGRESS_COUNTER],
                                       .waits = head->fields[PROGRESS_WAITS] == 1,
                                       .evaluates = head->fields[PROGRESS_EVALUATES] == 1,
                                       .counted = head->fields[PROGRESS_COUNTED]};
    if (ret_progress->waits)
        ret_progress->waits_for = (psr_peer){(psr_role)head->fields[PROGRESS_ROLE],
                                             (uint32_t)head->fields[PROGRESS_RANK]};
    return PSR_OK;
}

enum { DONE_STEPS, DONE_LEFT_OUT };

psr_head psr_msg_done_head(const psr_msg_done *done)
{
    return (psr_head){.type = PSR_MSG_DONE,
                      .fields = {[DONE_STEPS] = done->steps, [DONE_LEFT_OUT] = done->left_out}};
}

psr_err psr_msg_done_read(const psr_message *message, const psr_msg_limits *limits,
                          psr_msg_done *ret_done)
{
    PSR_TRY(field_at_most(message, DONE_STEPS, limits->steps));
    PSR_TRY(field_at_most(message, DONE_LEFT_OUT, 1));
    *ret_done =
        (psr_msg_done){message->head.fields[DONE_STEPS], message->head.fields[DONE_LEFT_OUT] == 1};
    return PSR_OK;
}

enum { PIECE_STEPS = AFTER_SPAN, PIECE_SECTION };

static psr_head piece_head(psr_message_type type, const psr_msg_piece *piece)
{
    return (psr_head){.type = type,
                      .fields = {[OFFSET] = piece->span.offset,
                                 [COUNT] = piece->span.count,
                                 [PIECE_STEPS] = piece->steps,
                                 [PIECE_SECTION] = piece->section}};
}

psr_head psr_msg_checkpoint_head(const psr_msg_piece *piece)
{
    return piece_head(PSR_MSG_CHECKPOINT, piece);
}

psr_head psr_msg_restore_head(const psr_msg_piece *piece)
{
    return piece_head(PSR_MSG_RESTORE, piece);
}

psr_err psr_msg_piece_read(const psr_message *message, psr_msg_piece *ret_piece)
{
    const psr_head *head = &message->head;
    if (head->fields[COUNT] > SIZE_MAX - head->fields[OFFSET])
        return psr_violation(message, "no section is as long");
    PSR_TRY(field_at_most(message, PIECE_SECTION, UINT32_MAX));
    *ret_piece = (psr_msg_piece){head->fields[PIECE_STEPS], (uint32_t)head->fields[PIECE_SECTION],
                                 span_of(head)};
    return PSR_OK;
}

psr_head psr_msg_alive_head(bool report_wanted)
{
    return (psr_head){.type = PSR_MSG_ALIVE, .fields = {report_wanted}};
}

psr_err psr_msg_alive_read(const psr_message *message, bool *ret_report_wanted)
{
    PSR_TRY(field_at_most(message, 0, 1));
    *ret_report_wanted = message->head.fields[0] == 1;
    return PSR_OK;
}

psr_head psr_msg_held_head(uint64_t step)
{
    return (psr_head){.type = PSR_MSG_HELD, .fields = {step}};
}

psr_err psr_msg_held_read(const psr_message *message, const psr_msg_limits *limits,
                          uint64_t *ret_step)
{
    PSR_TRY(check_below(message, psr_head_field_name(PSR_MSG_HELD, 0), message->head.fields[0],
                        limits->steps));
    *ret_step = message->head.fields[0];
    return PSR_OK;
}

psr_head psr_msg_hold_head(bool change)
{
    return (psr_head){.type = PSR_MSG_HOLD, .fields = {change}};
}

psr_err psr_msg_hold_read(const psr_message *message, bool *ret_change)
{
    PSR_TRY(field_at_most(message, 0, 1));
    *ret_change = message->head.fields[0] == 1;
    return PSR_OK;
}

psr_head psr_msg_stop_at_head(uint64_t step)
{
    return (psr_head){.type = PSR_MSG_STOP_AT, .fields = {step}};
}

psr_err psr_msg_stop_at_read(const psr_message *message, uint64_t *ret_step)
{
    *ret_step = message->head.fields[0];
    return PSR_OK;
}

psr_head psr_msg_saved_head(uint64_t steps)
{
    return (psr_head){.type = PSR_MSG_SAVED, .fields = {steps}};
}

psr_err psr_msg_saved_read(const psr_message *message, uint64_t *ret_steps)
{
    *ret_steps = message->head.fields[0];
    return PSR_OK;
}

psr_head psr_msg_failed_head(psr_err status)
{
    return (psr_head){.type = PSR_MSG_FAILED, .fields = {(uint64_t)status}};
}

psr_err psr_msg_failed_status(const psr_message *message)
{
    uint64_t status = message->head.fields[0];
    return status > 0 && status <= PSR_ERR_LAST ? (psr_err)status : PSR_ERR_PEER;
}

enum { VIEW_EPOCH, VIEW_FIRST_STEP };

psr_head psr_msg_view_head(const psr_msg_view *view)
{
    return (psr_head){.type = PSR_MSG_VIEW,
                      .fields = {[VIEW_EPOCH] = view->epoch, [VIEW_FIRST_STEP] = view->first_step}};
}

psr_err psr_msg_view_read(const psr_message *message, psr_msg_view *ret_view)
{
    PSR_TRY(field_at_most(message, VIEW_EPOCH, UINT32_MAX));
    *ret_view = (psr_msg_view){(uint32_t)message->head.fields[VIEW_EPOCH],
                               message->head.fields[VIEW_FIRST_STEP]};
    return PSR_OK;
}

enum { BOUND_EPOCH, BOUND_PAUSE };

psr_head psr_msg_bound_head(const psr_msg_bound *bound)
{
    return (psr_head){
        .type = PSR_MSG_BOUND,
        .fields = {[BOUND_EPOCH] = bound->epoch, [BOUND_PAUSE] = within(bound->pause_us)}};
}

psr_err psr_msg_bound_read(const psr_message *message, const psr_msg_limits *limits,
                           psr_msg_bound *ret_bound)
{
    PSR_TRY(field_at_most(message, BOUND_EPOCH, limits->epoch));
    PSR_TRY(field_at_most(message, BOUND_PAUSE, PSR_MSG_WITHIN_MS_MAX));
    *ret_bound = (psr_msg_bound){(uint32_t)message->head.fields[BOUND_EPOCH],
                                 message->head.fields[BOUND_PAUSE]};
    return PSR_OK;
}

enum { FAILURE_STATUS, FAILURE_RANK, FAILURE_OTHER, FAILURE_NUMBER, FAILURE_WITHIN, FAILURE_SCOPE };

static psr_head failure_head(psr_message_type type, const psr_msg_failure *failure)
{
    return (psr_head){.type = type,
                      .tag = {.epoch = failure->epoch, .group = failure->group},
                      .fields = {[FAILURE_STATUS] = (uint64_t)failure->status,
                                 [FAILURE_RANK] = failure->rank,
                                 [FAILURE_OTHER] = failure->other,
                                 [FAILURE_NUMBER] = failure->number,
                                 [FAILURE_WITHIN] = within(failure->within_ms),
                                 [FAILURE_SCOPE] = (uint64_t)failure->scope}};
}

psr_head psr_msg_finding_head(const psr_msg_failure *failure)
{
    return failure_head(PSR_MSG_FINDING, failure);
}

psr_head psr_msg_verdict_head(const psr_msg_failure *failure)
{
    return failure_head(PSR_MSG_VERDICT, failure);
}

/* A scope with a rank needs a rank. */
static psr_err check_blamed(const psr_message *message, const psr_msg_limits *limits)
{
    const uint64_t *fields = message->head.fields;
    bool of_rank =
        fields[FAILURE_SCOPE] == PSR_SCOPE_RANK || fields[FAILURE_SCOPE] == PSR_SCOPE_LOST;
    PSR_TRY(check_rank(message, limits, fields[FAILURE_OTHER]));
    return of_rank ? check_peer(message, limits, PSR_ROLE_WORKER, fields[FAILURE_RANK])
                   : check_rank(message, limits, fields[FAILURE_RANK]);
}

psr_err psr_msg_failure_read(const psr_message *message, const psr_msg_limits *limits,
                             psr_msg_failure *ret_failure)
{
    const uint64_t *fields = message->head.fields;
    PSR_TRY(check_epoch(message, limits));
    PSR_TRY(field_at_most(message, FAILURE_STATUS, PSR_ERR_LAST));
    PSR_TRY(field_at_most(message, FAILURE_WITHIN, PSR_MSG_WITHIN_MS_MAX));
    PSR_TRY(field_at_most(message, FAILURE_SCOPE, PSR_SCOPES - 1));
    PSR_TRY(check_blamed(message, limits));
    *ret_failure = (psr_msg_failure){.status = (psr_err)fields[FAILURE_STATUS],
                                     .scope = (psr_scope)fields[FAILURE_SCOPE],
                                     .epoch = message->head.tag.epoch,
                                     .group = message->head.tag.group,
                                     .rank = (uint32_t)fields[FAILURE_RANK],
                                     .other = (uint32_t)fields[FAILURE_OTHER],
                                     .number = fields[FAILURE_NUMBER],
                                     .within_ms = fields[FAILURE_WITHIN]};
    return PSR_OK;
}

psr_head psr_msg_shrink_head(const psr_msg_shrink *shrink)
{
    return (psr_head){.type = PSR_MSG_SHRINK,
                      .tag = {.epoch = shrink->epoch, .group = shrink->group},
                      .fields = {within(shrink->within_ms)}};
}

psr_err psr_msg_shrink_read(const psr_message *message, const psr_msg_limits *limits,
                            psr_msg_shrink *ret_shrink)
{
    const psr_head *head = &message->head;
    PSR_TRY(check_epoch(message, limits));
    PSR_TRY(field_at_most(message, 0, PSR_MSG_WITHIN_MS_MAX));
    *ret_shrink = (psr_msg_shrink){head->tag.epoch, head->tag.group, head->fields[0]};
    return PSR_OK;
}

enum { SHRUNK_STATUS, SHRUNK_RANK, SHRUNK_EPOCH };

psr_head psr_msg_shrunk_head(const psr_msg_shrunk *shrunk)
{
    return (psr_head){.type = PSR_MSG_SHRUNK,
                      .tag = {.epoch = shrunk->epoch, .group = shrunk->group},
                      .fields = {[SHRUNK_STATUS] = (uint64_t)shrunk->status,
                                 [SHRUNK_RANK] = shrunk->rank,
                                 [SHRUNK_EPOCH] = shrunk->new_epoch}};
}

psr_err psr_msg_shrunk_read(const psr_message *message, const psr_msg_limits *limits,
                            psr_msg_shrunk *ret_shrunk)
{
    const psr_head *head = &message->head;
    PSR_TRY(check_epoch(message, limits));
    PSR_TRY(field_at_most(message, SHRUNK_STATUS, PSR_ERR_LAST));
    PSR_TRY(check_rank(message, limits, head->fields[SHRUNK_RANK]));
    PSR_TRY(field_at_most(message, SHRUNK_EPOCH, UINT32_MAX));
    *ret_shrunk = (psr_msg_shrunk){.epoch = head->tag.epoch,
                                   .group = head->tag.group,
                                   .status = (psr_err)head->fields[SHRUNK_STATUS],
                                   .rank = (uint32_t)head->fields[SHRUNK_RANK],
                                   .new_epoch = (uint32_t)head->fields[SHRUNK_EPOCH]};
    return PSR_OK;
}

enum { RANK_BYTES = 4 };

void psr_msg_rank_list_write(const uint32_t *ranks, uint32_t count, uint8_t *ret_bytes)
{
    for (uint32_t i = 0; i < count; i++)
        for (unsigned b = 0; b < RANK_BYTES; b++)
            ret_bytes[RANK_BYTES * i + b] = (uint8_t)(ranks[i] >> (8 * b));
}

static psr_err read_ranks(const psr_message *message, uint32_t limit, uint32_t count,
                          uint32_t *ranks, bool *seen)
{
    const uint8_t *bytes = message->payload;
    for (uint32_t i = 0; i < count; i++, bytes += RANK_BYTES) {
        ranks[i] = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                   (uint32_t)bytes[3] << 24;
        if (ranks[i] >= limit)
            return psr_violation(message, "there is no rank %" PRIu32, ranks[i]);
        if (seen[ranks[i]])
            return psr_violation(message, "rank %" PRIu32 " stands there twice", ranks[i]);
        seen[ranks[i]] = true;
    }
    return PSR_OK;
}

psr_err psr_msg_rank_list_read(const psr_message *message, uint32_t limit, uint32_t **ret_ranks,
                               uint32_t *ret_count)
{
    size_t count = message->payload_bytes / RANK_BYTES;
    if (count == 0 || count > limit || message->payload_bytes % RANK_BYTES != 0)
        return psr_violation(message, "%zu bytes are no list of at most %" PRIu32 " ranks",
                             message->payload_bytes, limit);
    uint32_t *ranks = calloc(count, sizeof *ranks);
    bool *seen = calloc(limit, sizeof *seen);
    psr_err err = ranks != NULL && seen != NULL
                      ? read_ranks(message, limit, (uint32_t)count, ranks, seen)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for %zu ranks", count);
    free(seen);
    if (err != PSR_OK) {
        free(ranks);
        return err;
    }
    *ret_ranks = ranks;
    *ret_count = (uint32_t)count;
    return PSR_OK;
}
