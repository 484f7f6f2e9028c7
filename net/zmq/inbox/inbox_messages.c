/* From the frames of a member to its message. */
#include "net/zmq/inbox/inbox_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- delivering ---- */

void psr_inbox_received_release(psr_message *message)
{
    psr_inbox_received *r = (psr_inbox_received *)message;
    zmq_msg_close(&r->frame);
    free(r->aligned);
    free(r);
}

/* Makes a message of what has been checked; takes the frame. */
static psr_err deliver(const psr_body *b, const psr_binding *binding, const psr_head *head,
                       psr_message **ret_message)
{
    psr_inbox_received *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    r->base =
        (psr_message){.from = binding->peer, .head = *head, .release = psr_inbox_received_release};
    memcpy(r->id, binding->id, sizeof r->id);
    const size_t offset =
        b->count > 0 ? (size_t)((const uint8_t *)b->bytes - (const uint8_t *)zmq_msg_data(b->frame))
                     : 0;
    zmq_msg_init(&r->frame);
    zmq_msg_move(&r->frame, b->frame);
    r->base.payload_bytes = b->count;
    r->base.payload = (const uint8_t *)zmq_msg_data(&r->frame) + offset;
    /* Large frames have memory of their own, which is aligned; small ones may lie anywhere in a
     * batch. */
    if ((uintptr_t)r->base.payload % _Alignof(double) != 0 && r->base.payload_bytes > 0) {
        r->aligned = malloc(r->base.payload_bytes);
        if (r->aligned == NULL) {
            psr_inbox_received_release(&r->base);
            return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes",
                            r->base.payload_bytes);
        }
        memcpy(r->aligned, r->base.payload, r->base.payload_bytes);
        r->base.payload = r->aligned;
    }
    *ret_message = &r->base;
    return PSR_OK;
}

/* Whether the body stands for a payload in shared memory. It is shorter than any payload that may
 * be referred to. */
static bool refers(const psr_inbox *inbox, const psr_body *b, uint64_t payload_bytes,
                   psr_reference *ret_reference)
{
    return inbox->borrower != NULL && b->count > 0 && payload_bytes >= PSR_REFERENCE_LEAST &&
           psr_reference_decode(b->bytes, b->count, ret_reference);
}

/* As deliver, for a payload that stays in its owner's memory. */
psr_err psr_inbox_deliver_reference(psr_inbox *inbox, const psr_binding *binding,
                                    const psr_head *head, uint64_t payload_bytes,
                                    const psr_reference *reference, psr_message **ret_message)
{
    psr_err err = psr_borrower_take(inbox->borrower, binding->id, binding->peer, head,
                                    payload_bytes, reference, ret_message);
    return err == PSR_OK ? PSR_OK : psr_inbox_violation(binding->peer, err);
}

/* ---- checking ---- */

/* A member offers a key for sealed messages. */
static psr_err answer_offer(psr_inbox *inbox, psr_binding *binding, const psr_head *head,
                            const psr_body *b)
{
    psr_head answer;
    uint8_t part[PSR_SEAL_PART_BYTES];
    if (inbox->sealed == NULL || b->sealed)
        return psr_inbox_violation(binding->peer,
                                   psr_fail(PSR_ERR_PROTOCOL, "offers a key where none is"));
    psr_err err =
        psr_sealed_in_answer(inbox->sealed, binding, head, b->bytes, b->count, &answer, part);
    if (err != PSR_OK)
        return psr_inbox_violation(binding->peer, err);
    psr_inbox_send_back(inbox, binding->id, sizeof binding->id, &answer, part, sizeof part);
    psr_seal_wipe(part, sizeof part);
    return PSR_OK;
}

psr_err psr_inbox_sent_twice(const psr_binding *binding, const psr_head *head)
{
    return psr_inbox_violation(
        binding->peer,
        psr_fail(PSR_ERR_PROTOCOL, "sent message %" PRIu64 " twice", head->sequence));
}

static psr_err check_sequence(const psr_binding *binding, const psr_head *head)
{
    if (head->sequence < binding->sequence)
        return psr_inbox_sent_twice(binding, head);
    uint64_t lost = head->sequence - binding->sequence;
    if (lost > 0)
        return psr_inbox_violation(binding->peer,
                                   psr_fail(PSR_ERR_PEER,
                                            "its connection broke and %" PRIu64 " message%s lost",
                                            lost, lost == 1 ? " was" : "s were"));
    return PSR_OK;
}

/* A message of a member, whose head has been read, is the next one of its channel. *ret_message
 * stays NULL when it was not for the owner. extra: frames behind the payload's. */
psr_err psr_inbox_take_next(psr_inbox *inbox, psr_binding *binding, const psr_head *head,
                            uint64_t payload_bytes, const psr_body *b, unsigned extra,
                            psr_message **ret_message)
{
    if (inbox->pipes != NULL)
        psr_pipes_in_go_on(inbox->pipes);
    PSR_TRY(check_sequence(binding, head));
    psr_reference reference;
    if (extra == 0 && refers(inbox, b, payload_bytes, &reference)) {
        binding->sequence++;
        return psr_inbox_deliver_reference(inbox, binding, head, payload_bytes, &reference,
                                           ret_message);
    }
    if (extra > 0 || payload_bytes != b->count)
        return psr_inbox_violation(binding->peer,
                                   psr_fail(PSR_ERR_PROTOCOL,
                                            "announced a payload of %" PRIu64
                                            " bytes and sent %zu in %u frames",
                                            payload_bytes, b->count, (b->count > 0) + extra));
    binding->sequence++;
    switch (head->type) {
    case PSR_MSG_HELLO:
        return psr_inbox_rename(inbox, binding, head);
    case PSR_MSG_KEY_OFFER:
        return answer_offer(inbox, binding, head, b);
    case PSR_MSG_KEY_ANSWER:
    case PSR_MSG_SEALED:
        return psr_inbox_violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "sent %s out of place",
                                                           psr_message_name(head->type)));
    default:
        return deliver(b, binding, head, ret_message);
    }
}

/* ---- frames of the ROUTER ---- */

void psr_frames_close(psr_frames *f)
{
    zmq_msg_close(&f->id);
    zmq_msg_close(&f->head);
    zmq_msg_close(&f->payload);
}

/* Whether what was sent before it is in the sender's pipe. */
static bool comes_after_piped(const psr_inbox *inbox, const psr_binding *binding)
{
    psr_piped piped;
    return inbox->pipes != NULL &&
           psr_pipes_in_look_at(inbox->pipes, binding->id, &piped) != PSR_PIPE_EMPTY;
}

/* *ret_message stays NULL when the frames were not for the owner: HELLO, a stranger's. may_keep:
 * messages that are read from a pipe may come before; *ret_keep: they do, and the frames are to be
 * handled again after them. */
psr_err psr_inbox_handle(psr_inbox *inbox, psr_frames *f, bool may_keep, bool *ret_keep,
                         psr_message **ret_message)
{
    psr_head head = {0};
    uint64_t payload_bytes = 0;
    psr_err decoded =
        psr_head_decode(zmq_msg_data(&f->head), zmq_msg_size(&f->head), &head, &payload_bytes);
    psr_binding *binding =
        psr_bindings_find(&inbox->bindings, zmq_msg_data(&f->id), zmq_msg_size(&f->id));
    if (binding == NULL)
        return psr_inbox_introduce(inbox, f, decoded, &head);
    if (binding->banned)
        return psr_inbox_drop(inbox, binding->peer,
                              "another process joined under that name before");
    if (!psr_inbox_is_bound(inbox, binding, f))
        return psr_inbox_drop(inbox, binding->peer,
                              "the channel whose id it has is another process's");
    if (decoded != PSR_OK)
        return psr_inbox_refuse_bytes(inbox, f, binding->peer, decoded);
    *ret_keep = head.sequence > binding->sequence && may_keep && comes_after_piped(inbox, binding);
    if (*ret_keep)
        return PSR_OK;
    const psr_body b = {zmq_msg_data(&f->payload), zmq_msg_size(&f->payload), &f->payload, false};
    const unsigned expected = b.count > 0 ? 3 : 2;
    psr_err err = psr_inbox_take_next(inbox, binding, &head, payload_bytes, &b,
                                      f->count > expected ? f->count - expected : 0, ret_message);
    inbox->due = binding->sealed;
    return err;
}
