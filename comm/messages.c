#include "comm/messages.h"

#include "comm/join.h"
#include "net/violation.h"

#include <inttypes.h>

static psr_err at_most(const psr_message *message, const char *field, uint64_t value, uint64_t most)
{
    if (value <= most)
        return PSR_OK;
    return psr_violation(message, "its %s is %" PRIu64 ": %" PRIu64 " is the most", field, value, most);
}

/* ---- parts of a bucket ---- */

static psr_head part_head(psr_message_type type, uint32_t bucket, uint64_t step, psr_span span)
{
    return (psr_head){
        .type = type, .step = step, .bucket = bucket, .offset = span.offset, .count = span.count};
}

static psr_span span_of(const psr_head *head)
{
    return (psr_span){head->offset, head->count};
}

uint64_t psr_msg_step(const psr_head *head)
{
    return head->step;
}

psr_head psr_msg_init_head(const psr_msg_init *init)
{
    psr_head head = part_head(PSR_MSG_INIT, init->bucket, init->step, init->span);
    head.flags = init->section;
    return head;
}

psr_err psr_msg_init_read(const psr_message *message, psr_msg_init *ret_init)
{
    const psr_head *head = &message->head;
    *ret_init = (psr_msg_init){head->bucket, head->step, span_of(head), head->flags};
    return PSR_OK;
}

psr_head psr_msg_push_head(const psr_msg_push *push)
{
    psr_head head = part_head(PSR_MSG_PUSH, push->bucket, push->step, push->span);
    head.flags = push->answer;
    return head;
}

psr_err psr_msg_push_read(const psr_message *message, psr_msg_push *ret_push)
{
    const psr_head *head = &message->head;
    PSR_TRY(at_most(message, "answer", head->flags, 1));
    *ret_push = (psr_msg_push){head->bucket, head->step, span_of(head), head->flags == 1};
    return PSR_OK;
}

psr_head psr_msg_pull_head(const psr_msg_pull *pull)
{
    return part_head(PSR_MSG_PULL, pull->bucket, pull->step, pull->span);
}

psr_err psr_msg_pull_read(const psr_message *message, psr_msg_pull *ret_pull)
{
    const psr_head *head = &message->head;
    *ret_pull = (psr_msg_pull){head->bucket, head->step, span_of(head)};
    return PSR_OK;
}

psr_head psr_msg_weights_head(const psr_msg_weights *weights)
{
    psr_head head = part_head(PSR_MSG_WEIGHTS, weights->bucket, weights->step, weights->span);
    head.flags = weights->staleness > UINT32_MAX ? UINT32_MAX : (uint32_t)weights->staleness;
    head.aux = weights->received;
    return head;
}

psr_err psr_msg_weights_read(const psr_message *message, psr_msg_weights *ret_weights)
{
    const psr_head *head = &message->head;
    *ret_weights = (psr_msg_weights){head->bucket, head->step, span_of(head), head->flags, head->aux};
    return PSR_OK;
}

psr_head psr_msg_ack_head(uint64_t received)
{
    return (psr_head){.type = PSR_MSG_ACK, .aux = received};
}

psr_err psr_msg_ack_read(const psr_message *message, uint64_t *ret_received)
{
    *ret_received = message->head.aux;
    return PSR_OK;
}

psr_head psr_msg_ring_head(const psr_msg_ring *ring)
{
    psr_head head = part_head(PSR_MSG_RING, ring->bucket, ring->step, ring->span);
    head.flags = (uint32_t)ring->phase;
    head.aux = (uint64_t)ring->chunk << 32 | ring->hop;
    return head;
}

psr_err psr_msg_ring_read(const psr_message *message, psr_msg_ring *ret_ring)
{
    const psr_head *head = &message->head;
    PSR_TRY(at_most(message, "phase", head->flags, PSR_RING_PHASES - 1));
    *ret_ring = (psr_msg_ring){head->bucket,
                               head->step,
                               span_of(head),
                               (psr_ring_phase)head->flags,
                               (uint32_t)(head->aux >> 32),
                               (uint32_t)head->aux};
    return PSR_OK;
}

/* ---- small collectives ---- */

psr_head psr_msg_gather_head(const psr_msg_gather *gather)
{
    return (psr_head){.type = PSR_MSG_GATHER,
                      .offset = gather->span.offset,
                      .count = gather->span.count,
                      .aux = gather->number};
}

psr_err psr_msg_gather_read(const psr_message *message, psr_msg_gather *ret_gather)
{
    *ret_gather = (psr_msg_gather){message->head.aux, span_of(&message->head)};
    return PSR_OK;
}

psr_head psr_msg_spread_head(const psr_msg_spread *spread)
{
    return (psr_head){.type = PSR_MSG_SPREAD,
                      .offset = spread->span.offset,
                      .count = spread->span.count,
                      .aux = spread->number};
}

psr_err psr_msg_spread_read(const psr_message *message, psr_msg_spread *ret_spread)
{
    *ret_spread = (psr_msg_spread){message->head.aux, span_of(&message->head)};
    return PSR_OK;
}

/* ---- member and scheduler ---- */

psr_head psr_msg_progress_head(const psr_msg_progress *progress)
{
    return (psr_head){.type = PSR_MSG_PROGRESS,
                      .step = progress->step,
                      .bucket = progress->bucket,
                      .flags = (uint32_t)progress->phase,
                      .offset = progress->waits ? psr_peer_pack(progress->waits_for) : UINT64_MAX,
                      .count = progress->evaluates ? 1 + progress->counted : 0,
                      .aux = progress->counter};
}

psr_err psr_msg_progress_read(const psr_message *message, psr_msg_progress *ret_progress)
{
    const psr_head *head = &message->head;
    psr_peer waits_for = {0};
    bool waits = head->offset != UINT64_MAX;
    PSR_TRY(at_most(message, "phase", head->flags, PSR_PHASE_SHUTDOWN));
    if (waits && !psr_peer_unpack(head->offset, &waits_for))
        return psr_violation(message, "it waits for nobody that there is");
    *ret_progress = (psr_msg_progress){.step = head->step,
                                       .bucket = head->bucket,
                                       .phase = (psr_phase)head->flags,
                                       .counter = head->aux,
                                       .waits = waits,
                                       .waits_for = waits_for,
                                       .evaluates = head->count > 0,
                                       .counted = head->count > 0 ? head->count - 1 : 0};
    return PSR_OK;
}

psr_head psr_msg_done_head(const psr_msg_done *done)
{
    return (psr_head){.type = PSR_MSG_DONE, .step = done->steps, .flags = done->left_out};
}

psr_err psr_msg_done_read(const psr_message *message, psr_msg_done *ret_done)
{
    PSR_TRY(at_most(message, "left_out", message->head.flags, 1));
    *ret_done = (psr_msg_done){message->head.step, message->head.flags == 1};
    return PSR_OK;
}

static psr_head piece_head(psr_message_type type, const psr_msg_piece *piece)
{
    return part_head(type, piece->section, piece->steps, piece->span);
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
    *ret_piece = (psr_msg_piece){head->step, head->bucket, span_of(head)};
    return PSR_OK;
}

psr_head psr_msg_alive_head(bool report_wanted)
{
    return (psr_head){.type = PSR_MSG_ALIVE, .flags = report_wanted};
}

psr_err psr_msg_alive_read(const psr_message *message, bool *ret_report_wanted)
{
    PSR_TRY(at_most(message, "report_wanted", message->head.flags, 1));
    *ret_report_wanted = message->head.flags == 1;
    return PSR_OK;
}

psr_head psr_msg_held_head(uint64_t step)
{
    return (psr_head){.type = PSR_MSG_HELD, .step = step};
}

psr_err psr_msg_held_read(const psr_message *message, uint64_t *ret_step)
{
    *ret_step = message->head.step;
    return PSR_OK;
}

psr_head psr_msg_stop_at_head(uint64_t step)
{
    return (psr_head){.type = PSR_MSG_STOP_AT, .step = step};
}

psr_err psr_msg_stop_at_read(const psr_message *message, uint64_t *ret_step)
{
    *ret_step = message->head.step;
    return PSR_OK;
}

psr_head psr_msg_saved_head(uint64_t steps)
{
    return (psr_head){.type = PSR_MSG_SAVED, .step = steps};
}

psr_err psr_msg_saved_read(const psr_message *message, uint64_t *ret_steps)
{
    *ret_steps = message->head.step;
    return PSR_OK;
}

psr_head psr_msg_failed_head(psr_err status)
{
    return (psr_head){.type = PSR_MSG_FAILED, .flags = (uint32_t)status};
}

psr_err psr_msg_failed_status(const psr_message *message)
{
    uint32_t status = message->head.flags;
    return status > 0 && status <= PSR_ERR_UNSUPPORTED ? (psr_err)status : PSR_ERR_PEER;
}
