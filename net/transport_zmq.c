/* One context per transport, so that several live in one process. The inbox is a ROUTER under admission
 * (net/admission.h), each channel a DEALER. Every channel counts its messages: TCP may break and libzmq connect
 * again behind our back, and what was under way is then missing, which the count shows; where nothing was
 * lost the channel goes on. */
#include "net/transport_private.h"

#include "base/clock.h"
#include "net/bindings.h"
#include "net/admission.h"
#include "net/attempt.h"
#include "net/inbox.h"
#include "net/interface.h"
#include "net/reach.h"
#include "net/sharing.h"
#include "net/socket_directory.h"
#include "net/sockets.h"
#include "net/stage.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#define ROLES 3
#define RANKS_MAX 65536
#define SOCKETS_MAX 8192
#define LOOK_EVERY_MS 1000 /* at channels that are not connected yet */
#define REACH_MS 1000
#define DEAD_HANDSHAKES                                                                                      \
    8 /* connections in a row that the scheduler's side ends in the handshake: not an accident */
/* A failed handshake and a connection that is ended in it may be the same: whichever libzmq notices first. */
#define OTHER_SCHEDULER "what listens at %s is not this run's scheduler, or has other keys"

/* What is shorter and lies in no arena goes as a message: its copies cost less than giving a slot back. */
#define STAGED_LEAST ((size_t)64 << 10)

enum {
    WATCHED_INBOX,
    WATCHED_WAKE,
    WATCHED_STRANGERS,
    WATCHED_REFUSED,
    WATCHED_REPLIES,
    WATCHED_SHARED,
    WATCHED
};

typedef struct channel {
    void *dealer;
    uint64_t sequence;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_lender *lender; /* the sharing's; NULL: no memory is shared with this peer */
    psr_attempt attempt;
    char *endpoint; /* owned, while it is not known to be connected; NULL: it is, or it is not over TCP */
} channel;

typedef struct zmq_transport {
    psr_transport base;
    psr_zmq_options options;
    psr_peer self;
    void *ctx;
    psr_inbox *inbox;
    channel *channels[ROLES]; /* [role][rank] */
    size_t channel_counts[ROLES];

    void *refused; /* PAIR: whether the scheduler admits us; NULL until connected */
    void *
        replies; /* the dealer to the scheduler, which may say REFUSED on it; NULL until connected. Borrowed from its channel */
    unsigned dead_handshakes;
    int64_t connected_ms;
    uint64_t attempts_begun;
    size_t attempts;      /* channels that are not known to be connected */
    int64_t next_look_ms; /* at them */

    char share_path[PSR_SHARE_PATH_BYTES]; /* "": it can share no memory */
    psr_sharing *sharing;                  /* NULL: no memory is shared */
    psr_stage *stage;                      /* NULL: only what lies in an arena is lent */
    uint64_t introductions;
    void (*say)(void *context, bool shared, const char *line);
    void *say_context;

    int wake_fd;
    atomic_bool woken;
    struct pollfd watched[WATCHED]; /* constant once the scheduler is connected and memory is shared */
    atomic_bool others;             /* there may be something at strangers, refused or replies */
} zmq_transport;

static bool is_ipc(const psr_zmq_options *options)
{
    return options->directory != NULL && options->directory[0] != '\0';
}

/* ---- receiving ---- */

/* Whether the scheduler admits us. A wrong token or key is said (AUTH); with another
 * mechanism or another server key libzmq's other side just hangs up, which it also does when it ends. */
static psr_err check_refused(zmq_transport *transport)
{
    struct __attribute__((packed)) {
        uint16_t event;
        uint32_t value;
    } first;
    char address[256];
    while (psr_zmq_receive(transport->refused, &first, sizeof first) == (int)sizeof first) {
        int bytes = psr_zmq_receive(transport->refused, address, sizeof address - 1); /* it came whole */
        address[bytes < 0 ? 0 : bytes < (int)sizeof address ? bytes : (int)sizeof address - 1] = '\0';
        if (first.event == ZMQ_EVENT_CONNECTED)
            transport->connected_ms = psr_clock_ms();
        else if (first.event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            transport->dead_handshakes = 0;
        else if (first.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            return psr_fail(PSR_ERR_DENIED,
                            "the scheduler at %s refused this process: its %s is not of that run", address,
                            transport->options.keys->curve ? "CURVE key" : "token");
        else if (first.event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
            return psr_fail(PSR_ERR_DENIED, OTHER_SCHEDULER, address);
        else if (psr_clock_ms() - transport->connected_ms > PSR_HANDSHAKE_MS / 2)
            continue; /* it is silent: stopped, perhaps, and the deadline's business */
        else if (++transport->dead_handshakes == DEAD_HANDSHAKES)
            return psr_fail(PSR_ERR_DENIED, OTHER_SCHEDULER, address);
    }
    return PSR_OK;
}

/* What was taken of its events before is looked for once, without waiting. */
static psr_err watch(zmq_transport *transport, int which, void *socket)
{
    int fd;
    size_t size = sizeof fd;
    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) != 0)
        return psr_zmq_failed("ZMQ_FD");
    transport->watched[which] = (struct pollfd){.fd = fd, .events = POLLIN};
    atomic_store(&transport->others, true);
    return PSR_OK;
}

/* The sockets' descriptors are watched, not the sockets: only who receives looks at those. libzmq makes a descriptor readable when something
 * happens to a socket whose events have all been taken, as after a receive that found nothing (zmq_getsockopt(3), ZMQ_FD). */
static void zmq_transport_wait(psr_transport *base, int fd, int timeout_ms)
{
    zmq_transport *transport = (zmq_transport *)base;
    struct pollfd watched[WATCHED + 1];
    memcpy(watched, transport->watched, sizeof transport->watched);
    watched[WATCHED] = (struct pollfd){.fd = fd, .events = POLLIN};
    if (poll(watched, WATCHED + 1, timeout_ms) > 0 &&
        (watched[WATCHED_STRANGERS].revents || watched[WATCHED_REFUSED].revents ||
         watched[WATCHED_REPLIES].revents))
        atomic_store(&transport->others, true);
}

/* REFUSED, which comes back on our own connection to the scheduler. */
typedef struct reply {
    psr_message base;
    char line[PSR_REFUSED_LINE_MAX + 1];
} reply;

static void reply_release(psr_message *message)
{
    free(message); /* its first member */
}

/* *ret_message stays NULL where it is something else, which is nothing that a scheduler says there. */
static psr_err read_reply(zmq_msg_t *head_frame, zmq_msg_t *line, psr_message **ret_message)
{
    psr_head head;
    uint64_t bytes = 0;
    psr_err err = psr_head_decode(zmq_msg_data(head_frame), zmq_msg_size(head_frame), &head, &bytes);
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

static psr_err check_replies(zmq_transport *transport, psr_message **ret_message)
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
            if (!psr_zmq_receive_frame(transport->replies,
                                       &line)) /* what has more frames is nothing of ours */
                break;
        if (two)
            err = read_reply(&head, &line, ret_message);
        zmq_msg_close(&head);
        zmq_msg_close(&line);
    }
    return err;
}

/* What does not come by the inbox. *ret_message stays NULL unless it is a message. */
static psr_err serve_others(zmq_transport *transport, psr_message **ret_message)
{
    if (!atomic_exchange(&transport->others, false))
        return PSR_OK;
    psr_inbox_tell_strangers(transport->inbox);
    PSR_TRY(check_replies(transport, ret_message));
    return *ret_message == NULL && transport->refused != NULL ? check_refused(transport) : PSR_OK;
}

/* The descriptor is emptied first: a wake that comes between writes nothing, and what it is for is seen after this. */
static bool take_wake(zmq_transport *transport)
{
    uint64_t wakes;
    if (!atomic_load(&transport->woken))
        return false;
    (void)!read(transport->wake_fd, &wakes, sizeof wakes);
    atomic_exchange(&transport->woken, false);
    return true;
}

/* Who shares memory with this process is known by its channel, which may say so after its memory has come. */
static psr_err see_introductions(zmq_transport *transport)
{
    uint64_t introductions = psr_inbox_introductions(transport->inbox);
    if (transport->sharing == NULL || introductions == transport->introductions)
        return PSR_OK;
    transport->introductions = introductions;
    return psr_borrower_serve(psr_sharing_borrower(transport->sharing));
}

/* There is no message. What was freed is given back, and what came beside the messages is taken. */
static psr_err serve_sharing(zmq_transport *transport)
{
    if (transport->sharing == NULL)
        return PSR_OK;
    psr_borrower_settle(psr_sharing_borrower(transport->sharing));
    return psr_sharing_serve(transport->sharing);
}

static psr_err zmq_transport_recv(psr_transport *base, int timeout_ms, psr_message **ret_message)
{
    zmq_transport *transport = (zmq_transport *)base;
    int64_t end_ms = timeout_ms > 0 ? psr_clock_ms() + timeout_ms : 0;
    for (bool last = timeout_ms == 0;;) {
        psr_message *message = NULL;
        PSR_TRY(psr_inbox_take(transport->inbox, &message));
        psr_err err = see_introductions(transport);
        if (err != PSR_OK) {
            psr_message_free(&message);
            return err;
        }
        if (message != NULL) {
            if (transport->sharing != NULL)
                psr_borrower_busy(psr_sharing_borrower(transport->sharing));
            *ret_message = message;
            return PSR_OK;
        }
        PSR_TRY(serve_sharing(transport));
        if (take_wake(transport))
            return psr_fail(PSR_ERR_CANCELLED, "woken");
        PSR_TRY(serve_others(transport, &message));
        if (message != NULL) {
            *ret_message = message;
            return PSR_OK;
        }
        if (last)
            return psr_fail(PSR_ERR_TIMEOUT, "no message within %d ms", timeout_ms);
        int64_t left_ms = timeout_ms < 0 ? -1 : end_ms - psr_clock_ms();
        if (timeout_ms >= 0 && left_ms <= 0) {
            left_ms = 0;
            last = true;
        }
        zmq_transport_wait(base, -1, (int)left_ms);
    }
}

static void zmq_transport_wake(psr_transport *base)
{
    zmq_transport *transport = (zmq_transport *)base;
    uint64_t one = 1;
    if (!atomic_exchange(&transport->woken, true))
        (void)!write(transport->wake_fd, &one, sizeof one);
}

/* ---- sending ---- */

static channel *channel_of(const zmq_transport *transport, psr_peer peer)
{
    if ((unsigned)peer.role >= ROLES || peer.rank >= transport->channel_counts[peer.role])
        return NULL;
    channel *c = &transport->channels[peer.role][peer.rank];
    return c->dealer != NULL ? c : NULL;
}

/* What libzmq calls when lent bytes have left. */
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

/* payload_bytes: what the head announces; frame 2 is that long, or a reference to it. */
static psr_err send_frames(channel *c, const psr_head *head, zmq_msg_t *payload, size_t payload_bytes)
{
    psr_head numbered = *head;
    numbered.sequence = c->sequence;
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(&numbered, payload_bytes, bytes, &size);
    if (!psr_zmq_send(c->dealer, bytes, size, payload != NULL))
        return psr_zmq_failed("sending a message");
    if (payload != NULL && !psr_zmq_send_frame(c->dealer, payload))
        return psr_zmq_failed("sending a payload");
    c->sequence++;
    return PSR_OK;
}

/* libzmq may have learnt of a reply when it sent, and its descriptor does not tell that again. */
static void look_for_replies(zmq_transport *transport, const channel *c)
{
    if (c->dealer == transport->replies)
        atomic_store(&transport->others, true);
}

static psr_err send_reference(channel *c, const psr_head *head, const psr_reference *reference,
                              size_t payload_bytes)
{
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, PSR_REFERENCE_BYTES) != 0) {
        psr_lender_recall(c->lender, reference);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    }
    psr_reference_encode(reference, zmq_msg_data(&frame));
    psr_err err = send_frames(c, head, &frame, payload_bytes);
    zmq_msg_close(&frame);
    if (err != PSR_OK)
        psr_lender_recall(c->lender, reference);
    return err;
}

/* Through a slot. On success the payload has been given back: nothing reads it any more. */
static bool refer_to_copy(const zmq_transport *transport, channel *c, const psr_head *head,
                          const psr_payload *payload, psr_reference *ret_reference)
{
    psr_payload staged;
    if (transport->stage == NULL || payload->bytes < STAGED_LEAST ||
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
static bool refer(const zmq_transport *transport, channel *c, const psr_head *head,
                  const psr_payload *payload, psr_reference *ret_reference)
{
    return c->lender != NULL &&
           (psr_lender_refer(c->lender, head, payload, ret_reference) ||
            (psr_reference_may(head) && refer_to_copy(transport, c, head, payload, ret_reference)));
}

static psr_err zmq_transport_send(psr_transport *base, psr_peer to, const psr_head *head,
                                  const psr_payload *payload)
{
    channel *c = channel_of((zmq_transport *)base, to);
    if (c == NULL) {
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_NOT_FOUND, "no channel to %s %" PRIu32, psr_role_name(to.role), to.rank);
    }
    look_for_replies((zmq_transport *)base, c);
    if (payload == NULL || payload->bytes == 0) {
        psr_payload_return(payload);
        return send_frames(c, head, NULL, 0);
    }
    psr_reference reference;
    if (refer((const zmq_transport *)base, c, head, payload, &reference)) {
        PSR_TRY(send_reference(c, head, &reference, payload->bytes));
        psr_count_add(&base->bytes_lent, payload->bytes);
        return PSR_OK;
    }
    zmq_msg_t frame;
    PSR_TRY(payload_frame(payload, &frame));
    psr_err err = send_frames(c, head, &frame, payload->bytes);
    zmq_msg_close(&frame); /* empty when it was sent; gives the loan back when not */
    return err;
}

static psr_err say_hello(const zmq_transport *transport, channel *c)
{
    psr_head hello = psr_msg_hello_head(transport->self);
    return send_frames(c, &hello, NULL, 0);
}

/* ---- connecting ---- */

/* The slot of the peer's channel; NULL: no memory. */
static channel *make_room(zmq_transport *transport, psr_peer peer)
{
    size_t old = transport->channel_counts[peer.role];
    if (peer.rank >= old) {
        channel *grown = realloc(transport->channels[peer.role], (peer.rank + 1) * sizeof *grown);
        if (grown == NULL)
            return NULL;
        memset(grown + old, 0, (peer.rank + 1 - old) * sizeof *grown);
        transport->channels[peer.role] = grown;
        transport->channel_counts[peer.role] = peer.rank + 1;
    }
    return &transport->channels[peer.role][peer.rank];
}

/* Gives the channel its routing id, and all that it asks for admission with. */
static psr_err set_dealer(zmq_transport *transport, void *dealer, psr_peer peer, const char *endpoint,
                          const char *public_key, uint8_t ret_id[PSR_ROUTING_ID_BYTES])
{
    if (getrandom(ret_id, PSR_ROUTING_ID_BYTES, 0) != PSR_ROUTING_ID_BYTES)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    ret_id[0] |= 1; /* ids that begin with zero are libzmq's own */
    if (zmq_setsockopt(dealer, ZMQ_ROUTING_ID, ret_id, PSR_ROUTING_ID_BYTES) != 0)
        return psr_zmq_failed("ZMQ_ROUTING_ID");
    if (public_key == NULL)
        public_key = psr_keys_of(transport->options.keys, peer);
    PSR_TRY(psr_admission_apply(transport->options.keys, transport->self, dealer, public_key));
    PSR_TRY(psr_zmq_set_tcp(dealer, strchr(endpoint, '[') != NULL));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_RCVHWM, 1,
                        "ZMQ_RCVHWM")); /* an inbox sends REFUSED back at most: let nobody fill memory */
    PSR_TRY(psr_zmq_set_largest(dealer, 1024));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_CONNECT_TIMEOUT, PSR_HANDSHAKE_MS, "ZMQ_CONNECT_TIMEOUT"));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_HANDSHAKE_IVL, PSR_HANDSHAKE_MS, "ZMQ_HANDSHAKE_IVL"));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_RECONNECT_IVL, 50, "ZMQ_RECONNECT_IVL"));
    return psr_zmq_set(dealer, ZMQ_RECONNECT_IVL_MAX, 1000, "ZMQ_RECONNECT_IVL_MAX");
}

/* Refusals are looked for at the scheduler alone: everybody connects there first, with the same keys as elsewhere. */
static psr_err await_refusal(zmq_transport *transport, void *dealer)
{
    static const char endpoint[] = "inproc://psring.refused";
    if (zmq_socket_monitor(dealer, endpoint,
                           ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                               ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) != 0)
        return psr_zmq_failed("zmq_socket_monitor");
    void *refused = zmq_socket(transport->ctx, ZMQ_PAIR);
    if (refused == NULL)
        return psr_zmq_failed("making a socket");
    psr_err err = psr_zmq_set(refused, ZMQ_RCVHWM, 0, "ZMQ_RCVHWM");
    if (err == PSR_OK && zmq_connect(refused, endpoint) != 0)
        err = psr_zmq_failed(endpoint);
    if (err == PSR_OK)
        err = watch(transport, WATCHED_REFUSED, refused);
    if (err != PSR_OK)
        zmq_close(refused);
    else
        transport->refused = refused;
    return err;
}

/* The same of what it says when we are in. */
static psr_err await_replies(zmq_transport *transport, void *dealer)
{
    PSR_TRY(watch(transport, WATCHED_REPLIES, dealer));
    transport->replies = dealer;
    return PSR_OK;
}

static void forget_replies(zmq_transport *transport, const void *dealer)
{
    if (dealer != transport->replies)
        return;
    transport->replies = NULL;
    transport->watched[WATCHED_REPLIES].fd = -1;
}

static void close_dealer(void *dealer, int linger_ms)
{
    (void)zmq_socket_monitor(dealer, NULL, 0);
    (void)zmq_setsockopt(dealer, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_close(dealer);
}

/* Whether it connects: all but to the scheduler, for which its members wait. */
static psr_err begin_attempt(zmq_transport *transport, channel *c, void *dealer, const char *endpoint)
{
    char *copy = strdup(endpoint);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    psr_err err = psr_attempt_begin(transport->ctx, dealer, transport->attempts_begun++, &c->attempt);
    if (err != PSR_OK) {
        free(copy);
        return err;
    }
    c->endpoint = copy;
    transport->attempts++;
    return PSR_OK;
}

static void end_attempt(zmq_transport *transport, channel *c)
{
    if (c->endpoint == NULL)
        return;
    psr_attempt_done(&c->attempt);
    free(c->endpoint);
    c->endpoint = NULL;
    transport->attempts--;
}

/* A member tells where it listens, and is not believed about more than that: over ipc, only in the run's own
 * directory. */
static psr_err check_endpoint(const zmq_transport *transport, const char *endpoint)
{
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        char directory[PSR_SOCKET_DIRECTORY_BYTES];
        PSR_TRY(psr_socket_directory_of(endpoint, directory));
        if (!is_ipc(&transport->options) || strcmp(directory, transport->options.directory) != 0)
            return psr_fail(PSR_ERR_USAGE, "endpoint %s is not in the directory of this run's sockets%s%s",
                            endpoint, is_ipc(&transport->options) ? ", " : ": this process listens on TCP",
                            is_ipc(&transport->options) ? transport->options.directory : "");
        return PSR_OK;
    }
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return psr_fail(PSR_ERR_USAGE, "endpoint %s: it should be tcp://HOST:PORT or ipc:///DIRECTORY/SOCKET",
                        endpoint);
    if (!transport->options.keys->curve && !transport->options.keys->bare)
        return psr_fail(PSR_ERR_USAGE, "endpoint %s: TCP needs CURVE keys (psring keygen)", endpoint);
    return PSR_OK;
}

static psr_err zmq_transport_connect(psr_transport *base, psr_peer peer, const char *endpoint,
                                     const char *public_key)
{
    zmq_transport *transport = (zmq_transport *)base;
    PSR_TRY(check_endpoint(transport, endpoint));
    if ((unsigned)peer.role >= ROLES || peer.rank >= RANKS_MAX)
        return psr_fail(PSR_ERR_USAGE, "no member can be called %s %" PRIu32, psr_role_name(peer.role),
                        peer.rank);
    channel *c = make_room(transport, peer);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " channels", peer.rank + 1);
    if (c->dealer != NULL)
        return psr_fail(PSR_ERR_USAGE, "%s %" PRIu32 " is connected already", psr_role_name(peer.role),
                        peer.rank);
    void *dealer = zmq_socket(transport->ctx, ZMQ_DEALER);
    if (dealer == NULL)
        return psr_zmq_failed("making a socket");
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_err err = set_dealer(transport, dealer, peer, endpoint, public_key, id);
    if (err == PSR_OK && peer.role == PSR_ROLE_SCHEDULER && transport->refused == NULL)
        err = await_refusal(transport, dealer);
    if (err == PSR_OK && peer.role == PSR_ROLE_SCHEDULER)
        err = await_replies(transport, dealer);
    if (err == PSR_OK && peer.role != PSR_ROLE_SCHEDULER && strncmp(endpoint, "tcp://", 6) == 0)
        err = begin_attempt(transport, c, dealer, endpoint);
    while (err == PSR_OK && zmq_connect(dealer, endpoint) != 0)
        if (zmq_errno() != EINTR)
            err = psr_fail(PSR_ERR_USAGE, "endpoint %s: %s", endpoint, zmq_strerror(zmq_errno()));
    if (err == PSR_OK) {
        c->dealer = dealer;
        memcpy(c->id, id, sizeof id);
        err = say_hello(transport, c);
    }
    if (err != PSR_OK) {
        end_attempt(transport, c);
        *c = (channel){0};
        forget_replies(transport, dealer);
        close_dealer(dealer, 0);
    }
    return err;
}

static void zmq_transport_disconnect(psr_transport *base, psr_peer peer)
{
    zmq_transport *transport = (zmq_transport *)base;
    channel *c = channel_of(transport, peer);
    if (c == NULL)
        return;
    forget_replies(transport, c->dealer);
    end_attempt(transport, c);
    close_dealer(c->dealer, 0);
    if (c->lender != NULL)
        psr_sharing_disconnect(transport->sharing, c->lender);
    *c = (channel){0};
}

static void zmq_transport_retire(psr_transport *base, psr_peer peer)
{
    psr_inbox_retire(((zmq_transport *)base)->inbox, peer);
}

static void zmq_transport_refuse(psr_transport *base, const psr_message *message, psr_err status,
                                 const char *line)
{
    psr_inbox_refuse(((zmq_transport *)base)->inbox, message, status, line);
}

static psr_err zmq_transport_rename(psr_transport *base, psr_peer self)
{
    zmq_transport *transport = (zmq_transport *)base;
    transport->self = self;
    for (size_t role = 0; role < ROLES; role++)
        for (size_t rank = 0; rank < transport->channel_counts[role]; rank++)
            if (transport->channels[role][rank].dealer != NULL)
                PSR_TRY(say_hello(transport, &transport->channels[role][rank]));
    return PSR_OK;
}

static void zmq_transport_refuse_peer(psr_transport *base, psr_peer peer, psr_err status, const char *line)
{
    psr_inbox_refuse_peer(((zmq_transport *)base)->inbox, peer, status, line);
}

/* ---- who cannot be reached ---- */

/* Whether it does not answer now either, and why: it may have come meanwhile, and libzmq tries again but every second. */
static bool does_not_answer(const zmq_transport *transport, psr_peer peer, channel *c, int64_t now_ms,
                            psr_unreached *ret_unreached)
{
    psr_reach reach = {.endpoint = c->endpoint};
    if (psr_reach_all(&reach, 1, REACH_MS) != PSR_OK || reach.reached) {
        c->attempt.since_ms = now_ms;
        return false;
    }
    psr_unreached u = {.peer = peer, .for_ms = now_ms - c->attempt.since_ms};
    snprintf(u.endpoint, sizeof u.endpoint, "%s", c->endpoint);
    snprintf(u.from, sizeof u.from, "%s", reach.source);
    snprintf(u.why, sizeof u.why, "%s", reach.failure);
    snprintf(u.came_from, sizeof u.came_from, "%s", psr_inbox_address_of(transport->inbox, peer));
    *ret_unreached = u;
    return true;
}

static bool zmq_transport_unreached(psr_transport *base, int64_t patience_ms, psr_unreached *ret_unreached)
{
    zmq_transport *transport = (zmq_transport *)base;
    int64_t now_ms = psr_clock_ms();
    if (transport->attempts == 0 || now_ms < transport->next_look_ms)
        return false;
    transport->next_look_ms = now_ms + LOOK_EVERY_MS;
    for (uint32_t role = 0; role < ROLES; role++)
        for (uint32_t rank = 0; rank < transport->channel_counts[role]; rank++) {
            channel *c = &transport->channels[role][rank];
            if (c->endpoint == NULL)
                continue;
            if (!psr_attempt_goes_on(&c->attempt))
                end_attempt(transport, c);
            else if (now_ms - c->attempt.since_ms >= patience_ms &&
                     does_not_answer(transport, (psr_peer){role, rank}, c, now_ms, ret_unreached))
                return true;
        }
    return false;
}

static const char *zmq_transport_endpoint(const psr_transport *base)
{
    return psr_inbox_endpoint(((const zmq_transport *)base)->inbox);
}

static uint64_t zmq_transport_strangers(const psr_transport *base)
{
    return psr_inbox_strangers(((const zmq_transport *)base)->inbox);
}

/* ---- shared memory ---- */

static bool known_to_inbox(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES], psr_peer *ret_peer)
{
    return psr_inbox_knows(((const zmq_transport *)context)->inbox, id, ret_peer);
}

static void say_stranger(void *context, const char *line)
{
    psr_inbox_log_stranger(((zmq_transport *)context)->inbox, line);
}

static void say_shared(void *context, bool shared, const char *line)
{
    const zmq_transport *transport = context;
    if (transport->say != NULL)
        transport->say(transport->say_context, shared, line);
}

/* Over TCP. */
static bool may_share(const psr_zmq_options *options)
{
    return options->sharing != NULL && options->sharing[0] != '\0';
}

/* Where others of this host reach this process to share memory. Stays "" where there is no directory for that, or no room for a name. */
static void name_share_path(zmq_transport *transport)
{
    const psr_zmq_options *o = &transport->options;
    char name[PSR_ADMISSION_NAME_BYTES], path[PSR_SHARE_PATH_BYTES];
    psr_admission_name(o->self, name);
    if (is_ipc(o) && psr_share_path(psr_inbox_endpoint(transport->inbox), path))
        memcpy(transport->share_path, path, sizeof path);
    else if (!is_ipc(o) && may_share(o) &&
             psr_socket_directory_name(o->sharing, name, sizeof path - strlen(".fd"), path) == PSR_OK)
        strcpy(transport->share_path, strcat(path, ".fd"));
}

static const char *zmq_transport_share_path(const psr_transport *base)
{
    return ((const zmq_transport *)base)->share_path;
}

/* Is it this user's alone? Whoever made it holds it. */
static psr_err check_directory(const char *path)
{
    psr_socket_directory directory;
    PSR_TRY(psr_socket_directory_hold(path, &directory));
    psr_socket_directory_release(&directory);
    return PSR_OK;
}

static psr_err zmq_transport_share(psr_transport *base,
                                   void (*say)(void *context, bool shared, const char *line), void *context)
{
    zmq_transport *transport = (zmq_transport *)base;
    bool ipc = is_ipc(&transport->options);
    if (!ipc && !may_share(&transport->options))
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "this process listens on TCP, and was given no directory to share memory in");
    if (transport->share_path[0] == '\0')
        return psr_fail(PSR_ERR_IO, "there is no room for a socket's name in its directory");
    PSR_TRY(check_directory(ipc ? transport->options.directory : transport->options.sharing));
    const psr_sharing_options options = {.path = transport->share_path,
                                         .user = (unsigned)geteuid(),
                                         .context = transport,
                                         .known = known_to_inbox,
                                         .stranger = say_stranger,
                                         .say = say_shared};
    transport->say = say;
    transport->say_context = context;
    PSR_TRY(psr_sharing_new(&options, &transport->sharing));
    psr_inbox_borrow_by(transport->inbox, psr_sharing_borrower(transport->sharing));
    transport->watched[WATCHED_SHARED] =
        (struct pollfd){.fd = psr_sharing_fd(transport->sharing), .events = POLLIN};
    return PSR_OK;
}

static void zmq_transport_lend_to(psr_transport *base, psr_peer peer, const char *path)
{
    zmq_transport *transport = (zmq_transport *)base;
    channel *c = channel_of(transport, peer);
    if (transport->sharing != NULL && c != NULL && c->lender == NULL && peer.role != PSR_ROLE_SCHEDULER)
        c->lender = psr_sharing_connect(transport->sharing, peer, path, c->id);
}

static bool zmq_transport_lends_to(const psr_transport *base, psr_peer peer)
{
    const channel *c = channel_of((const zmq_transport *)base, peer);
    return c != NULL && c->lender != NULL && psr_lender_has_taker(c->lender);
}

static psr_err zmq_transport_lend_from(psr_transport *base, const psr_shared_arena *arena)
{
    zmq_transport *transport = (zmq_transport *)base;
    if (transport->sharing == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "no memory is shared");
    return psr_sharing_add(transport->sharing, arena);
}

static psr_err zmq_transport_lend_copies(psr_transport *base)
{
    zmq_transport *transport = (zmq_transport *)base;
    assert(transport->stage == NULL);
    if (transport->sharing == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "no memory is shared");
    psr_stage *stage = NULL;
    PSR_TRY(psr_stage_new(&stage));
    psr_err err = psr_sharing_add(transport->sharing, psr_stage_arena(stage));
    if (err != PSR_OK)
        psr_stage_free(stage);
    else
        transport->stage = stage;
    return err;
}

/* ---- beginning and end ---- */

static void zmq_transport_free(psr_transport *base, int linger_ms)
{
    zmq_transport *transport = (zmq_transport *)base;
    psr_inbox_free(transport->inbox, linger_ms);
    for (size_t role = 0; role < ROLES; role++) {
        for (size_t rank = 0; rank < transport->channel_counts[role]; rank++)
            if (transport->channels[role][rank].dealer != NULL) {
                end_attempt(transport, &transport->channels[role][rank]);
                close_dealer(transport->channels[role][rank].dealer, linger_ms);
            }
        free(transport->channels[role]);
    }
    if (transport->refused != NULL)
        zmq_close(transport->refused);
    while (transport->ctx != NULL && zmq_ctx_term(transport->ctx) != 0 && zmq_errno() == EINTR)
        ;
    /* Last: what was sent still refers to it, and stays mapped where it has arrived. */
    psr_sharing_free(transport->sharing);
    psr_stage_free(transport->stage);
    if (transport->wake_fd >= 0)
        close(transport->wake_fd);
    free(transport);
}

/* Connections of strangers cost descriptors until their handshake times out: as many as this process may
 * have. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static psr_err open_all(zmq_transport *transport, const char *address)
{
    transport->ctx = zmq_ctx_new();
    transport->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport->ctx == NULL || transport->wake_fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptors for sockets: %s", strerror(errno));
    (void)zmq_ctx_set(transport->ctx, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    PSR_TRY(psr_inbox_new(transport->ctx, &transport->options, address, &transport->inbox));
    name_share_path(transport);
    transport->watched[WATCHED_WAKE] = (struct pollfd){.fd = transport->wake_fd, .events = POLLIN};
    static const int not_yet[] = {WATCHED_REFUSED, WATCHED_REPLIES, WATCHED_SHARED};
    for (size_t i = 0; i < sizeof not_yet / sizeof *not_yet; i++)
        transport->watched[not_yet[i]].fd = -1;
    PSR_TRY(watch(transport, WATCHED_INBOX, psr_inbox_socket(transport->inbox)));
    return watch(transport, WATCHED_STRANGERS, psr_inbox_strangers_socket(transport->inbox));
}

psr_err psr_transport_zmq_new(const psr_zmq_options *options, psr_transport **ret_transport)
{
    static const psr_transport_ops ops = {
        .send = zmq_transport_send,
        .recv = zmq_transport_recv,
        .wake = zmq_transport_wake,
        .wait = zmq_transport_wait,
        .connect = zmq_transport_connect,
        .disconnect = zmq_transport_disconnect,
        .retire = zmq_transport_retire,
        .refuse = zmq_transport_refuse,
        .unreached = zmq_transport_unreached,
        .refuse_peer = zmq_transport_refuse_peer,
        .endpoint = zmq_transport_endpoint,
        .rename = zmq_transport_rename,
        .strangers = zmq_transport_strangers,
        .share = zmq_transport_share,
        .share_path = zmq_transport_share_path,
        .lend_to = zmq_transport_lend_to,
        .lend_from = zmq_transport_lend_from,
        .lend_copies = zmq_transport_lend_copies,
        .lends_to = zmq_transport_lends_to,
        .free = zmq_transport_free,
    };
    const char *interface =
        options->interface != NULL && *options->interface ? options->interface : "127.0.0.1";
    char address[PSR_ADDRESS_BYTES];
    if (is_ipc(options)) {
        PSR_TRY(check_directory(options->directory));
    } else {
        PSR_TRY(psr_interface_address(interface, address));
        if (!options->keys->curve && !options->keys->bare)
            return psr_fail(PSR_ERR_USAGE, "interface %s: TCP needs CURVE keys (psring keygen)", interface);
    }
    zmq_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a transport");
    *transport = (zmq_transport){.base.ops = &ops, .options = *options, .self = options->self, .wake_fd = -1};
    raise_descriptors();
    psr_err err = open_all(transport, is_ipc(options) ? NULL : address);
    if (err != PSR_OK) {
        zmq_transport_free(&transport->base, 0);
        return err;
    }
    *ret_transport = &transport->base;
    return PSR_OK;
}

void psr_transport_library(char *text, size_t size)
{
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    snprintf(text, size, "libzmq %d.%d.%d", major, minor, patch);
}
