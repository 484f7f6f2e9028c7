/* Messages of pipes, and one of the socket that is kept for those before it. */
#include "net/zmq/inbox/inbox_private.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* More messages than a pipe holds at once. Whoever has so many read before one that it sent by a
 * socket wrote some of them later, and keeps others out. */
#define PIPED_BEFORE_MAX (PSR_PIPE_BYTES / 64)

/* A message whose payload was copied out of a pipe. */
typedef struct copied {
    psr_message base;
    alignas(max_align_t) unsigned char payload[];
} copied;

static void copied_release(psr_message *message)
{
    free(message);
}

static psr_err deliver_copy(const psr_piped *piped, psr_peer from, const psr_head *head,
                            psr_message **ret_message)
{
    copied *c = malloc(sizeof *c + piped->record.second_bytes);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    c->base = (psr_message){.from = from,
                            .head = *head,
                            .payload = c->payload,
                            .payload_bytes = piped->record.second_bytes,
                            .release = copied_release};
    memcpy(c->payload, piped->record.second, piped->record.second_bytes);
    *ret_message = &c->base;
    return PSR_OK;
}

/* The second frame, or what it stands for. Its length is known; its bytes may change. */
static psr_err deliver_piped(psr_inbox *inbox, const psr_binding *binding, const psr_piped *piped,
                             const psr_head *head, uint64_t payload_bytes,
                             psr_message **ret_message)
{
    uint8_t bytes[PSR_REFERENCE_BYTES];
    psr_reference reference;
    if (payload_bytes == piped->record.second_bytes)
        return deliver_copy(piped, binding->peer, head, ret_message);
    if (payload_bytes >= PSR_REFERENCE_LEAST && piped->record.second_bytes == sizeof bytes) {
        memcpy(bytes, piped->record.second, sizeof bytes);
        if (psr_reference_decode(bytes, sizeof bytes, &reference))
            return psr_inbox_deliver_reference(inbox, binding, head, payload_bytes, &reference,
                                               ret_message);
    }
    return psr_inbox_violation(binding->peer,
                               psr_fail(PSR_ERR_PROTOCOL,
                                        "announced a payload of %" PRIu64 " bytes and wrote %zu",
                                        payload_bytes, piped->record.second_bytes));
}

/* Of the second connection's records, which go by CURVE alone. */
static bool is_of_keys(const psr_head *head)
{
    return head->type == PSR_MSG_KEY_OFFER || head->type == PSR_MSG_KEY_ANSWER ||
           head->type == PSR_MSG_SEALED;
}

/* A record of a member. *ret_message stays NULL when a message of the socket must come before. */
static psr_err handle_record(psr_inbox *inbox, psr_binding *binding, const psr_piped *piped,
                             psr_message **ret_message)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    psr_head head;
    uint64_t payload_bytes;
    if (piped->record.first_bytes > sizeof bytes)
        return psr_inbox_violation(
            binding->peer,
            psr_fail(PSR_ERR_PROTOCOL, "wrote a head of %zu bytes", piped->record.first_bytes));
    memcpy(bytes, piped->record.first, piped->record.first_bytes);
    psr_err err = psr_head_decode(bytes, piped->record.first_bytes, &head, &payload_bytes);
    if (err != PSR_OK)
        return psr_inbox_violation(binding->peer, err);
    if (head.sequence < binding->sequence)
        return psr_inbox_sent_twice(binding, &head);
    if (head.sequence > binding->sequence) {
        psr_pipes_in_hold_up(inbox->pipes, piped->place);
        return PSR_OK;
    }
    if (head.type == PSR_MSG_HELLO)
        return psr_inbox_violation(binding->peer,
                                   psr_fail(PSR_ERR_PROTOCOL, "introduces itself in a pipe"));
    if (is_of_keys(&head))
        return psr_inbox_violation(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "sent %s in a pipe",
                                                           psr_message_name(head.type)));
    PSR_TRY(deliver_piped(inbox, binding, piped, &head, payload_bytes, ret_message));
    psr_pipes_in_next(inbox->pipes, piped);
    binding->sequence++;
    inbox->due = binding->sealed;
    return PSR_OK;
}

static psr_err handle_piped(psr_inbox *inbox, psr_pipe_look_result result, const psr_piped *piped,
                            psr_message **ret_message)
{
    psr_binding *binding = psr_bindings_find(&inbox->bindings, piped->id, sizeof piped->id);
    if (binding == NULL || binding->banned) { /* it has left: nobody reads its pipe */
        psr_pipes_in_hold_up(inbox->pipes, piped->place);
        return PSR_OK;
    }
    if (result == PSR_PIPE_BROKEN)
        return psr_inbox_violation(
            binding->peer, psr_fail(PSR_ERR_PROTOCOL, "wrote what is no message into its pipe"));
    return handle_record(inbox, binding, piped, ret_message);
}

psr_err psr_inbox_take_piped(psr_inbox *inbox, psr_message **ret_message)
{
    *ret_message = NULL;
    while (inbox->pipes != NULL && *ret_message == NULL && inbox->due == NULL) {
        psr_piped piped;
        const psr_pipe_look_result result = psr_pipes_in_look(inbox->pipes, &piped);
        if (result == PSR_PIPE_EMPTY)
            return PSR_OK;
        PSR_TRY(handle_piped(inbox, result, &piped, ret_message));
    }
    return PSR_OK;
}

/* The next message of one sender's pipe, if it is the next of its channel. count: of those. */
psr_err psr_inbox_take_piped_of(psr_inbox *inbox, const void *id, size_t *count,
                                psr_message **ret_message)
{
    psr_piped piped;
    if (inbox->pipes == NULL || *count == PIPED_BEFORE_MAX)
        return PSR_OK;
    const psr_pipe_look_result result = psr_pipes_in_look_at(inbox->pipes, id, &piped);
    if (result == PSR_PIPE_EMPTY)
        return PSR_OK;
    PSR_TRY(handle_piped(inbox, result, &piped, ret_message));
    *count += *ret_message != NULL;
    return PSR_OK;
}

/* A message of the socket is kept until those of its sender's pipe that come before it have been
 * read. All of those are there: the sender wrote them first. */
psr_err psr_inbox_take_kept(psr_inbox *inbox, psr_message **ret_message)
{
    bool keep = false;
    PSR_TRY(psr_inbox_take_piped_of(inbox, zmq_msg_data(&inbox->kept.id), &inbox->kept_after,
                                    ret_message));
    if (*ret_message != NULL)
        return PSR_OK;
    const psr_err err = psr_inbox_handle(inbox, &inbox->kept, false, &keep, ret_message);
    psr_frames_close(&inbox->kept);
    inbox->any_kept = false;
    return err;
}
