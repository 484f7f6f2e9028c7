/* Channels: how a DEALER is made, connected under admission and closed. */
#include "net/zmq/transport_zmq_private.h"

#include "net/trust/admission.h"
#include "net/address/socket_directory.h"
#include "net/zmq/sockets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

#define RANKS_MAX 65536

/* The slot of the peer's channel; NULL: no memory. */
static psr_zmq_channel *make_room(psr_zmq_transport *transport, psr_peer peer)
{
    size_t old = transport->channel_counts[peer.role];
    if (peer.rank >= old) {
        psr_zmq_channel *grown =
            realloc(transport->channels[peer.role], (peer.rank + 1) * sizeof *grown);
        if (grown == NULL)
            return NULL;
        memset(grown + old, 0, (peer.rank + 1 - old) * sizeof *grown);
        transport->channels[peer.role] = grown;
        transport->channel_counts[peer.role] = peer.rank + 1;
    }
    return &transport->channels[peer.role][peer.rank];
}

/* Gives the channel its routing id, and all that it asks for admission with. */
static psr_err set_dealer(psr_zmq_transport *transport, void *dealer, psr_peer peer,
                          const char *endpoint, const char *public_key,
                          uint8_t ret_id[PSR_ROUTING_ID_BYTES])
{
    if (getrandom(ret_id, PSR_ROUTING_ID_BYTES, 0) != PSR_ROUTING_ID_BYTES)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    ret_id[0] |= 1; /* libzmq uses ids that begin with zero itself */
    if (zmq_setsockopt(dealer, ZMQ_ROUTING_ID, ret_id, PSR_ROUTING_ID_BYTES) != 0)
        return psr_zmq_failed("ZMQ_ROUTING_ID");
    if (public_key == NULL)
        public_key = psr_keys_of(transport->options.keys, peer);
    PSR_TRY(psr_admission_apply(transport->options.keys, transport->self, dealer, public_key));
    PSR_TRY(psr_zmq_set_tcp(dealer, strchr(endpoint, '[') != NULL));
    PSR_TRY(psr_zmq_keep_in_cache(dealer, endpoint));
    /* an inbox sends back REFUSED at most, so nobody can fill memory here */
    PSR_TRY(psr_zmq_set(dealer, ZMQ_RCVHWM, 1, "ZMQ_RCVHWM"));
    PSR_TRY(psr_zmq_set_largest(dealer, 1024));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_CONNECT_TIMEOUT, PSR_HANDSHAKE_MS, "ZMQ_CONNECT_TIMEOUT"));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_HANDSHAKE_IVL, PSR_HANDSHAKE_MS, "ZMQ_HANDSHAKE_IVL"));
    PSR_TRY(psr_zmq_set(dealer, ZMQ_RECONNECT_IVL, 50, "ZMQ_RECONNECT_IVL"));
    return psr_zmq_set(dealer, ZMQ_RECONNECT_IVL_MAX, 1000, "ZMQ_RECONNECT_IVL_MAX");
}

void psr_zmq_close_dealer(void *dealer, int linger_ms)
{
    (void)zmq_socket_monitor(dealer, NULL, 0);
    (void)zmq_setsockopt(dealer, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_close(dealer);
}

/* A member says where it listens, and is believed only within limits: over ipc, only in the run's
 * own directory. */
static psr_err check_endpoint(const psr_zmq_transport *transport, const char *endpoint)
{
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        char directory[PSR_SOCKET_DIRECTORY_BYTES];
        PSR_TRY(psr_socket_directory_of(endpoint, directory));
        if (!psr_zmq_is_ipc(&transport->options) ||
            strcmp(directory, transport->options.directory) != 0)
            return psr_fail(
                PSR_ERR_USAGE, "endpoint %s is not in the directory of this run's sockets%s%s",
                endpoint,
                psr_zmq_is_ipc(&transport->options) ? ", " : ": this process listens on TCP",
                psr_zmq_is_ipc(&transport->options) ? transport->options.directory : "");
        return PSR_OK;
    }
    if (strncmp(endpoint, "tcp://", 6) != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "endpoint %s: it should be tcp://HOST:PORT or ipc:///DIRECTORY/SOCKET",
                        endpoint);
    if (!transport->options.keys->curve && !transport->options.keys->bare)
        return psr_fail(PSR_ERR_USAGE, "endpoint %s: TCP needs CURVE keys (psring keygen)",
                        endpoint);
    return PSR_OK;
}

psr_err psr_zmq_transport_connect(psr_transport *base, psr_peer peer, const char *endpoint,
                                  const char *public_key)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    PSR_TRY(check_endpoint(transport, endpoint));
    if ((unsigned)peer.role >= PSR_ZMQ_ROLES || peer.rank >= RANKS_MAX)
        return psr_fail(PSR_ERR_USAGE, "no member can be called %s %" PRIu32,
                        psr_role_name(peer.role), peer.rank);
    psr_zmq_channel *c = make_room(transport, peer);
    if (c == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " channels", peer.rank + 1);
    if (c->dealer != NULL)
        return psr_fail(PSR_ERR_USAGE, "%s %" PRIu32 " is connected already",
                        psr_role_name(peer.role), peer.rank);
    void *dealer = zmq_socket(transport->ctx, ZMQ_DEALER);
    if (dealer == NULL)
        return psr_zmq_failed("making a socket");
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_unsent *unsent = NULL;
    psr_err err = psr_unsent_new(&unsent);
    if (err == PSR_OK)
        err = set_dealer(transport, dealer, peer, endpoint, public_key, id);
    if (err == PSR_OK && peer.role == PSR_ROLE_SCHEDULER && transport->refused == NULL)
        err = psr_zmq_await_refusal(transport, dealer);
    if (err == PSR_OK && peer.role == PSR_ROLE_SCHEDULER)
        err = psr_zmq_await_replies(transport, dealer);
    if (err == PSR_OK && transport->options.watches_ways && peer.role != PSR_ROLE_SCHEDULER &&
        strncmp(endpoint, "tcp://", 6) == 0)
        err = psr_zmq_begin_attempt(transport, &c->way, dealer, endpoint);
    if (err == PSR_OK && peer.role == PSR_ROLE_SCHEDULER)
        err = psr_zmq_note_scheduler(transport, endpoint);
    if (err == PSR_OK)
        err = psr_zmq_begin_far(transport, peer, &c->far, endpoint);
    while (err == PSR_OK && zmq_connect(dealer, endpoint) != 0)
        if (zmq_errno() != EINTR)
            err = psr_fail(PSR_ERR_USAGE, "endpoint %s: %s", endpoint, zmq_strerror(zmq_errno()));
    if (err == PSR_OK) {
        c->dealer = dealer;
        c->unsent = unsent;
        memcpy(c->id, id, sizeof id);
        err = psr_zmq_unless_refused(transport, peer, psr_zmq_say_hello(transport, c));
    }
    if (err == PSR_OK)
        err = psr_zmq_offer_key(transport, c, peer, endpoint);
    if (err != PSR_OK) {
        psr_zmq_end_sealing(transport, c, 0);
        psr_zmq_end_attempt(transport, &c->way);
        psr_zmq_end_far(transport, &c->far);
        *c = (psr_zmq_channel){0};
        psr_zmq_forget_replies(transport, dealer);
        psr_zmq_close_dealer(dealer, 0);
        psr_unsent_free(unsent);
    }
    return err;
}

void psr_zmq_transport_disconnect(psr_transport *base, psr_peer peer)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_zmq_channel *c = psr_zmq_channel_of(transport, peer);
    if (c == NULL)
        return;
    psr_zmq_forget_replies(transport, c->dealer);
    if (peer.role == PSR_ROLE_SCHEDULER)
        psr_zmq_forget_scheduler(transport);
    psr_zmq_end_attempt(transport, &c->way);
    psr_zmq_end_far(transport, &c->far);
    psr_zmq_end_sealing(transport, c, 0);
    psr_zmq_close_dealer(c->dealer, 0);
    psr_unsent_free(c->unsent);
    if (c->lender != NULL)
        psr_sharing_disconnect(transport->sharing, c->lender);
    *c = (psr_zmq_channel){0};
}

psr_err psr_zmq_transport_rename(psr_transport *base, psr_peer self)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    transport->self = self;
    for (size_t role = 0; role < PSR_ZMQ_ROLES; role++)
        for (size_t rank = 0; rank < transport->channel_counts[role]; rank++)
            if (transport->channels[role][rank].dealer != NULL)
                PSR_TRY(psr_zmq_unless_refused(
                    transport, (psr_peer){(psr_role)role, (uint32_t)rank},
                    psr_zmq_say_hello(transport, &transport->channels[role][rank])));
    return PSR_OK;
}
