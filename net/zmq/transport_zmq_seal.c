/* Second connections: what two members say to each other over TCP goes sealed once they have agreed
 * on a key inside CURVE's channel. For the channel from A to B:
 *
 *   A -> B  HELLO, KEY_OFFER (A's part)       on the channel, by CURVE
 *   B -> A  KEY_ANSWER (B's part, the port)   back on it
 *   A -> B  SEALED                            the first message on the second connection
 *   B -> A  SEALED                            back on the channel: it has come
 *
 * From then on A sends there what it sends to B, once everything that it gave to the first
 * connection has left. Until then messages go by CURVE, so nobody waits for a second connection; B
 * puts both in one order by their sequence. What goes back may be lost, as B's queue there is short
 * and its connection may break. So each second A offers the same again, PSR_KEY_OFFERS_MAX times,
 * and then greets again until it is answered: a connection that has not said who it is may be ended
 * in a flood of strangers.
 *
 * What is said to or by the scheduler, on one host by ipc, or without CURVE, goes as before. */
#include "net/zmq/transport_zmq_private.h"

#include "base/clock.h"
#include "net/trust/admission.h"
#include "net/violation.h"
#include "net/zmq/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <zmq.h>

#define AGAIN_MS 1000 /* what was not answered is said again */

typedef enum { OFFERED, GREETED, THERE, GOES } sealing_state;

struct psr_zmq_sealing {
    sealing_state state;
    unsigned ciphers, offers, answers;
    uint8_t part[PSR_SEAL_PART_BYTES]; /* wiped when the key is made */
    char *endpoint;                    /* of the channel */
    psr_sealed_out *out;               /* NULL: OFFERED */
    uint16_t port;                     /* 0: OFFERED */
    int64_t since_ms;                  /* the first offer */
    bool told;                         /* that it has not come for long */
};

/* ---- awaiting answers ---- */

static psr_err watch_dealer(psr_zmq_transport *transport, void *dealer, bool begin)
{
    int fd;
    size_t size = sizeof fd;
    struct epoll_event event = {.events = EPOLLIN};
    if (zmq_getsockopt(dealer, ZMQ_FD, &fd, &size) != 0)
        return psr_zmq_failed("ZMQ_FD");
    if (epoll_ctl(transport->answers, begin ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event) != 0)
        return psr_fail(PSR_ERR_IO, "epoll_ctl: %s", strerror(errno));
    atomic_store(&transport->others, true);
    return PSR_OK;
}

static void await_no_more(psr_zmq_transport *transport, psr_zmq_channel *c)
{
    if (c->sealing->state >= THERE)
        return;
    psr_err ignored = watch_dealer(transport, c->dealer, false);
    (void)ignored;
    atomic_fetch_sub(&transport->unsealed, 1);
}

/* ---- offering ---- */

static psr_err offer(psr_zmq_channel *c)
{
    psr_zmq_sealing *sealing = c->sealing;
    const psr_head head = psr_msg_key_offer_head(sealing->ciphers);
    PSR_TRY(psr_zmq_send_own(c, &head, sealing->part, sizeof sealing->part));
    sealing->offers++;
    return PSR_OK;
}

psr_err psr_zmq_offer_key(psr_zmq_transport *transport, psr_zmq_channel *c, psr_peer peer,
                          const char *endpoint)
{
    if (transport->sealed == NULL || peer.role == PSR_ROLE_SCHEDULER ||
        strncmp(endpoint, "tcp://", 6) != 0)
        return PSR_OK;
    psr_zmq_sealing *sealing = calloc(1, sizeof *sealing);
    char *copy = strdup(endpoint);
    psr_err err = sealing != NULL && copy != NULL
                      ? watch_dealer(transport, c->dealer, true)
                      : psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    if (err != PSR_OK) {
        free(sealing);
        free(copy);
        return err;
    }
    *sealing = (psr_zmq_sealing){
        .ciphers = psr_seal_ciphers(), .endpoint = copy, .since_ms = psr_clock_ms()};
    c->sealing = sealing;
    if (atomic_fetch_add(&transport->unsealed, 1) == 0)
        transport->again_ms = sealing->since_ms + AGAIN_MS;
    PSR_TRY(psr_seal_part(sealing->part));
    return offer(c);
}

void psr_zmq_end_sealing(psr_zmq_transport *transport, psr_zmq_channel *c, int linger_ms)
{
    psr_zmq_sealing *sealing = c->sealing;
    if (sealing == NULL)
        return;
    await_no_more(transport, c);
    psr_sealed_out_free(sealing->out, linger_ms);
    psr_seal_wipe(sealing->part, sizeof sealing->part);
    free(sealing->endpoint);
    free(sealing);
    c->sealing = NULL;
}

/* ---- answers ---- */

/* The channel's host, and the port that its process has named. */
static psr_err name_endpoint(const psr_zmq_sealing *sealing, uint16_t port, char *endpoint,
                             size_t size)
{
    const char *colon = strrchr(sealing->endpoint, ':');
    int bytes = snprintf(endpoint, size, "%.*s:%u", (int)(colon - sealing->endpoint),
                         sealing->endpoint, port);
    return bytes > 0 && (size_t)bytes < size
               ? PSR_OK
               : psr_fail(PSR_ERR_USAGE, "endpoint %s is too long", sealing->endpoint);
}

static psr_err take_answer(psr_zmq_transport *transport, psr_zmq_channel *c, const psr_head *head,
                           const void *part, size_t part_bytes)
{
    psr_zmq_sealing *sealing = c->sealing;
    psr_key_answer answer;
    psr_seal_secret secret;
    char endpoint[256];
    if (sealing->answers++ == sealing->offers)
        return psr_fail(PSR_ERR_PROTOCOL, "answers the offer of a key twice");
    PSR_TRY(psr_msg_key_answer_read(head, part_bytes, sealing->ciphers, &answer));
    if (sealing->state != OFFERED)
        return PSR_OK; /* the same again */
    PSR_TRY(name_endpoint(sealing, answer.port, endpoint, sizeof endpoint));
    PSR_TRY(psr_seal_agree(psr_sealed_outs_library(transport->sealed), sealing->part, part,
                           answer.cipher, c->id, sizeof c->id, &secret));
    psr_seal_wipe(sealing->part, sizeof sealing->part);
    psr_err err = psr_sealed_out_new(transport->sealed, &answer, &secret, c->unsent, &sealing->out);
    psr_seal_wipe(&secret, sizeof secret);
    PSR_TRY(err);
    sealing->state = GREETED;
    sealing->port = answer.port;
    return psr_sealed_out_connect(sealing->out, endpoint);
}

static psr_err take_back(psr_zmq_transport *transport, psr_zmq_channel *c, zmq_msg_t *head_frame,
                         zmq_msg_t *part)
{
    psr_head head;
    uint64_t bytes = 0;
    if (psr_head_decode(zmq_msg_data(head_frame), zmq_msg_size(head_frame), &head, &bytes) !=
            PSR_OK ||
        bytes != zmq_msg_size(part))
        return PSR_OK; /* nothing that a member says here */
    if (head.type == PSR_MSG_KEY_ANSWER)
        return take_answer(transport, c, &head, zmq_msg_data(part), zmq_msg_size(part));
    if (head.type == PSR_MSG_SEALED && c->sealing->state == GREETED) {
        await_no_more(transport, c);
        c->sealing->state = THERE;
        psr_sealed_out_answered(c->sealing->out);
    }
    return PSR_OK;
}

static psr_err check_channel(psr_zmq_transport *transport, psr_zmq_channel *c)
{
    psr_err err = PSR_OK;
    bool there = true;
    while (there && err == PSR_OK && c->sealing->state < THERE) {
        zmq_msg_t head, part;
        zmq_msg_init(&head);
        zmq_msg_init(&part);
        there = psr_zmq_receive_frame(c->dealer, &head);
        bool more = there && zmq_msg_more(&head);
        while (more && psr_zmq_receive_frame(c->dealer, &part))
            more = zmq_msg_more(&part);
        if (there)
            err = take_back(transport, c, &head, &part);
        zmq_msg_close(&head);
        zmq_msg_close(&part);
    }
    return err;
}

/* Calls visit for every channel whose second connection is not there yet. */
static psr_err for_unsealed(psr_zmq_transport *transport,
                            psr_err (*visit)(psr_zmq_transport *transport, psr_zmq_channel *c))
{
    for (uint32_t role = 0; role < PSR_ZMQ_ROLES; role++)
        for (uint32_t rank = 0; rank < transport->channel_counts[role]; rank++) {
            psr_zmq_channel *c = &transport->channels[role][rank];
            if (c->sealing == NULL || c->sealing->state >= THERE)
                continue;
            psr_err err = visit(transport, c);
            char name[PSR_ADMISSION_NAME_BYTES];
            psr_admission_name((psr_peer){role, rank}, name);
            if (err != PSR_OK)
                return psr_fail_context(err, "%s", name);
        }
    return PSR_OK;
}

psr_err psr_zmq_check_answers(psr_zmq_transport *transport)
{
    return atomic_load(&transport->unsealed) > 0 ? for_unsealed(transport, check_channel) : PSR_OK;
}

/* ---- saying it again, and sending on ---- */

static psr_err say_again(psr_zmq_transport *transport, psr_zmq_channel *c)
{
    (void)transport;
    if (c->sealing->state == GREETED)
        return psr_sealed_out_greet(c->sealing->out);
    return c->sealing->offers < PSR_KEY_OFFERS_MAX ? offer(c) : PSR_OK;
}

int psr_zmq_wait_ms(const psr_zmq_transport *transport, int timeout_ms)
{
    timeout_ms = psr_zmq_far_wait_ms(transport, timeout_ms);
    if (atomic_load(&transport->unsealed) == 0)
        return timeout_ms;
    return timeout_ms < 0 || timeout_ms > AGAIN_MS ? AGAIN_MS : timeout_ms;
}

psr_err psr_zmq_serve_sealed(psr_zmq_transport *transport)
{
    if (transport->sealed == NULL)
        return PSR_OK;
    PSR_TRY(psr_sealed_outs_serve(transport->sealed));
    if (atomic_load(&transport->unsealed) == 0 || psr_clock_ms() < transport->again_ms)
        return PSR_OK;
    transport->again_ms = psr_clock_ms() + AGAIN_MS;
    return for_unsealed(transport, say_again);
}

psr_sealed_out *psr_zmq_sealed_of(psr_zmq_channel *c)
{
    psr_zmq_sealing *sealing = c->sealing;
    if (sealing == NULL || sealing->state < THERE)
        return NULL;
    if (sealing->state == THERE && psr_unsent_count(c->unsent) > 0)
        return NULL;
    sealing->state = GOES;
    return sealing->out;
}

bool psr_zmq_transport_unsealed(psr_transport *base, int64_t patience_ms,
                                psr_unsealed *ret_unsealed)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    if (atomic_load(&transport->unsealed) == 0)
        return false;
    const int64_t now_ms = psr_clock_ms();
    for (uint32_t role = 0; role < PSR_ZMQ_ROLES; role++)
        for (uint32_t rank = 0; rank < transport->channel_counts[role]; rank++) {
            psr_zmq_sealing *sealing = transport->channels[role][rank].sealing;
            if (sealing == NULL || sealing->state >= THERE || sealing->told ||
                now_ms - sealing->since_ms < patience_ms)
                continue;
            sealing->told = true;
            *ret_unsealed = (psr_unsealed){{role, rank}, sealing->port, now_ms - sealing->since_ms};
            return true;
        }
    return false;
}

bool psr_zmq_transport_awaits_sealing(const psr_transport *base, psr_peer peer)
{
    const psr_zmq_channel *c = psr_zmq_channel_of((const psr_zmq_transport *)base, peer);
    return c != NULL && c->sealing != NULL && c->sealing->state < THERE;
}

/* ---- beginning and end ---- */

psr_err psr_zmq_open_sealed(psr_zmq_transport *transport)
{
    const psr_zmq_options *o = &transport->options;
    if (psr_zmq_is_ipc(o) || !o->keys->curve || o->self.role == PSR_ROLE_SCHEDULER)
        return PSR_OK;
    transport->answers = epoll_create1(EPOLL_CLOEXEC);
    if (transport->answers < 0)
        return psr_fail(PSR_ERR_IO, "epoll_create1: %s", strerror(errno));
    PSR_TRY(psr_sealed_outs_new(transport->ctx, &transport->sealed));
    PSR_TRY(psr_zmq_watch(transport, PSR_ZMQ_WATCHED_SEALED,
                          psr_inbox_sealed_socket(transport->inbox)));
    transport->watched[PSR_ZMQ_WATCHED_ROOM] =
        (struct pollfd){.fd = psr_sealed_outs_fd(transport->sealed), .events = POLLIN};
    transport->watched[PSR_ZMQ_WATCHED_ANSWERS] =
        (struct pollfd){.fd = transport->answers, .events = POLLIN};
    return PSR_OK;
}

void psr_zmq_close_sealed(psr_zmq_transport *transport)
{
    psr_sealed_outs_free(transport->sealed);
    if (transport->answers >= 0)
        close(transport->answers);
}

void psr_zmq_drain_sealed(psr_zmq_transport *transport, int linger_ms)
{
    if (transport->sealed == NULL)
        return;
    const int64_t end_ms = psr_clock_ms() + linger_ms;
    struct pollfd room = {.fd = psr_sealed_outs_fd(transport->sealed), .events = POLLIN};
    for (int64_t left_ms = linger_ms; left_ms > 0 && psr_sealed_outs_wait(transport->sealed);
         left_ms = end_ms - psr_clock_ms()) {
        (void)poll(&room, 1, (int)left_ms);
        if (psr_sealed_outs_serve(transport->sealed) != PSR_OK)
            return;
    }
}
