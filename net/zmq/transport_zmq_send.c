/* Sending on channels: as frames, or by reference to memory that is shared; small messages through
 * a pipe, if the peer reads one. Every channel counts
 * its messages: TCP may break and libzmq connect again behind our back, and what was under way is
 * then missing, which the count shows; where nothing was lost the channel goes on. */
#include "net/zmq/transport_zmq_private.h"

#include "net/sharing/pipe.h"
#include "net/zmq/sockets.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* A shorter payload outside of an arena goes as a message, where the reference would go by a socket
 * too: its copies cost less than returning a slot. */
#define STAGED_LEAST ((size_t)64 << 10)

psr_zmq_channel *psr_zmq_channel_of(const psr_zmq_transport *transport, psr_peer peer)
{
    if ((unsigned)peer.role >= PSR_ZMQ_ROLES || peer.rank >= transport->channel_counts[peer.role])
        return NULL;
    psr_zmq_channel *c = &transport->channels[peer.role][peer.rank];
    return c->dealer != NULL ? c : NULL;
}

/* Called by libzmq when lent bytes have left. */
typedef struct loan {
    void (*release)(void *context);
    void *context;
} loan;

static void loan_end(void *data, void *hint)
{
    (void)data;
    loan *l = hint;
    l->release(l->context);
    free(l);
}

/* On failure the payload has been given back. */
static psr_err payload_frame(const psr_payload *payload, zmq_msg_t *frame)
{
    if (payload->release == NULL) {
        if (zmq_msg_init_size(frame, payload->bytes) != 0)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", payload->bytes);
        memcpy(zmq_msg_data(frame), payload->data, payload->bytes);
        return PSR_OK;
    }
    loan *l = malloc(sizeof *l);
    void *data = (void *)(uintptr_t)payload->data; /* libzmq only reads it */
    if (l != NULL)
        *l = (loan){payload->release, payload->context};
    if (l == NULL || zmq_msg_init_data(frame, data, payload->bytes, loan_end, l) != 0) {
        free(l);
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    return PSR_OK;
}

/* The frame of a head; its message is counted by it. */
typedef struct counted {
    psr_unsent *unsent;
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
} counted;

static void counted_left(void *data, void *hint)
{
    counted *head = hint;
    (void)data;
    psr_unsent_left(head->unsent);
    free(head);
}

static psr_err head_frame(psr_unsent *unsent, const psr_head *head, size_t payload_bytes,
                          zmq_msg_t *frame)
{
    counted *c = malloc(sizeof *c);
    size_t size = 0;
    if (c != NULL)
        psr_head_encode(head, payload_bytes, c->bytes, &size);
    if (c == NULL || zmq_msg_init_data(frame, c->bytes, size, counted_left, c) != 0) {
        free(c);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    c->unsent = unsent;
    psr_unsent_add(unsent);
    return PSR_OK;
}

/* payload_bytes: as the head says; frame 2 has that length, or is a reference to it. */
static psr_err send_frames(psr_zmq_channel *c, const psr_head *head, zmq_msg_t *payload,
                           size_t payload_bytes)
{
    psr_head numbered = *head;
    numbered.sequence = c->sequence;
    zmq_msg_t first;
    PSR_TRY(head_frame(c->unsent, &numbered, payload_bytes, &first));
    if (!psr_zmq_send_frame(c->dealer, &first, payload != NULL)) {
        psr_err err = psr_zmq_failed("sending a message");
        zmq_msg_close(&first);
        return err;
    }
    if (payload != NULL && !psr_zmq_send_frame(c->dealer, payload, false))
        return psr_zmq_failed("sending a payload");
    c->sequence++;
    return PSR_OK;
}

/* libzmq may have learnt of a reply while it sent, and its descriptor does not report that
 * again. */
static void look_for_replies(psr_zmq_transport *transport, const psr_zmq_channel *c)
{
    if (c->dealer == transport->replies || atomic_load(&transport->unsealed) > 0)
        atomic_store(&transport->others, true);
}

/* Through the pipe. payload_bytes: as the head says; second: the payload, or a reference to it. If
 * there is no room, it goes by the socket, and the receiver reads it in its turn, by its number. */
static psr_err put_piped(psr_zmq_channel *c, const psr_head *head, size_t payload_bytes,
                         const void *second, size_t second_bytes, bool *ret_put)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    psr_head numbered = *head;
    size_t size;
    *ret_put = false;
    if (c->lender == NULL || second_bytes > PSR_PIPE_FRAME_MAX || !psr_lender_has_pipe(c->lender))
        return PSR_OK;
    numbered.sequence = c->sequence;
    psr_head_encode(&numbered, payload_bytes, bytes, &size);
    PSR_TRY(psr_lender_put(c->lender, bytes, size, second, second_bytes, ret_put));
    c->sequence += *ret_put;
    return PSR_OK;
}

/* Consumes the payload. announced: as the head says. */
static psr_err send_sealed(psr_zmq_channel *c, psr_sealed_out *out, const psr_head *head,
                           size_t announced, const psr_payload *payload)
{
    psr_head numbered = *head;
    numbered.sequence = c->sequence;
    PSR_TRY(psr_sealed_out_send(out, &numbered, announced, payload));
    c->sequence++;
    return PSR_OK;
}

/* By the socket, sealed or not. The bytes are copied. */
static psr_err send_copy(psr_zmq_channel *c, const psr_head *head, size_t announced,
                         const void *bytes, size_t count)
{
    psr_sealed_out *out = psr_zmq_sealed_of(c);
    if (out != NULL)
        return send_sealed(c, out, head, announced, &(psr_payload){.data = bytes, .bytes = count});
    zmq_msg_t frame;
    if (count == 0)
        return send_frames(c, head, NULL, 0);
    if (zmq_msg_init_size(&frame, count) != 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    memcpy(zmq_msg_data(&frame), bytes, count);
    psr_err err = send_frames(c, head, &frame, announced);
    zmq_msg_close(&frame);
    return err;
}

static psr_err send_reference(psr_zmq_channel *c, const psr_head *head,
                              const psr_reference *reference, size_t payload_bytes)
{
    uint8_t bytes[PSR_REFERENCE_BYTES];
    bool put = false;
    psr_reference_encode(reference, bytes);
    psr_err err = put_piped(c, head, payload_bytes, bytes, sizeof bytes, &put);
    if (err == PSR_OK && !put)
        err = send_copy(c, head, payload_bytes, bytes, sizeof bytes);
    if (err != PSR_OK)
        psr_lender_recall(c->lender, reference);
    return err;
}

/* Through a slot. On success the payload has been given back: nothing reads it any more. */
static bool refer_to_copy(const psr_zmq_transport *transport, psr_zmq_channel *c,
                          const psr_head *head, const psr_payload *payload,
                          psr_reference *ret_reference)
{
    psr_payload staged;
    const size_t least = psr_lender_has_pipe(c->lender) ? PSR_REFERENCE_LEAST : STAGED_LEAST;
    if (transport->stage == NULL || payload->bytes < least ||
        !psr_lender_has_taken(c->lender, psr_stage_arena(transport->stage)) ||
        !psr_stage_put(transport->stage, payload, &staged))
        return false;
    if (!psr_lender_refer(c->lender, head, &staged, ret_reference)) {
        psr_payload_return(&staged);
        return false;
    }
    psr_payload_return(payload);
    return true;
}

/* Whether the payload's loan is taken over by a reference. */
static bool refer(const psr_zmq_transport *transport, psr_zmq_channel *c, const psr_head *head,
                  const psr_payload *payload, psr_reference *ret_reference)
{
    return c->lender != NULL &&
           (psr_lender_refer(c->lender, head, payload, ret_reference) ||
            (psr_reference_may(head) && refer_to_copy(transport, c, head, payload, ret_reference)));
}

static psr_err send_head(psr_zmq_channel *c, const psr_head *head)
{
    bool put;
    PSR_TRY(put_piped(c, head, 0, NULL, 0, &put));
    return put ? PSR_OK : send_copy(c, head, 0, NULL, 0);
}

/* Consumes the payload. */
static psr_err send_on(psr_zmq_transport *transport, psr_zmq_channel *c, const psr_head *head,
                       const psr_payload *payload)
{
    psr_transport *base = &transport->base;
    if (payload == NULL || payload->bytes == 0) {
        psr_payload_return(payload);
        return send_head(c, head);
    }
    bool put;
    psr_err err = put_piped(c, head, payload->bytes, payload->data, payload->bytes, &put);
    if (err != PSR_OK || put) {
        psr_payload_return(payload);
        psr_count_add(&base->bytes_lent, put ? payload->bytes : 0);
        return err;
    }
    psr_reference reference;
    if (refer(transport, c, head, payload, &reference)) {
        PSR_TRY(send_reference(c, head, &reference, payload->bytes));
        psr_count_add(&base->bytes_lent, payload->bytes);
        return PSR_OK;
    }
    psr_sealed_out *out = psr_zmq_sealed_of(c);
    if (out != NULL) {
        const size_t bytes = payload->bytes;
        PSR_TRY(send_sealed(c, out, head, bytes, payload));
        psr_count_add(&base->bytes_sealed, bytes);
        return PSR_OK;
    }
    zmq_msg_t frame;
    PSR_TRY(payload_frame(payload, &frame));
    err = send_frames(c, head, &frame, payload->bytes);
    zmq_msg_close(&frame); /* empty if it was sent; otherwise ends the loan */
    return err;
}

psr_err psr_zmq_transport_send(psr_transport *base, psr_peer to, const psr_head *head,
                               const psr_payload *payload)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_zmq_channel *c = psr_zmq_channel_of(transport, to);
    if (c == NULL) {
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_NOT_FOUND, "no channel to %s %" PRIu32, psr_role_name(to.role),
                        to.rank);
    }
    look_for_replies(transport, c);
    return psr_zmq_unless_refused(transport, to, send_on(transport, c, head, payload));
}

size_t psr_zmq_transport_waiting(const psr_transport *base, psr_peer peer)
{
    const psr_zmq_channel *c = psr_zmq_channel_of((const psr_zmq_transport *)base, peer);
    return c != NULL ? psr_unsent_count(c->unsent) : 0;
}

psr_err psr_zmq_say_hello(const psr_zmq_transport *transport, psr_zmq_channel *c)
{
    const psr_head hello = psr_msg_hello_head(transport->self);
    return send_copy(c, &hello, 0, NULL, 0);
}

psr_err psr_zmq_send_own(psr_zmq_channel *c, const psr_head *head, const void *payload,
                         size_t bytes)
{
    zmq_msg_t frame;
    PSR_TRY(payload_frame(&(psr_payload){.data = payload, .bytes = bytes}, &frame));
    psr_err err = send_frames(c, head, &frame, bytes);
    zmq_msg_close(&frame);
    return err;
}
