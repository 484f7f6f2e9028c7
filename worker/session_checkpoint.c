/* A checkpoint's pieces on their way to the scheduler. */
#include "worker/exchange/exchange_private.h"

#include "comm/command_queue.h"
#include "comm/members/member.h"
#include "comm/members/memory/shared_memory.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"

#include <string.h>

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

psr_err psr_session_open_pieces(psr_session *session)
{
    return psr_blocks_new(sizeof(psr_outgoing) + PSR_PAYLOAD_BYTES_MAX, &session->pieces);
}

psr_blocks *psr_session_pieces(psr_session *session)
{
    return session->pieces;
}

psr_err psr_session_keep_pieces(psr_session *session, size_t pieces)
{
    return psr_blocks_reserve(session->pieces, pieces);
}

/* Copies a piece while the compute thread waits, so a large one goes into memory that is kept from
 * one checkpoint to the next: the kernel's zeroing of new pages would take longer than the copy. */
static psr_err send_piece(psr_session *session, const psr_head *head, const psr_payload *payload)
{
    void *block;
    if (payload->bytes < PSR_KEPT_PIECE_BYTES_MIN)
        return psr_session_send(session, scheduler, head, payload->data, payload->bytes);
    PSR_TRY(psr_blocks_take(session->pieces, &block));
    psr_outgoing *message = block;
    *message =
        (psr_outgoing){.to = scheduler, .head = *head, .bytes = payload->bytes, .is_block = true};
    memcpy(message->payload, payload->data, payload->bytes);
    return psr_session_command(session,
                               &(psr_command){.kind = PSR_COMMAND_SEND, .object = message});
}

psr_err psr_session_checkpoint(psr_session *session, uint64_t steps, uint32_t section,
                               const float *arena, psr_span run)
{
    const size_t most = psr_encoding_values_max(PSR_ENCODING_FLOAT32);
    for (size_t at = run.offset; at < psr_span_end(run); at += most) {
        size_t left = psr_span_end(run) - at, piece = left < most ? left : most;
        psr_head head = psr_msg_checkpoint_head(&(psr_msg_piece){steps, section, {at, piece}});
        psr_payload payload = psr_encode(&head, PSR_ENCODING_FLOAT32, arena + at, piece);
        PSR_TRY(send_piece(session, &head, &payload));
    }
    return PSR_OK;
}

psr_err psr_session_await_saved(psr_session *session, uint64_t steps)
{
    atomic_store(&session->wanted_steps, steps);
    return psr_session_wait(session, PSR_WAIT_SAVED, PSR_PHASE_CHECKPOINT);
}
