/* One context per transport, so that several live in one process. The inbox is a ROUTER behind a door (net/door.h), each
 * channel a DEALER. Every channel counts its messages: TCP may break and libzmq connect again behind our back, and what
 * was under way is then missing, which the count shows; where nothing was lost the channel goes on. */
#include "net/transport_private.h"

#include "base/clock.h"
#include "net/bindings.h"
#include "net/door.h"
#include "net/interface.h"

#include <errno.h>
#include <inttypes.h>
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
#define STRANGER_LINES 10 /* at most so many in */
#define STRANGER_WINDOW_MS 10000
#define DEAD_HANDSHAKES 3 /* connections in a row that the scheduler's side ends in the handshake: not an accident */

typedef struct channel {
    void *dealer;
    uint64_t sequence;
} channel;

typedef struct zmq_transport {
    psr_transport base;
    psr_zmq_options options;
    psr_peer self;
    void *ctx, *router;
    psr_door *door;
    psr_bindings bindings;
    char endpoint[PSR_ADDRESS_BYTES + 32];
    channel *channels[ROLES]; /* [role][rank] */
    size_t channel_counts[ROLES];

    void *refused; /* PAIR: what became of our knocking at the scheduler's door; NULL until connected */
    unsigned dead_handshakes;

    int wake_fd;
    atomic_bool woken;

    uint64_t strangers;
    int64_t window_begin_ms;
    unsigned window_lines;
    uint64_t unlogged;
} zmq_transport;

static psr_err zmq_failed(const char *what)
{
    return psr_fail(PSR_ERR_IO, "%s: %s", what, zmq_strerror(zmq_errno()));
}

static psr_err set_int(void *socket, int option, int value, const char *what)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0 ? PSR_OK : zmq_failed(what);
}

static psr_err set_largest(void *socket, int64_t bytes)
{
    return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) == 0 ? PSR_OK : zmq_failed("ZMQ_MAXMSGSIZE");
}

/* ---- strangers ---- */

static void log_stranger(zmq_transport *transport, const char *line)
{
    if (transport->options.log_stranger == NULL)
        return;
    int64_t now_ms = psr_clock_ms();
    if (now_ms - transport->window_begin_ms >= STRANGER_WINDOW_MS) {
        transport->window_begin_ms = now_ms;
        transport->window_lines = 0;
    }
    if (transport->window_lines == STRANGER_LINES) {
        transport->unlogged++;
        return;
    }
    transport->window_lines++;
    char text[512];
    if (transport->unlogged > 0) {
        snprintf(text, sizeof text, "%s (and %" PRIu64 " more before)", line, transport->unlogged);
        transport->unlogged = 0;
        line = text;
    }
    transport->options.log_stranger(transport->options.log_context, line);
}

/* A message of somebody who was let in and yet is nobody: the frames are dropped by the caller. */
static psr_err drop(zmq_transport *transport, psr_peer claimed, const char *reason)
{
    transport->strangers++;
    char name[PSR_DOOR_NAME_BYTES], line[256];
    psr_door_name(claimed, name);
    snprintf(line, sizeof line, "dropped a message of a stranger who says it is %s: %s", name, reason);
    log_stranger(transport, line);
    return PSR_OK;
}

/* A member breaks the protocol: err is of the codec. */
static psr_err breach(psr_peer peer, psr_err err)
{
    char name[PSR_DOOR_NAME_BYTES];
    psr_door_name(peer, name);
    return psr_fail_context(err == PSR_ERR_FORMAT ? PSR_ERR_PROTOCOL : err, "%s", name);
}

/* ---- receiving ---- */

typedef struct frames {
    zmq_msg_t id, head, payload;
    unsigned count;
} frames;

typedef struct received {
    psr_message base;
    zmq_msg_t frame;
    void *aligned; /* the payload's copy where libzmq put it at an odd address */
} received;

static void received_release(psr_message *message)
{
    received *r = (received *)message;
    zmq_msg_close(&r->frame);
    free(r->aligned);
    free(r);
}

static void frames_close(frames *f)
{
    zmq_msg_close(&f->id);
    zmq_msg_close(&f->head);
    zmq_msg_close(&f->payload);
}

/* All frames of the next message that is there: id, head, payload; more are counted and thrown away. false: none. */
static bool frames_receive(void *router, frames *f)
{
    zmq_msg_t *const kept[] = {&f->id, &f->head, &f->payload};
    for (size_t i = 0; i < 3; i++)
        zmq_msg_init(kept[i]);
    f->count = 0;
    if (zmq_msg_recv(&f->id, router, ZMQ_DONTWAIT) < 0)
        return false;
    bool more = zmq_msg_more(&f->id);
    for (f->count = 1; more; f->count++) {
        zmq_msg_t extra;
        zmq_msg_t *into = f->count < 3 ? kept[f->count] : &extra;
        if (into == &extra)
            zmq_msg_init(&extra);
        bool ok = zmq_msg_recv(into, router, ZMQ_DONTWAIT) >= 0; /* a message is there whole or not at all */
        more = ok && zmq_msg_more(into);
        if (into == &extra)
            zmq_msg_close(&extra);
    }
    return true;
}

/* The first message of a routing id: HELLO, of a peer whose name the door has checked. */
static psr_err introduce(zmq_transport *transport, frames *f, psr_err decoded, const psr_head *head)
{
    psr_peer known, claimed;
    const char *name = zmq_msg_gets(&f->head, "User-Id");
    if (name == NULL || !psr_door_name_read(name, &known))
        return drop(transport, (psr_peer){PSR_ROLE_WORKER, PSR_RANK_ANY}, "the door did not name it");
    if (psr_bindings_holder(&transport->bindings, known) != NULL)
        return drop(transport, known, "another process joined under that name before");
    if (decoded != PSR_OK)
        return breach(known, decoded);
    if (head->type != PSR_MSG_HELLO || head->sequence != 0 || f->count != 2)
        return breach(known, psr_fail(PSR_ERR_PROTOCOL, "its first message is not HELLO"));
    claimed = (psr_peer){(psr_role)(head->aux >> 32), (uint32_t)head->aux};
    if (claimed.role != known.role ||
        (claimed.rank != known.rank && claimed.rank != PSR_RANK_ANY && known.rank != PSR_RANK_ANY))
        return breach(known, psr_fail(PSR_ERR_PROTOCOL, "says it is %s %" PRIu32, psr_role_name(claimed.role), claimed.rank));
    psr_peer peer = claimed.rank == PSR_RANK_ANY ? known : claimed;
    if (psr_bindings_holder(&transport->bindings, peer) != NULL)
        return drop(transport, peer, "another process joined under that name before");
    psr_binding *binding;
    psr_err err = psr_bindings_add(&transport->bindings, zmq_msg_data(&f->id), zmq_msg_size(&f->id), peer, &binding);
    if (err == PSR_ERR_DENIED)
        return drop(transport, peer, psr_err_detail());
    PSR_TRY(err);
    binding->sequence = 1;
    return PSR_OK;
}

/* A later HELLO: a peer without a rank was given one. */
static psr_err rename_peer(zmq_transport *transport, psr_binding *binding, const psr_head *head)
{
    psr_peer claimed = {(psr_role)(head->aux >> 32), (uint32_t)head->aux};
    if (psr_peer_equal(claimed, binding->peer))
        return PSR_OK;
    if (claimed.role != binding->peer.role || binding->peer.rank != PSR_RANK_ANY)
        return breach(binding->peer,
                      psr_fail(PSR_ERR_PROTOCOL, "now says it is %s %" PRIu32, psr_role_name(claimed.role), claimed.rank));
    if (psr_bindings_holder(&transport->bindings, claimed) != NULL) {
        binding->banned = true;
        return drop(transport, claimed, "another process joined under that name before");
    }
    binding->peer = claimed;
    return PSR_OK;
}

/* Makes a message of frames whose head has been checked; takes the payload's frame. */
static psr_err deliver(frames *f, psr_peer from, const psr_head *head, psr_message **ret_message)
{
    received *r = calloc(1, sizeof *r);
    if (r == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a message");
    r->base = (psr_message){.from = from, .head = *head, .release = received_release};
    zmq_msg_init(&r->frame);
    zmq_msg_move(&r->frame, &f->payload);
    r->base.payload_bytes = zmq_msg_size(&r->frame);
    r->base.payload = zmq_msg_data(&r->frame);
    /* Large frames have memory of their own, which is aligned; small ones may lie anywhere in a batch. */
    if ((uintptr_t)r->base.payload % _Alignof(double) != 0 && r->base.payload_bytes > 0) {
        r->aligned = malloc(r->base.payload_bytes);
        if (r->aligned == NULL) {
            received_release(&r->base);
            return psr_fail(PSR_ERR_NOMEM, "no memory for a message of %zu bytes", r->base.payload_bytes);
        }
        memcpy(r->aligned, r->base.payload, r->base.payload_bytes);
        r->base.payload = r->aligned;
    }
    *ret_message = &r->base;
    return PSR_OK;
}

/* *ret_message stays NULL when the frames were not for the owner: HELLO, a stranger's. */
static psr_err handle(zmq_transport *transport, frames *f, psr_message **ret_message)
{
    psr_head head = {0};
    uint64_t payload_bytes = 0;
    psr_err decoded = psr_head_decode(zmq_msg_data(&f->head), zmq_msg_size(&f->head), &head, &payload_bytes);
    psr_binding *binding = psr_bindings_find(&transport->bindings, zmq_msg_data(&f->id), zmq_msg_size(&f->id));
    if (binding == NULL)
        return introduce(transport, f, decoded, &head);
    if (binding->banned)
        return drop(transport, binding->peer, "another process joined under that name before");
    if (decoded != PSR_OK)
        return breach(binding->peer, decoded);
    if (head.sequence < binding->sequence)
        return breach(binding->peer, psr_fail(PSR_ERR_PROTOCOL, "sent message %" PRIu64 " twice", head.sequence));
    if (head.sequence > binding->sequence)
        return breach(binding->peer, psr_fail(PSR_ERR_PEER, "its connection broke and %" PRIu64 " messages were lost",
                                              head.sequence - binding->sequence));
    if (f->count != (payload_bytes > 0 ? 3u : 2u) || payload_bytes != zmq_msg_size(&f->payload))
        return breach(binding->peer,
                      psr_fail(PSR_ERR_PROTOCOL, "announced a payload of %" PRIu64 " bytes and sent %zu in %u frames",
                               payload_bytes, zmq_msg_size(&f->payload), f->count - 2));
    binding->sequence++;
    if (head.type == PSR_MSG_HELLO)
        return rename_peer(transport, binding, &head);
    return deliver(f, binding->peer, &head, ret_message);
}

/* What became of our knocking at the scheduler's door. A wrong token or key is said (AUTH); with another mechanism or
 * another server key libzmq's other side just hangs up, which it also does when it ends. */
static psr_err check_refused(zmq_transport *transport)
{
    struct __attribute__((packed)) {
        uint16_t event;
        uint32_t value;
    } first;
    char address[256];
    while (zmq_recv(transport->refused, &first, sizeof first, ZMQ_DONTWAIT) == (int)sizeof first) {
        int bytes = zmq_recv(transport->refused, address, sizeof address - 1, 0);
        address[bytes < 0 ? 0 : bytes < (int)sizeof address ? bytes : (int)sizeof address - 1] = '\0';
        if (first.event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            transport->dead_handshakes = 0;
        else if (first.event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            return psr_fail(PSR_ERR_DENIED, "the scheduler at %s refused this process: its %s is not of that run", address,
                            transport->options.keys->curve ? "CURVE key" : "token");
        else if (first.event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
            return psr_fail(PSR_ERR_DENIED, "what listens at %s is not this run's scheduler", address);
        else if (++transport->dead_handshakes == DEAD_HANDSHAKES)
            return psr_fail(PSR_ERR_DENIED, "what listens at %s hangs up: it is not this run's scheduler, or has other keys",
                            address);
    }
    return PSR_OK;
}

/* Waits for a socket or the wake; serves what is not a message. */
static psr_err wait_for(zmq_transport *transport, long timeout_ms)
{
    zmq_pollitem_t items[] = {
        {.socket = transport->router, .events = ZMQ_POLLIN},
        {.fd = transport->wake_fd, .events = ZMQ_POLLIN},
        {.socket = psr_door_refusals(transport->door), .events = ZMQ_POLLIN},
        {.socket = transport->refused, .events = ZMQ_POLLIN},
    };
    if (zmq_poll(items, transport->refused != NULL ? 4 : 3, timeout_ms) < 0 && zmq_errno() != EINTR)
        return zmq_failed("zmq_poll");
    if (items[1].revents) {
        uint64_t wakes;
        (void)!read(transport->wake_fd, &wakes, sizeof wakes);
    }
    char line[256];
    while (items[2].revents && psr_door_refusal(transport->door, line, sizeof line))
        log_stranger(transport, line);
    return transport->refused != NULL && items[3].revents ? check_refused(transport) : PSR_OK;
}

static psr_err zmq_transport_recv(psr_transport *base, int timeout_ms, psr_message **ret_message)
{
    zmq_transport *transport = (zmq_transport *)base;
    int64_t end_ms = timeout_ms > 0 ? psr_clock_ms() + timeout_ms : 0;
    for (bool last = false;;) {
        frames f;
        while (frames_receive(transport->router, &f)) {
            psr_message *message = NULL;
            psr_err err = handle(transport, &f, &message);
            frames_close(&f);
            PSR_TRY(err);
            if (message != NULL) {
                *ret_message = message;
                return PSR_OK;
            }
        }
        frames_close(&f);
        if (atomic_exchange(&transport->woken, false))
            return psr_fail(PSR_ERR_CANCELLED, "woken");
        if (last)
            return psr_fail(PSR_ERR_TIMEOUT, "no message within %d ms", timeout_ms);
        int64_t left_ms = timeout_ms < 0 ? -1 : timeout_ms == 0 ? 0 : end_ms - psr_clock_ms();
        if (timeout_ms >= 0 && left_ms <= 0) {
            left_ms = 0;
            last = true;
        }
        PSR_TRY(wait_for(transport, (long)left_ms));
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

static channel *channel_of(zmq_transport *transport, psr_peer peer)
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

static psr_err send_frames(channel *c, const psr_head *head, zmq_msg_t *payload, size_t payload_bytes)
{
    psr_head numbered = *head;
    numbered.sequence = c->sequence;
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(&numbered, payload_bytes, bytes, &size);
    if (zmq_send(c->dealer, bytes, size, ZMQ_DONTWAIT | (payload != NULL ? ZMQ_SNDMORE : 0)) < 0)
        return zmq_failed("sending a message");
    if (payload != NULL && zmq_msg_send(payload, c->dealer, ZMQ_DONTWAIT) < 0)
        return zmq_failed("sending a payload");
    c->sequence++;
    return PSR_OK;
}

static psr_err zmq_transport_send(psr_transport *base, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    channel *c = channel_of((zmq_transport *)base, to);
    if (c == NULL) {
        psr_payload_return(payload);
        return psr_fail(PSR_ERR_NOT_FOUND, "no channel to %s %" PRIu32, psr_role_name(to.role), to.rank);
    }
    if (payload == NULL || payload->bytes == 0) {
        psr_payload_return(payload);
        return send_frames(c, head, NULL, 0);
    }
    zmq_msg_t frame;
    PSR_TRY(payload_frame(payload, &frame));
    psr_err err = send_frames(c, head, &frame, payload->bytes);
    zmq_msg_close(&frame); /* empty when it was sent; gives the loan back when not */
    return err;
}

static psr_err say_hello(const zmq_transport *transport, channel *c)
{
    psr_head hello = {.type = PSR_MSG_HELLO, .aux = (uint64_t)transport->self.role << 32 | transport->self.rank};
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

/* A half-open connection is noticed within half a minute; a stopped process is not one. */
static psr_err set_tcp(void *socket, bool ipv6)
{
    PSR_TRY(set_int(socket, ZMQ_TCP_KEEPALIVE, 1, "ZMQ_TCP_KEEPALIVE"));
    PSR_TRY(set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, 10, "ZMQ_TCP_KEEPALIVE_IDLE"));
    PSR_TRY(set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, 5, "ZMQ_TCP_KEEPALIVE_INTVL"));
    PSR_TRY(set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, 4, "ZMQ_TCP_KEEPALIVE_CNT"));
    PSR_TRY(set_int(socket, ZMQ_IPV6, ipv6, "ZMQ_IPV6"));
    /* Nothing is ever dropped at a mark: the protocols' credits bound the queues. */
    return set_int(socket, ZMQ_SNDHWM, 0, "ZMQ_SNDHWM");
}

static psr_err set_dealer(zmq_transport *transport, void *dealer, psr_peer peer, const char *endpoint,
                          const char *public_key)
{
    uint8_t id[PSR_ROUTING_ID_BYTES];
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    id[0] |= 1; /* ids that begin with zero are libzmq's own */
    if (zmq_setsockopt(dealer, ZMQ_ROUTING_ID, id, sizeof id) != 0)
        return zmq_failed("ZMQ_ROUTING_ID");
    if (public_key == NULL)
        public_key = psr_keys_of(transport->options.keys, peer);
    PSR_TRY(psr_door_knock(transport->options.keys, transport->self, dealer, public_key));
    PSR_TRY(set_tcp(dealer, strchr(endpoint, '[') != NULL));
    PSR_TRY(set_int(dealer, ZMQ_RCVHWM, 1, "ZMQ_RCVHWM")); /* an inbox sends nothing back: let nobody fill memory */
    PSR_TRY(set_largest(dealer, 1024));
    PSR_TRY(set_int(dealer, ZMQ_CONNECT_TIMEOUT, PSR_HANDSHAKE_MS, "ZMQ_CONNECT_TIMEOUT"));
    PSR_TRY(set_int(dealer, ZMQ_HANDSHAKE_IVL, PSR_HANDSHAKE_MS, "ZMQ_HANDSHAKE_IVL"));
    PSR_TRY(set_int(dealer, ZMQ_RECONNECT_IVL, 50, "ZMQ_RECONNECT_IVL"));
    return set_int(dealer, ZMQ_RECONNECT_IVL_MAX, 1000, "ZMQ_RECONNECT_IVL_MAX");
}

/* Only the scheduler's door is watched for refusals: everybody knocks there first and with the same keys as
 * elsewhere. */
static psr_err watch_refusal(zmq_transport *transport, void *dealer)
{
    static const char endpoint[] = "inproc://psring.refused";
    if (zmq_socket_monitor(dealer, endpoint,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) != 0)
        return zmq_failed("zmq_socket_monitor");
    void *refused = zmq_socket(transport->ctx, ZMQ_PAIR);
    if (refused == NULL)
        return zmq_failed("making a socket");
    psr_err err = set_int(refused, ZMQ_RCVHWM, 0, "ZMQ_RCVHWM");
    if (err == PSR_OK && zmq_connect(refused, endpoint) != 0)
        err = zmq_failed(endpoint);
    if (err != PSR_OK)
        zmq_close(refused);
    else
        transport->refused = refused;
    return err;
}

static void close_dealer(void *dealer, int linger_ms)
{
    (void)zmq_socket_monitor(dealer, NULL, 0);
    (void)zmq_setsockopt(dealer, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_close(dealer);
}

static psr_err zmq_transport_connect(psr_transport *base, psr_peer peer, const char *endpoint, const char *public_key)
{
    zmq_transport *transport = (zmq_transport *)base;
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return psr_fail(PSR_ERR_USAGE, "endpoint %s: it should be tcp://HOST:PORT", endpoint);
    if (!transport->options.keys->curve && !psr_endpoint_is_loopback(endpoint))
        return psr_fail(PSR_ERR_USAGE, "endpoint %s is not on this machine: that needs CURVE keys", endpoint);
    if ((unsigned)peer.role >= ROLES || peer.rank >= RANKS_MAX)
        return psr_fail(PSR_ERR_USAGE, "no member can be called %s %" PRIu32, psr_role_name(peer.role), peer.rank);
    channel *c = make_room(transport, peer);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " channels", peer.rank + 1);
    if (c->dealer != NULL)
        return psr_fail(PSR_ERR_USAGE, "%s %" PRIu32 " is connected already", psr_role_name(peer.role), peer.rank);
    void *dealer = zmq_socket(transport->ctx, ZMQ_DEALER);
    if (dealer == NULL)
        return zmq_failed("making a socket");
    psr_err err = set_dealer(transport, dealer, peer, endpoint, public_key);
    if (err == PSR_OK && peer.role == PSR_ROLE_SCHEDULER && transport->refused == NULL)
        err = watch_refusal(transport, dealer);
    if (err == PSR_OK && zmq_connect(dealer, endpoint) != 0)
        err = psr_fail(PSR_ERR_USAGE, "endpoint %s: %s", endpoint, zmq_strerror(zmq_errno()));
    if (err == PSR_OK) {
        *c = (channel){.dealer = dealer};
        err = say_hello(transport, c);
    }
    if (err != PSR_OK) {
        c->dealer = NULL;
        close_dealer(dealer, 0);
    }
    return err;
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

static const char *zmq_transport_endpoint(const psr_transport *base)
{
    return ((const zmq_transport *)base)->endpoint;
}

static uint64_t zmq_transport_strangers(const psr_transport *base)
{
    const zmq_transport *transport = (const zmq_transport *)base;
    return transport->strangers + psr_door_refused(transport->door);
}

/* ---- beginning and end ---- */

static void zmq_transport_free(psr_transport *base, int linger_ms)
{
    zmq_transport *transport = (zmq_transport *)base;
    psr_door_free(transport->door);
    for (size_t role = 0; role < ROLES; role++) {
        for (size_t rank = 0; rank < transport->channel_counts[role]; rank++)
            if (transport->channels[role][rank].dealer != NULL)
                close_dealer(transport->channels[role][rank].dealer, linger_ms);
        free(transport->channels[role]);
    }
    if (transport->refused != NULL)
        zmq_close(transport->refused);
    if (transport->router != NULL)
        zmq_close(transport->router);
    while (transport->ctx != NULL && zmq_ctx_term(transport->ctx) != 0 && zmq_errno() == EINTR)
        ;
    psr_bindings_done(&transport->bindings);
    if (transport->wake_fd >= 0)
        close(transport->wake_fd);
    free(transport);
}

/* Connections of strangers cost descriptors until their handshake times out: as many as this process may have. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static psr_err bind_router(zmq_transport *transport, const char *address)
{
    void *router = transport->router;
    PSR_TRY(set_tcp(router, strchr(address, ':') != NULL));
    PSR_TRY(set_int(router, ZMQ_RCVHWM, 0, "ZMQ_RCVHWM"));
    PSR_TRY(set_int(router, ZMQ_LINGER, 0, "ZMQ_LINGER"));
    PSR_TRY(set_int(router, ZMQ_BACKLOG, 1024, "ZMQ_BACKLOG"));
    PSR_TRY(set_int(router, ZMQ_ROUTER_HANDOVER, 1, "ZMQ_ROUTER_HANDOVER")); /* a member that connects again */
    PSR_TRY(set_largest(router, PSR_PAYLOAD_BYTES_MAX));

    char wanted[sizeof transport->endpoint];
    psr_endpoint_format(address, transport->options.port, wanted, sizeof wanted);
    if (zmq_bind(router, wanted) != 0 && zmq_errno() == EADDRINUSE)
        return psr_fail(PSR_ERR_IO, "port %u of %s is in use: choose another, or none and the kernel gives a free one",
                        transport->options.port, address);
    size_t size = sizeof transport->endpoint;
    if (zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, transport->endpoint, &size) != 0 || transport->endpoint[0] == '\0')
        return psr_fail(PSR_ERR_IO, "cannot listen on %s: %s", wanted, zmq_strerror(zmq_errno()));
    return PSR_OK;
}

static psr_err open_all(zmq_transport *transport, const char *address)
{
    transport->ctx = zmq_ctx_new();
    transport->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (transport->ctx == NULL || transport->wake_fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptors for sockets: %s", strerror(errno));
    (void)zmq_ctx_set(transport->ctx, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    transport->router = zmq_socket(transport->ctx, ZMQ_ROUTER);
    if (transport->router == NULL)
        return zmq_failed("making a socket");
    PSR_TRY(psr_door_new(transport->ctx, transport->router, transport->options.keys, &transport->door));
    return bind_router(transport, address);
}

psr_err psr_transport_zmq_new(const psr_zmq_options *options, psr_transport **ret_transport)
{
    static const psr_transport_ops ops = {
        .send = zmq_transport_send,
        .recv = zmq_transport_recv,
        .wake = zmq_transport_wake,
        .connect = zmq_transport_connect,
        .endpoint = zmq_transport_endpoint,
        .rename = zmq_transport_rename,
        .strangers = zmq_transport_strangers,
        .free = zmq_transport_free,
    };
    const char *interface = options->interface != NULL && *options->interface ? options->interface : "127.0.0.1";
    char address[PSR_ADDRESS_BYTES];
    PSR_TRY(psr_interface_address(interface, address));
    if (!psr_address_is_loopback(address) && !options->keys->curve)
        return psr_fail(PSR_ERR_USAGE, "interface %s: off loopback a run needs CURVE keys (psring keygen)", interface);
    zmq_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a transport");
    *transport = (zmq_transport){.base.ops = &ops, .options = *options, .self = options->self, .wake_fd = -1};
    raise_descriptors();
    psr_err err = open_all(transport, address);
    if (err != PSR_OK) {
        zmq_transport_free(&transport->base, 0);
        return err;
    }
    *ret_transport = &transport->base;
    return PSR_OK;
}
