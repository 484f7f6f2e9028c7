/* Members that cannot be reached: channels over TCP are attempts until they are known to be
 * connected. */
#include "net/zmq/transport_zmq_private.h"

#include "base/clock.h"
#include "net/address/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_MS 1000 /* how often channels that are not connected yet are looked at */
#define REACH_MS 1000

/* Whether it connects: all but to the scheduler, for which its members wait. */
psr_err psr_zmq_begin_attempt(psr_zmq_transport *transport, psr_zmq_way *way, void *socket,
                              const char *endpoint)
{
    char *copy = strdup(endpoint);
    if (copy == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a channel");
    psr_err err =
        psr_attempt_begin(transport->ctx, socket, transport->attempts_begun++, &way->attempt);
    if (err != PSR_OK) {
        free(copy);
        return err;
    }
    way->endpoint = copy;
    transport->attempts++;
    return PSR_OK;
}

void psr_zmq_end_attempt(psr_zmq_transport *transport, psr_zmq_way *way)
{
    if (way->endpoint == NULL)
        return;
    psr_attempt_done(&way->attempt);
    free(way->endpoint);
    way->endpoint = NULL;
    transport->attempts--;
}

/* Whether it does not answer now either, and why: it may have come meanwhile, and libzmq tries
 * again but every second. */
static bool does_not_answer(const psr_zmq_transport *transport, psr_peer peer, psr_zmq_way *way,
                            int64_t now_ms, psr_unreached *ret_unreached)
{
    psr_reach reach = {.endpoint = way->endpoint};
    if (psr_reach_all(&reach, 1, REACH_MS) != PSR_OK || reach.reached) {
        way->attempt.since_ms = now_ms;
        return false;
    }
    psr_unreached u = {.peer = peer, .for_ms = now_ms - way->attempt.since_ms};
    snprintf(u.endpoint, sizeof u.endpoint, "%s", way->endpoint);
    snprintf(u.from, sizeof u.from, "%s", reach.source);
    snprintf(u.why, sizeof u.why, "%s", reach.failure);
    snprintf(u.came_from, sizeof u.came_from, "%s", psr_inbox_address_of(transport->inbox, peer));
    *ret_unreached = u;
    return true;
}

/* Whether that way is not there after so long; forgets it when it is. */
static bool is_unreached(psr_zmq_transport *transport, psr_peer peer, psr_zmq_way *way,
                         int64_t now_ms, int64_t patience_ms, psr_unreached *ret_unreached)
{
    if (way->endpoint == NULL)
        return false;
    if (!psr_attempt_goes_on(&way->attempt)) {
        psr_zmq_end_attempt(transport, way);
        return false;
    }
    return now_ms - way->attempt.since_ms >= patience_ms &&
           does_not_answer(transport, peer, way, now_ms, ret_unreached);
}

bool psr_zmq_transport_unreached(psr_transport *base, int64_t patience_ms,
                                 psr_unreached *ret_unreached)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    int64_t now_ms = psr_clock_ms();
    if (transport->attempts == 0 || now_ms < transport->next_look_ms)
        return false;
    transport->next_look_ms = now_ms + LOOK_EVERY_MS;
    for (uint32_t role = 0; role < PSR_ZMQ_ROLES; role++)
        for (uint32_t rank = 0; rank < transport->channel_counts[role]; rank++) {
            psr_zmq_channel *c = &transport->channels[role][rank];
            if (is_unreached(transport, (psr_peer){role, rank}, &c->way, now_ms, patience_ms,
                             ret_unreached))
                return true;
        }
    return false;
}
