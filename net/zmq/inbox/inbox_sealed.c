/* Sealed messages, and those that are held for others that come before them. */
#include "net/zmq/inbox/inbox_private.h"

#include "net/zmq/sockets.h"

/* Of an opened frame. */
static psr_err read_sealed(const psr_binding *binding, zmq_msg_t *frame, psr_head *ret_head,
                           uint64_t *ret_announced, psr_body *ret_body)
{
    const void *head;
    size_t head_bytes;
    psr_body b = {.frame = frame, .sealed = true};
    psr_err err = psr_sealed_parts(zmq_msg_data(frame), zmq_msg_size(frame), &head, &head_bytes,
                                   &b.bytes, &b.count);
    if (err == PSR_OK)
        err = psr_head_decode(head, head_bytes, ret_head, ret_announced);
    if (err != PSR_OK)
        return psr_inbox_violation(binding->peer, err);
    *ret_body = b;
    return PSR_OK;
}

/* An opened message. Those that its sender sent before by CURVE are perhaps still under way; those
 * that are in its pipe are read next, and nothing more of the sockets is held meanwhile. */
static psr_err take_opened(psr_inbox *inbox, psr_sealed_taken *taken, psr_message **ret_message)
{
    psr_sealed_channel *channel = taken->channel;
    psr_binding *binding = psr_bindings_find(&inbox->bindings, channel->id, sizeof channel->id);
    psr_head head;
    uint64_t announced;
    psr_body b;
    PSR_TRY(read_sealed(binding, &taken->frame, &head, &announced, &b));
    if (channel->held == 0 && head.sequence <= binding->sequence)
        return psr_inbox_take_next(inbox, binding, &head, announced, &b, 0, ret_message);
    psr_err err = psr_sealed_in_hold(channel, head.sequence, &taken->frame);
    if (err != PSR_OK)
        return psr_inbox_violation(binding->peer, err);
    channel->held_after = 0;
    inbox->due = channel;
    return PSR_OK;
}

psr_err psr_inbox_take_sealed(psr_inbox *inbox, bool *ret_there, psr_message **ret_message)
{
    psr_sealed_taken taken;
    psr_err err = psr_sealed_in_take(inbox->sealed, &taken);
    const psr_sealed_channel *channel = taken.channel;
    const psr_binding *binding =
        channel != NULL ? psr_bindings_find(&inbox->bindings, channel->id, sizeof channel->id)
                        : NULL;
    *ret_there = err != PSR_OK || taken.what != PSR_SEALED_NOTHING;
    if (err != PSR_OK) {
        err = psr_inbox_violation(binding->peer, err);
    } else if (taken.what == PSR_SEALED_DROPPED) {
        err = psr_inbox_drop(
            inbox, binding != NULL ? binding->peer : (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY},
            taken.reason);
    } else if (taken.what == PSR_SEALED_GREETED) {
        const psr_head sealed = {.type = PSR_MSG_SEALED};
        psr_inbox_send_back(inbox, channel->id, sizeof channel->id, &sealed, NULL, 0);
    } else if (taken.what == PSR_SEALED_OPENED) {
        err = take_opened(inbox, &taken, ret_message);
    }
    zmq_msg_close(&taken.frame);
    return err;
}

/* The next message of the channel that is due, if it is there: one that was held, or one of its
 * sender's pipe that comes before those. */
psr_err psr_inbox_take_due(psr_inbox *inbox, psr_message **ret_message)
{
    psr_sealed_channel *channel = inbox->due;
    psr_binding *binding = psr_bindings_find(&inbox->bindings, channel->id, sizeof channel->id);
    if (channel->held == 0 || psr_sealed_in_held(channel) > binding->sequence) {
        inbox->due = NULL; /* a message of the pipe makes it due again */
        return channel->held > 0
                   ? psr_inbox_take_piped_of(inbox, channel->id, &channel->held_after, ret_message)
                   : PSR_OK;
    }
    psr_head head;
    uint64_t announced;
    psr_body b;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    psr_sealed_in_take_held(channel, &frame);
    psr_err err = read_sealed(binding, &frame, &head, &announced, &b);
    if (err == PSR_OK)
        err = psr_inbox_take_next(inbox, binding, &head, announced, &b, 0, ret_message);
    zmq_msg_close(&frame);
    return err;
}

bool psr_inbox_is_due(const psr_inbox *inbox)
{
    return inbox->due != NULL;
}
