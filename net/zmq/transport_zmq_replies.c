/* The scheduler's answers to a process that connects: whether its side of libzmq admits the
 * process; and REFUSED, which it sends on this process's own connection. */
#include "net/zmq/transport_zmq_private.h"

#include "base/clock.h"
#include "net/trust/admission.h"
#include "net/zmq/sockets.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* after this many connections in a row that the scheduler's side ends in the handshake it is no
 * accident */
#define DEAD_HANDSHAKES 8
/* A failed handshake and a connection that ends during it may be the same event: libzmq reports
 * what it notices first. */
#define OTHER_SCHEDULER "what listens at %s is not this run's scheduler, or has other keys"

/* Whether the scheduler admits us. A wrong token or key is said (AUTH); with another mechanism or
 * another server key libzmq's other side just hangs up, which it also does when it ends. */
psr_err psr_zmq_check_refused(psr_zmq_transport *transport)
{
    struct __attribute__((packed)) {
        uint16_t event;
        uint32_t value;
    } first;
    char address[256];
    while (psr_zmq_receive(transport->refused, &first, sizeof first) == (int)sizeof first) {
        /* it came completely */
        int bytes = psr_zmq_receive(transport->refused, address, sizeof address - 1);
        address[bytes < 0                     ? 0
                : bytes < (int)sizeof address ? bytes
                                              : (int)sizeof address - 1] = '\0';
        if (first.event == ZMQ_EVENT_CONNECTED) {
            transport->connected_ms = psr_clock_ms();
            psr_zmq_far_connected(transport, (int)first.value);
        } else if (first.event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            transport->dead_handshakes = 0;
        else if (first.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            return psr_fail(PSR_ERR_DENIED,
                            "the scheduler at %s refused this process: its %s is not of that run",
                            address, transport->options.keys->curve ? "CURVE key" : "token");
        else if (first.event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
            return psr_fail(PSR_ERR_DENIED, OTHER_SCHEDULER, address);
        else if (psr_clock_ms() - transport->connected_ms > PSR_HANDSHAKE_MS / 2)
            continue; /* it is silent: perhaps stopped, which is for the deadline to find */
        else if (++transport->dead_handshakes == DEAD_HANDSHAKES)
            return psr_fail(PSR_ERR_DENIED, OTHER_SCHEDULER, address);
    }
    return PSR_OK;
}

/* Once the scheduler's side has refused us, libzmq gives the connection up. Then either its socket
 * takes no more messages, and the refusal is the reason; or it takes them and keeps them, so that
 * sending alone would never fail. */
psr_err psr_zmq_unless_refused(psr_zmq_transport *transport, psr_peer peer, psr_err err)
{
    if (peer.role != PSR_ROLE_SCHEDULER || transport->refused == NULL)
        return err;
    const psr_err refused = psr_zmq_check_refused(transport);
    return refused != PSR_OK ? refused : err;
}

/* REFUSED, which comes back on our own connection to the scheduler. */
typedef struct reply {
    psr_message base;
    char line[PSR_REFUSED_LINE_MAX + 1];
} reply;

static void reply_release(psr_message *message)
{
    free(message); /* base is its first member */
}

/* *ret_message stays NULL where it is something else, which is nothing that a scheduler says
 * there. */
static psr_err read_reply(zmq_msg_t *head_frame, zmq_msg_t *line, psr_message **ret_message)
{
    psr_head head;
    uint64_t bytes = 0;
    psr_err err =
        psr_head_decode(zmq_msg_data(head_frame), zmq_msg_size(head_frame), &head, &bytes);
    if (err == PSR_ERR_VERSION)
        return psr_fail_context(err, "the scheduler");
    if (err != PSR_OK || head.type != PSR_MSG_REFUSED || bytes != zmq_msg_size(line) ||
        bytes > PSR_REFUSED_LINE_MAX)
        return PSR_OK;
    reply *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    memcpy(r->line, zmq_msg_data(line), bytes);
    r->base = (psr_message){.from = {PSR_ROLE_SCHEDULER, 0},
                            .head = head,
                            .payload = r->line,
                            .payload_bytes = bytes,
                            .release = reply_release};
    *ret_message = &r->base;
    return PSR_OK;
}

psr_err psr_zmq_check_replies(psr_zmq_transport *transport, psr_message **ret_message)
{
    psr_err err = PSR_OK;
    bool there = transport->replies != NULL;
    while (there && err == PSR_OK && *ret_message == NULL) {
        zmq_msg_t head, line;
        zmq_msg_init(&head);
        zmq_msg_init(&line);
        there = psr_zmq_receive_frame(transport->replies, &head);
        bool two = there && zmq_msg_more(&head) && psr_zmq_receive_frame(transport->replies, &line);
        for (bool more = two && zmq_msg_more(&line); more; more = zmq_msg_more(&line))
            /* a message with more frames is not ours */
            if (!psr_zmq_receive_frame(transport->replies, &line))
                break;
        if (two)
            err = read_reply(&head, &line, ret_message);
        zmq_msg_close(&head);
        zmq_msg_close(&line);
    }
    return err;
}

/* Refusals are looked for at the scheduler alone: everybody connects there first, with the same
 * keys as elsewhere. */
psr_err psr_zmq_await_refusal(psr_zmq_transport *transport, void *dealer)
{
    static const char endpoint[] = "inproc://psring.refused";
    if (zmq_socket_monitor(
            dealer, endpoint,
            ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) != 0)
        return psr_zmq_failed("zmq_socket_monitor");
    void *refused = zmq_socket(transport->ctx, ZMQ_PAIR);
    if (refused == NULL)
        return psr_zmq_failed("making a socket");
    psr_err err = psr_zmq_set(refused, ZMQ_RCVHWM, 0, "ZMQ_RCVHWM");
    if (err == PSR_OK && zmq_connect(refused, endpoint) != 0)
        err = psr_zmq_failed(endpoint);
    if (err == PSR_OK)
        err = psr_zmq_watch(transport, PSR_ZMQ_WATCHED_REFUSED, refused);
    if (err != PSR_OK)
        zmq_close(refused);
    else
        transport->refused = refused;
    return err;
}

/* The same of what it says when we are in. */
psr_err psr_zmq_await_replies(psr_zmq_transport *transport, void *dealer)
{
    PSR_TRY(psr_zmq_watch(transport, PSR_ZMQ_WATCHED_REPLIES, dealer));
    transport->replies = dealer;
    return PSR_OK;
}

void psr_zmq_forget_replies(psr_zmq_transport *transport, const void *dealer)
{
    if (dealer != transport->replies)
        return;
    transport->replies = NULL;
    transport->watched[PSR_ZMQ_WATCHED_REPLIES].fd = -1;
}
