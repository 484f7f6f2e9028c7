/* Which processes of this host live: members watch the scheduler, and it watches them. */
#include "net/zmq/transport_zmq_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const psr_peer scheduler = {PSR_ROLE_SCHEDULER, 0};

psr_err psr_zmq_open_lives(psr_zmq_transport *transport)
{
    PSR_TRY(psr_lives_new((unsigned)geteuid(), &transport->lives));
    transport->watched[PSR_ZMQ_WATCHED_LIVES] =
        (struct pollfd){.fd = psr_lives_fd(transport->lives), .events = POLLIN};
    return PSR_OK;
}

void psr_zmq_close_lives(psr_zmq_transport *transport)
{
    psr_lives_free(transport->lives);
    free(transport->scheduler);
}

psr_err psr_zmq_note_scheduler(psr_zmq_transport *transport, const char *endpoint)
{
    free(transport->scheduler);
    transport->scheduler = strdup(endpoint);
    return transport->scheduler != NULL ? PSR_OK
                                        : psr_fail(PSR_ERR_NOMEM, "no memory for an endpoint");
}

void psr_zmq_forget_scheduler(psr_zmq_transport *transport)
{
    psr_lives_part(transport->lives);
    transport->greeted = false;
}

/* By then it knows the channel that this process has to it. */
void psr_zmq_greet_scheduler(psr_zmq_transport *transport, const psr_message *message)
{
    const psr_zmq_channel *c = psr_zmq_channel_of(transport, scheduler);
    if (transport->greeted || !psr_peer_equal(message->from, scheduler) || c == NULL)
        return;
    transport->greeted = true;
    /* The scheduler answers only who has spoken to it: so our connection to it is made, and was not
     * refused. The address at its other end can be asked for only as long as it is there. That it
     * was made is an event, and without this call events would be taken after all messages: by
     * then the scheduler may have ended. */
    psr_err refused = transport->refused != NULL ? psr_zmq_check_refused(transport) : PSR_OK;
    (void)refused;
    psr_lives_greet(transport->lives, transport->scheduler, c->id);
}

psr_err psr_zmq_serve_lives(psr_zmq_transport *transport)
{
    if (!atomic_exchange(&transport->ends, false))
        return PSR_OK;
    psr_lives_serve(transport->lives);
    if (psr_lives_scheduler_ended(transport->lives))
        return psr_fail(PSR_ERR_PEER, "the scheduler at %s: its process has ended",
                        transport->scheduler);
    return psr_lives_any_ended(transport->lives) ? psr_fail(PSR_ERR_CANCELLED, "a member has ended")
                                                 : PSR_OK;
}

static bool known_to_inbox(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES],
                           psr_peer *ret_peer)
{
    return psr_inbox_knows(((const psr_zmq_transport *)context)->inbox, id, ret_peer);
}

/* Where nobody can listen, silence tells. */
void psr_zmq_transport_watch_members(psr_transport *base, uint32_t host_rank)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_err err = psr_lives_listen(
        transport->lives, &(psr_lives_listening){.endpoint = psr_inbox_endpoint(transport->inbox),
                                                 .host_rank = host_rank,
                                                 .context = transport,
                                                 .known = known_to_inbox});
    (void)err;
    if (!psr_zmq_is_ipc(&transport->options))
        err = psr_zmq_watch_far(transport);
    (void)err;
}

bool psr_zmq_transport_ended(psr_transport *base, psr_peer *ret_peer)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    return psr_lives_ended(transport->lives, ret_peer) || psr_zmq_far_ended(transport, ret_peer);
}

bool psr_zmq_transport_scheduler_ended(const psr_transport *base)
{
    return psr_lives_scheduler_ended(((const psr_zmq_transport *)base)->lives);
}

uint32_t psr_zmq_transport_scheduler_rank(const psr_transport *base)
{
    return psr_lives_scheduler_rank(((const psr_zmq_transport *)base)->lives);
}
